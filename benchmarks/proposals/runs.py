"""Runs of the annealing of ``placement`` from one start, with what is learned or without, by CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import chipmap.methods.placement.rounds as search
from benchmarks.cpu_deadline import CpuDeadline
from benchmarks.proposals.annealing import Learned, anneal_learned
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.simulation.simulator import simulate
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

#: Partitions whose best one is the start.
PARTITIONS = 4
#: Moves of the hill climber between two looks at the clock.
CLIMBED = 50


class Ended(NamedTuple):
    """``found``: (CPU seconds, step in ns) of each better placement; the first one is the start."""

    found: list[tuple[float, int]]

    def best(self, seconds: float) -> int:
        """The step after so many CPU seconds."""
        return min(step for at, step in self.found if at <= seconds)

    def when(self, step: int) -> float | None:
        """After how many CPU seconds the step was as short."""
        return next((at for at, one in self.found if one <= step), None)


class _Watched(ChainState):
    """A state that notes when it has a better placement; nothing is checked, as all sides are spared that alike."""

    def __init__(self, problem: PlacementProblem) -> None:
        super().__init__(problem)
        self.begun, self.found = time.process_time(), list[tuple[float, int]]()

    def tell_best(self, turn: Turn, name: str) -> None:
        """Note it."""
        del turn, name
        assert self.best is not None
        self.found.append((time.process_time() - self.begun, self.best[1]))


def start_of(problem: PlacementProblem) -> IntArray:
    """The devices [N] of the best of some partitions."""
    state, made = ChainState(problem), units(problem)
    begins = state.initial_partitions()
    for seed in range(PARTITIONS):
        devices = partition(problem, made, begins[seed % len(begins)], seed, CpuDeadline(time.process_time() + 1e6))
        state.evaluate_and_keep(devices)
    assert state.best is not None
    return state.best[2]


def annealed(instance: PlacementInstance, start: IntArray, seed: int, seconds: float, one: Learned | None) -> Ended:
    """Rounds of ``placement/search`` from ``start``, for so many CPU seconds; with ``one`` by its annealing."""
    state = _Watched(placement_problem(instance))
    run = Run(instance, SolveOptions(threads=1, seed=seed, time_limit=1e6), check)
    turn = Turn(run, CpuDeadline(time.process_time() + seconds))
    state.evaluate_and_keep(start)
    state.tell_best(turn, "start")
    usual: Callable[..., Any] = search.anneal
    if one is not None:
        setattr(search, "anneal", partial(_called, one))  # noqa: B010
    try:
        search.rounds(state, turn, seed, search.TWO)
    finally:
        setattr(search, "anneal", usual)  # noqa: B010
    return Ended(state.found)


def _called(one: Learned, *arguments: Any) -> Any:
    return anneal_learned(*arguments, one)


def climbed(instance: PlacementInstance, start: IntArray, seed: int, seconds: float) -> Ended:
    """One random move: a random unit goes to a random device, and stays there if the step is no longer."""
    state, random = _Watched(placement_problem(instance)), np.random.default_rng(seed)
    problem, made = state.problem, units(state.problem)
    state.evaluate_and_keep(start)
    assert state.best is not None
    over, step, device, key = state.best
    found, none = [(0.0, step)], np.zeros(problem.operations, dtype=np.int64)
    while True:
        for _ in range(CLIMBED):
            level = random.integers(len(made.at))
            number = made.unit[level, random.integers(problem.operations)]
            members = made.members[level, made.at[level, number] : made.at[level, number + 1]]
            to = random.integers(problem.devices)
            if not problem.allowed[members, to].all():
                continue
            there = device.copy()
            there[members] = to
            value = int(simulate(state.tables, there, key, False, none, step + 1, state.work))
            if value < 0 or (over == 0 and state.placed(there, key, state.work) is None):
                continue
            if value < step:
                found.append((time.process_time() - state.begun, value))
            device, step = there, value
        if time.process_time() - state.begun > seconds:
            return Ended(found)
