"""What exchanges take, rule by rule: the pages' numbers by hand, the page's brute force, every method beside it."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import ceil
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.from_graph import kernel
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.parts import apart_by_samples, sums_of_heads
from chipmap.instances.dataflow.workload import Scheme
from chipmap.networks.graph import Loops, Operation
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.page.cost import judged
from tests.dataflow.page.mappings import mappings
from tests.dataflow.page_comparison import differences
from tests.dataflow.random_instances import made
from tests.dataflow.rule_instances import exchange_instance
from tests.lanes import of_all

#: Picoseconds of a byte on a link of 50 bytes per ns.
BYTE = 20
TOKENS = 2048
FLAT: dict[str, Any] = {"kind": "elementwise", "flop_per_element": 0, "N": TOKENS}
BACK: dict[str, Any] = {"phase": "backward", "N": TOKENS}


def network(kernels: dict[str, dict[str, Any]], edges: str, schemes: str, n: int = 8, **given: Any) -> int:
    """T3 of kernels on a switch of n chips, two-byte words, by the checker, the page and the fast side alike."""
    degrees = Degrees(tensor=n, dimensions=("tensor",))
    alike = {"sizes": [n], "topology": "switch", "link_gbps": 50.0, "sram_bytes": 2**40, "fused": False, "batch": 1}
    pairs = zip(kernels.items(), schemes.split(), strict=True)
    named = {name: {**one, "schemes": [scheme]} for (name, one), scheme in pairs}
    instance = made(named, edges, **{**alike, "degrees": degrees, "tokens": TOKENS, **given})
    instance.check()
    chosen: tuple[Scheme, ...] = tuple(schemes.split())  # type: ignore[arg-type]
    solution = DataflowSolution(degrees=degrees, schemes=chosen, partitions=tuple(range(len(chosen))))
    terms = check(instance, solution).terms
    assert judged(instance, solution).terms["T3"] == terms["T3"]
    assert sum(one.network for one in loads(instance, solution)) == terms["T3"]
    return int(terms["T3"])


def test_statistics_of_rows() -> None:
    """A norm of 2,048 columns: an all-reduce of 4,096 bytes moves 7,168; a layer norm's twice that; by tokens, or on
    every chip, nothing; nor in mode ``dfmodel``."""
    norm = {**FLAT, "M": 4096, "statistics": 1}
    assert network({"a": norm}, "", "M") == 7168 * BYTE
    assert network({"a": {**norm, "statistics": 2}}, "", "M") == 2 * 7168 * BYTE
    assert network({"a": norm}, "", "N") == network({"a": norm}, "", "NONE") == 0
    published = made({"a": norm}, "", sizes=[8], mode="dfmodel", degrees=Degrees(tensor=8, dimensions=("tensor",)))
    mapping = DataflowSolution.make(degrees=published.task.degrees, schemes=["M"], partitions=[0])
    assert check(published, mapping).terms["T3"] == 0


@pytest.mark.parametrize(
    ("heads", "reader", "schemes", "share"),
    [
        (32, 32, "N OUTER", 1 / 8 * 7 / 8),  # an eighth of the tokens for four heads of all
        (4, 32, "N OUTER", 1 / 4 * 7 / 8),  # whole heads, which pairs of chips share
        (1, 32, "N OUTER", 7 / 8),
        (32, 32, "M OUTER", 0.0),
        (4, 32, "M OUTER", 1 / 8),  # the other half of a head
        (1, 32, "M OUTER", 7 / 8),
        (0, 32, "M OUTER", 0.0),  # the reader's heads
        (0, 32, "N OUTER", 1 / 8 * 7 / 8),
    ],
)
def test_whole_heads_are_read(heads: int, reader: int, schemes: str, share: float) -> None:
    """4,096 rows of 2,048 columns, 16,777,216 bytes, on eight chips; ``share`` of them over a link."""
    rows = {**FLAT, "M": 4096, "heads": heads}
    found = network({"a": rows, "b": {**FLAT, "outer": reader, "M": 128}}, "ab", schemes)
    assert found == 16_777_216 * share * BYTE


@pytest.mark.parametrize(
    ("heads", "n", "moved", "left"),
    [
        (4, 8, 524_288 / 2, 1 / 8),  # pairs scatter each head's sum
        (2, 8, 2**20 / 2 * 3 / 4, 1 / 8),
        (1, 8, 2**18 * 2 * 7 / 8, 1 / 8),
        (8, 8, 0, 1 / 8),
        (16, 8, 0, 1 / 8),
        (4, 3, 2 * 2**21 * 2 / 3, 1),
        (8, 3, 2 * 2**22 * 2 / 3, 1),
        (3, 2, 2 * 3 * 2**19 / 2, 1),
    ],
)
def test_gradients_of_shared_heads(heads: int, n: int, moved: float, left: float) -> None:
    """Heads of 128 rows for 2,048 tokens, 524,288 bytes each, to which 48 heads of queries add."""
    product = {**BACK, "kind": "gemm", "outer": 48, "M": 128, "K": TOKENS, "heads": heads}
    product["output_bytes"] = heads * 128 * TOKENS * 2
    assert network({"a": product}, "", "OUTER", n) == ceil(moved * BYTE)
    reader = {**BACK, "kind": "elementwise", "M": heads * 128}
    both = network({"a": product, "b": reader}, "ab", "OUTER NONE", n)
    size = product["output_bytes"]
    assert both - ceil(moved * BYTE) == (0 if left == 1 else ceil(size * (n - 1) / n * BYTE))


def test_an_update_reads_rows_of_one_operand() -> None:
    """Of ``Proj``: g whole on each chip, x in heads. By rows x is gathered, 14,680,064 bytes; by columns nothing. An
    update that names no operand reads both as it splits its output."""
    g, x = {**FLAT, "M": 4096}, {**FLAT, "M": 4096}
    update = {"kind": "gemm", "M": 4096, "K": TOKENS, "N": 4096, "update": True, "phase": "backward", "operand": "x"}
    kernels = {"x": x, "g": g, "u": update}
    assert network(kernels, "xu gu", "M NONE M") == 16_777_216 * 7 // 8 * BYTE
    assert network(kernels, "xu gu", "M NONE N") == 0
    assert network(kernels, "xu gu", "NONE M M") == 0
    assert network(kernels, "xu gu", "NONE M N") == 16_777_216 * 7 // 8 * BYTE
    assert network(kernels, "xu gu", "N N K_N") == 16_777_216 * 2 * 7 // 8 * BYTE  # the sum alone
    assert network({**kernels, "u": {**update, "operand": ""}}, "xu gu", "M M M") == 0


def test_copies_of_tokens_are_added_where_they_are() -> None:
    """Qwen3: eight copies of 2,048 tokens of 2,048 numbers. The gather moves 58,720,256 bytes, an all-reduce of the
    sums 14,680,064; to split tokens an all-to-all of copies and a scatter of sums take the same; a weight's gradient is
    a number for each copy."""
    experts = {"kind": "gemm", "weights": True, "M": 2048, "K": 768, "N": 8 * TOKENS, "experts": 128, "active": 8}
    combine = {**FLAT, "M": 2048}
    kernels = {"x": experts, "c": combine}
    assert network(kernels, "xc", "E NONE") == 14_680_064 * BYTE
    assert network(kernels, "xc", "E N") == network(kernels, "xc", "E M") == 14_680_064 // 2 * BYTE
    assert network({**kernels, "c": {**combine, "N": 8 * TOKENS}}, "xc", "E NONE") == 58_720_256 * BYTE
    numbers = {**FLAT, "M": 128, "statistics": 8}
    assert network({**kernels, "c": numbers}, "xc", "E NONE") == 8 * TOKENS * 2 * 7 // 8 * BYTE
    two = {**experts, "experts": 8, "active": 2, "N": 2 * TOKENS}
    assert network({"x": two, "c": combine}, "xc", "E NONE") == 2 * 8_388_608 * 7 // 8 * BYTE  # either way
    assert network({"x": two, "c": combine}, "xc", "E N") == 2 * 8_388_608 // 8 * 7 // 8 * BYTE  # a swap of copies


@pytest.mark.parametrize(
    ("made_as", "read_as", "maker", "reader", "moved"),
    [
        ("N", "OUTER", 4, 4, 168),  # each head goes to two chips
        ("OUTER", "N", 4, 4, 84),
        ("N", "OUTER", 4, 8, 168),  # two chips' heads share one of the maker's
        ("N", "OUTER", 8, 8, 84),
        ("N", "OUTER", 3, 24, 672),  # three chips' heads lie in two of the maker's
    ],
)
def test_fewer_heads_than_chips(made_as: str, read_as: str, maker: int, reader: int, moved: int) -> None:
    """768 bytes on eight chips, by tokens on one side and by heads on the other: what compiled programs move."""
    rows = {"kind": "elementwise", "flop_per_element": 0, "N": 16}
    kernels = {"k": {**rows, "outer": maker, "M": 24 // maker}, "x": {**rows, "outer": reader, "M": 24 // reader}}
    assert network(kernels, "kx", f"{made_as} {read_as}") == moved * BYTE


def test_heads_of_several_samples() -> None:
    """Four samples of 12 heads of 64 numbers for 64 tokens, on 16 chips: three heads of some sample each. A K-split of
    768 features swaps a sixteenth of the bytes. On six chips each has two heads of all samples."""
    attention = {"kind": "gemm", "outer": 48, "heads": 12, "M": 64, "K": 64, "N": 64}
    product = {"kind": "gemm", "weights": True, "M": 32, "K": 768, "N": 256}
    size, sums = 48 * 64 * 64 * 2, 2 * 32 * 256 * 2
    for n, swapped in ((16, size / 16 * 15 / 16), (6, 0), (12, 0), (4, 0)):
        found = network({"a": attention, "b": product}, "ab", "OUTER K", n)
        assert found == ceil(sums * (n - 1) / n * BYTE) + ceil(swapped * BYTE), n


def test_a_converted_network_says_so() -> None:
    """The heads of a sample beside those of all; files without them keep their hashes."""
    loops = Loops(outer=8, rows=8, inner=8, columns=8, splits=("outer",), heads=4)
    made = kernel([Operation(name="a", kind="matmul", flop=2 * 8**4, loops=loops)], 2 * 8**4, 1024, 0)
    assert (made.outer, made.heads, made.schemes) == (8, 4, ("OUTER", "NONE"))
    assert "heads" in Loops.LATER_FIELDS


def _seen(instance: DataflowInstance, mapping: DataflowSolution) -> set[str]:
    """Rules that a mapping shows."""
    n, found = mapping.degrees.tensor, set[str]()
    kernels = {one.name: one for one in instance.workload.kernels}
    schemes = dict(zip(kernels, mapping.schemes, strict=False))
    for name, one in kernels.items() if n > 1 else ():
        scheme = schemes[name]
        found.add(f"heads: {sums_of_heads(one, scheme, 'physical', n)}")
        found |= {"samples"} if apart_by_samples(one, scheme, n) else set()
        found |= {"statistics"} if one.statistics and scheme == "M" else set()
        found |= {f"update {scheme}"} if one.update and one.operand else set()
    for maker, reader in instance.workload.edges:
        one, other = kernels[maker], kernels[reader]
        copies = one.active and schemes[maker] == "E" and other.N * one.active == one.N and schemes[reader] != "E"
        found |= {"copies"} if copies and other.kind == "elementwise" else set()
    return found


def test_the_checker_says_what_the_page_says() -> None:
    """So does the fast side; each rule is met."""
    seen = Counter[str]()
    for seed in range(of_all(60, few=30)):
        random = Random(seed)
        instance = exchange_instance(random)
        instance.check()
        wrong, _, _ = differences(instance, random, 60, 6)
        assert not wrong, (seed, wrong[:3])
        some = [*islice(mappings(instance), 200)]
        for mapping in random.sample(some, min(len(some), 6)):
            seen.update(_seen(instance, mapping))
            certificate = check(instance, mapping)
            if certificate.feasible and instance.task.stages == "layers" and not instance.task.recompute:
                assert sum(one.network for one in loads(instance, mapping)) == certificate.terms["T3"], seed
    wanted = {"heads: reduce_scatter", "heads: all_reduce", "samples", "statistics", "copies"}
    assert wanted | {"update M", "update N", "update K_N"} <= seen.keys(), seen


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried, seen = 0, Counter[str]()
    for seed in range(30 * block, 30 * block + 30):
        instance = exchange_instance(Random(seed))
        if not 0 < count(instance) <= 300:
            continue
        _, mapping = agreed(instance, seed)
        tried += 1
        if mapping is not None:
            seen.update(_seen(instance, mapping))
    assert tried >= 12 and "statistics" in seen, (tried, seen)
