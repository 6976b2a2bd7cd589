"""The exact program for a pipeline on groups of unequal chips: over (layers done, chips used of each group).

A batch takes the sum of all stages and transfers, and m - 1 times the longest of them. The program gives the least sum
of what takes at most a threshold each; thresholds rise until the longest alone makes the batch as long as the best.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from chipmap.deadline import look
from chipmap.instances.dataflow.offers import NONE, IntArray, Offer, Pipeline, Placed


def best_pipeline(offer: Offer, below: int | None = None) -> Pipeline | None:
    """The stages with which a batch takes least; None where there are none that take less than ``below``."""
    every = np.unique(np.concatenate([offer.ticks.ravel(), offer.hops.ravel()]))
    thresholds = [int(one) for one in every if one < NONE]
    free = _least(offer, NONE - 1)
    if free is None:
        return None
    best, limit = free, offer.batch(free)
    low, high = 0, len(thresholds) - 1
    while low < high:  # the least threshold with any stages
        middle = (low + high) // 2
        low, high = (low, middle) if _least(offer, thresholds[middle]) else (middle + 1, high)
    least = sum(offer.times(free)) + offer.rounds * offer.fixed
    for threshold in thresholds[low:]:
        if least + (offer.rounds - 1) * threshold >= (limit if below is None else min(limit, below)):
            break
        found = _least(offer, threshold)
        if found is not None and (ticks := offer.batch(found)) < limit:
            best, limit = found, ticks
    return Pipeline(limit, best, limit) if below is None or limit < below else None


#: Chips used of each group, and stages placed where each is asked for (else 0).
_State = tuple[tuple[int, ...], int]


def _least(offer: Offer, threshold: int) -> tuple[Placed, ...] | None:
    """The stages of least sum of which none, and no transfer, takes longer than ``threshold``."""
    count, layers = offer.ticks.shape[0], offer.ticks.shape[1] - 1
    ticks = np.where(offer.ticks <= threshold, offer.ticks, NONE)
    hops = np.where(offer.hops <= threshold, offer.hops, NONE)
    shift = np.arange(layers + 1)[:, None] - np.arange(layers + 1)[None, :]
    inside, places = shift >= 0, np.maximum(shift, 0)
    sums: dict[_State, IntArray] = {}
    came: dict[tuple[_State, int], tuple[_State, IntArray, IntArray]] = {}
    nothing = np.full(layers + 1, NONE, dtype=np.int64)
    for state in _states(offer):
        look()
        own = np.full((count, layers + 1), NONE, dtype=np.int64)
        for kind in range(count):
            before = _before(offer, state, kind)
            if before is None or (before not in sums and any(before[0])):
                continue
            lengths, previous, last = ticks[kind], nothing.copy(), np.zeros(layers + 1, dtype=np.int64)
            if not any(before[0]):
                previous[0] = 0
            else:
                joined = np.minimum(sums[before] + hops[:, kind, None], NONE)
                last, previous = joined.argmin(axis=0), joined.min(axis=0)
            if offer.asked:
                lengths = np.where(offer.asked[before[1]][kind], lengths, NONE)
            total = np.where(inside, previous[places] + lengths[None, :], NONE)
            own[kind] = np.minimum(total.min(axis=1), NONE)
            came[state, kind] = before, total.argmin(axis=1), last
        if (own < NONE).any():
            sums[state] = own
    ends = [(int(own[k, layers]), state, k) for state, own in sums.items() for k in range(count)]
    ends = [one for one in ends if not offer.asked or one[1][1] == len(offer.asked)]
    if not ends or min(ends)[0] >= NONE:
        return None
    _, state, kind = min(ends)
    found, left = list[Placed](), layers
    while True:
        before, lengths, last = came[state, kind]
        own_layers = int(lengths[left])
        found.append(Placed(kind, own_layers))
        left -= own_layers
        if not any(before[0]):
            return tuple(reversed(found))
        state, kind = before, int(last[left])


def _states(offer: Offer) -> list[_State]:
    """All states but the first one, those with fewest chips first."""
    used = product(*(range(count + 1) for count in offer.chips))
    steps = range(1, len(offer.asked) + 1) if offer.asked else (0,)
    return [(one, step) for one in sorted(used, key=sum) if any(one) for step in steps]


def _before(offer: Offer, state: _State, kind: int) -> _State | None:
    """The state that a stage of this kind was added to; None where there is none."""
    used, step = state
    group, takes = offer.group[kind], offer.takes[kind]
    if used[group] < takes:
        return None
    earlier = (*used[:group], used[group] - takes, *used[group + 1 :])
    if offer.asked and (step == 1) != (not any(earlier)):
        return None
    return earlier, max(0, step - 1)
