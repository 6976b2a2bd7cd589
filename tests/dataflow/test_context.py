"""Heads shared out among groups of chips, and rows or sums of each head within a group: by hand, against the page's own
brute force, and at random (page "Tensor parallelism over several dimensions", "Tokens of the context")."""

from __future__ import annotations

from collections import Counter
from math import prod
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.system import Dimension
from chipmap.records import InputError
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.page_comparison import none_differ
from tests.dataflow.random_instances import made
from tests.dataflow.test_tensor import group_instance
from tests.lanes import LONG, of_all


def attention(random: Random) -> dict[str, dict[str, Any]]:
    """Queries, scores, their softmax and what they weigh: heads that share those of a cache, and a few tokens."""
    cached, shared = random.choice((1, 2, 2, 3, 4)), random.choice((1, 2, 2))
    heads, seen, size = cached * shared, random.choice((3, 4, 5, 6, 8)), random.choice((2, 3, 4))
    tokens = random.choice((1, 2))
    of_heads, column = {"outer": heads, "N": tokens}, {"N": tokens}
    both = random.choice((("OUTER",), (), ("B",)))
    fetch = {"fetch_bytes": random.choice((0, 400, 6_000)) * cached, "fetch_outer": cached if shared > 1 else 0}
    chain: dict[str, dict[str, Any]] = {
        "q": {"kind": "gemm", **of_heads, "M": size, "K": 4, "weights": True},
        "s": {"kind": "gemm", **of_heads, "M": seen, "K": size, **fetch, "schemes": ["OUTER_M", *both]},
        "x": {"kind": "elementwise", **of_heads, "M": seen, "statistics": random.choice((0, 2)),
              "fetch_outer": random.choice((fetch["fetch_outer"],) * 3 + (0,)), "schemes": ["OUTER_M", *both]},
        "v": {"kind": "gemm", **of_heads, "M": size, "K": seen, **fetch, "schemes": ["OUTER_K", *both]},
        "o": {"kind": "gemm", **column, "M": random.choice((4, 6)), "K": heads * size, "weights": True},
    }  # fmt: skip
    if random.random() < 0.3:
        chain["k"] = {"kind": "elementwise", "outer": cached, **column, "M": size, "flop_per_element": 3}
    if random.random() < 0.3:
        chain["y"] = chain["x"] | {"fetch_outer": random.choice((0, fetch["fetch_outer"])), "statistics": 0}
    return chain


def context_instance(random: Random) -> DataflowInstance:
    """Part of an attention on one to three dimensions, with what it fetches and adds up."""
    if random.random() < 0.2:
        return _with_more(group_instance(random), random)
    kernels = attention(random)
    edges = ["qs", "sx", "xv", "vo", *(["ks", "kv"] if "k" in kernels else []), *(["sy"] if "y" in kernels else [])]
    kept = [*kernels] if random.random() < 0.3 else random.sample([*kernels], random.choice((2, 3, 4)))
    kept = ["q", "s", "x", "y"] if "y" in kernels and random.random() < 0.7 else kept
    some = {name: one for name, one in kernels.items() if name in kept}
    sizes = random.choice(((2,), (3,), (4,), (6,), (2, 2), (2, 3), (4, 2), (2, 2, 2)))
    found = made(
        some,
        " ".join(edge for edge in edges if set(edge) <= set(kept)),
        sizes=[*sizes],
        batch=random.choice((2, 4)),
        micro_batch=random.choice((1, 2)),
        tokens=max(one["N"] for one in some.values()),
        memory_gbps=random.choice((1.0, 10.0)),
        fused=random.random() < 0.5,
        purpose=random.choice(("decode", "prefill")),
        overlap=random.random() < 0.6,
        tensor_dimensions=len(sizes),
    )
    network = [
        Dimension(
            size=size,
            topology=random.choice(("ring", "switch", "full")),
            bytes_per_ns=random.choice((0.5, 2.0, 8.0)),
            latency_ns=random.choice((0.0, 0.0, 5.0)),
        )
        for size in sizes
    ]
    task = found.task.replace(degrees=None if random.random() < 0.3 else _all(sizes))
    if random.random() < 0.25:
        chip = found.system.chip.replace(tiles=random.choice((5, 20)))
        found = found.replace(system=found.system.replace(chip=chip))
        task = task.replace(utilisation=None, overlap=True)
    return found.replace(system=found.system.replace(network=network), task=task)


def _all(sizes: tuple[int, ...]) -> Degrees:
    return Degrees(tensor=prod(sizes), dimensions=tuple("tensor" for _ in sizes))


def _with_more(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance``, of whose kernels without parameters some may be split in these ways too."""
    kernels = []
    for kernel in instance.workload.kernels:
        plain = kernel.phase == "forward" and not (kernel.has_parameters or kernel.experts)
        if plain and kernel.kind != "opaque" and random.random() < 0.6:
            more = ("OUTER_M", "OUTER_K") if kernel.kind == "gemm" else ("OUTER_M",)
            kernel = kernel.replace(schemes=(*kernel.schemes[:1], *more))
        kernels.append(kernel)
    return instance.replace(workload=instance.workload.replace(kernels=kernels))


def test_the_example_of_the_page() -> None:
    """Two groups of two chips, three tokens each: 24 bytes of keys, 8 ns of statistics, 8 of the reduce-scatter."""
    heads = {"outer": 4, "N": 1, "fetch_outer": 2}
    kernels = {
        "s": {"kind": "gemm", **heads, "M": 6, "K": 4, "fetch_bytes": 96, "schemes": ["OUTER_M"]},
        "x": {"kind": "elementwise", **heads, "M": 6, "statistics": 2, "schemes": ["OUTER_M"]},
        "v": {"kind": "gemm", **heads, "M": 4, "K": 6, "fetch_bytes": 96, "schemes": ["OUTER_K"]},
    }
    wide = _all((4,))
    given = {"sizes": [4], "topology": "switch", "link_gbps": 1.0, "memory_gbps": 1.0, "fused": False, "tokens": 1}
    instance = made(kernels, "sx xv", **given, degrees=wide, batch=1, purpose="decode", sram_bytes=10)
    solution = DataflowSolution(degrees=wide, schemes=("OUTER_M", "OUTER_M", "OUTER_K"), partitions=(0, 1, 2))
    terms = check(instance, solution).terms
    assert terms["T3"] == 1000 * (8 + 8)
    assert terms["T2"] == 1000 * (24 + 12 + 12 + 12 + 12 + 24)


def test_what_is_refused() -> None:
    """Parameters, sums of what isn't a product, and the published model."""
    with pytest.raises(InputError, match="OUTER_M"):
        made({"a": {"kind": "gemm", "outer": 2, "M": 4, "K": 4, "N": 4, "weights": True, "schemes": ["OUTER_M"]}}, "")
    with pytest.raises(InputError, match="has none"):
        made({"a": {"kind": "elementwise", "outer": 2, "M": 4, "N": 4, "schemes": ["OUTER_K"]}}, "")
    with pytest.raises(InputError, match="mode dfmodel"):
        llama(split_context=True, mode="dfmodel")


def test_a_long_context_on_a_torus() -> None:
    """The page: 3.292 ms, where heads or samples take 9.653, proved."""
    run = run_of(llama(model="llama3-70b", machine="tpu-v4", batch=8, context=32_768, tensor_dimensions=3,
                       split_context=True))  # fmt: skip
    assert run.lower is not None and run.lower.value == run.upper and round(run.upper / 1e9, 3) == 3.292


def test_the_checker_says_what_the_page_says() -> None:
    none_differ(context_instance, of_all(200, few=8))


def test_every_method_equals_brute_force() -> None:
    """Program, MIP and CP-SAT on instances with few mappings."""
    seen = Counter[str]()
    for seed in range(of_all(320, few=10)):
        instance = context_instance(Random(seed))
        if count(instance) > (1_500 if LONG else 150):
            seen["too many"] += 1
            continue
        optimum, mapping = agreed(instance, seed)
        if optimum is not None:
            seen.update({*mapping.schemes, "solved"})
    assert seen["OUTER_M"] and seen["OUTER_K"], seen
    assert not LONG or seen["solved"] >= 150, seen
