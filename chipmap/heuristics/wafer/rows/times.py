"""The best target time of a family of floorplans whose remaining cost falls as the time grows: exact branch and bound.

For a family F(tau) of floorplans whose kernels all run within tau, F grows with tau, so the least wire and adapter cost
R(tau) falls. For tau in an open interval (a, b) hence w_t · tau + R(tau) >= w_t · (a + 1) + R(b), and the interval is
dropped or split. A floorplan found at tau whose slowest kernel takes t <= tau settles [t, tau] at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.wafer.rows.kernel import INF

T = TypeVar("T")


class TimeTrial(NamedTuple, Generic[T]):
    """What is known at a target time: a lower bound on R (ticks) and a floorplan with its score and actual time.

    ``rest`` is INF where no floorplan runs within the target time.
    """

    rest: int
    score: int
    time: int
    found: T | None


class Targets(NamedTuple):
    """The target times low <= tau <= high (quarters) that are searched, each quarter at ``weight`` ticks.

    Intervals narrower than their end / ``resolution`` aren't split; their bound counts.
    """

    low: int
    high: int
    weight: int
    resolution: int | None = None


class Times(NamedTuple, Generic[T]):
    """The best score and floorplan, the least lower bound on any score, and the number of target times tried."""

    score: int
    found: T | None
    bound: int
    tried: int


def search_times(
    attempt: Callable[[int], TimeTrial[T]],
    targets: Targets,
    deadline: Deadline,
    improved: Callable[[int, T], None],
    cutoff: int | None = None,
) -> Times[T]:
    """Minimise the score over ``targets`` by the trials ``attempt(tau)``, until ``deadline``.

    Scores from ``cutoff`` on are of no interest. The search is exact when each trial's score is weight · time + rest;
    otherwise the result's bound says what is left.
    """
    low, high, weight, resolution = targets
    best, found, tried = INF if cutoff is None else cutoff, None, 0
    settled = INF
    # intervals (bound, a, b, rest) of times a < tau < b that are left; the first trial is at the latest time
    heap = [(weight * low, low - 1, high + 1, 0)]

    def push(a: int, b: int, rest: int) -> None:
        nonlocal settled
        if resolution is not None and (b - a) * resolution <= b and b - a > 1:
            settled = min(settled, weight * (a + 1) + rest)
        elif b - a > 1:
            heapq.heappush(heap, (weight * (a + 1) + rest, a, b, rest))

    with suppress(Stop):
        while heap and heap[0][0] < best:
            deadline.check()
            _, a, b, rest = heap[0]
            middle = math.isqrt(max(a, 1) * b) if b > 2 * a else (a + b) // 2
            middle = min(max(middle, a + 1), b - 1) if tried else high
            trial = attempt(middle)
            tried += 1
            heapq.heappop(heap)
            push(middle, b, rest)
            if trial.found is not None:
                settled = min(settled, weight * trial.time + trial.rest)
                if trial.score < best:
                    best, found = trial.score, trial.found
                    improved(best, trial.found)
            if trial.rest < INF:
                push(a, min(trial.time, middle), trial.rest)
    return Times(best, found, min(settled, heap[0][0] if heap else INF, best), tried)
