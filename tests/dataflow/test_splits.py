"""What a chip has of a kernel in mode ``physical``: all weights where tokens are split, the most heads of any chip."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.workload import Scheme
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.random_instances import made, on_tiles, split_instance
from tests.lanes import of_all

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


LINK = Fraction(1000, 25)
"""Picoseconds of a byte on a link."""


def on_chips(kernels: dict[str, dict[str, Any]], schemes: tuple[Scheme, ...], n: int, **given: Any) -> dict[str, int]:
    """The checker's terms of kernels in a row on n chips, each in a partition of its own at the whole peak; the fast
    evaluation has the same."""
    system = {"sizes": [n], "memory_gbps": 200.0, "sram_bytes": 2**40, "utilisation": 1.0, "batch": 1, "tokens": 64}
    instance = made(kernels, " ".join(map("".join, pairwise(kernels))), **{**system, "purpose": "prefill", **given})
    degrees = Degrees(tensor=n, dimensions=("tensor",))
    solution = DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(range(len(schemes))))
    terms, listed = check(instance, solution).terms, loads(instance, solution)
    assert [sum(one.compute[0] for one in listed), sum(one.memory for one in listed)] == [terms["T1"], terms["T2"]]
    assert sum(one.network for one in listed) == terms["T3"]
    return terms


def compute(flop: int) -> int:
    """Picoseconds of so many FLOP on one SN10 at its peak of 307,200 per ns."""
    return ceil(Fraction(flop * 1000, 307_200))


HEADS: dict[str, Any] = {"kind": "gemm", "outer": 32, "M": 128, "K": 4096, "N": 64, "weights": True}


@pytest.mark.parametrize("mode", ["physical", "dfmodel"])
def test_every_reader_inside_has_buffers(mode: str) -> None:
    """C2: a reaches b (a level later) and c (two, by b) with 64,000 / 64 bytes, which take 2 and 3 buffers; b's tensor
    takes 2, and the weights of all three 30,000: 37,000 bytes."""
    one = {"flop": 1, "output_bytes": 64_000, "weight_bytes": 10_000, "schemes": ["NONE"]}
    solution = DataflowSolution(degrees=EIGHT, schemes=("NONE",) * 3, partitions=(0, 0, 0))
    for size, fits in ((37_000, True), (36_999, False)):
        kernels = {"a": one, "b": one, "c": one}
        asked: dict[str, Any] = {"sram_bytes": size, "mode": mode, "partitions": 1, "degrees": EIGHT}
        instance = made(kernels, "ab bc ac", sizes=[8], batch=1, **asked)
        assert check(instance, solution).feasible is fits
        for method in (auto, mip, cpsat):
            run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
            method(instance, run)
            assert (run.best is not None) is fits and run.proved_infeasible is not fits, method


def test_heads_that_chips_cannot_share_equally() -> None:
    """32 heads on 3 chips: one has 11, with 11/32 of FLOP and weights. Each chip of 64 has one head, though two of
    them then have the same. The published mode divides by 3 and 64."""
    whole = 2 * 32 * 128 * 4096 * 64
    for n, heads in ((3, 11), (64, 1), (8, 4)):
        terms = on_chips({"a": HEADS}, ("OUTER",), n, layers=2)
        assert terms["T1"] == compute(whole * heads // 32)
        assert terms["T2"] == ceil(Fraction(heads * 128 * 4096 * 2 * 1000, 200))
        published = on_chips({"a": HEADS}, ("OUTER",), n, layers=2, mode="dfmodel")
        assert published["T1"] == ceil(Fraction(whole * 1000, n * 307_200))


def test_rows_over_more_chips_than_there_are() -> None:
    """64 rows on 100,000 chips: each of 64 has one, the others nothing."""
    row = {"kind": "elementwise", "M": 64, "N": 10**6, "flop_per_element": 10**6, "schemes": ["M"]}
    assert on_chips({"a": row}, ("M",), 100_000)["T1"] == compute(10**12)
    assert on_chips({"a": row}, ("M",), 100_000, mode="dfmodel")["T1"] == ceil(Fraction(64 * 10**15, 10**5 * 307_200))


def test_a_cache_of_few_heads() -> None:
    """64 query heads on 8 heads of a cache of 80,000 bytes: 8 chips read a head each, so do 128, of which 64 have a
    query head; of 3 chips with 22 query heads (8 to a head of the cache) one could need 4 heads, of 24 with 3 two."""
    cached = {"kind": "gemm", "outer": 64, "M": 16, "K": 16, "N": 1, "fetch_bytes": 80_000, "fetch_outer": 8}
    for n, heads in ((1, 8), (8, 1), (16, 1), (128, 1), (3, 4), (24, 2)):
        assert on_chips({"a": cached}, ("OUTER",), n, layers=2, purpose="decode")["T2"] == heads * 10_000 * 1000 // 200
    with pytest.raises(InputError, match="Give a divisor of outer"):
        on_chips({"a": {**cached, "fetch_outer": 3}}, ("OUTER",), 8)


def test_parts_that_are_not_the_same_are_gathered() -> None:
    """12 heads of 64 rows on 16 chips lie on 12 of these; a product that sums 768 / 16 rows on each gathers all of
    98,304 bytes before. On 12, 6 or 4 chips its parts are the heads'. On 8 chips two heads each fill six, 96 rows all
    eight. On 5 chips parts of 3 heads fill four, so that nothing is padded; 10 heads would be three, three, three, one:
    12/10 of the bytes. Chips with the same key head need no more than what they have."""
    heads = {**HEADS, "outer": 12, "M": 64, "K": 8}
    size = 768 * 64 * 2
    product = {"kind": "gemm", "M": 24, "K": 768, "N": 64, "weights": True, "schemes": ["K"]}
    for n, gathered in ((16, size), (12, 0), (6, 0), (4, 0), (8, size), (5, size)):
        sums = 2 * 24 * 64 * 2 * LINK * (n - 1) / n
        terms = on_chips({"a": heads, "b": product}, ("OUTER", "K"), n)
        assert terms["T3"] == ceil(sums) + ceil(gathered * LINK * (n - 1) / n), n
    ten = {"a": {**heads, "outer": 10}, "b": {"kind": "elementwise", "M": 640, "N": 64}}
    assert on_chips(ten, ("OUTER", "NONE"), 4)["T3"] == ceil(10 * 64 * 64 * 2 * Fraction(12, 10) * LINK * 3 / 4)
    keys = {"a": {**HEADS, "outer": 8}, "b": {"kind": "gemm", "outer": 64, "M": 16, "K": 16, "N": 1}}
    assert on_chips(keys, ("OUTER", "OUTER"), 16)["T3"] == 0  # half a key head's queries each
    back = {"a": {**keys["b"]}, "b": {"kind": "elementwise", "outer": 8, "M": 128}}
    assert on_chips(back, ("OUTER", "OUTER"), 16)["T3"] == 64 * 16 * 2 // 16 * LINK  # the other half of a head


def test_a_reduce_scatter_of_padded_rows() -> None:
    """10 rows of 64 columns on 4 chips are parts of 3 rows: 12/10 of 1,280 bytes, 3/4 of them; of 768 products to be
    summed each chip has 192. On 3 chips with 32 products one has 11."""
    product = {"kind": "gemm", "M": 10, "K": 768, "N": 64, "weights": True, "schemes": ["K_RS", "K"]}
    assert on_chips({"a": product}, ("K_RS",), 4)["T3"] == 1280 * 12 // 10 * LINK * 3 / 4
    assert on_chips({"a": {**product, "K": 32}}, ("K",), 3)["T1"] == compute(2 * 10 * 11 * 64)
    assert on_chips({"a": {**product, "K": 32}}, ("K",), 3)["T3"] == ceil(2 * 1280 * LINK * 2 / 3)


def test_tiles_of_the_chip_with_most() -> None:
    """32 heads of 128 rows on 3 chips are 11 · 128 rows, 44 blocks of 32 lanes by 11 of 6 columns: 4,096 cycles of 0.8
    ns on 484 tiles, more on 483. The published mode has 1,366 rows, 43 · 11 = 473 tiles."""
    solution = DataflowSolution(degrees=Degrees(tensor=3, dimensions=("tensor",)), schemes=("OUTER",), partitions=(0,))
    for mode, enough in (("physical", 484), ("dfmodel", 473)):
        instance = made({"a": HEADS}, "", sizes=[3], sram_bytes=2**40, tile_tokens=64, batch=1, mode=mode)
        assert check(on_tiles(instance, enough), solution).terms["T1"] == 3_276_800
        assert check(on_tiles(instance, enough - 1), solution).terms["T1"] > 3_276_800


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(20 * block, 20 * block + 20):
        instance = split_instance(Random(seed))
        if count(instance) > 300:
            continue
        optimum, _ = agreed(instance, seed)
        tried["infeasible" if optimum is None else "optimal"] += 1
    assert min(tried.values()) >= 1
