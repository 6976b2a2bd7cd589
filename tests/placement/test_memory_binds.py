"""Where memory binds: a valid placement at once, though what people and METIS would write down overflows."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chipmap.heuristics.placement.bounds.at_once import at_once
from chipmap.heuristics.placement.keys import by_rank
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.frugal import (
    curves_one_by_one,
    frugal_order,
    held_static,
    peaks_at_least,
    peaks_of,
)
from chipmap.heuristics.placement.starts.in_order import times_alone, times_in_order
from chipmap.inputs.reading import read
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement import at_once as known
from chipmap.methods.placement.first import first
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import Facts
from chipmap.validation.placement.memory import Placed
from tests.lanes import of_all
from tests.placement.random_instances import tiny_instance

ROOT = Path(__file__).resolve().parents[2]


def tight(name: str) -> PlacementInstance:
    """A shipped instance with 1.1 times all bytes over its devices on each, counted for the whole step."""
    free = read(name)
    assert isinstance(free, PlacementInstance)
    problem = placement_problem(free)
    limit = math.ceil(1.1 * int(problem.weights.sum() + problem.storages.bytes.sum()) / problem.devices)
    devices = tuple(one.replace(memory_bytes=limit) for one in free.system.devices)
    return free.replace(task=free.task.replace(memory="static"), system=free.system.replace(devices=devices))


@pytest.mark.parametrize("name", ["transformer-xl-2", "transformer-xl-4", "transformer-xl-8"])
def test_the_starts_fit_where_human_splits_overflow(name: str) -> None:
    instance = tight(f"placement/{name}-pcie")
    plain = solve(instance, "human", SolveOptions(threads=1))
    assert plain.solution is None
    overflows = [note.text for note in plain.notes if note.kind == "left out"]
    assert len(overflows) == 3 and all("C6" in text and "bytes" in text for text in overflows)
    found = solve(instance, "starts", SolveOptions(threads=1, deterministic=True))
    assert found.certificate is not None and found.certificate.feasible


def live(random: Random) -> PlacementInstance:
    """A tiny instance whose memory is counted over time."""
    while True:
        found = tiny_instance(random)
        if found.task.objective == "step_time":
            return found.replace(task=found.task.replace(memory="live"))


def test_peaks_of_schedules_are_those_of_the_checker() -> None:
    """Random schedules with rule ``live``, and placements with rule ``static``."""
    random, made, tight = Random(5), 0, 0
    for _ in range(of_all(600, few=150)):
        instance = live(random)
        problem = placement_problem(instance)
        device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        order = frugal_order(problem)
        rank = {v: i for i, v in enumerate(order)}
        assert sorted(order) == list(range(problem.operations))
        assert all(rank[u] < rank[v] for u, v in zip(problem.storages.sources, problem.storages.readers, strict=True))
        for schedule in (times_in_order, times_alone):
            times = schedule(problem, device, order)
            if times is None:
                continue
            solution = problem.solution(device, times.start, times.moves)
            found = Placed(Facts(instance), solution).peaks.values()
            assert peaks_of(problem, device, times).tolist() == [peak.bytes for peak in found]
            assert (peaks_at_least(problem, device, order) <= peaks_of(problem, device, times)).all()
            tight += bool((peaks_at_least(problem, device, order) == peaks_of(problem, device, times)).all())
            static = instance.replace(task=instance.task.replace(memory="static"))
            found = Placed(Facts(static), solution).peaks.values()
            assert held_static(placement_problem(static), device).tolist() == [peak.bytes for peak in found]
            made += 1
        if times is not None and min((time for row in problem.time for time in row), default=1) > 0:
            assert (peaks_of(problem, device, times) <= curves_one_by_one(problem, device, order).max(axis=1)).all()
    assert made > 100 and tight > made // 5


def test_what_is_held_at_once_is_a_bound_on_every_memory() -> None:
    """Memories of all devices together one byte below it leave no placement, by brute force."""
    random, proved = Random(11), 0
    for _ in range(of_all(400, few=60)):
        instance = live(random)
        problem = placement_problem(instance)
        needs = [at_once(problem, v)[0] for v in range(problem.operations) if problem.time[v].min() > 0]
        share = (max(needs, default=0) - 1) // problem.devices
        if share < 0:
            continue
        devices = tuple(one.replace(memory_bytes=share) for one in instance.system.devices)
        small = instance.replace(system=instance.system.replace(devices=devices))
        assert brute_force(small, check)[0] is None
        proved += 1
    assert proved > 20


def larger_than_its_memory(share: float) -> PlacementInstance:
    """A chain of segments whose activations don't fit at a time if the forward pass runs first; memories of all devices
    together are ``share`` of what an order that holds little needs."""
    shape = {"layers": 3, "segments": 16, "hidden": 32, "length": 16, "batch": 4, "vocabulary": 64}
    instance = training_step("transformer-xl", shape, 3, optimizer="sgd")
    problem = placement_problem(instance)
    together = np.zeros(problem.operations, dtype=np.int64)
    limit = int(share * int(curves_one_by_one(problem, together, frugal_order(problem))[0].max()) / 3)
    devices = tuple(one.replace(memory_bytes=limit) for one in instance.system.devices)
    return instance.replace(system=instance.system.replace(devices=devices))


def test_a_first_mapping_where_forward_first_overflows() -> None:
    instance = larger_than_its_memory(1.6)
    problem = placement_problem(instance)
    for kind in human.SPLITS:
        device = human.split(problem, kind)
        times = times_in_order(problem, device, by_rank(problem).tolist())
        assert times is not None and (peaks_of(problem, device, times) > problem.memory).any()
    run = Run(instance, SolveOptions(threads=1), check)
    first(instance, run)
    assert run.best is not None and run.best.certificate.feasible


def test_what_no_schedule_can_hold_is_said_at_once() -> None:
    instance = larger_than_its_memory(0.5)
    run = Run(instance, SolveOptions(threads=1), check)
    known.at_once(instance, run)
    assert run.closed and run.best is None
    found = solve(instance, "auto", SolveOptions(threads=1))
    assert found.status == "infeasible" and found.infeasibility[0].labels == ("C2", "C3", "C6")
    assert "all devices together hold" in found.infeasibility[0].message


#: ``placement/auto`` in plain Python, where reading beyond an array is an error.
PLAIN = """
from chipmap.run import SolveOptions
from chipmap.solve import solve
from tests.placement.random_instances import random_instance

instance = random_instance(operations=8, devices=3, seed=61205, memory=0.5, task={"memory": "live"})
for method in ("placement/auto", "placement/cpsat"):
    print(solve(instance, method, SolveOptions.make(deterministic=True, threads=1), isolate=False).objective)
"""


def test_what_memory_refuses_leaves_nothing_behind() -> None:
    """The search doesn't go on from moments that it kept of a candidate that memory refused."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", PLAIN], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "Error" not in done.stderr and done.stdout.split() == ["36", "36"]
