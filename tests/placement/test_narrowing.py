"""The CP-SAT model with windows, parts that share a device, and equal devices numbered: nothing better is lost."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from ortools.sat.python import cp_model

from chipmap.deadline import Deadline
from chipmap.formulations.placement import cpsat, cpsat_builder
from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices
from chipmap.formulations.placement.narrowing import Narrowing, alike, largest_first, renumbered
from chipmap.heuristics.placement.bounds import ancestors, same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.instances.placement import Device, DeviceClass, PlacementInstance, System
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import LINKS, made, tiny_instance


def known(problem: PlacementProblem, upper: int) -> Narrowing:
    """What the bounds know of schedules with T1 <= ``upper``."""
    w = ancestors.raised(problem, bounds.heads_and_tails(problem, Deadline()), Deadline())
    w = same_device_bound.raised(problem, w, True, Deadline())
    part = bounds.parts(problem, w, upper)
    return Narrowing(upper, tuple(w.head.tolist()), tuple(w.tail.tolist()), tuple(part.tolist()), bounds.path(w))


def test_narrowing_loses_no_optimum() -> None:
    """At targets from the optimum on, on random instances: the optimum, and its schedule as a hint that fits."""
    random, compared, narrowed, numbered = Random(21), 0, 0, 0
    while compared < 120:
        instance = tiny_instance(random)
        optimum, best = brute_force(instance, check)
        if optimum is None or best is None or instance.task.objective != "step_time":
            continue
        compared += 1
        problem = placement_problem(instance)
        choices = PlacementCpChoices(narrowing=known(problem, optimum + random.choice((0, 0, 2))), symmetry=True)
        numbered += alike(problem) and problem.devices > 1
        narrowed += choices.narrowing is not None and choices.narrowing.parts < len(problem.groups)
        model = cpsat.build(instance, choices)
        solver = cp_model.CpSolver()
        assert solver.solve(model.native) == cp_model.OPTIMAL and solver.objective_value == optimum, instance
        certificate = check(instance, model.decode(solver.value))
        assert certificate.feasible and certificate.objective == optimum
        encoded = model.encode(best)
        assert encoded is not None and len({variable.index for variable, _ in encoded}) == len(encoded)
        for variable, value in encoded:
            model.native.add(variable == round(value))
        assert solver.solve(model.native) == cp_model.OPTIMAL and solver.objective_value == optimum, instance
    assert narrowed > 30 and numbered > 30


def unequal() -> PlacementInstance:
    """The large operation takes 9 ns on d0 and 5 ns on d1."""
    machines = (Device(name="d0", kind="slow"), Device(name="d1", kind="fast"))
    system = System(classes=(DeviceClass(name="slow"), DeviceClass(name="fast")), devices=machines, links=LINKS)
    times = {"slow": (9.0, 2.0), "fast": (5.0, 2.0)}
    return msgspec.structs.replace(made([(1, 0, 0), (1, 0, 0)], []), system=system, time_ns=times)


def test_unequal_devices_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is 5, with the large operation on d1; taking the devices for equal it would be 9."""

    def optimum() -> float:
        solver = cp_model.CpSolver()
        model = cpsat.build(unequal(), PlacementCpChoices(symmetry=True))
        assert solver.solve(model.native) == cp_model.OPTIMAL
        return solver.objective_value

    assert not alike(placement_problem(unequal())) and optimum() == 5
    monkeypatch.setattr(cpsat_builder, "alike", lambda problem: True)
    assert optimum() == 9


def test_devices_are_numbered_by_the_largest_parts() -> None:
    problem = placement_problem(made([(2, 0, 0), (9, 0, 0), (4, 0, 0)], [], 3))
    leaders = largest_first(problem, (0, 1, 2))
    assert leaders == [1, 2, 0]
    assert renumbered([0, 2, 2], leaders, 3) == [1, 0, 0]
