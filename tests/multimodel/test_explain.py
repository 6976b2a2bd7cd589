"""What `explain` says of schedules, and of instances without any."""

from __future__ import annotations

import json

import pytest

from chipmap.explaining.multimodel.explain import explain
from chipmap.explanation import Explanation
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance, MultiSolution, Piece
from chipmap.instances.multimodel.timeline import PARTS
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import infeasible
from tests.multimodel.test_outcome import some


def short(seconds: float = 3.0) -> SolveOptions:
    return SolveOptions(time_limit=seconds)


def test_explain_tells_what_sets_the_time_and_what_energy_is_spent_on() -> None:
    """Figures of the statements, added up: those of the checker for the schedule that was given."""
    instance, solution = next(pair for pair in some() if pair[0].name == "multimodel/resnet50-unet")
    found = explain(instance, solution, short(), against=solution)
    terms = check(instance, solution).terms
    topics = [one.topic for one in found.statements]
    nothing_better = found.objective == check(instance, solution).objective  # in so short a time
    assert topics[:2] == ["given", "verdict"] or (nothing_better and topics[0] == "verdict")
    assert topics.count("energy") == 2
    windows = [one.figures for one in found.statements if one.topic == "window"]
    assert sum(one["ns"] for one in windows) == terms["T1"] and len(windows) == len(solution.windows)
    for one in windows:
        pieces = [(p.model, p.first, p.last) for p in solution.windows[one["window"]]]
        assert (one["model"], one["first"], one["last"]) in pieces
    spent = next(one.figures for one in found.statements if one.topic == "energy")
    assert sum(spent.values()) == terms["T2"] and set(spent) == {f"{part.lower()}_pj" for part in PARTS}
    assert found.status == "feasible" and found.objective is not None and found.bound is not None
    assert found.bound <= found.objective <= (check(instance, solution).objective or 0)
    assert found.difference is not None and not found.difference.resources, "twice the same"
    text = " ".join(one.message for one in found.statements)
    assert "J·s" in text and " s" in text and " J" in text and "µ" not in text


def test_what_one_more_chiplet_allows_is_a_bound_of_every_place_for_it() -> None:
    """A chiplet of either class, linked to any one chiplet: the optimum isn't below what is said to be the best."""
    instance = read("multimodel/tiny-two")
    assert isinstance(instance, MultiInstance)
    found = explain(instance, options=short(60))
    assert found.status == "optimal"
    least = {one.figures["chiplet"]: one.figures["bound"] for one in found.statements if "chiplet" in one.figures}
    assert set(least) == {"nvdla", "shidiannao"}
    for kind, bound_there in least.items():
        for other in instance.module.chiplets:
            chiplets = (*instance.module.chiplets, other.replace(**{"name": "new", "class": kind}))
            module = instance.module.replace(chiplets=chiplets, links=(*instance.module.links, ("new", other.name)))
            optimum, _ = brute_force(instance.replace(module=module), check)
            assert optimum is not None and bound_there <= optimum <= (found.objective or 0)


def test_explained_changes_are_optima_of_the_changed_instances() -> None:
    instance = read("multimodel/tiny-two")
    assert isinstance(instance, MultiInstance)
    limited = instance.replace(task=instance.task.replace(latency_limit_ns=160_000, objective="energy"))
    found = explain(limited, options=short(20))
    assert {one.setting for one in found.changes} >= {"task.windows=3", "task.windows=1", "task.latency_limit_ns=null"}
    for change in found.changes:
        task = {name: json.loads(value) for name, _, value in [change.setting.removeprefix("task.").partition("=")]}
        optimum, _ = brute_force(limited.replace(task=limited.task.replace(**task)), check)
        assert optimum == change.objective and change.standing == ("proved" if optimum is not None else "infeasible")


@pytest.mark.parametrize("name", sorted(infeasible()))
def test_explain_without_a_schedule(name: str) -> None:
    """The reason that a solve gives, the least latency and energy, and a change that helps where one of the task or of
    SRAM does."""
    _, instance = infeasible()[name]
    found = explain(instance, options=short(60))
    assert found.status == "infeasible" and found.objective is None
    assert found.statements[0].message == "No schedule exists (proved)."
    told = [one.message.lower() for one in found.statements if one.topic == "clash"]
    assert told == [f"{reason.message}.".lower() for reason in solve(instance, time_limit=10).infeasibility]
    assert any(one.topic == "bound" for one in found.statements)
    assert any(one.standing == "proved" for one in found.changes)


def test_a_schedule_that_is_refused_is_said_to_be() -> None:
    instance = read("multimodel/tiny-two")
    assert isinstance(instance, MultiInstance)
    piece = Piece(model="m0", first=0, last=0, chiplet="c00")
    found = explain(instance, MultiSolution(windows=((piece, piece),)), short(5))
    assert found.given is not None and not found.given.feasible
    assert found.statements[0].topic == "given" and "refused" in found.statements[0].message
    with pytest.raises(InputError, match="names 'c99'"):
        explain(instance, MultiSolution(windows=((piece.replace(chiplet="c99"),),)), short(5))


def test_a_schedule_is_explained_before_anything_is_solved() -> None:
    """Whatever the time: the first explanation told is about the schedule at hand, with a bound."""
    instance, solution = some()[-1]
    told: list[Explanation] = []
    explain(instance, solution, short(1), told=told.append)
    first, terms = told[0], check(instance, solution).terms
    assert first.status == "feasible" and first.terms == terms and 0 < (first.bound or 0) < (first.objective or 0)
    assert sum(one.figures["ns"] for one in first.statements if one.topic == "window") == terms["T1"]
