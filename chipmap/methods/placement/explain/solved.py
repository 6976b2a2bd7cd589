"""Solving within an explanation: the instance by its best chain, a changed one from the placement at hand."""

from __future__ import annotations

import numpy as np

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.placement.bounding import bound_by_windows
from chipmap.methods.placement.chain import (
    BOUND,
    MODEL,
    SEARCH,
    STEP_TIME,
    THROUGHPUT,
    bound_at_once,
    spread_if_large,
    start,
)
from chipmap.methods.placement.stages import Stages
from chipmap.result import Termination
from chipmap.run import Run

#: The share of a change's time that its bounds may take.
BOUNDS_SHARE = 0.6


def solve(instance: PlacementInstance, run: Run) -> tuple[Termination, Stages]:
    """The best chain, and what it has learned."""
    stages = Stages(placement_problem(instance))
    links = STEP_TIME if stages.problem.timed else THROUGHPUT
    return run.attempt(lambda: follow(links, stages, Turn(run, run.deadline))), stages


def solve_from(instance: PlacementInstance, run: Run, known: PlacementSolution | None) -> Termination:
    """A changed instance: bounds first, as they say what the change allows at best, then a search from ``known``."""
    stages = Stages(placement_problem(instance))
    if known is None or not stages.problem.timed:
        links = STEP_TIME if stages.problem.timed else THROUGHPUT
    else:
        devices, keys = stages.problem.devices_of(known), _starts(stages, known)

        def begin(stages: Stages, turn: Turn) -> None:
            better = stages.weigh(devices, keys) and stages.best is not None and stages.best[1] < (run.upper or 0)
            if better:
                stages.tell_best(turn, "placement at hand, decoded")

        windows = Link("windows", BOUNDS_SHARE, bound_by_windows)
        links = (BOUND, Link("known", 1.0, begin), windows, Link("start", 0.2, start),
                 Link("partition", 0.2, spread_if_large), SEARCH, MODEL)  # fmt: skip
    return run.attempt(lambda: follow(links, stages, Turn(run, run.deadline)))


def bound_first(instance: PlacementInstance, run: Run) -> None:
    """What is known at once: the work of all operations, and what can't be placed at all."""
    run.attempt(lambda: bound_at_once(Stages(placement_problem(instance)), Turn(run, run.deadline)))


def _starts(stages: Stages, known: PlacementSolution) -> IntArray:
    """The starts of a schedule as keys: the decoder then runs the operations of a device in much the same order."""
    return np.array([known.start[name] for name in stages.problem.names], dtype=np.int64)
