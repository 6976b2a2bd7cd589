"""Tokens split over chips: ring and all-to-all attention, sums scattered by tokens; by hand and at random."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.workload import Scheme
from chipmap.methods.dataflow.chain import auto
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.parallel_instances import tokens_instance
from tests.dataflow.random_instances import made
from tests.lanes import of_all

QUERIES, KEYS = 4_194_304, 1_048_576


def group(chips: int) -> Degrees:
    return Degrees(tensor=chips, dimensions=("tensor",))


def attention(operand: str = "k", chips: int = 4, **parameters: Any) -> DataflowInstance:
    """Eight heads of queries, two of keys, and their product, of 4,096 tokens."""
    head = {"kind": "elementwise", "M": 64, "N": 4096, "flop_per_element": 0, "schemes": ["OUTER", "N"]}
    product = {"kind": "gemm", "outer": 8, "M": 4096, "K": 64, "N": 4096, "schemes": ["OUTER", "N"], "operand": operand}
    kernels = {"q": {**head, "outer": 8}, "k": {**head, "outer": 2}, "x": product}
    return on_a_switch(kernels, "qx kx", chips, **parameters)


def on_a_switch(kernels: dict[str, dict[str, Any]], edges: str, chips: int = 4, **parameters: Any) -> DataflowInstance:
    given = {"sizes": [chips], "topology": "switch", "link_gbps": 50.0, "memory_gbps": 200.0, "sram_bytes": 2**40}
    given |= {"fused": False, "purpose": "prefill", "degrees": group(chips), "tokens": 4096}
    return made(kernels, edges, **{**given, **parameters})


def terms(instance: DataflowInstance, *schemes: Scheme) -> dict[str, int]:
    """The checker's terms; T2 and T3 are those of the fast evaluation."""
    degrees = instance.task.degrees
    assert degrees is not None
    solution = DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(range(len(schemes))))
    certificate = check(instance, solution)
    assert not certificate.violations
    found = loads(instance, solution)
    assert sum(one.memory * one.runs for one in found) == certificate.terms["T2"]
    assert sum(one.network * one.runs for one in found) == certificate.terms["T3"]
    return dict(certificate.terms)


def solved(instance: DataflowInstance) -> dict[str, Scheme]:
    """The schemes of the best mapping, proved so, by kernel."""
    run = Run(instance, SolveOptions(time_limit=120.0, threads=1), check)
    assert auto(instance, run).reason == "optimal" and not run.rejected and run.best is not None
    solution = run.best.solution
    assert isinstance(solution, DataflowSolution)
    return {one.name: scheme for one, scheme in zip(instance.workload.kernels, solution.schemes, strict=True)}


def ps(nanoseconds: float) -> int:
    """Picoseconds."""
    return round(nanoseconds * 1000)


@pytest.mark.parametrize(
    ("operand", "schemes", "moved"),
    [
        ("k", ("N", "N", "N"), KEYS),
        ("", ("N", "N", "N"), KEYS + QUERIES),
        ("k", ("N", "N", "OUTER"), QUERIES / 4 + KEYS / 2),
        ("k", ("OUTER", "OUTER", "OUTER"), 0),
        ("k", ("OUTER", "OUTER", "N"), QUERIES / 4 + KEYS),
    ],
)
def test_ways_of_attention(operand: str, schemes: tuple[Scheme, ...], moved: float) -> None:
    """The page's table: bytes gathered, or swapped, over a link of 50 bytes/ns, 3/4 of them."""
    assert terms(attention(operand), *schemes)["T3"] == ps(moved * 3 / 4 / 50)


@pytest.mark.parametrize(
    ("topology", "ring", "swap", "steps"),
    [("switch", 3 / 4, 3 / 4, 3), ("ring", 3 / 4, 4 / 4, 3), ("full", 1 / 4, 1 / 4, 1)],
)
def test_networks_of_attention(topology: str, ring: float, swap: float, steps: int) -> None:
    """What passes a link, of all keys, of what a chip has, and the latency of each collective's steps."""
    slow = attention(topology=topology, latency_ns=40.0)
    assert terms(slow, "N", "N", "N")["T3"] == ps(KEYS * ring / 50 + 40 * steps)
    moved = (QUERIES / 4 + KEYS / 2) * swap / 50
    assert terms(slow, "N", "N", "OUTER")["T3"] == ps(moved + 2 * 40 * steps)


def test_tokens_that_chips_do_not_divide() -> None:
    """4,096 tokens on three chips are 1,366 for each: all keys are gathered with their padding, and a swap between
    1366/4096 of the tokens and 3/8 of the heads takes no less than the gather of what is padded to 4,098 tokens."""
    gathered = KEYS * 4098 / 4096 * 2 / 3 / 50
    three = attention(chips=3)
    assert terms(three, "N", "N", "N")["T3"] == ps(gathered)
    assert terms(three, "N", "N", "OUTER")["T3"] == ps(gathered) + ps(QUERIES * 4098 / 4096 * 2 / 3 / 50)


def sequence(b: list[str] | None = None, **parameters: Any) -> DataflowInstance:
    """A product, an element-wise kernel, a product of 128 columns."""
    product = {"kind": "gemm", "M": 1024, "K": 1024, "N": 128, "weights": True}
    first = {**product, "schemes": ["K", "K_RS", "K_N"]}
    middle = {"kind": "elementwise", "M": 1024, "N": 128, "flop_per_element": 0, "schemes": ["NONE", "M", "N"]}
    kernels = {"a": first, "e": middle, "b": {**product, "schemes": b or ["M", "N"]}}
    return on_a_switch(kernels, "ae eb", tokens=128, **parameters)


@pytest.mark.parametrize(
    ("schemes", "sums", "whole", "read"),
    [
        (("K", "NONE", "M"), 2, 4, 2),
        (("K_RS", "M", "M"), 2, 1, 2),
        (("K_N", "N", "M"), 2, 1, 2),
        (("K_N", "N", "N"), 1, 1, 5),
    ],
)
def test_tensor_parallelism_with_split_tokens(schemes: tuple[Scheme, ...], sums: int, whole: int, read: int) -> None:
    """The page's table; T2 is four transfers of the tensor between, whole or a quarter, and weights' quarters."""
    found = terms(sequence(), *schemes)
    assert found["T3"] == ps(sums * 262_144 * 3 / 4 / 50)
    assert found["T2"] == ps(4 * whole * 65_536 / 200) + ps(read * 1024 * 1024 * 2 / 4 / 200)


def test_sums_over_tokens() -> None:
    """Gradients of keys are sums over the tokens of queries, those of weights over all tokens: both operands are read
    as they lie, and the sums of 8 x 64 x 4,096 and of 1,024 x 512 numbers are scattered."""
    source = {"kind": "elementwise", "M": 64, "N": 4096, "flop_per_element": 0, "schemes": ["N"], "outer": 8}
    source |= {"phase": "backward"}
    keys = {"kind": "gemm", "outer": 8, "M": 64, "K": 4096, "N": 4096, "schemes": ["K_N"], "phase": "backward"}
    update = {"kind": "gemm", "M": 1024, "K": 4096, "N": 512, "update": True, "schemes": ["K_N"], "phase": "backward"}
    kernels = {"q": source, "s": source, "d": keys, "u": update}
    instance = on_a_switch(kernels, "qd sd qu su", purpose="training")
    assert terms(instance, "N", "N", "K_N", "K_N")["T3"] == ps((QUERIES + 1024 * 512 * 2) * 3 / 4 / 50)
    # a reduce-scatter pads 4,096 columns to 4,098 on three chips, whose tokens are 1366/4096 of all
    three = on_a_switch(kernels, "qd sd qu su", 3, purpose="training")
    padded = QUERIES * 4098 / 4096 + 1024 * 513 * 2
    assert abs(terms(three, "N", "N", "K_N", "K_N")["T3"] - ps(padded * 2 / 3 / 50)) <= 2


def layer(tokens: int, **parameters: Any) -> dict[str, Scheme]:
    """What the layers of Llama3-8B are best split by, on one group of chips."""
    chips = parameters["sizes"][0]
    given = {"step": "prefill", "split_tokens": True, "degrees": group(chips), "micro_batch": 1, **parameters}
    return solved(llama(model="llama3-8b", tokens=tokens, **given))


def test_a_layer_chooses() -> None:
    """The page: by heads and rows where the sequence is short, by tokens where it is long, and with ring attention
    where there are more chips than heads."""
    short = layer(512, machine="h100-sxm", sizes=[8])
    assert {short[name] for name in ("MHA1", "Softmax", "MHA2")} == {"OUTER"}
    assert not {"N", "K_N"} & {scheme for name, scheme in short.items() if name not in ("K", "V")}
    long = layer(8192, machine="h100-sxm", sizes=[8])
    assert {long[name] for name in ("MHA1", "Softmax", "MHA2")} == {"OUTER"}
    assert {long[name] for name in ("Add_Prev", "Norm1", "Q", "K", "V", "Proj", "Add1", "Norm2", "Add2")} == {"N"}
    switch = {"topology": "switch", "link_gbps": 450.0, "chip": "h100", "memory_gbps": 3350.0, "latency_ns": 1000.0}
    many = layer(131_072, **switch, sizes=[64])
    assert {many[name] for name in ("MHA1", "Softmax", "MHA2")} == {"N"}


def test_a_layer_in_both_directions() -> None:
    """Tokens split forward and backward: the program's value is the checker's, and T6 gathers what is updated."""
    switch = {"topology": "switch", "link_gbps": 450.0, "chip": "h100", "memory_gbps": 3350.0, "latency_ns": 1000.0}
    found = layer(8192, **switch, sizes=[8], step="forward", backward=True, batch=2)
    assert found["Proj"] == found["Norm1"] == "N" and found["FFN1"] == "K_N"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "elementwise", "schemes": ["K_N"]}, "is no gemm"),
        ({"kind": "gemm", "K": 4, "operand": "b"}, "reads nothing that 'b' makes"),
        ({"kind": "gemm", "K": 4, "operand": "b", "weights": True}, "no gemm of two activations"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        made({"a": fields, "b": {"kind": "elementwise"}}, "")
    with pytest.raises(InputError, match="names K_N"):
        made({"a": {"kind": "gemm", "K": 4, "schemes": ["K_N"]}}, "", mode="dfmodel")


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[str] = Counter()
    for seed in range(22 * block, 22 * block + 22):
        instance = tokens_instance(Random(seed))
        if not 0 < count(instance) <= 300:
            continue
        _, mapping = agreed(instance, seed)
        tried["all"] += 1
        if mapping is not None:
            tried.update(mapping.schemes)
    assert tried["all"] >= 8 and tried["K_N"] and tried["N"], tried
