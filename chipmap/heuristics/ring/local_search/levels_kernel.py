"""The compiled annealing of a mapping whose chips stand in levels (numba): moves that keep C1 and C3 by construction.

What levels are, :mod:`chipmap.heuristics.ring.local_search.levels` says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.local_search.loads_kernel import Goal, Net, Place, excess, over
from chipmap.heuristics.ring.local_search.moves_kernel import MOST_TOGETHER, NEVER, SMALL, Heat, _move, _reach
from chipmap.kernels import njit
from chipmap.kernels.annealing import uniform

#: The share of the moves that stay within a level.
SIDEWAYS = 0.15


class Levels(NamedTuple):
    """The level ``of`` each chip [C], ascending; level k has the chips ``first[k]`` … ``first[k + 1] - 1``. ``to`` [n]
    holds where an operation is about to move.
    """

    of: Any
    first: Any
    to: Any


@njit(cache=True)
def _where(levels: Levels, here: int, before: int, d: int, reader: bool) -> int:
    """Where a reader (else a producer) on chip ``here`` of an operation has to go when that one goes from chip
    ``before`` to d: ``here`` if it may stay, -1 if no chip is known.
    """
    side = 1 if reader else -1
    apart = side * (levels.of[here] - levels.of[d])
    if here == d or apart == 1:
        return here
    if apart < 1:
        return d
    return before if side * (levels.of[before] - levels.of[d]) == 1 else -1


@njit(cache=True)
def _along(net: Net, place: Place, levels: Levels, v: int, d: int, found: Any) -> int:
    """The operations ``found`` that must move when v moves to chip d, and v: their number, 0 where they are too many or
    contradict each other. ``levels.to`` says where each goes.
    """
    place.marked[-1] += 1
    mark = place.marked[-1]
    place.marked[v], levels.to[v] = mark, d
    found[0], count, done = v, 1, 0
    while done < count:
        u = found[done]
        done += 1
        for kind in range(2):
            reader = kind == 0
            firsts, storages = (net.made_first, net.made) if reader else (net.reads_first, net.reads)
            for at in range(firsts[u], firsts[u + 1]):
                s = storages[at]
                for r in range(net.readers_first[s], net.readers_first[s + 1] if reader else net.readers_first[s] + 1):
                    w = net.readers[r] if reader else net.producer[s]
                    known = place.marked[w] == mark
                    here = levels.to[w] if known else place.chip[w]
                    to = _where(levels, here, place.chip[u], levels.to[u], reader)
                    if to == here:
                        continue
                    if known or to < 0 or count == MOST_TOGETHER:
                        return 0
                    place.marked[w], levels.to[w] = mark, to
                    found[count] = w
                    count += 1
    found[:count].sort()
    return count


@njit(cache=True)
def _draw(net: Net, place: Place, levels: Levels, random: Any, found: Any, to: Any) -> int:
    """A random move: the operations ``found`` and their chips ``to``; their number, 0 for none."""
    v = int(uniform(random) * len(net.ticks))
    c = place.chip[v]
    kind = uniform(random)
    level = levels.of[c]
    if kind >= SIDEWAYS:
        level += 1 if kind < (1.0 + SIDEWAYS) / 2 else -1
    if not 0 <= level < len(levels.first) - 1:
        return 0
    first = levels.first[level]
    d = first + int(uniform(random) * (levels.first[level + 1] - first))
    if d == c:
        return 0
    count = _along(net, place, levels, v, d, found)
    for i in range(count):
        to[i] = levels.to[found[i]]
    return count


@njit(cache=True, long=True)
def anneal_levels(net: Net, place: Place, goal: Goal, levels: Levels, heat: Heat, moves: int) -> float:
    """Draw so many random moves; the excess at the end. Ends at once when it is 0.

    A move that makes it grow by d happens with probability exp(-d / temperature).
    """
    found, to = np.empty((2, MOST_TOGETHER), dtype=np.int64)
    before = np.empty(MOST_TOGETHER, dtype=np.int64)
    total = excess(place, goal)
    for _ in range(moves):
        if total < SMALL:
            total = excess(place, goal)
            if total == 0.0:
                return total
        heat.temperature[0] *= heat.factor
        count = _draw(net, place, levels, heat.random, found, to)
        if not count:
            continue
        first, last = len(place.work), 0
        for i in range(count):
            before[i] = place.chip[found[i]]
            a, b = _reach(net, place, found[i])
            first, last = min(first, a, to[i]), max(last, b, to[i])
        _move(net, place, found, to, count)
        last = min(last + 1, len(place.work) - 1)  # in mode sum_forward a chip pays for the link before it
        worse = 0.0
        for c in range(first, last + 1):
            worse += over(place, goal, c) - place.over[c]
        if worse > 0.0 and (
            worse > NEVER * heat.temperature[0] or uniform(heat.random) >= np.exp(-worse / heat.temperature[0])
        ):
            _move(net, place, found, before, count)
            continue
        for c in range(first, last + 1):
            place.over[c] = over(place, goal, c)
        total += worse
    return excess(place, goal)
