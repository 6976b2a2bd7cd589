"""The exact program for a pipeline on groups of unequal chips: over (layers done, chips used of each group).

A batch takes the sum of all stages and transfers, and m - 1 times the longest of them. The program gives the least sum
of what takes at most a threshold each, from the last stage to the first. Thresholds are searched by halves: below one,
sums are no less than that of the threshold.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import look
from chipmap.instances.dataflow.offers import NONE, IntArray, Offer, Pipeline, Placed


def best_pipeline(offer: Offer, below: int | None = None) -> Pipeline | None:
    """The stages with which a batch takes least; None where there are none that take less than ``below``."""
    thresholds, rounds = _thresholds(offer), offer.rounds
    free = _least(offer, NONE - 1)
    if free is None:
        return None
    best, limit = free, offer.batch(free)
    todo: list[tuple[int, int, int, int]] = []

    def after(stages: tuple[Placed, ...], low: int) -> None:
        """Thresholds from ``low`` on that are shorter than the longest of these stages."""
        times = offer.times(stages)
        high = bisect_left(thresholds, max(times)) - 1
        if low <= high:
            heappush(todo, (_bound(sum(times), low), low, high, sum(times)))

    def _bound(least: int, low: int) -> int:
        return least + rounds * offer.fixed + (rounds - 1) * thresholds[low]

    after(free, 0)
    while todo:
        bound, low, high, least = heappop(todo)
        if bound >= (limit if below is None else min(limit, below)):
            break
        middle = (low + high) // 2
        if middle < high:
            heappush(todo, (_bound(least, middle + 1), middle + 1, high, least))
        found = _least(offer, thresholds[middle])
        if found is not None:
            if (ticks := offer.batch(found)) < limit:
                best, limit = found, ticks
            after(found, low)
    return Pipeline(limit, best, limit) if below is None or limit < below else None


def _thresholds(offer: Offer) -> list[int]:
    """All times that can be the longest, the least first."""
    found = [offer.ticks.ravel()]
    every = np.unique(offer.hops)
    found += [(found[0][:, None] + every[None, :]).ravel()] if offer.joined else [every]
    return [int(one) for one in np.unique(np.concatenate(found)) if one < NONE]


class _State(NamedTuple):
    """Chips used of each group, and stages placed, as far as it matters how many."""

    used: tuple[int, ...]
    stages: int


class _Step(NamedTuple):
    """A way to come to a state and kind: from a state before, whose first stage is any of ``kinds`` (as a mask), by a
    stage of ``lengths[layers]`` picoseconds; ``before`` [layers + 1] has the least sums with the transfer."""

    state: _State | None
    kinds: NDArray[np.bool_]
    before: IntArray
    lengths: IntArray


def _least(offer: Offer, threshold: int) -> tuple[Placed, ...] | None:
    """The stages of least sum of which none, and no transfer, takes longer than ``threshold``."""
    layers = offer.layers
    shift = np.arange(layers + 1)[:, None] - np.arange(layers + 1)[None, :]
    outside, places = shift < 0, np.maximum(shift, 0)
    sums: dict[_State, IntArray] = {}
    for state in _states(offer):
        look()
        own = np.full((len(offer.kinds), layers + 1), NONE, dtype=np.int64)
        for kind in offer.kinds:
            for step in _steps(offer, sums, state, kind, threshold):
                total = step.before[places] + step.lengths[None, :]
                total[outside] = NONE
                np.minimum(own[kind], total.min(axis=1), out=own[kind])
        if (own < NONE).any():
            sums[state] = own
    ends = [(int(own[k, layers]), state, k) for state, own in sums.items() for k in offer.kinds]
    ends = [one for one in ends if not offer.asked or one[1].stages == len(offer.asked)]
    if not ends or min(ends)[0] >= NONE:
        return None
    return _traced(offer, sums, min(ends)[1:], threshold)


def _traced(
    offer: Offer, sums: dict[_State, IntArray], first: tuple[_State, int], threshold: int
) -> tuple[Placed, ...]:
    """The stages that lead to all layers in a state, the first of this kind."""
    found, left, (state, kind) = list[Placed](), offer.layers, first
    while True:
        wanted, steps = sums[state][kind, left], _steps(offer, sums, state, kind, threshold)
        step, own = next(
            (one, own)
            for one in steps
            for own in range(1, left + 1)
            if one.before[left - own] + one.lengths[own] == wanted
        )
        found.append(Placed(kind, own))
        left -= own
        if step.state is None:
            return tuple(found)
        after = np.where(step.kinds, sums[step.state][:, left] + offer.hops[kind], NONE)
        state, kind = step.state, int(after.argmin())


def _steps(offer: Offer, sums: dict[_State, IntArray], state: _State, kind: int, threshold: int) -> Iterator[_Step]:
    """All ways to come to a state whose first stage is of this kind."""
    group, takes = offer.group[kind], offer.takes[kind]
    if state.used[group] < takes:
        return
    used = (*state.used[:group], state.used[group] - takes, *state.used[group + 1 :])
    most, hops = _counted(offer), offer.hops[kind]
    place = max(0, state.stages - 1)
    lengths = np.where(offer.asked[place][kind], offer.at(place)[kind], NONE) if offer.asked else offer.at(place)[kind]
    if not any(used):
        if state.stages == min(1, most):
            before = np.full(offer.layers + 1, NONE, dtype=np.int64)
            before[0] = 0
            yield _Step(None, np.ones(len(offer.kinds), dtype=np.bool_), before, _within(lengths, threshold))
        return
    again = not offer.asked and state.stages == most
    for stages in dict.fromkeys((place, state.stages) if again else (place,)):
        earlier = _State(used, stages)
        own = sums.get(earlier)
        if own is None:
            continue
        there = (own < NONE).any(axis=1)
        for hop in dict.fromkeys(int(one) for one in hops[there]) if offer.joined else (None,):
            kinds = there & (hops <= threshold if hop is None else hops == hop)
            joined = np.where(kinds[:, None], own + hops[:, None], NONE).min(axis=0)
            yield _Step(earlier, kinds, np.minimum(joined, NONE), _within(lengths, threshold - (hop or 0)))


def _within(lengths: IntArray, threshold: int) -> IntArray:
    found: IntArray = np.where(lengths <= threshold, lengths, NONE)
    return found


def _counted(offer: Offer) -> int:
    """Up to which number it matters how many stages there are; 0: it never does."""
    places = offer.ticks.shape[0]
    return len(offer.asked) or (places if places > 1 else 0)


def _states(offer: Offer) -> list[_State]:
    """All states but that without stages, each after those that it can be come to from."""
    used = product(*(range(count + 1) for count in offer.chips))
    most = _counted(offer)
    steps = range(1, most + 1) if most else (0,)
    return [_State(one, step) for one in sorted(used, key=sum) if any(one) for step in steps if step <= sum(one)]
