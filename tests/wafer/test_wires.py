"""Sides of inputs and outputs (C6), wires weighted by traffic, and limits on lines (C7)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap import read, solve
from chipmap.deadline import Stop
from chipmap.explaining.wafer.explain import without
from chipmap.instances.wafer import Crossing, Kernel, Side, WaferInstance, WaferSolution
from chipmap.instances.wafer.describe import describe
from chipmap.instances.wafer.kgraph import write_kgraph
from chipmap.instances.wafer.problem import evaluate, in_order, wafer_problem
from chipmap.instances.wafer.special import easier, in_the_open
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.wafer import special
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.lanes import of_all
from tests.wafer.agreement import all_prove
from tests.wafer.page_wires import optimum, wired_instance
from tests.wafer.test_pins import two

EACH = 10


@pytest.mark.parametrize("seed", range(of_all(20, few=2)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    random = Random(1300 + seed)
    for number in range(EACH):
        instance = wired_instance(random)
        all_prove(instance, optimum(instance), number, (seed, number))


@pytest.mark.parametrize("seed", range(of_all(100, few=20)))
def test_the_easier_instance_never_scores_more(seed: int) -> None:
    """At the floorplan that CP-SAT finds, all of its terms together are at most those of the instance."""
    instance = wired_instance(Random(seed))
    found, plain = solve(instance, method="wafer/cpsat"), easier(instance)
    if found.solution is None or plain is None:
        return
    solution, problem = WaferSolution.make(**found.solution), wafer_problem(plain)
    assert evaluate(problem, in_order(problem, solution)).score <= (found.objective or 0)


def ended(**fields: Any) -> WaferInstance:
    """Two small kernels on 12 x 8 tiles between an input and an output."""
    plain = two()
    ends = (Kernel(name="in", kind="input", shape=(1,)), Kernel(name="out", kind="output", shape=(1,)))
    names = [kernel.name for kernel in plain.kernels]
    edges = (("in", names[0]), *plain.edges, (names[-1], "out"))
    return plain.replace(kernels=(*plain.kernels, *ends), edges=edges, **fields)


LEFT, RIGHT = Side(kernel="in", side="left", touch=True), Side(kernel="out", side="right", touch=True)


def test_bad_input_is_named() -> None:
    line = Crossing(axis="x", at=3, most=1)
    for fields, where in (
        ({"sides": (LEFT, LEFT)}, r"sides\[1\]"),
        ({"sides": (LEFT.replace(kernel="k1"),)}, r"sides\[0\]\.kernel"),
        ({"traffic": (1,)}, "traffic"),
        ({"traffic": (1, 2, -1)}, r"traffic\[2\]"),
        ({"traffic": (1, 2, 10**9)}, r"traffic\[2\]"),
        ({"crossing": (line, line.replace(at=12))}, r"crossing\[1\]\.at"),
        ({"crossing": (line.replace(axis="y", at=0),)}, r"crossing\[0\]\.at"),
        ({"crossing": (line.replace(most=-1),)}, r"crossing\[0\]\.most"),
    ):
        with pytest.raises(InputError, match=where):
            ended(**fields).check()


def test_hashes_hold_and_other_formats_and_methods_refuse() -> None:
    plain, made = ended(), ended(sides=(LEFT,), traffic=(1, 5, 2), crossing=(Crossing(axis="y", at=4, most=9),))
    assert made.replace(sides=(), traffic=(), crossing=()).content_hash == plain.content_hash != made.content_hash
    with pytest.raises(InputError, match="traffic"):
        write_kgraph(made)
    for method in ("rows", "search", "exact", "poker"):
        with pytest.raises(InputError, match="traffic"):
            solve(made, method=f"wafer/{method}")
    assert describe(made)["traffic"] == 3


def test_the_checker_names_gaps_and_what_crosses() -> None:
    found = solve(ended(sides=(LEFT, RIGHT)), method="wafer/cpsat")
    assert found.solution is not None
    solution = WaferSolution.make(**found.solution)
    asked = ended(
        sides=(LEFT.replace(side="right"), RIGHT.replace(side="left")),
        traffic=(3, 5, 7),
        crossing=(Crossing(axis="x", at=6, most=14),),
    )
    messages = [violation.message for violation in check(asked, solution).violations]
    assert len(messages) == 3 and "tiles from the right side" in messages[0] and "traffic 15 cross" in messages[2]


def test_limits_that_no_floorplan_meets_are_a_reason() -> None:
    """Both ends border on opposite sides, and one wire between has to cross the line."""
    result = solve(ended(sides=(LEFT, RIGHT), crossing=(Crossing(axis="x", at=6, most=0),)))
    assert result.status == "infeasible" and "C7" in result.infeasibility[0].labels


def test_traffic_follows_its_edge() -> None:
    made = ended(traffic=(3, 5, 7))
    assert made.edges[1] == ("k1", "k2") and without(made, "k1").traffic == (7,)
    spread = in_the_open(wafer_problem(made.replace(traffic=(0, 4, 6))))
    assert spread is not None and spread[0].edges.count(("k1", "k2")) == 2 and spread[0].weights.wire == 2


def test_a_large_fabric_gets_a_floorplan_and_a_bound() -> None:
    plain = read("wafer/ispd2020-K")
    assert isinstance(plain, WaferInstance)
    names = [kernel.name for kernel in plain.kernels]
    made = plain.replace(
        kernels=(*plain.kernels, Kernel(name="in", kind="input", shape=(1,))),
        edges=(*plain.edges, ("in", names[0])),
        sides=(Side(kernel="in", side="top", touch=True),),
        traffic=tuple(range(1, len(plain.edges) + 2)),
    )
    result = solve(made, method="wafer/greedy")
    assert result.solution is not None and result.bounds
    assert check(made, WaferSolution.make(**result.solution)).feasible


def test_rounds_go_on_when_reinsertion_has_used_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share that ends within a step ends that round's reinsertion, not the chain."""
    asked = list[int]()

    def used_up(*_: Any) -> None:
        raise Stop("time")

    monkeypatch.setattr(special, "improve", used_up)
    monkeypatch.setattr(special, "search_neighbourhoods", lambda *given: asked.append(given[-1]))
    instance = ended(sides=(LEFT,))
    run = Run(instance, SolveOptions(), check)
    run.solution(WaferSolution.make(**(solve(instance, method="wafer/greedy").solution or {})), "greedy")
    follow([Link("rounds", 1.0, special._rounds)], wafer_problem(instance), Turn(run, run.deadline))
    assert asked == [0]
