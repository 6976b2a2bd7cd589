"""Schemes that split tokens: every chip reads, holds and gathers all weights (mode ``physical``)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.loads import loads
from chipmap.instances.dataflow.workload import Scheme
from chipmap.methods.dataflow.bounds import bounds, relaxation
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made, split_instance

SQUARE: dict[str, Any] = {"kind": "gemm", "M": 8192, "K": 8192, "N": 64, "weights": True, "schemes": ["N"]}
#: Bytes of an 8192 x 8192 operand of two-byte words, and of 8192 x 64 results.
WEIGHTS, RESULT = 2 * 8192**2, 2 * 8192 * 64
EIGHT = Degrees(tensor=8, dimensions=("tensor",))


def products(**parameters: Any) -> DataflowInstance:
    """Two 8192 x 8192 products with 64 columns, one after the other, on eight chips with 200 bytes per ns of DRAM."""
    given = {"sizes": [8], "memory_gbps": 200.0, "sram_bytes": 2**30, "batch": 1, "fused": False, "purpose": "prefill"}
    return made({"a": SQUARE, "b": SQUARE}, "ab", **{**given, **parameters})


def solved(instance: DataflowInstance) -> Run:
    """The run of the exact program, to the proof; the fast evaluation says of its mapping what the checker does."""
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert auto(instance, run).reason == "optimal" and not run.rejected
    assert run.best is not None and run.best.claimed == run.upper
    return run


def mapped(instance: DataflowInstance, schemes: tuple[Scheme, ...]) -> dict[str, int]:
    """The checker's terms with these schemes on eight chips, each kernel in a partition of its own."""
    solution = DataflowSolution(degrees=EIGHT, schemes=schemes, partitions=tuple(range(len(schemes))))
    certificate = check(instance, solution)
    assert sum(one.memory for one in loads(instance, solution)) == certificate.terms["T2"]
    assert sum(one.network for one in loads(instance, solution)) == certificate.terms["T3"]
    return certificate.terms


def test_every_chip_reads_all_weights() -> None:
    """2 · 2 · 8192² bytes of weights at 200 bytes per ns take 1,342,177.28 ns; the tensor between the products, an
    eighth of it on each chip, is written and read at 2 · 131,072 / 200 ns. The published mode divides the weights."""
    moved = 2 * (RESULT // 8) * 1000 // 200
    assert moved == 1_310_720
    run = solved(products())
    assert run.best is not None and run.best.certificate.terms["T2"] == 1_342_177_280 + moved
    assert run.upper == 1_342_177_280 + moved
    published = products(mode="dfmodel", purpose="decode")  # where the published model reads weights
    assert mapped(published, ("N", "N"))["T2"] == 1_342_177_280 // 8 + moved


def test_sram_and_dram_hold_all_weights() -> None:
    """A product needs its 134,217,728 bytes in SRAM beside two buffers of 131,072 / 64 bytes, not an eighth of them.
    DRAM holds both products' weights and the tensor between."""
    needed = WEIGHTS + 2 * RESULT // 8 // 64
    assert solved(products(tokens=64, sram_bytes=needed)).upper is not None
    less = products(tokens=64, sram_bytes=needed - 1)
    assert auto(less, Run(less, SolveOptions(time_limit=60.0, threads=1), check)).reason == "infeasible"
    run = solved(products(dram_bytes=2 * WEIGHTS + RESULT // 8))
    assert run.best is not None and run.best.certificate.figures["dram_bytes"] == 2 * WEIGHTS + RESULT // 8
    short = products(dram_bytes=2 * WEIGHTS + RESULT // 8 - 1)
    assert auto(short, Run(short, SolveOptions(time_limit=60.0, threads=1), check)).reason == "infeasible"


def test_an_activation_product_reads_whole_operands() -> None:
    """What splits tokens before a product of two activations is gathered: 7/8 of its bytes at 25 bytes per ns."""
    layer = {"a": SQUARE, "b": {**SQUARE, "weights": False, "fetch_bytes": 80_000}}
    instance = made(layer, "ab", sizes=[8], memory_gbps=200.0, sram_bytes=2**30, batch=1, purpose="decode")
    terms = mapped(instance, ("N", "N"))
    assert terms["T3"] == RESULT * 7 // 8 * 1000 // 25
    assert terms["T2"] == (WEIGHTS + 80_000 + 2 * RESULT // 8) * 1000 // 200  # all of the cache, too
    rows = {"a": SQUARE, "b": {"kind": "elementwise", "M": 8192, "N": 64, "fetch_bytes": 80_000, "schemes": ["N"]}}
    instance = made(rows, "ab", sizes=[8], memory_gbps=200.0, sram_bytes=2**30, batch=1, purpose="decode")
    terms = mapped(instance, ("N", "N"))
    assert (terms["T3"], terms["T2"]) == (0, (WEIGHTS + 10_000 + 2 * RESULT // 8) * 1000 // 200)


def test_updated_weights_are_gathered() -> None:
    """T6: 7/8 of two layers' weights at 25 bytes per ns, once for the batch, as each chip has updated its part."""
    update = {"kind": "gemm", "M": 8192, "K": 64, "N": 8192, "update": True, "phase": "backward"}
    layer = {"a": SQUARE, "x": update}
    instance = made(layer, "ax", sizes=[8], layers=2, sram_bytes=2**30, batch=4)
    assert mapped(instance, ("N", "M"))["T6"] == 2 * WEIGHTS * 7 // 8 * 1000 // 25
    alone = made({"a": SQUARE}, "", sizes=[8], layers=2, sram_bytes=2**30, batch=4)
    assert mapped(alone, ("N",))["T6"] == 0  # nothing is updated


@pytest.mark.parametrize("block", range(4))
def test_every_method_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(20 * block, 20 * block + 20):
        instance = split_instance(Random(seed))
        if count(instance) > 300:
            continue
        optimum = brute_force(instance, check)[0]
        for method in (auto, mip, cpsat):
            run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
            reason = method(instance, run).reason
            assert (reason, run.upper) == ("infeasible" if optimum is None else "optimal", optimum), (seed, method)
            assert not run.rejected, (seed, method)
        for bound in (bounds, relaxation):
            run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
            bound(instance, run)
            assert optimum is None or (run.lower is not None and run.lower.value <= optimum), (seed, bound)
        tried[reason] += 1
    assert min(tried.values()) >= 1
