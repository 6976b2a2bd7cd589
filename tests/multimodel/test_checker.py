"""The checker of family ``multimodel``: figures by hand, and for each label a change that breaks just it."""

from __future__ import annotations

import pytest

from chipmap.families.multimodel import FAMILY
from chipmap.instances.multimodel import Forbidden, MultiInstance, MultiSolution, Pin
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, Piece, Task
from chipmap.validation.multimodel.checker import check
from tests.multimodel.test_frames import FRAME_BREAKS

Window = list[tuple[str, int, int, str]]


def layer(name: str, in_bytes: int, weight_bytes: int, out_bytes: int, *costs: tuple[int, int]) -> Layer:
    named = dict(zip("NS", costs, strict=True))
    return Layer(name=name, in_bytes=in_bytes, weight_bytes=weight_bytes, out_bytes=out_bytes, costs=named)


A = Model(
    name="a",
    batch=4,
    mini_batch=2,
    layers=(
        layer("a0", 8, 40, 20, (5, 100), (3, 150)),
        layer("a1", 20, 0, 6, (7, 200), (4, 100)),
        layer("a2", 6, 16, 10, (2, 50), (6, 60)),
    ),
)
B = Model(
    name="b",
    layers=(layer("b0", 12, 4, 8, (30, 1000), (50, 900)), layer("b1", 8, 0, 4, (10, 400), (20, 300))),
)
#: n0 - s1 - n2 in a line, DRAM 1, 2 and 1 hops away.
MODULE = Module(
    chiplets=(
        Chiplet(name="n0", kind="N", hops=1),
        Chiplet(name="s1", kind="S", hops=2),
        Chiplet(name="n2", kind="N", hops=1),
    ),
    links=(("n0", "s1"), ("n2", "s1")),
    nop_bytes_per_ns=10.0,
    dram_bytes_per_ns=4.0,
    hop_ns=3,
    dram_ns=20,
    hop_pj_per_byte=1.5,
    dram_pj_per_byte=10.25,
)
#: a in two segments beside b, in one window.
TOGETHER: list[Window] = [[("a", 0, 1, "n0"), ("a", 2, 2, "s1"), ("b", 0, 1, "n2")]]
#: a in two windows, b beside its first part.
APART: list[Window] = [[("a", 0, 1, "n0"), ("b", 0, 1, "n2")], [("a", 2, 2, "n0")]]


def made(
    sram: int | None = None,
    deadlines: tuple[int | None, int | None] = (None, None),
    places: dict[str, object] | None = None,
    **task: object,
) -> MultiInstance:
    models = tuple(model.replace(deadline_ns=at) for model, at in zip((A, B), deadlines, strict=True))
    *others, last = MODULE.chiplets
    module = MODULE.replace(chiplets=(*others, last.replace(sram_bytes=sram)))
    asked = Task(**{"windows": 2, "objective": "latency", **task})  # type: ignore[arg-type]
    instance = MultiInstance(name="by hand", task=asked, models=models, module=module)
    instance = instance.replace(**(places or {}))
    instance.check()
    return instance


def schedule(windows: list[Window]) -> MultiSolution:
    pieces = (
        tuple(Piece(model=m, first=first, last=last, chiplet=c) for m, first, last, c in window) for window in windows
    )
    return MultiSolution(windows=tuple(pieces))


def labels(instance: MultiInstance, windows: list[Window]) -> set[str]:
    certificate = check(instance, schedule(windows))
    assert certificate.feasible == (not certificate.violations)
    assert all(violation.amount > 0 and violation.message for violation in certificate.violations)
    return {violation.label for violation in certificate.violations}


def terms(instance: MultiInstance, windows: list[Window]) -> tuple[int, int]:
    found = check(instance, schedule(windows)).terms
    return found["T1"], found["T2"]


def test_latency_by_hand() -> None:
    """One window: a's segments take 56 and 43 ns for two samples, b 90."""
    first = 2 * (5 + 7) + (16 / 4 + 1 * 3 + 20) + 5  # layers, read, ⌈12 / 10 + 3⌉ to s1
    second = 2 * 6 + (20 / 4 + 2 * 3 + 20)  # a2 on s1, write from two hops away
    weights = 40 / 4 + 16 / 4
    assert (first, second) == (56, 43)
    assert terms(made(), TOGETHER)[0] == first + second + weights + (4 / 2 - 1) * first == 169
    receives = 5  # with both ends paying, s1 does so as well
    assert terms(made(charge="both"), TOGETHER)[0] == 169 + receives


def test_windows_by_hand() -> None:
    """a in two windows writes and reads between them; b takes 90 + 1 ns beside the first one and isn't the slowest."""
    before = 2 * (5 + 7) + (16 / 4 + 23) + (12 / 4 + 23)
    after = 2 * 2 + (12 / 4 + 23) + (20 / 4 + 23)
    assert terms(made(), APART)[0] == (2 * before + 40 / 4) + (2 * after + 16 / 4) == 164 + 120
    assert terms(made(), APART)[1] == 4 * (300 + 94 + 71) + 470 + 4 * (50 + 71 + 118) + 188 + 1635


def test_energy_by_hand() -> None:
    """Per byte 10.25 pJ of DRAM and 1.5 pJ per hop: 11.75 from n0 and n2, 13.25 from s1."""
    a = 4 * ((100 + 200) + 94 + 9 + 60 + 133) + 470 + 212
    b = (1000 + 400) + 141 + 47 + 47
    assert terms(made(), TOGETHER)[1] == a + b == 4701


@pytest.mark.parametrize(
    ("objective", "ticks"),
    [("latency", 169), ("energy", 4701), ("weighted", 2500 * 169 + 4701), ("edp", 169 * 4701)],
)
def test_objectives(objective: str, ticks: int) -> None:
    assert check(made(objective=objective, watts=2.5), schedule(TOGETHER)).objective == ticks


def test_objectives_are_rounded_up() -> None:
    assert check(made(objective="weighted", watts=1e-6), schedule(TOGETHER)).objective == 4701 + 1
    many = made(objective="edp").replace(models=(A.replace(batch=4_000_000), B))
    found = check(many, schedule(TOGETHER))
    assert found.objective == -(-found.terms["T1"] * found.terms["T2"] // 10**9) > 10**6


#: Label -> what breaks it alone: what is asked (of ``made``), and the schedule.
BREAKS: dict[str, list[tuple[dict[str, object], list[Window]]]] = {
    "C0": [
        ({}, [[], *TOGETHER]),
        ({"windows": 1}, APART),
        ({}, [[("a", 0, 1, "n0"), ("a", 2, 3, "s1"), ("b", 0, 1, "n2")]]),
        ({}, [[("a", 0, 2, "n0"), ("b", -1, 1, "n2")]]),
        ({}, [[("a", 0, 2, "n0"), ("b", 1, 0, "n2")]]),
        ({}, [[("a", 0, 2, "n0"), ("b", 0, 1, "n9")]]),
        ({}, [[("a", 0, 2, "n0"), ("b", 0, 1, "n2"), ("c", 0, 0, "s1")]]),
    ],
    "C1": [
        ({}, [[("a", 0, 1, "n0"), ("b", 0, 1, "n2")]]),
        ({}, [[("a", 0, 1, "n0"), ("a", 1, 2, "s1"), ("b", 0, 1, "n2")]]),
        ({}, [[("a", 0, 0, "n0"), ("a", 2, 2, "s1"), ("b", 0, 1, "n2")]]),
        ({}, [[("a", 2, 2, "n0"), ("b", 0, 1, "n2")], [("a", 0, 1, "n0")]]),
        ({}, [[("a", 0, 2, "n0")]]),
    ],
    "C2": [
        ({}, [[("a", 0, 1, "n0"), ("a", 2, 2, "s1"), ("b", 0, 1, "s1")]]),
        ({}, [[("a", 0, 0, "n0"), ("a", 1, 1, "s1"), ("a", 2, 2, "n0"), ("b", 0, 1, "n2")]]),
    ],
    "C3": [({}, [[("a", 0, 1, "n0"), ("a", 2, 2, "n2"), ("b", 0, 1, "s1")]])],
    "C4": [
        ({"latency_limit_ns": 168}, TOGETHER),
        ({"energy_limit_pj": 4700}, TOGETHER),
        ({"deadlines": (168, None)}, TOGETHER),
        ({"deadlines": (None, 90)}, TOGETHER),
        ({"deadlines": (283, None)}, APART),
        ({"deadlines": (None, 90)}, APART),
    ],
    "C5": [({"sram": 23}, TOGETHER)],
    "C6": [
        ({"places": {"pins": (Pin(layer="a/a2", chiplet="n2"),)}}, TOGETHER),
        ({"places": {"forbidden": (Forbidden(layer="b/b1", chiplets=("s1", "n2")),)}}, TOGETHER),
        ({"places": {"together": (("a/a0", "a/a2"),)}}, TOGETHER),
        ({"places": {"together": (("a/a0", "b/b0"),)}}, APART),
        ({"places": {"apart": (("b/b0", "a/a2", "b/b1"),)}}, TOGETHER),
        ({"places": {"apart": (("a/a0", "a/a2"),)}}, APART),
    ],
}
#: Limits that are just met, and other schedules that break nothing.
HOLDS: list[tuple[dict[str, object], list[Window]]] = [
    ({"windows": 1, "latency_limit_ns": 169, "energy_limit_pj": 4701}, TOGETHER),
    ({"deadlines": (169, 91)}, TOGETHER),
    ({"deadlines": (284, 91)}, APART),
    ({"sram": 24}, TOGETHER),
    ({"places": {"pins": (Pin(layer="a/a2", chiplet="s1"),), "apart": (("a/a1", "a/a2", "b/b1"),)}}, TOGETHER),
    ({"places": {"together": (("a/a0", "a/a2"), ("b/b0", "b/b1")), "apart": (("a/a0", "b/b0"),)}}, APART),
    ({}, [*TOGETHER, []]),
    ({}, [[("b", 0, 0, "n2"), ("a", 0, 1, "s1")], [("a", 2, 2, "n0"), ("b", 1, 1, "n2")]]),
]


@pytest.mark.parametrize("label", BREAKS)
def test_each_of_these_breaks_one_label_alone(label: str) -> None:
    for asked, windows in BREAKS[label]:
        assert labels(made(**asked), windows) == {label}, (asked, windows)  # type: ignore[arg-type]


def test_one_unit_less_breaks_nothing() -> None:
    for asked, windows in HOLDS:
        assert labels(made(**asked), windows) == set(), (asked, windows)  # type: ignore[arg-type]


def test_every_label_is_broken_here() -> None:
    assert BREAKS.keys() | FRAME_BREAKS.keys() == FAMILY.constraints.keys()


def test_a_term_changes_alone() -> None:
    """Windows one after the other cost time and no energy; another chiplet for what isn't the slowest, only energy."""
    beside, after = [[("a", 0, 2, "n0"), ("b", 0, 1, "n2")]], [[("a", 0, 2, "n0")], [("b", 0, 1, "n2")]]
    assert terms(made(), beside)[0] < terms(made(), after)[0] == terms(made(), beside)[0] + 91
    assert terms(made(), beside)[1] == terms(made(), after)[1]
    moved = [[("a", 0, 2, "n0"), ("b", 0, 1, "s1")]]
    assert terms(made(), beside)[0] == terms(made(), moved)[0]
    assert terms(made(), moved)[1] - terms(made(), beside)[1] == (900 + 300 - 1400) + (12 + 4 + 4) * 1.5


def test_each_sample_of_a_mini_batch_has_its_buffers() -> None:
    """Model a alone on a chiplet: 56 bytes of weights, 8 + 20 bytes of its largest layer for each of two samples."""
    alone: list[Window] = [[("a", 0, 2, "n2"), ("b", 0, 1, "n0")]]
    (found,) = check(made(sram=111), schedule(alone)).violations
    assert (found.label, found.amount) == ("C5", 1.0)
    assert check(made(sram=112), schedule(alone)).feasible


def test_amounts_and_words() -> None:
    """How much a limit is passed by stands in the violation."""
    (found,) = check(made(sram=20), schedule(TOGETHER)).violations
    assert (found.label, found.amount, found.unit) == ("C5", 4.0, "bytes")
    assert "layers 0 to 1 of 'b' need 24 bytes on 'n2'" in found.message
    (late,) = check(made(deadlines=(200, None)), schedule(APART)).violations
    assert (late.label, late.amount, late.where) == ("C4", 84.0, "a")
    unknown = check(made(), schedule([[("a", 0, 1, "n0")]]))
    assert (unknown.objective, unknown.terms) == (None, {})
