"""Moves of a mapping whose chips stand in levels (numba): they keep C1 and C3 by construction.

What levels are, :mod:`chipmap.heuristics.ring.local_search.levels` says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.local_search.loads_kernel import MOST_TOGETHER, Net, Place, ascending
from chipmap.kernels import njit
from chipmap.kernels.annealing import uniform

#: The share of the moves that stay within a level.
SIDEWAYS = 0.15


class Levels(NamedTuple):
    """The level ``of`` each chip [C], ascending; level k has the chips ``first[k]`` … ``first[k + 1] - 1``. ``to`` [n]
    holds where an operation is about to move. Without any, chips stand in no levels.
    """

    of: Any
    first: Any
    to: Any


#: Chips that stand in no levels.
NO_LEVELS = Levels(*np.zeros((3, 0), dtype=np.int64))


@njit(part=True)
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


@njit(part=True)
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
    ascending(found, count)
    return count


@njit(part=True)
def draw_in_levels(net: Net, place: Place, levels: Levels, random: Any, found: Any, to: Any) -> int:
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
