"""The compiled annealing of a mapping (numba): moves of operations between chips that keep C1.

Which kinds of moves there are, :mod:`chipmap.heuristics.ring.local_search.search` says; those of chips in levels stand
in :mod:`.levels_kernel`. What a mapping puts on chips and links stands in :mod:`.loads_kernel`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.local_search.levels_kernel import Levels, draw_in_levels
from chipmap.heuristics.ring.local_search.loads_kernel import (
    MOST_TOGETHER,
    Goal,
    Net,
    Place,
    ascending,
    broken,
    excess,
    over,
    shift,
)
from chipmap.kernels import njit
from chipmap.kernels.annealing import uniform

#: How far one operation moves, and one that takes others along, in chips.
FAR, FAR_TOGETHER = 3, 2
#: Shares of the moves: of one operation, of one with those that C1 forces along; the rest swaps two chips.
SINGLE, TOGETHER = 0.6, 0.37
#: A move that is worse by more temperatures than that isn't made, without a look at C3.
NEVER = 30.0
#: The excess below which rounding errors of its sum are put right.
SMALL = 1e-9


class Heat(NamedTuple):
    """The temperature [1], by what a move multiplies it, and the random state [1]."""

    temperature: Any
    factor: float
    random: Any


@njit(part=True)
def _window(net: Net, place: Place, v: int) -> Any:
    """(first, last chip) that C1 leaves v where its producers and readers are, at most FAR away."""
    first = max(0, place.chip[v] - FAR)
    last = min(len(place.work) - 1, place.chip[v] + FAR)
    for at in range(net.made_first[v], net.made_first[v + 1]):
        s = net.made[at]
        for r in range(net.readers_first[s], net.readers_first[s + 1]):
            last = min(last, place.chip[net.readers[r]])
    for at in range(net.reads_first[v], net.reads_first[v + 1]):
        first = max(first, place.chip[net.producer[net.reads[at]]])
    return first, last


@njit(part=True)
def _forced(net: Net, place: Place, v: int, d: int, found: Any) -> int:
    """The operations ``found`` that C1 forces to move to chip d along with v, and v: their number, 0 where they are too
    many.
    """
    onward = d > place.chip[v]
    place.marked[-1] += 1
    mark = place.marked[-1]
    place.marked[v] = mark
    found[0], count, done = v, 1, 0
    while done < count:
        u = found[done]
        done += 1
        firsts, storages = (net.made_first, net.made) if onward else (net.reads_first, net.reads)
        for at in range(firsts[u], firsts[u + 1]):
            s = storages[at]
            # onward its readers before chip d, back its producer after it
            for r in range(net.readers_first[s], net.readers_first[s + 1] if onward else net.readers_first[s] + 1):
                w = net.readers[r] if onward else net.producer[s]
                stays = place.chip[w] >= d if onward else place.chip[w] <= d
                if stays or place.marked[w] == mark:
                    continue
                if count == MOST_TOGETHER:
                    return 0
                place.marked[w] = mark
                found[count] = w
                count += 1
    ascending(found, count)
    return count


@njit(part=True)
def _swapped(net: Net, place: Place, c: int, found: Any) -> int:
    """The operations ``found`` on the chips c and c + 1: their number, 0 where they are too many, or a flow leads from
    c to c + 1.
    """
    if place.flows[c, c + 1]:
        return 0
    count = 0
    for v in range(len(net.ticks)):
        if c <= place.chip[v] <= c + 1:
            if count == MOST_TOGETHER:
                return 0
            found[count] = v
            count += 1
    return count


@njit(part=True)
def _draw(net: Net, place: Place, random: Any, found: Any, to: Any) -> int:
    """A random move: the operations ``found`` and their chips ``to``; their number, 0 for none."""
    kind = uniform(random)
    if len(place.work) == 1:
        return 0
    if kind >= SINGLE + TOGETHER:
        c = int(uniform(random) * (len(place.work) - 1))
        count = _swapped(net, place, c, found)
        for i in range(count):
            to[i] = 2 * c + 1 - place.chip[found[i]]
        return count
    v = int(uniform(random) * len(net.ticks))
    c = place.chip[v]
    if kind < SINGLE:
        first, last = _window(net, place, v)
        if first == last:
            return 0
        d = first + int(uniform(random) * (last - first))
        found[0], to[0] = v, d + 1 if d >= c else d
        return 1
    d = c + 1 + int(uniform(random) * FAR_TOGETHER)
    if uniform(random) < 0.5:
        d = 2 * c - d
    if not 0 <= d < len(place.work):
        return 0
    count = _forced(net, place, v, d, found)
    to[:count] = d
    return count


@njit(part=True)
def _allowed(net: Net, count: int, found: Any, to: Any) -> int:
    """``count``, or 0 where an operation of a move may not be on its new chip."""
    if len(net.allowed):
        for i in range(count):
            if not net.allowed[found[i], to[i]]:
                return 0
    return count


@njit(part=True)
def _reach(net: Net, place: Place, v: int) -> Any:
    """(first, last chip) whose loads depend on where v is: those of its producers and of their and its readers."""
    first = last = place.chip[v]
    for at in range(net.made_first[v], net.made_first[v + 1]):
        s = net.made[at]
        for r in range(net.readers_first[s], net.readers_first[s + 1]):
            last = max(last, place.chip[net.readers[r]])
    for at in range(net.reads_first[v], net.reads_first[v + 1]):
        s = net.reads[at]
        first = min(first, place.chip[net.producer[s]])
        for r in range(net.readers_first[s], net.readers_first[s + 1]):
            last = max(last, place.chip[net.readers[r]])
    return first, last


@njit(part=True)
def _move(net: Net, place: Place, found: Any, to: Any, count: int) -> bool:
    """Move the operations ``found`` (ascending) to the chips ``to``; whether a pair of chips begins or ceases to have
    flows. Readers go onward before producers, and back after them, so that no flow leads back on the way.
    """
    changed = False
    for i in range(count - 1, -1, -1):
        if to[i] > place.chip[found[i]]:
            changed |= shift(net, place, found[i], to[i])
    for i in range(count):
        if to[i] < place.chip[found[i]]:
            changed |= shift(net, place, found[i], to[i])
    return changed


@njit(cache=True, long=True)
def anneal(net: Net, place: Place, goal: Goal, levels: Levels, heat: Heat, moves: int) -> float:
    """Draw so many random moves, in levels if there are any; the excess at the end. Ends at once when it is 0.

    A move that makes it grow by d happens with probability exp(-d / temperature).
    """
    found, to, before = (
        np.empty(MOST_TOGETHER, dtype=np.int64),
        np.empty(MOST_TOGETHER, dtype=np.int64),
        np.empty(MOST_TOGETHER, dtype=np.int64),
    )
    total, bad = excess(place, goal), broken(place, goal)
    for _ in range(moves):
        if total < SMALL:
            total = excess(place, goal)
            if total == 0.0:
                return total
        heat.temperature[0] *= heat.factor
        if len(levels.of):
            count = draw_in_levels(net, place, levels, heat.random, found, to)
        else:
            count = _allowed(net, _draw(net, place, heat.random, found, to), found, to)
        if not count:
            continue
        first, last = len(place.work), 0
        for i in range(count):
            before[i] = place.chip[found[i]]
            a, b = _reach(net, place, found[i])
            first, last = min(first, a, to[i]), max(last, b, to[i])
        changed = _move(net, place, found, to, count)
        last = min(last + 1, len(place.work) - 1)  # in mode sum_forward a chip pays for the link before it
        worse = 0.0
        for c in range(first, last + 1):
            worse += over(place, goal, c) - place.over[c]
        hopeless = worse - bad > NEVER * heat.temperature[0]
        now = broken(place, goal) if changed and not hopeless else bad
        worse += now - bad
        if hopeless or (worse > 0.0 and uniform(heat.random) >= np.exp(-worse / heat.temperature[0])):
            _move(net, place, found, before, count)
            continue
        for c in range(first, last + 1):
            place.over[c] = over(place, goal, c)
        bad = now
        total += worse
    return excess(place, goal)
