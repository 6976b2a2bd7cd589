"""Divided windows and annealing of a few windows, on random instances, against the checker."""

from __future__ import annotations

from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing import division
from chipmap.heuristics.multimodel.annealing.division import Divisions, divided, used_windows
from chipmap.heuristics.multimodel.annealing.moves import anneal
from chipmap.heuristics.multimodel.annealing.search import Annealing, segments
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.instances.multimodel.problem import multi_problem, schedule
from chipmap.validation.multimodel.checker import check
from tests.multimodel.test_search import larger


def test_a_divided_window_leaves_a_valid_schedule() -> None:
    """Every cut of every window keeps to C0 to C5 once empty windows go; many do part the window."""
    random, parted = Random(5), 0
    for seed in range(20):
        instance = larger(random)
        problem = multi_problem(instance)
        start = whole_models(problem)
        assert start is not None
        windows = [window for window in start if window]
        if len(windows) == problem.windows:
            continue
        windows += [[] for _ in range(problem.windows - len(windows))]
        for draw in range(10):
            made = divided(windows, 0, np.random.default_rng(100 * seed + draw))
            assert len(made) == problem.windows
            solution = schedule(problem, [window for window in made if window])
            certificate = check(instance, solution)
            assert certificate.feasible, certificate.violations
            parted += used_windows(made) > used_windows(windows)
    assert parted > 50, parted


def test_other_windows_stay_as_they_are() -> None:
    """Whatever is moved in the windows in focus, the segments of the others are those of before."""
    random, changed = Random(9), 0
    for seed in range(12):
        problem = multi_problem(larger(random))
        start = whole_models(problem)
        assert start is not None
        search = Annealing(problem, start, seed)
        list(search.run(500, Deadline(), 0.5, 0.5))
        before, low = segments(search.state), seed % (problem.windows - 1)
        search.room.focus[:] = low, low + 2
        anneal(search.tables, search.state, search.best, search.room, 2_000, 0.5, 0.5, 0.1)
        behind = segments(search.state)
        for w, (one, other) in enumerate(zip(before, behind, strict=True)):
            assert low <= w < low + 2 or one == other
        changed += before != behind
    assert changed > 6, changed


def test_what_divisions_find_is_valid_and_worth_what_they_say() -> None:
    """Each find is better than the one before, by the checker; the pool keeps few schedules of a number of windows."""
    random, found = Random(3), 0
    for seed in range(6):
        instance = larger(random)
        problem = multi_problem(instance)
        start = whole_models(problem)
        assert start is not None
        search, pool = Annealing(problem, start, seed), Divisions(problem, seed)
        pool.take(float(search.best.value[0]), start)
        last = check(instance, schedule(problem, start)).objective
        assert last is not None
        for windows in pool.run(400_000, Deadline()):
            certificate = check(instance, schedule(problem, windows))
            assert certificate.feasible, certificate.violations
            assert certificate.objective is not None and certificate.objective <= last
            last, found = certificate.objective, found + 1
        sizes = [used_windows(windows) for _, windows in pool.pool]
        assert max(sizes.count(size) for size in sizes) <= division.EACH
    assert found > 6, found
