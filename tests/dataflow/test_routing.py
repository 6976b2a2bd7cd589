"""Experts: what a micro-batch reads of them, by hand and by enumeration; published numbers of parameters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from math import ceil
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import moe
from chipmap.instances.dataflow.instance import DataflowSolution, Degrees
from chipmap.instances.dataflow.sizes import flop, output_bytes, touched, weight_bytes
from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.moe import MIXTURES
from chipmap.methods.dataflow.chain import auto
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.random_instances import made, split_instance


def stack(experts: int, active: int, tokens: int, **parameters: Any) -> DataflowInstance:
    """A product with the 2048 x 7168 two-byte weights of a stack of experts, and what reads it, on two chips with 200
    bytes per ns of DRAM; each kernel alone."""
    routed = {"experts": experts, "active": active, "weight_bytes": experts * 2048 * 7168 * 2}
    up = {"kind": "gemm", "M": 2048, "K": 7168, "N": tokens * active, "weights": True, "schemes": ["M"], **routed}
    act = {"kind": "elementwise", "M": 2048, "N": tokens * active, "schemes": ["M"]}
    given = {"memory_gbps": 200.0, "sram_bytes": 2**33, "batch": 8, "tokens": tokens, "fused": False, "micro_batch": 1}
    return made({"a": up, "b": act}, "ab", **{**given, "purpose": "prefill", **parameters})


def memory(instance: DataflowInstance) -> int:
    """The checker's T2 with both kernels' rows split over the two chips; the program finds no other."""
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert auto(instance, run).reason == "optimal" and run.best is not None and not run.rejected
    degrees = Degrees(tensor=2, dimensions=("tensor",))
    solution = DataflowSolution(degrees=degrees, schemes=("M", "M"), partitions=(0, 1))
    certificate = check(instance, solution)
    assert certificate.feasible and certificate.objective == run.upper
    return certificate.terms["T2"]


PAIR: dict[str, Any] = {"degrees": {"tensor": 2, "dimensions": ["tensor"]}}


def test_a_token_reads_its_own_experts() -> None:
    """8 of 256 experts, 1/32 of 7,516,192,768 bytes, half of them on each chip, at 200 bytes per ns: 587,202.56 ns.
    The tensor between, 2048 · 8 words, is written and read in halves: 2 · 16,384 / 200 ns."""
    assert memory(stack(256, 8, 1, **PAIR)) == 587_202_560 + 2 * 81_920
    assert stack(256, 8, 1).workload.kernels[0].N == 8


def test_two_tokens_share_experts() -> None:
    """1 of 4 experts, 2 tokens: 1 - (3/4)² = 7/16 of 117,440,512 bytes, half on each chip: 128,450.56 ns; tensors of
    2048 · 2 words in halves. As many tokens in two samples of a micro-batch read as much."""
    assert memory(stack(4, 1, 2, **PAIR)) == 128_450_560 + 2 * 20_480
    assert memory(stack(4, 1, 1, micro_batch=2, **PAIR)) == 128_450_560 + 2 * 20_480


@pytest.mark.parametrize(("experts", "active", "tokens"), [(3, 1, 3), (4, 2, 3), (5, 4, 2), (4, 4, 2), (6, 1, 4)])
def test_the_expected_part_by_enumeration(experts: int, active: int, tokens: int) -> None:
    """All ways in which tokens can choose, each as likely."""
    ways = list(product(combinations(range(experts), active), repeat=tokens))
    mean = Fraction(sum(len(set().union(*way)) for way in ways), len(ways) * experts)
    instance = stack(experts, active, tokens)
    assert touched(instance.workload.kernels[0], instance) == Fraction(ceil(mean * 10**9), 10**9)


def test_many_tokens_read_all() -> None:
    """(3/4)⁶⁴ is 1.009 · 10⁻⁸; (3/4)⁸⁰ is 1.011 · 10⁻¹⁰, below the rounding, and so is any more."""
    for tokens, part in ((64, 999_999_990), (80, 10**9), (100_000, 10**9)):
        instance = stack(8, 2, tokens)
        assert touched(instance.workload.kernels[0], instance) == Fraction(part, 10**9)


def test_the_tensors_do_not_grow_with_experts() -> None:
    """T2 without weights: what is dispatched is the same for 8, 64 and 256 experts."""

    def tensors(experts: int) -> int:
        instance = moe(hidden=256, heads=4, inner=512, experts=experts, active=2, tokens=128, layers=1, micro_batch=1)
        # the scores of the router are not handed out
        kernels = [one for one in instance.workload.kernels if one.name not in ("Router", "Gate")]
        return sum(ceil(output_bytes(kernel, instance)) for kernel in kernels)

    assert tensors(8) == tensors(64) == tensors(256)


def words(workload: Workload, instance: DataflowInstance, part: Callable[[int, int], Fraction]) -> Fraction:
    """Parameters of a layer, of experts a part."""
    each = [(kernel, weight_bytes(kernel, instance) / workload.word_bytes) for kernel in workload.kernels]
    return sum((size * (part(k.active, k.experts) if k.experts else 1) for k, size in each), Fraction(0))


@pytest.mark.parametrize(
    ("model", "published", "used"),
    [
        ("mixtral-8x7b", 46.7e9, 12.9e9),
        ("mixtral-8x22b", 140.6e9, 39.1e9),
        ("qwen3-30b", 30.5e9, 3.3e9),
        ("qwen3-235b", 235e9, 22e9),
        ("deepseek-v3", 671e9, 37e9),
        ("llama4-scout", 107.8e9, 17e9),
        ("llama4-maverick", 400e9, 17e9),
    ],
)
@pytest.mark.parametrize("step", ["prefill", "decode"])
def test_published_parameters(model: str, published: float, used: float, step: str) -> None:
    instance = moe(model=model, step=step, tokens=1, micro_batch=1)
    size, workload = MIXTURES[model], instance.workload
    names = ("Router", "Experts", "Shared")
    rest = workload.replace(kernels=[one for one in workload.kernels if not one.name.startswith(names)])
    around = size.dense * (words(rest, instance, Fraction) + 3 * size.hidden * size.dense_inner)
    around += 2 * size.words * size.hidden
    whole = words(workload, instance, lambda active, experts: Fraction(1)) * workload.layers + around
    assert float(whole) == pytest.approx(published, rel=2e-3)
    assert float(words(workload, instance, Fraction) * workload.layers + around) == pytest.approx(used, rel=0.02)


def test_layers_that_take_turns() -> None:
    """Of Maverick's 48 layers every second has experts: a pair, 24 times; the dense one comes first."""
    workload = moe(model="llama4-maverick", step="prefill", tokens=4).workload
    dense = [kernel for kernel in workload.kernels if kernel.name.startswith("Dense_")]
    assert workload.layers == 24 and not any(kernel.experts for kernel in dense)
    assert {"Dense_FFN0", "Dense_FFN1", "Dense_MHA1"} <= {kernel.name for kernel in dense}
    assert ("Dense_Add2", "Add_Prev") in workload.edges and workload.carries == (("Add2", "Dense_Add_Prev"),)
    ends = moe(model="llama4-maverick", step="prefill", tokens=4, ends=True).workload
    assert ("Embed", "Dense_Add_Prev") in ends.edges and ("Add2", "Head") in ends.edges


def test_a_module_that_predicts_one_more_token() -> None:
    """A 59th layer, 7,168 x 14,336 weights, and twice the columns through the head: 11.5 · 10⁹ parameters more."""
    made = [moe(model="deepseek-v3", step="prefill", tokens=6, ends=True, predict=d, micro_batch=1) for d in (0, 1)]
    kernels = [{kernel.name: kernel for kernel in one.workload.kernels} for one in made]
    head = [one.workload.layers * flop(each["Head"]) for one, each in zip(made, kernels, strict=True)]
    assert head[1] == pytest.approx(2 * head[0], rel=1e-3) and made[1].workload.layers == 59
    proj = weight_bytes(kernels[1]["MTP_Proj"], made[1]) * 59 / 2
    assert float(proj) == pytest.approx(2 * 7168**2, rel=0.01)
    stored = [one.workload.layers * words(one.workload, one, lambda *_: Fraction(1)) for one in made]
    assert float(stored[1] - stored[0]) == pytest.approx(11.5e9, rel=0.01)
    with pytest.raises(InputError, match="Set ends"):
        moe(model="deepseek-v3", predict=1)


def test_a_token_of_deepseek() -> None:
    """9 experts of 3 · 2,048 · 7,168 weights at 2 FLOP: 0.79 GFLOP; 1.17 with attention, not 23."""
    workload = moe(model="deepseek-v3", tokens=1, step="prefill").workload
    experts = [k for k in workload.kernels if k.name.startswith(("Experts", "Shared")) and k.kind == "gemm"]
    assert sum(map(flop, experts)) == 9 * 3 * 2 * 2048 * 7168
    assert sum(map(flop, workload.kernels)) == pytest.approx(1.17e9, rel=2e-3)


def test_a_decode_step_fetches_its_cache() -> None:
    """8 heads of 128 keys and values per token; 512 + 64 words of a latent."""
    for model, each in (("mixtral-8x7b", 2 * 8 * 128), ("deepseek-v3", 576)):
        kernels = moe(model=model, step="decode", tokens=1, context=1000).workload.kernels
        assert sum(kernel.fetch_bytes for kernel in kernels) == each * 1000 * 2


@pytest.mark.parametrize("step", ["prefill", "decode"])
def test_deepseek_is_mapped(step: str) -> None:
    instance = moe(
        **{
            "model": "deepseek-v3",
            "step": step,
            "tokens": 1,
            "purpose": step,
            "batch": 8,
            "word_bytes": 1,
            "micro_batch": 1,
        },
        **{"degrees": {"tensor": 8, "dimensions": ["tensor"]}, "sram_bytes": 2**31, "fused": False},
    )
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert auto(instance, run).reason == "optimal" and not run.rejected


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"tokens": 1, "stacked": False}, "can't reach 8 experts"),
        ({"tokens": 8, "stacked": False, "step": "decode"}, "need stacked experts"),
        ({"experts": 4, "active": 5}, "there are 4 experts"),
    ],
)
def test_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        moe(**parameters)


@pytest.mark.parametrize("routed", [{"experts": 4}, {"active": 1}, {"experts": 2, "active": 3}])
def test_refused_in_a_file(routed: dict[str, int]) -> None:
    with pytest.raises(InputError, match="expert"):
        made({"a": {"flop": 1, **routed}}, "")


def test_all_agree_on_random_instances() -> None:
    """Program, MIP and CP-SAT have the brute force's optimum by the checker, and no bound is above it."""
    tried = 0
    for seed in range(24):
        random = Random(seed)
        instance = split_instance(random)
        kernels = []
        for kernel in instance.workload.kernels:
            experts = random.choice((2, 3, 5, 64))
            kernels.append(kernel.replace(experts=experts, active=random.randint(1, min(experts, 3))))
        tokens = random.choice((1, 2, 7))
        instance = instance.replace(workload=instance.workload.replace(kernels=kernels, tokens=tokens))
        if count(instance) > 300:
            continue
        optimum, _ = agreed(instance, seed)
        tried += optimum is not None
    assert tried >= 5
