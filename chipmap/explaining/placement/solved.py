"""Solving within an explanation: the instance by its best chain, a changed one from the placement at hand."""

from __future__ import annotations

import numpy as np

from chipmap.family import family_of
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.offload import loosest
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.placement.bounding import bound_by_windows
from chipmap.methods.placement.chain import (
    BOUND,
    MODEL,
    SEARCH,
    auto,
    best_of_partitions_if_large,
    bound_at_once,
    links_of,
    start,
)
from chipmap.methods.placement.chain_state import ChainState
from chipmap.result import Termination
from chipmap.run import Run

#: The share of a change's time that its bounds may take.
BOUNDS_SHARE = 0.6


def solve(instance: PlacementInstance, run: Run) -> tuple[Termination, ChainState]:
    """The best chain, and what it has learned."""
    if instance.task.fetch_bytes_per_ns is not None:
        return auto(instance, run), ChainState(loosest(placement_problem(instance)))
    state = ChainState(placement_problem(instance))
    links = links_of(instance, plain=family_of(instance).is_small(instance))
    return run.attempt(lambda: follow(links, state, Turn(run, run.deadline))), state


def solve_from(instance: PlacementInstance, run: Run, known: PlacementSolution | None) -> Termination:
    """A changed instance: bounds first, as they say what the change allows at best, then a search from ``known``."""
    if instance.task.fetch_bytes_per_ns is not None:
        return auto(instance, run)
    state = ChainState(placement_problem(instance))
    if known is None or not state.problem.timed:
        links = links_of(instance, plain=family_of(instance).is_small(instance))
    else:
        devices, keys = state.problem.devices_of(known), _starts(state, known)

        def begin(state: ChainState, turn: Turn) -> None:
            better = (
                state.evaluate_and_keep(devices, keys) and state.best is not None and state.best[1] < (run.upper or 0)
            )
            if better:
                state.tell_best(turn, "placement at hand, decoded")

        windows = Link("windows", BOUNDS_SHARE, bound_by_windows)
        links = (BOUND, Link("known", 1.0, begin), windows, Link("start", 0.2, start),
                 Link("partition", 0.2, best_of_partitions_if_large), SEARCH, MODEL)  # fmt: skip
    return run.attempt(lambda: follow(links, state, Turn(run, run.deadline)))


def bound_first(instance: PlacementInstance, run: Run) -> None:
    """What is known at once: the work of all operations, and what can't be placed at all."""
    run.attempt(lambda: bound_at_once(ChainState(placement_problem(instance)), Turn(run, run.deadline)))


def _starts(state: ChainState, known: PlacementSolution) -> IntArray:
    """The starts of a schedule as keys: the decoder then runs the operations of a device in much the same order."""
    return np.array([known.start[name] for name in state.problem.names], dtype=np.int64)
