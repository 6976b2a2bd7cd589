"""The program for one window against brute force, and inside a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.tables.paths import module_paths
from chipmap.heuristics.multimodel.windows.one_window import OneWindow
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import scenario
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, schedule, terms
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force, count
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import made, tiny_instance


def single(seed: int, number: int, most: int = 6_000) -> Iterator[MultiInstance]:
    """Random instances of one window with at most so many candidates."""
    random, left = Random(seed), number
    while left:
        instance = tiny_instance(random)
        if len(instance.models) > len(instance.module.chiplets):
            continue
        instance = instance.replace(task=instance.task.replace(windows=1))
        if count(instance) <= most:
            left -= 1
            yield instance


def program_of(problem: MultiProblem) -> OneWindow:
    paths = module_paths(problem)
    assert paths is not None
    return OneWindow(problem, paths)


def test_one_window_finds_and_proves_the_optimum() -> None:
    """150 instances, with all objectives, limits, deadlines, memory, both charges; bounds and windows on the way."""
    seen: dict[str, int] = {}
    for instance in single(5, 150):
        optimum, _ = brute_force(instance, check)
        problem = multi_problem(instance)
        program, bound = program_of(problem), 0.0
        for find in program.run(None, Deadline()):
            if find.segments is not None:
                certificate = check(instance, schedule(problem, [find.segments]))
                assert certificate.feasible and certificate.objective == program.best
                assert optimum is not None and program.best is not None and optimum <= program.best
            if find.bound is not None:
                assert optimum is None or find.bound <= optimum
                bound = max(bound, find.bound)
        assert (program.best, bound) == (optimum, math.inf if optimum is None else optimum)
        kind = "none" if optimum is None else instance.task.objective
        seen[kind] = seen.get(kind, 0) + 1
    assert min(seen[kind] for kind in ("none", "latency", "energy", "weighted", "edp")) >= 8, seen


def test_a_known_best_is_proved_or_beaten() -> None:
    for instance in single(6, 25):
        optimum, _ = brute_force(instance, check)
        if optimum is None:
            continue
        problem = multi_problem(instance)
        for known in (optimum, optimum + 1, 2 * optimum + 1):
            program = program_of(problem)
            finds = list(program.run(known, Deadline()))
            assert program.best == optimum
            assert [find.bound for find in finds if find.bound is not None][-1] == optimum
            assert any(find.segments is not None for find in finds) == (known > optimum)


def test_a_run_on_many_chiplets_anneals() -> None:
    """Sets of 14 chiplets aren't listed: one window is sought by annealing."""
    instance = made(4, "edp", 2, layers=(9, 8), rows=2, columns=7, batch=16)
    result = solve(instance, "multimodel/one-window", SolveOptions(time_limit=60))
    assert result.objective is not None
    problem = multi_problem(instance)
    windows = whole_models(problem)
    assert windows is not None and result.objective < problem.objective(*terms(problem, windows))


def test_scenario_8_whole_is_solved() -> None:
    instance = scenario(8, pipelined=False, task={"windows": 1})
    problem = multi_problem(instance)
    program = program_of(problem)
    finds = list(program.run(None, Deadline()))
    assert finds[-1].bound == program.best
    windows = [find.segments for find in finds if find.segments is not None]
    certificate = check(instance, schedule(problem, [windows[-1]]))
    assert certificate.feasible and certificate.objective == program.best
    # found by annealing at length, never beaten
    assert certificate.objective is not None and certificate.objective <= 2_249_777_000_000


def test_the_deadline_stops_it() -> None:
    problem = multi_problem(scenario(8, task={"windows": 1}))
    with pytest.raises(Stop):
        list(program_of(problem).run(None, Deadline.after(0.0)))


@pytest.mark.parametrize("objective", ["latency", "energy", "weighted", "edp"])
def test_a_run_with_one_window_ends_with_a_proof(objective: str) -> None:
    instance = made(23, objective, 1, layers=(30, 25), rows=2, columns=3, batch=8)
    result = solve(instance, options=SolveOptions(time_limit=100))
    assert result.status == "optimal" and result.certificate is not None and result.certificate.feasible
