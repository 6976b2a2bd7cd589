"""The decoder against the checker, brute force and schedules worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice, product
from random import Random

import numpy as np
import pytest

from chipmap.heuristics.placement.keys import default_keys, topological
from chipmap.heuristics.placement.simulator import ABORTED, NEVER, NO_ROUTE, schedule, simulate
from chipmap.heuristics.placement.tables import tables, workspace
from chipmap.instances.placement import Links, PlacementInstance, System
from chipmap.instances.placement.problem import placement_problem
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT
from tests.placement.random_instances import made, tiny_instance

HAND = """
from tests.placement.test_simulator import hand_traces
print(hand_traces())
"""


def traced(instance: PlacementInstance, device: list[int]) -> tuple[int, list[int]]:
    """(T, starts of the transfers) by the default keys; the checker says the same T."""
    problem = placement_problem(instance)
    work, devices = workspace(problem), np.array(device, dtype=np.int64)
    step = simulate(tables(problem), devices, default_keys(problem), False, np.zeros(4, np.int64), NEVER, work)
    solution = schedule(problem, devices, work)
    certificate = check(instance, solution)
    assert certificate.feasible and certificate.objective == step
    return step, sorted(transfer.start for transfer in solution.transfers)


def hand_traces() -> list[tuple[int, list[int]]]:
    """a and b on device 0, their readers c and d on devices 1 and 2: ``pair``; ``bus`` with a gap; a gap of devices."""
    rows = [(10_000, 0, 76_000), (10_000, 0, 76_000), (5_000, 0, 0), (5_000, 0, 0)]
    found = []
    for links in (Links(bytes_per_ns=7.6), Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000)):
        found.append(traced(made(rows, [(0, 2), (1, 3)], 3, links), [0, 0, 1, 2]))
    rested = made(rows, [(0, 2), (1, 3)], 3, Links(bytes_per_ns=7.6))
    kinds = [{"name": "gpu", "gap_ns": 5_700}]
    system = System.make(classes=kinds, devices=rested.system.devices, links=rested.system.links)
    found.append(traced(rested.replace(system=system), [0, 0, 1, 2]))
    return found


def test_hand_traces() -> None:
    """Worked out by hand: the bus rests for 25,000 ns, the device for 5,700."""
    assert hand_traces() == [(35_000, [10_000, 20_000]), (60_000, [10_000, 45_000]), (40_700, [10_000, 25_700])]


@pytest.mark.parametrize("seed", ["0", "1", "77"])
def test_hand_traces_in_another_process(seed: str) -> None:
    """Hash seeds and thread counts change nothing."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "NUMBA_NUM_THREADS": str(1 + int(seed) % 2)}
    done = subprocess.run(
        [sys.executable, "-c", HAND], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(hand_traces())


def test_every_decoded_schedule_is_valid() -> None:
    """300 random instances, all devices, three kinds of keys and random ones: the checker's T is the simulator's.

    None is better than the best schedule of all; some are as good, and in a few cases none is.
    """
    random, compared, met, missed = Random(5), 0, 0, 0
    for _ in range(300):
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        if not problem.timed:
            continue
        optimum, _ = brute_force(instance, check)
        work, flat, best = workspace(problem), tables(problem), None
        tail = np.zeros(problem.operations, dtype=np.int64)
        own = np.array([random.randint(0, 3) for _ in range(problem.operations)], dtype=np.int64)
        for chosen in islice(product(*(np.flatnonzero(row) for row in problem.allowed)), 40):
            device = np.array(chosen, dtype=np.int64)
            for key, fifo in ((own, True), (own, False), (topological(problem), False), (default_keys(problem), False)):
                step = simulate(flat, device, key, fifo, tail, NEVER, work)
                assert step != NO_ROUTE
                certificate = check(instance, schedule(problem, device, work))
                assert {one.label for one in certificate.violations} <= {"C0", "C1", "C6"}
                if certificate.terms:
                    assert certificate.terms["T1"] == step
                    compared += 1
                if certificate.feasible:
                    assert optimum is not None and step >= optimum
                    best = step if best is None else min(best, step)
                if step > 0:
                    assert simulate(flat, device, key, fifo, tail, step, work) == ABORTED
                assert simulate(flat, device, key, fifo, tail, step + 1, work) == step
        met += best is not None and best == optimum
        missed += best is not None and best != optimum
    assert compared > 5_000 and met > 100 and missed > 0, (compared, met, missed)
