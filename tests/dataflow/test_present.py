"""Numbers that ``docs/families/dataflow-exchanges.md`` works out by hand, by the page's brute force and by the checker;
what C0 asks of ``keep``."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.page.cost import judged
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
    return DataflowSolution.make(degrees=CHIPS, schemes=schemes, partitions=[*range(len(schemes))], **more)


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
