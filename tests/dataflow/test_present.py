"""Numbers that ``docs/families/dataflow-exchanges.md`` works out by hand, by the page's brute force and by the checker;
what C0 asks of ``keep``."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.page.cost import judged
from tests.dataflow.page.mappings import best
from tests.dataflow.random_instances import made

CHIPS = Degrees(tensor=4, dimensions=("tensor",))
GIVEN: dict[str, Any] = {"sizes": [4], "topology": "switch", "link_gbps": 50.0, "memory_gbps": 200.0, "fused": False}
GIVEN |= {"degrees": CHIPS, "batch": 1, "mode": "physical", "sram_bytes": 10**9}
#: Both make 262,144 bytes of two-byte words.
ROWS: dict[str, Any] = {"kind": "elementwise", "M": 1024, "N": 128, "flop_per_element": 1}
PRODUCT: dict[str, Any] = {"kind": "gemm", "M": 1024, "K": 1024, "N": 128, "weights": True, "weight_bytes": 0}


def _terms(instance: DataflowInstance, mapping: DataflowSolution) -> dict[str, int]:
    """The terms by both, which agree."""
    page, certificate = judged(instance, mapping), check(instance, mapping)
    assert page.terms == certificate.terms and page.objective == certificate.objective
    assert page.broken == {one.label for one in certificate.violations} == set()
    assert page.dram == certificate.figures["dram_bytes"]
    return dict(certificate.terms)


def _mapping(schemes: tuple[str, ...], **more: Any) -> DataflowSolution:
    partitions = more.pop("partitions", [*range(len(schemes))])
    return DataflowSolution.make(degrees=CHIPS, schemes=schemes, partitions=partitions, **more)


@pytest.mark.parametrize(
    ("keep", "gathers", "memory", "dram"),
    [
        ("none", (1, 1, 1, 1), (1, 1, 1, 1, 1), 1),
        ("phase", (1, 0, 1, 0), (1, 5, 4, 5, 4), 5),
        ("step", (1, 0, 0, 0), (1, 5, 4, 4, 4), 5),
    ],
)
def test_a_layout_serves_others(keep: str, gathers: tuple[int, ...], memory: tuple[int, ...], dram: int) -> None:
    """T3, T2 and C6 of four readers in quarters of the tensor; 64 KiB are 327.68 ns of DRAM."""
    back = {**ROWS, "phase": "backward"}
    kernels: dict[str, dict[str, Any]] = {
        "e": ROWS,
        "q": {**PRODUCT, "output_bytes": 0},
        "k": {**PRODUCT, "output_bytes": 0},
    }
    kernels |= {name: {**back, "output_bytes": 0} for name in "bc"}
    instance = made(kernels, "eq ek eb ec", **GIVEN)
    mapping = _mapping(("M", "M", "M", "NONE", "NONE"), keep=keep)
    terms = _terms(instance, mapping)
    found = breakdown(instance, mapping)
    assert [found[p][2] for p in (1, 2, 3, 4)] == [3_932_160 * one for one in gathers]
    assert [found[p][1] for p in range(5)] == [327_680 * one for one in memory]
    assert terms["T3"] == 3_932_160 * sum(gathers)
    assert check(instance, mapping).figures["dram_bytes"] == 65_536 * dram


@pytest.mark.parametrize(
    ("schemes", "run", "after"),
    [
        (("M", "K", "M"), 0, 0),
        (("M", "M", "N"), 7_864_320, 8 * 7_864_320),
        (("M", "N", "NONE"), 31_457_280, 0),
        (("N", "M", "M"), 0, 8 * 31_457_280),
        (("K", "M", "N"), 0, 0),
    ],
)
def test_parameters_rest_where_the_forward_kernel_has_them(schemes: tuple[str, ...], run: int, after: int) -> None:
    """T3 of the backward kernel, T6 of the update; nothing else is sent."""
    f = {"kind": "gemm", "M": 1024, "K": 1024, "N": 128, "weights": True, "output_bytes": 0}
    own = {"schemes": ["M", "K", "N", "NONE"], "phase": "backward", "parameters_of": "f"}
    kernels = {"f": {**f, "schemes": own["schemes"]}, "b": {**f, **own}}
    kernels |= {"u": {**f, **own, "N": 1024, "K": 128, "weights": False, "update": True, "output_bytes": 2_097_152}}
    instance = made(kernels, "", **GIVEN, layers=8, purpose="training", optimizer_bytes=0)
    terms = _terms(instance, _mapping(schemes))
    assert (terms["T3"], terms["T6"]) == (run, after)


def test_products_that_are_added_up_have_one_sum() -> None:
    """T3 with and without ``adds``."""
    for schemes, apart, together in (
        (("K", "K", "K", "NONE"), 6, 2),
        (("K_RS", "K_RS", "K_RS", "M"), 3, 1),
        (("K_RS", "K_RS", "K_RS", "NONE"), 6, 2),
        (("K", "K_RS", "K", "NONE"), 6, 4),
    ):
        for adds, wanted in ((), apart), (("q", "k", "v"), together), (("q",), apart):
            kernels: dict[str, dict[str, Any]] = dict.fromkeys("qkv", PRODUCT)
            instance = made({**kernels, "a": {**ROWS, "adds": list(adds), "output_bytes": 0}}, "qa ka va", **GIVEN)
            assert _terms(instance, _mapping(schemes))["T3"] == 3_932_160 * wanted, (schemes, adds)


def test_partial_sums_are_whole_tensors() -> None:
    """In T2: each of three products writes all of its sums, which the adding kernel reads."""
    kernels: dict[str, dict[str, Any]] = dict.fromkeys("qkv", PRODUCT)
    instance = made({**kernels, "a": {**ROWS, "adds": ["q", "k", "v"], "output_bytes": 0}}, "qa ka va", **GIVEN)
    found = breakdown(instance, _mapping(("K_RS", "K_RS", "M", "M")))
    assert [found[p][1] for p in range(4)] == [1_310_720, 1_310_720, 327_680, 2 * 1_310_720 + 327_680]
    assert [found[p][2] for p in range(4)] == [0, 0, 3_932_160, 0]


@pytest.mark.parametrize(
    ("changed", "mapping"),
    [
        ({"fused": True}, {}),
        ({"schedule": "zb-h1"}, {}),
        ({"mode": "dfmodel"}, {}),
        ({"recompute": True}, {}),
        ({}, {"partitions": (0, 2, 1, 3)}),
        ({"keep": "phase"}, {}),
        ({"stages": "kernels"}, {"stages": (0, 0, 0, 0)}),
    ],
)
def test_when_layouts_cant_be_kept(changed: dict[str, Any], mapping: dict[str, Any]) -> None:
    """C0 by both; without ``keep`` the mapping is in the domain."""
    back = {**ROWS, "phase": "backward"}
    kernels = {"e": ROWS, "q": PRODUCT, "b": back, "u": {**back, "update": True}}
    instance = made(kernels, "eq eb bu", **GIVEN)
    task = instance.task.replace(**{name: one for name, one in changed.items() if name != "mode"})
    instance = instance.replace(task=task, mode=changed.get("mode", "physical"))
    for keep, broken in (("step", True), ("none", changed == {"keep": "phase"})):
        one = _mapping(("M", "M", "M", "M"), keep=keep).replace(**mapping)
        labels = {each.label for each in check(instance, one).violations}
        assert ("C0" in labels) == broken == ("C0" in judged(instance, one).broken), (keep, labels)


def _network(kernels: dict[str, dict[str, Any]], edges: str, schemes: str, **more: Any) -> dict[int, int]:
    """T3 by partition, a kernel each in the order of the letters, by the checker; its terms are the page's."""
    mapping = {name: more.pop(name) for name in ("partitions", "keep") if name in more}
    given = {**GIVEN, **more}
    instance = made(kernels, edges, **given)
    one = _mapping(tuple(schemes.split()), **{"keep": "phase", **mapping}).replace(degrees=given["degrees"])
    _terms(instance, one)
    return {p: times[2] for p, times in breakdown(instance, one).items()}


def test_all_of_a_tensor_isnt_all_that_experts_need() -> None:
    """Replicas that share experts send each other tokens, whether a chip has all of its own or not."""
    both = Degrees(tensor=2, data=2, expert=2, dimensions=("tensor", "expert"))
    experts = {**PRODUCT, "experts": 4, "active": 1, "schemes": ["E"]}
    kernels = {"a": ROWS, "b": ROWS, "x": experts}
    alone = _network(kernels, "ax", "M NONE E", sizes=[2, 2], degrees=both, batch=2)
    after = _network(kernels, "ab ax", "M NONE E", sizes=[2, 2], degrees=both, batch=2)
    assert after[2] == alone[2] > 0
    assert _network(kernels, "ab ax", "M NONE E")[2] == 0 < _network(kernels, "ax", "M NONE E")[2]


def test_a_copy_by_heads_has_whole_heads() -> None:
    """Two heads of keys on four chips, each with eight heads of queries: half of the keys is written, and read."""
    keys = {"kind": "gemm", "outer": 2, "M": 512, "K": 1, "N": 128, "schemes": ["N"], "weights": False}
    scores = {"kind": "elementwise", "outer": 8, "M": 64, "N": 128, "output_bytes": 0}
    instance = made({"a": keys, "b": scores, "c": scores}, "ab ac", **GIVEN)
    mapping = _mapping(("N", "OUTER", "OUTER"), keep="phase")
    _terms(instance, mapping)
    assert [times[1] for times in breakdown(instance, mapping).values()] == [327_680, 327_680 + 655_360, 655_360]


def test_heads_of_samples_arent_rows_of_all() -> None:
    """Three heads of each of two samples on two chips: who has whole heads lacks rows of a sample."""
    maker = {"kind": "gemm", "outer": 6, "heads": 3, "M": 64, "K": 1, "N": 128, "schemes": ["N"], "weights": False}
    heads, rows = {**ROWS, "outer": 6, "M": 64}, {**ROWS, "M": 384}
    two = Degrees(tensor=2, dimensions=("tensor",))
    for middle, free in ((heads, False), (rows, True)):
        scheme = "OUTER" if middle is heads else "M"
        found = _network({"a": maker, "b": middle, "c": rows}, "ab ac", f"N {scheme} M", sizes=[2], degrees=two)
        assert found[1] > 0 and (found[2] == 0) == free


def test_who_exchanges_sums_of_copies_has_no_copies() -> None:
    """Two copies of each token: a gather takes no longer than an all-reduce of the sums, so that copies are there for
    others. Of four copies the sums take half of it."""
    for active, supplied in ((2, True), (4, False)):
        experts = {**PRODUCT, "experts": 4, "active": active, "schemes": ["E"]}
        kernels = {"a": experts, "b": {**ROWS, "N": 128 // active}, "c": ROWS}
        found = _network(kernels, "ab ac", "E NONE NONE")
        assert found[1] == 3_932_160 * 2 // active
        assert found[2] == (0 if supplied else 3_932_160)


def test_forward_kernels_run_before_backward_ones() -> None:
    """Whatever their partitions' numbers: the backward one of two products that are added up pays."""
    kernels = {"a": PRODUCT, "b": {**PRODUCT, "phase": "backward"}}
    kernels["c"] = {**ROWS, "phase": "backward", "adds": ["a", "b"], "output_bytes": 0}
    fused = {"fused": True, "keep": "none", "partitions": (1, 0, 2)}
    assert _network(kernels, "ac bc", "K K NONE", **fused) == {0: 7_864_320, 1: 0, 2: 0}


def test_where_chips_dont_fuse_places_decide() -> None:
    """The last of products that are added up is the last in the list, in whatever order they run."""
    kernels: dict[str, dict[str, Any]] = {"a": PRODUCT, "b": PRODUCT}
    kernels["c"] = {**ROWS, "adds": ["b", "a"], "output_bytes": 0}
    for partitions in ((0, 1, 2), (1, 0, 2)):
        found = _network(kernels, "ac bc", "K K NONE", keep="none", partitions=partitions)
        assert found == {partitions[1]: 7_864_320, partitions[0]: 0, 2: 0}


def test_a_saved_copy_is_there_for_each_layer_and_micro_batch_in_flight() -> None:
    """Two stages of three layers each: the tensor by rows and the copy that q paid for, of three layers twice."""
    both = Degrees(tensor=4, pipeline=2, dimensions=("tensor", "pipeline"))
    kernels = {"e": ROWS, "q": {**ROWS, "output_bytes": 0}, "b": {**ROWS, "phase": "backward", "output_bytes": 0}}
    more = {"sizes": [4, 2], "degrees": both, "layers": 6, "batch": 4}
    instance = made(kernels, "eq eb", **{**GIVEN, **more})
    for keep, size in (("phase", 65_536), ("step", 65_536 + 262_144)):
        mapping = _mapping(("M", "NONE", "NONE"), keep=keep).replace(degrees=both)
        _terms(instance, mapping)
        assert check(instance, mapping).figures["dram_bytes"] == 3 * 2 * size


def test_a_shared_sum_is_that_of_the_product_named_last() -> None:
    """Where products have unlike sizes, though no kernel could add them."""
    small = {**PRODUCT, "N": 64}
    for names, wanted in (("q", "k"), 3_932_160), (("k", "q"), 7_864_320):
        kernels = {"q": PRODUCT, "k": small, "a": {**ROWS, "adds": list(names), "output_bytes": 0}}
        assert sum(_network(kernels, "qa ka", "K K NONE").values()) == wanted


def test_unlike_parts_of_rows_are_brought_by_themselves() -> None:
    """Three heads on four chips are thirds of the rows, products by rows quarters: the adding kernel gathers both."""
    product = {**PRODUCT, "M": 768, "outer": 1}
    heads = {**product, "M": 256, "outer": 3, "weights": False, "schemes": ["OUTER", "M"]}
    adder = {**ROWS, "M": 768, "adds": ["q", "k"], "output_bytes": 0}
    found = [
        _network({"q": product, "k": heads, "a": adder}, "qa ka", f"K_RS {scheme} NONE")[2] for scheme in ("M", "OUTER")
    ]
    assert found[0] == 768 * 128 * 2 * 3 * 1000 // (4 * 50) and found[1] == 2 * found[0]


def test_which_product_runs_last_is_a_choice() -> None:
    """On chips that fuse: the sum is hidden behind the longer product, if the shorter one runs before."""
    long = {**PRODUCT, "flop": 10**11, "schemes": ["K"], "weight_bytes": 600_000}
    kernels = {"k": long, "q": {**long, "flop": 10**6}, "a": {**ROWS, "adds": ["k", "q"], "schemes": ["NONE"]}}
    instance = made(
        kernels, "ka qa", **{**GIVEN, "fused": True, "sram_bytes": 200_000, "partitions": 3, "exactly": True}
    )
    optimum, mapping = brute_force(instance, check)
    assert mapping is not None and best(instance, 1000) is not None
    assert optimum == best(instance, 1000)[0] and mapping.partitions == (1, 0, 2)  # type: ignore[index]
    other = check(instance, mapping.replace(partitions=(0, 1, 2)))
    assert other.feasible and (other.objective or 0) - (optimum or 0) > 5_000_000
