"""What is there before a method begins: two bounds and a schedule."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap import SolveOptions, solve
from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.starts.in_order import times_in_order
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.instances.placement.system import Links
from chipmap.methods.placement import at_once
from chipmap.run import Run
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import tiny_instance


def in_order(problem: PlacementProblem, device: IntArray) -> PlacementSolution | None:
    """The schedule on these devices [N] by falling upward rank; None where a transfer has no route."""
    times = times_in_order(problem, device, by_rank(problem).tolist())
    return None if times is None else problem.solution(device, times.start, times.moves)


def test_schedules_in_order_are_valid_or_have_no_route() -> None:
    """300 random instances and devices: nothing but memory, the limit on T1 and groups is ever broken."""
    random, made = Random(9), 0
    for _ in range(300):
        problem = placement_problem(tiny_instance(random))
        if not problem.timed:
            continue
        device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        solution = in_order(problem, device)
        crossed = [
            problem.network.kind[device[u], device[v]] < 0 and device[u] != device[v]
            for s, u in enumerate(problem.storages.producer.tolist())
            for v in problem.storages.read_by(s)
        ]
        assert (solution is None) == any(crossed)
        if solution is not None:
            made += 1
            broken = check(problem.instance, solution).violations
            assert {one.label for one in broken if one.unit != "ns" or one.label != "C0"} <= {"C1", "C6"}, broken
    assert made > 100


def test_bounds_at_once_hold_and_meet_what_is_plain() -> None:
    """Two operations in a row take the sum of their times; so does the bound, and none exceeds an optimum."""
    random, exact = Random(3), 0
    for _ in range(30):
        instance = tiny_instance(random)
        run = Run(instance, SolveOptions(), check)
        at_once.at_once(instance, run)
        optimum, _ = brute_force(instance, check)
        if optimum is not None:
            assert run.lower is None or run.lower.value <= optimum
            exact += run.lower is not None and run.lower.value == optimum
    assert exact > 5


@pytest.mark.parametrize("method", ["placement/auto", "placement/bounds"])
def test_a_passed_limit_still_leaves_a_schedule_and_a_bound(method: str) -> None:
    """As if the limit had passed while the file was read."""
    instance = training_step("rnnlm", {"steps": 3, "hidden": 32, "batch": 4, "vocabulary": 50})
    assert placement_problem(instance).operations >= 100
    found = solve(instance, method, time_limit=1e-6, isolate=False)
    assert found.objective is not None and found.bound is not None and found.objective >= found.bound
    assert found.incumbent_source == "in order" and found.termination.limit == "time"
    assert solve(instance, method, time_limit=1e-6, isolate=False, warm_start="none").objective is None


def test_a_system_without_links_is_named() -> None:
    """Two devices that nothing joins are noted, with the remedy; joined ones aren't, and nor is a single device."""
    joined = tiny_instance(Random(2))
    links = joined.system.links or Links()
    pair = tuple(joined.system.devices[:1] * 2)
    pair = (pair[0], pair[1].replace(name="other"))
    for devices, joins, noted in ((pair, None, True), (pair, links, False), (pair[:1], None, False)):
        system = joined.system.replace(devices=devices, links=joins, routes=())
        instance = joined.replace(system=system)
        run = Run(instance, SolveOptions(), check)
        at_once.advice(instance, run)
        said = [note.text for note in run.notes]
        assert len(said) == noted and all("--set 'system.links=" in one for one in said)
