"""Keys from schedules run backwards: the schedules hold, the keys know busy devices, and a start is never the worse."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np

from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.simulation.backward import backward, backward_keys
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.heuristics.placement.starts import human
from chipmap.instances.placement import Links
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.placement.chain_state import ChainState
from tests.placement.random_instances import made, tiny_instance


def holds(problem: PlacementProblem, device: IntArray, start: IntArray, last: int) -> bool:
    """C2, C3 but for channels, and C4, in plain loops; nothing ends after ``last``."""
    end = [int(start[v] + problem.time[v, device[v]]) for v in range(problem.operations)]
    for v in range(problem.operations):
        for s in problem.producers[v]:
            u = int(problem.storages.producer[s])
            kind, c = int(problem.network.kind[device[u], device[v]]), 0
            if device[u] != device[v]:
                c = int(problem.storages.time[s, kind])
            if start[v] < end[u] + c:
                return False
    for d in range(problem.devices):
        busy = sorted((int(start[v]), end[v]) for v in np.flatnonzero(device == d).tolist() if start[v] < end[v])
        if any(later < ended + problem.gap[d] for (_, ended), (later, _) in pairwise(busy)):
            return False
    return bool((start >= 0).all()) and max(end) <= last


def test_schedules_run_backwards_hold() -> None:
    """400 random instances of all links, random devices and ranks. Without channels none of them can be later."""
    random, tight, kinds = Random(5), 0, set[str]()
    for _ in range(400):
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        flat, work, none = tables(problem), workspace(problem), np.zeros(problem.operations, dtype=np.int64)
        if not problem.timed or simulate(flat, device, default_keys(problem), False, none, NEVER, work) < 0:
            continue
        rank = np.array(random.sample(range(problem.operations), problem.operations), dtype=np.int64)
        done = np.zeros(problem.operations, dtype=np.int64)
        last = backward(flat, device, rank, work, done)
        assert holds(problem, device, last - done, last)
        kinds.add(str(getattr(instance.system.links, "kind", "routes")))
        if problem.network.count == 0:
            later = np.eye(problem.operations, dtype=np.int64)[problem.time.min(axis=1) > 0]
            assert not any(holds(problem, device, last - done + one, last) for one in later)
            tight += 1
    assert tight >= 20 and len(kinds) >= 4, (tight, kinds)


def test_a_busy_device_makes_what_feeds_it_urgent() -> None:
    """b feeds eight operations of 20 us on a device, a one of 60 us: by the upward rank a goes first, and 10 us late.

    T = 10 + 10 + 160 by the rank, 10 + 160 by the keys of the schedule run backwards (transfers take no time).
    """
    rows = [(10_000, 0, 1), (10_000, 0, 1), (60_000, 0, 0), *[(20_000, 0, 0)] * 8]
    problem = placement_problem(made(rows, [(0, 2), *((1, k) for k in range(3, 11))], 3, Links(kind="none")))
    device = np.array([0, 0, 2, *[1] * 8], dtype=np.int64)
    flat, work, none = tables(problem), workspace(problem), np.zeros(11, dtype=np.int64)
    assert simulate(flat, device, default_keys(problem), False, none, NEVER, work) == 180_000
    assert simulate(flat, device, backward_keys(flat, device, work), False, none, NEVER, work) == 170_000


def test_a_start_is_weighed_with_the_better_keys() -> None:
    """GNMT with layers in turn on 4 devices: shorter than by the rank, and as long as the keys that are kept say."""
    problem = placement_problem(training_step("gnmt", {"steps": 8}, devices=4))
    state = ChainState(problem)
    device = human.split(problem, "round robin", human.layers(problem))
    alone = int(simulate(state.tables, device, state.key, False, state.none, NEVER, state.work))
    assert state.evaluate_and_keep(device) and state.best is not None
    _, step, devices, key = state.best
    assert step < alone and (devices == device).all()
    assert step == simulate(state.tables, devices, key, False, state.none, NEVER, state.work)
