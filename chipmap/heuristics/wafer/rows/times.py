"""The best target time of a family of floorplans whose remaining cost falls as the time grows: exact branch and bound.

For a family F(tau) of floorplans whose kernels all run within tau, F grows with tau, so the least wire and adapter cost
R(tau) falls. For tau in an open interval (a, b) hence w_t · tau + R(tau) >= w_t · (a + 1) + R(b), and the interval is
dropped or split. A floorplan found at tau whose slowest kernel takes t <= tau settles [t, tau] at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Trial(NamedTuple, Generic[T]):
    """What is known at a target time: a lower bound on R (ticks) and a floorplan with its score and actual time."""

    rest: int
    score: int
    time: int
    found: T | None


class Times(NamedTuple, Generic[T]):
    """The best score and floorplan, the least lower bound on any score, and the number of target times tried."""

    score: int
    found: T | None
    bound: int
    tried: int


def search_times(
    attempt: Callable[[int], Trial[T]],
    low: int,
    high: int,
    weight: int,
    infinite: int,
    keep_going: Callable[[], bool],
    improved: Callable[[int, T], None],
    cutoff: int | None = None,
    resolution: int | None = None,
) -> Times[T]:
    """Minimise over target times low <= tau <= high (quarters) with time weight ``weight``.

    ``attempt(tau)`` returns the trial at tau; ``rest >= infinite`` says that no floorplan runs within tau. Scores from
    ``cutoff`` on are of no interest. The search is exact when each trial's score is weight · time + rest; otherwise
    the result's bound says what is left. Intervals narrower than their end / ``resolution`` aren't split (their bound
    counts). ``keep_going`` is asked before every attempt.
    """
    best, found, tried = infinite if cutoff is None else cutoff, None, 0
    settled = infinite

    def at(tau: int) -> Trial[T]:
        """Attempt ``tau``; what it finds is reported and remembered."""
        nonlocal best, found, tried, settled
        tried += 1
        trial = attempt(tau)
        if trial.found is not None:
            settled = min(settled, weight * trial.time + trial.rest)
            if trial.score < best:
                best, found = trial.score, trial.found
                improved(best, trial.found)
        return trial

    heap: list[tuple[int, int, int, int]] = []

    def push(a: int, b: int, rest: int) -> None:
        nonlocal settled
        if resolution is not None and (b - a) * resolution <= b and b - a > 1:
            settled = min(settled, weight * (a + 1) + rest)
        elif b - a > 1:
            heapq.heappush(heap, (weight * (a + 1) + rest, a, b, rest))

    trial = at(high)
    if trial.rest < infinite:
        push(low - 1, trial.time, trial.rest)
    while heap and heap[0][0] < best and keep_going():
        _, a, b, rest = heapq.heappop(heap)
        middle = math.isqrt(max(a, 1) * b) if b > 2 * a else (a + b) // 2
        middle = min(max(middle, a + 1), b - 1)
        trial = at(middle)
        if trial.rest >= infinite:
            push(middle, b, rest)
            continue
        push(middle, b, rest)
        push(a, min(trial.time, middle) if trial.found is not None else middle, trial.rest)
    bound = min(settled, heap[0][0] if heap else infinite, best)
    return Times(best, found, bound, tried)
