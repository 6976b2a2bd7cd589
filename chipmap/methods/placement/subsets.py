"""Fewer devices as a start: where a graph is long, the fastest few devices have time enough for all of its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np

from chipmap.heuristics.placement.bounds.simple import HeadsAndTails, path
from chipmap.heuristics.placement.shared import common_devices
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: The time of everything on a device that is left out, over that on the slowest one.
FAR = 1_000
#: Operations up to which it is looked whether fewer devices do, as that takes heads and tails.
LARGEST = 20_000


def alternate_device_subsets(
    problem: PlacementProblem, begins: Sequence[IntArray], windows: Callable[[], HeadsAndTails]
) -> Iterator[tuple[PlacementProblem, IntArray]]:
    """(problem, placement to begin with) for one partition after the other, without an end.

    Those on all devices begin with each of ``begins`` in turn. Where fewer devices do, every other one is on these.
    """
    all_of, few = cycle(begins), None
    while True:
        yield problem, next(all_of)
        if problem.operations <= LARGEST and few is None:
            few = fewest(problem, windows())
        if few is not None and len(few) < problem.devices:
            yield within(problem, few)


def fewest(problem: PlacementProblem, w: HeadsAndTails) -> list[int]:
    """The fastest devices, so many that all work shared out over them takes no longer than the longest path.

    All devices where fewer don't do, or where an operation must run on another one.
    """
    whole = problem.time.sum(axis=0)
    order, rate, chosen = np.argsort(whole, kind="stable").tolist(), 0.0, list[int]()
    for d in order:
        chosen.append(d)
        rate += 1 / max(1, int(whole[d]))
        if len(chosen) > 1 and 1 / rate <= path(w):
            break
    return chosen if common_devices(problem)[:, chosen].any(axis=1).all() else order


def within(problem: PlacementProblem, chosen: list[int]) -> tuple[PlacementProblem, IntArray]:
    """(the problem with only these devices allowed, a placement on them): a restriction."""
    mask = np.isin(np.arange(problem.devices), chosen)
    far = FAR * int(problem.time.sum(axis=0).max(initial=1)) // max(1, problem.operations) + 1
    left = replace(problem, allowed=problem.allowed & mask, time=np.where(mask, problem.time, far))
    return left, common_devices(left).argmax(axis=1).astype(np.int64)
