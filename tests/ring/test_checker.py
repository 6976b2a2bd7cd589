"""The checker against hand calculation, and mutants that break exactly one label each."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts

X, W, A, B, C, V, D = range(7)


def diamond(chips: int = 4, sram: int = 73, **fields: Any) -> RingInstance:
    """x -> a -> b -> c -> d, a -> view -> d, and a constant w that c reads: 10, 20, 30 and 40 ns of work."""
    names = {"x": "input", "w": "constant", "a": "compute", "b": "compute", "c": "compute", "v": "view", "d": "compute"}
    flop = {"a": 10, "b": 20, "c": 30, "d": 40}
    instance = RingInstance(
        **{
            "name": "diamond",
            "graph": OperationGraph(
                name="diamond",
                operations=tuple(
                    Operation(name=name, kind="k", role=role, flop=flop.get(name, 0), weight_bytes=7 * (name == "c"))  # type: ignore[arg-type]
                    for name, role in names.items()
                ),
                tensors=(
                    Tensor(producer=X, readers=(A,), bytes=1000),
                    Tensor(producer=W, readers=(C,), bytes=50),
                    Tensor(producer=A, readers=(B, V), bytes=3),
                    Tensor(producer=B, readers=(C,), bytes=5),
                    Tensor(producer=C, readers=(D,), bytes=1),
                    Tensor(producer=V, readers=(D,), bytes=3),
                    Tensor(producer=D, bytes=2, output=True),
                ),
            ),
            "package": Package(
                chips=chips, sram_bytes=sram, link_bytes_per_ns=0.1, flop_per_ns=1.0, sram_bytes_per_ns=1e6
            ),
        }
        | fields
    )
    instance.check()
    return instance


def verdict(instance: RingInstance, **chips: int) -> Certificate:
    """The certificate of a mapping given by operation name; x and v follow a, w follows c."""
    where = {"x": chips["a"], "w": chips["c"], "v": chips["a"]} | chips
    return check(instance, RingSolution(chips=tuple(where[op.name] for op in instance.graph.operations)))


VALID = {"a": 0, "b": 0, "c": 1, "d": 1}
SPREAD = {"a": 0, "b": 0, "c": 1, "d": 2}

MUTANTS: dict[str, tuple[str, dict[str, Any], dict[str, int], str, float]] = {
    "an input outside the package": ("C0", {}, VALID | {"x": -2}, "'x'", 2),
    "a pin": ("C0", {"pins": (Pin(operation="a", chip=2),)}, VALID, "'a'", 2),
    "a forbidden chip": ("C0", {"forbidden": (Forbidden(operation="d", chips=(0, 1)),)}, VALID, "'d'", 1),
    "a keep-together group": ("C0", {"together": (("b", "c"),)}, VALID, "'b', 'c'", 1),
    "a view behind its reader": ("C1", {}, VALID | {"v": 3}, "'v' -> 'd'", 2),
    "data flowing backwards": ("C1", {}, {"a": 1, "b": 1, "c": 1, "d": 0}, "'c' -> 'd'", 1),
    "a skipped chip": ("C2", {}, {"a": 0, "b": 0, "c": 2, "d": 2}, "chip 1", 1),
    "a triangle": ("C3", {}, SPREAD, "chips 0, 1, 2", 1),
    "too little memory": ("C4", {"sram": 72}, VALID, "chip 1", 1),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_breaks_exactly_its_label(mutant: str) -> None:
    label, changes, chips, where, amount = MUTANTS[mutant]
    instance = diamond(**changes)
    certificate = verdict(instance, **chips)
    assert not certificate.feasible
    assert {violation.label for violation in certificate.violations} == {label}
    assert where in {violation.where for violation in certificate.violations}
    assert amount in {violation.amount for violation in certificate.violations}
    assert certificate.objective is not None
    if label != "C0":
        others = tuple(other for other in instance.constraints if other != label)
        without = instance.replace(constraints=others)
        assert verdict(without, **chips).feasible, "the label is not in force, so nothing is violated"


def test_a_valid_mapping_and_its_figures() -> None:
    instance = diamond()
    certificate = verdict(instance, **VALID)
    assert certificate.feasible and not certificate.violations and certificate.grade == "boundary"
    assert certificate.instance_hash == instance.content_hash
    assert certificate.terms == {"T1": 7000, "T2": 8000} and certificate.objective == 8000
    assert certificate.figures == {
        "chips_used": 2.0,
        "latency_ns": 100.0 + 80.0 + 1000.0,
        "max_memory_bytes": 7 + 50 + 2 * (3 + 5),
        "average_us": 0.025,
        "throughput_per_s": 1e11 / 8000,
    }
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize(
    ("mode", "valid", "spread"),
    [("period", (7000, 8000), (4000, 8000)), ("sum", (15000, 0), (11000, 0)), ("sum_forward", (15000, 0), (15000, 0))],
)
def test_cost_modes_by_hand(mode: str, valid: tuple[int, int], spread: tuple[int, int]) -> None:
    instance = diamond(cost_mode=mode)
    assert tuple(verdict(instance, **VALID).terms.values()) == valid
    assert tuple(verdict(instance, **SPREAD).terms.values()) == spread


def test_readers_on_earlier_chips_use_no_link() -> None:
    instance = diamond(constraints=())
    certificate = verdict(instance, a=1, b=0, c=1, d=1)
    assert certificate.feasible and certificate.terms == {"T1": 8000, "T2": 5000}, "only b -> c crosses link 0"
    assert verdict(diamond(constraints=("C1",)), a=1, b=0, c=1, d=1).violations[0].label == "C1"


def test_without_a_chip_there_is_no_objective() -> None:
    instance = diamond()
    for chips, where in (((0,) * 6, "chips"), ((-1,) * 7, "'a'"), ((10**12,) * 7, "'a'")):
        certificate = check(instance, RingSolution(chips=chips))
        assert certificate.objective is None and certificate.terms == {} and not certificate.feasible
        assert where in {violation.where for violation in certificate.violations if violation.label == "C0"}


def test_the_triangle_sees_a_detour_over_several_chips() -> None:
    chain = OperationGraph(
        name="chain",
        operations=tuple(Operation(name=name, kind="k") for name in "abcd"),
        tensors=tuple(Tensor(producer=u, readers=(v,)) for u, v in ((0, 1), (1, 2), (2, 3), (0, 3))),
    )
    instance = RingInstance(name="chain", graph=chain, package=Package(chips=4))
    [violation] = check(instance, RingSolution(chips=(0, 1, 2, 3))).violations
    assert (violation.label, violation.where) == ("C3", "chips 0, 2, 3")
    assert check(instance, RingSolution(chips=(0, 1, 1, 1))).feasible


def test_dead_operations_void_their_pins_and_weigh_nothing() -> None:
    graph = OperationGraph(
        name="dead",
        operations=(Operation(name="a", kind="k", flop=8), Operation(name="dead", kind="k", flop=9, weight_bytes=9)),
        tensors=(Tensor(producer=0, readers=(1,), bytes=6), Tensor(producer=0, output=True)),
    )
    limits = {"pins": (Pin(operation="dead", chip=1),), "together": (("a", "dead"),)}
    package = Package(chips=3, sram_bytes=0, flop_per_ns=1.0, launch_ns=0.5, efficiency={"k": 0.5})
    instance = RingInstance(name="dead", graph=graph, package=package, **limits)  # type: ignore[arg-type]
    certificate = check(instance, RingSolution(chips=(0, 2)))
    assert certificate.feasible and certificate.terms == {"T1": 1650, "T2": 0}


@pytest.mark.parametrize("traffic", ["in_out", "twice_out"])
def test_views_of_views_cost_what_they_move(traffic: str) -> None:
    """A reader through views moves min(bytes that it reads, bytes of the storage), and the flow passes the views."""
    graph = OperationGraph(
        name="views",
        operations=(
            Operation(name="a", kind="k"),
            Operation(name="v", kind="view", role="view"),
            Operation(name="u", kind="view", role="view"),
            Operation(name="b", kind="k", weight_bytes=4),
        ),
        tensors=(
            Tensor(producer=0, readers=(1,), bytes=10),
            Tensor(producer=1, readers=(2, 3), bytes=640),
            Tensor(producer=2, readers=(3, 3), bytes=3),
            Tensor(producer=3, bytes=2),
            Tensor(producer=3, bytes=1),
        ),
    )
    package = Package(chips=2, sram_bytes_per_ns=1.0)
    instance = RingInstance(name="views", graph=graph, package=package, traffic=traffic)  # type: ignore[arg-type]
    known = facts(instance)
    moved = (10 + 3) + (2 + 1) + 4 if traffic == "in_out" else 2 * (2 + 1) + 4
    assert known.ticks[3] == 100 * moved
    assert [(s.made_by, s.read_by, s.bytes) for s in known.stored] == [(0, (3,), 10)]


def test_times_are_rounded_up_once_and_exactly() -> None:
    instance = diamond(time_ns=(None, None, 0.07, 0.071, 0.0, None, None))
    assert facts(instance).ticks == {A: 7, B: 8, C: 0, D: 4000}
    third = diamond().replace(package=Package(flop_per_ns=3.0, link_bytes_per_ns=None, sram_bytes_per_ns=1e9))
    assert facts(third).ticks == {A: 334, B: 667, C: 1000, D: 1334}
    assert {stored.ticks for stored in facts(third).stored} == {0}


def test_an_instance_without_computing_operations() -> None:
    graph = OperationGraph(name="empty", operations=(Operation(name="w", kind="k", role="constant"),))
    certificate = check(RingInstance(name="empty", graph=graph), RingSolution(chips=(0,)))
    assert certificate.feasible and certificate.objective == 0
    assert certificate.figures["chips_used"] == 0.0 and certificate.figures["latency_ns"] == 0.0
