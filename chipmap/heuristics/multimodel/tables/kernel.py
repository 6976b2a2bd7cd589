"""The compiled parts of the tables (:mod:`chipmap.heuristics.multimodel.tables.ranges`): costs of ranges, steps,
entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.multimodel.problem import FloatArray, IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table, floats, integers
from chipmap.kernels.sorting import position

#: Starts of ranges that are worked on side by side (one row of vector registers).
WIDE = 8
#: No segmentation. Far above every sum, and no sum with it comes near other values.
NONE = 1e40


class Costs(NamedTuple):
    """A model on types, by criterion: 0 is time, 1 is energy, then energy + rate · time for each rate; or time alone.

    ``run`` [criteria, types, L + 1]: sums over the first layers. ``read``, ``write`` [criteria, types, L]; ``send``,
    ``receive`` [criteria, L]. ``fits`` [types, L]: the first layer that a segment which ends there may begin with.
    """

    run: FloatArray
    read: FloatArray
    write: FloatArray
    send: FloatArray
    receive: FloatArray
    fits: IntArray


class WindowCosts(NamedTuple):
    """What a model takes in a window: ``edges`` of the windows' cells, sums ``weight`` [L + 1] of the times of weights,
    the ``rates`` of the criteria from 2 on, and q − 1 (``more``). ``cautious``: M counts as the most that its cell
    allows, not as the least."""

    edges: FloatArray
    weight: FloatArray
    rates: FloatArray
    more: float
    cautious: bool


@njit(cache=True, nogil=True)
def lowest_starts(costs: Costs, highs: FloatArray) -> IntArray:
    """[cells, types, 2, L]: the first layer that a segment of at most ``high`` ns may begin with which ends with j,
    sends (0) or writes (1); j + 1 where not even layer j may. Only sums and the last transfer are counted."""
    types, layers = costs.fits.shape
    found = np.empty((len(highs), types, 2, layers), np.int64)
    for h in range(len(highs)):
        for k in range(types):
            run = costs.run[0, k]
            for j in range(layers):
                for e in range(2):
                    extra = costs.send[0, j] if e == 0 else costs.write[0, k, j]
                    a = position(run, len(run), run[j + 1] + extra - highs[h], False)
                    found[h, k, e, j] = min(max(a, costs.fits[k, j]), j + 1)
    return found


@njit(cache=True, nogil=True)
def smallest_times(
    costs: Costs, ends: FloatArray, start: int, nested: FloatArray, last: FloatArray, low: FloatArray
) -> None:
    """Write to ``low`` [cells, L, WIDE] the least time above the cell's lower end of a segment of layers i … j, where i
    = ``start`` + 0 … WIDE − 1 is the first layer of the range and j its last one.

    ``nested`` and ``last`` [cells, L] hold this for inner and for last segments of ranges from the row
    after ``start`` + WIDE on; rows are done from the last one to the first.
    """
    types, layers = costs.fits.shape
    for h in range(len(ends) - 1):
        for v in range(WIDE - 1, -1, -1):
            i = start + v
            if i >= layers:
                low[h, :, v] = NONE
                continue
            first = NONE
            for j in range(layers):
                if j < i:
                    low[h, j, v] = NONE
                    continue
                # of i + 1 ... : inner segments up to j - 1, last segments that end with j
                least = min(nested[h, j], last[h, j], first)
                for k in range(types):
                    base = costs.run[0, k, j + 1] - costs.run[0, k, i]
                    t = base + costs.read[0, k, i] + costs.write[0, k, j]
                    if t > ends[h] and t < least:
                        least = t
                    t = base + costs.read[0, k, i] + costs.send[0, j]
                    if t > ends[h] and t < first:
                        first = t
                low[h, j, v] = least
            # now row i joins the inner and last segments
            if i > 0:
                best = NONE
                for j in range(i, layers):
                    nested[h, j] = min(nested[h, j], best)
                    for k in range(types):
                        base = costs.run[0, k, j + 1] - costs.run[0, k, i] + costs.receive[0, i - 1]
                        t = base + costs.write[0, k, j]
                        if t > ends[h] and t < last[h, j]:
                            last[h, j] = t
                        t = base + costs.send[0, j]
                        if t > ends[h] and t < best:
                            best = t


class Lanes(NamedTuple):
    """Costs side by side: lane r · WIDE + v is criterion r and start number v, so that one loop does them all.

    ``enter`` [types, L, lanes]: what comes to a segment that begins with a layer (receiving, less the sum before it);
    ``send`` and ``write`` [types, L, lanes]: what comes at its end, with the sum up to it.
    """

    enter: FloatArray
    send: FloatArray
    write: FloatArray


def lanes_of(costs: Costs) -> Lanes:
    """The costs by lanes."""
    before = np.concatenate([np.zeros((len(costs.run), 1)), costs.receive[:, :-1]], axis=1)
    enter = before[:, None, :] - costs.run[:, :, :-1]
    send, write = costs.send[:, None, :] + costs.run[:, :, 1:], costs.write + costs.run[:, :, 1:]
    return Lanes(*(np.repeat(amount.transpose(1, 2, 0), WIDE, axis=2) for amount in (enter, send, write)))


@njit(cache=True, nogil=True)
def first_hopeless(costs: Costs, highs: FloatArray, start: int) -> IntArray:
    """By cell the first layer, from the last start on, that takes longer than ``high`` on every type: all ranges of
    these starts that reach it do as well."""
    types, layers = costs.fits.shape
    found = integers(len(highs), layers)
    for h in range(len(highs)):
        for j in range(min(start + WIDE, layers) - 1, layers):
            least = NONE
            for k in range(types):
                least = min(least, costs.run[0, k, j + 1] - costs.run[0, k, j])
            if least > highs[h]:
                found[h] = j
                break
    return found


@njit(cache=True, nogil=True)
def first_segments(
    costs: Costs, k: int, start: int, ends: FloatArray, stops: IntArray, inner: FloatArray, end: FloatArray
) -> None:
    """Ranges that begin with a segment on type k: write its costs by cell, last layer and lane, up to ``stops``.

    ``inner`` [cells, L, lanes]: the segment sends; ``end``: it is the only one and writes.
    """
    for h in range(len(ends) - 1):
        for j in range(start, stops[h]):
            for r in range(len(costs.run)):
                for v in range(WIDE):
                    i, x = start + v, r * WIDE + v
                    inner[h, j, x] = end[h, j, x] = NONE
                    if i > j or costs.fits[k, j] > i:
                        continue
                    time = costs.run[0, k, j + 1] - costs.run[0, k, i] + costs.read[0, k, i]
                    cost = costs.run[r, k, j + 1] - costs.run[r, k, i] + costs.read[r, k, i]
                    if time + costs.send[0, j] <= ends[h + 1]:
                        inner[h, j, x] = cost + costs.send[r, j]
                    if time + costs.write[0, k, j] <= ends[h + 1]:
                        end[h, j, x] = cost + costs.write[r, k, j]


@njit(cache=True, nogil=True)
def more_segments(
    lanes: Lanes,
    k: int,
    first: int,
    stops: IntArray,
    lows: IntArray,
    before: FloatArray,
    inner: FloatArray,
    end: FloatArray,
) -> None:
    """Add a segment on type k behind what ``before`` [cells, L, lanes] holds by its last layer, from ``first`` - 1 on.
    The segment begins with layer ``first`` or later; so it ends there or later.

    With G(a) = before(a - 1) - run(a) + receive(a - 1), a segment a ... j makes G(a) + run(j + 1) + send(j). The least
    G over a = lows ... j is that of ``tail`` from lows up to ``mid``, and that of ``front`` behind it; where lows have
    passed ``mid``, tail is made anew.
    """
    layers, width = before.shape[1], before.shape[2]
    gain, tail, front = float_table(layers, width, NONE), float_table(layers, width, NONE), floats(width, NONE)
    floor = integers(layers, 0)
    for h in range(len(stops)):
        least = layers
        for j in range(stops[h] - 1, first - 1, -1):
            least = min(least, lows[h, k, 0, j], lows[h, k, 1, j])
            floor[j] = max(least, first)
        mid = first - 1
        front[:] = NONE
        for j in range(first, stops[h]):
            for x in range(width):
                g = before[h, j - 1, x] + lanes.enter[k, j, x]
                gain[j, x] = g
                front[x] = g if g < front[x] else front[x]
            for e in range(2):
                low = max(lows[h, k, e, j], first)
                target, leave = (inner, lanes.send) if e == 0 else (end, lanes.write)
                if low > j:
                    for x in range(width):
                        target[h, j, x] = NONE
                    continue
                if low > mid:
                    mid = j
                    for x in range(width):
                        tail[j, x], front[x] = gain[j, x], NONE
                    for a in range(j - 1, floor[j] - 1, -1):
                        for x in range(width):
                            g, t = gain[a, x], tail[a + 1, x]
                            tail[a, x] = g if g < t else t
                for x in range(width):
                    g, t = tail[low, x], front[x]
                    target[h, j, x] = (g if g < t else t) + leave[k, j, x]


@njit(cache=True, nogil=True)
def received_segments(
    costs: Costs,
    lanes: Lanes,
    k: int,
    first: int,
    ends: FloatArray,
    stops: IntArray,
    lows: IntArray,
    before: FloatArray,
    inner: FloatArray,
    end: FloatArray,
) -> None:
    """As :func:`more_segments` where the receiver pays as well: the time of each segment is tested by itself."""
    width = before.shape[2]
    for h in range(len(stops)):
        for j in range(first, stops[h]):
            for e in range(2):
                target = inner[h, j] if e == 0 else end[h, j]
                leave = lanes.send[k, j] if e == 0 else lanes.write[k, j]
                own = costs.send[0, j] if e == 0 else costs.write[0, k, j]
                target[:] = NONE
                for a in range(max(lows[h, k, e, j], first), j + 1):
                    time = costs.run[0, k, j + 1] - costs.run[0, k, a] + costs.receive[0, a - 1] + own
                    if time <= ends[h + 1]:
                        behind, enter = before[h, a - 1], lanes.enter[k, a]
                        for x in range(width):
                            g = behind[x] + enter[x] + leave[x]
                            target[x] = g if g < target[x] else target[x]


@njit(cache=True, nogil=True)
def least_slowest(
    costs: Costs, k: int, span: tuple[int, int], before: FloatArray, inner: FloatArray, end: FloatArray
) -> None:
    """The least M of ranges whose last segment is on type k, by last layer and start [L, WIDE]: it sends (``inner``) or
    writes (``end``). ``before``: the same without this segment, not used for the first one. ``span``: the first start,
    and segments before this one."""
    start, depth = span
    for j in range(start + depth, costs.fits.shape[1]):
        inner[j, :] = NONE
        end[j, :] = NONE
        if depth == 0:
            for v in range(min(WIDE, j - start + 1)):
                if costs.fits[k, j] <= start + v:
                    time = costs.run[0, k, j + 1] - costs.run[0, k, start + v] + costs.read[0, k, start + v]
                    inner[j, v], end[j, v] = time + costs.send[0, j], time + costs.write[0, k, j]
            continue
        for a in range(j, max(costs.fits[k, j], start + depth) - 1, -1):
            own = costs.run[0, k, j + 1] - costs.run[0, k, a]
            time, open_ = own + costs.receive[0, a - 1], 0
            for v in range(WIDE):
                m, i, e = before[a - 1, v], inner[j, v], end[j, v]
                open_ += 1 if own < max(i, e) else 0
                x, y = max(m, time + costs.send[0, j]), max(m, time + costs.write[0, k, j])
                inner[j, v] = x if x < i else i
                end[j, v] = y if y < e else e
            if open_ == 0:  # a longer segment is no better for any start
                break


class _EnergyFall(NamedTuple):
    """The least energy of the ranges that end with a layer, by their start: ``best`` [WIDE, cells of windows], known in
    the cells from ``lowest`` to ``highest`` [WIDE]. ``hint`` [WIDE] is the cell where the last search ended."""

    best: FloatArray
    lowest: IntArray
    highest: IntArray
    hint: IntArray


@njit(part=True)
def _lower(end: FloatArray, h: int, j: int, v: int, base: float, window: WindowCosts, fall: _EnergyFall) -> None:
    """Let ``fall`` know of the range's energies in cell ``h``, whose Lat is ``base`` more than its time."""
    best, windows, size = fall.best, len(window.edges) - 1, end.shape[2] // WIDE
    t, lat = fall.hint[v], end[h, j, v] + base
    least = end[h, j, WIDE + v] if size > 1 else lat
    while t < windows and window.edges[t + 1] < lat:
        t += 1
    while t > 0 and window.edges[t] >= lat:
        t -= 1
    fall.hint[v] = t
    if t >= windows or best[v, t] <= least:
        return
    fall.lowest[v] = min(fall.lowest[v], t)
    while True:
        spare = window.edges[t + 1] - base
        value = least
        for w in range(size - 2):
            value = max(value, end[h, j, (2 + w) * WIDE + v] - window.rates[w] * spare)
        best[v, t] = min(best[v, t], value)
        if value <= least or t + 1 >= windows:
            break
        t += 1
    fall.highest[v] = max(fall.highest[v], t)


@njit(part=True)
def _slowest(low: float, slow: float, over: float, upto: float, cautious: bool) -> float:
    """The M that counts: the least, or, ``cautious``, the most of its cell (over, upto]; at least ``slow``."""
    return upto if cautious and slow <= over else max(low, slow)


@njit(cache=True, nogil=True)
def steps(
    end: FloatArray,
    low: FloatArray,
    slow: FloatArray,
    stops: IntArray,
    chosen: tuple[int, int, bool],
    ends: FloatArray,
    window: WindowCosts,
    reach: tuple[FloatArray, FloatArray],
    offsets: IntArray,
    cell: IntArray,
    energy: FloatArray,
) -> int:
    """Turn ``end`` [cells, L, lanes] into steps (cell of windows, energy) of each range (last, first layer).

    They stand where energy falls below that of shorter windows, and of a signature without the last segment
    (``reach[0]`` [L, WIDE, cells of windows]); ``reach[1]`` becomes the least of both. M is at least ``low`` in its
    cell, and at least ``slow`` [L, WIDE]. With the criterion of time alone, steps hold Lat in place of energy.
    ``chosen``: the first start, segments before the last one, and whether only all layers matter. Number of steps; -1
    where there is no room.
    """
    start, depth, whole = chosen
    cells, layers = end.shape[0], end.shape[1]
    windows = len(window.edges) - 1
    best, limits, left = float_table(WIDE, windows, NONE), reach[0], reach[1]
    fall = _EnergyFall(best, integers(WIDE, windows), integers(WIDE, -1), integers(WIDE, 0))
    furthest = 0
    for h in range(cells):
        furthest = max(furthest, stops[h])
    count = 0
    for j in range(layers):
        wide = min(WIDE, j - start - depth + 1) if j < furthest else 0
        if whole:
            wide = min(wide, 1) if j == layers - 1 else 0
        for h in range(cells):
            if j >= stops[h]:
                continue
            for v in range(wide):
                if end[h, j, v] >= NONE / 2 or low[h, j, v] > ends[h + 1]:
                    continue
                base = window.weight[j + 1] - window.weight[start + v]
                if window.more > 0:
                    base += window.more * _slowest(low[h, j, v], slow[j, v], ends[h], ends[h + 1], window.cautious)
                _lower(end, h, j, v, base, window, fall)
        for v in range(WIDE):
            offsets[j * WIDE + v] = count
            if v >= wide:
                continue
            known, lowest, highest = NONE, fall.lowest[v], fall.highest[v]
            for t in range(min(lowest, windows)):
                left[j, v, t] = limits[j, v, t]
            for t in range(lowest, highest + 1):
                limit, value = limits[j, v, t], best[v, t]
                if value < known:
                    known = value
                    if known < limit:
                        if count >= len(cell):
                            return -1
                        cell[count], energy[count] = t, known
                        count += 1
                best[v, t] = NONE
                left[j, v, t] = limit if limit < known else known
            for t in range(max(lowest, highest + 1), windows):
                limit = limits[j, v, t]
                left[j, v, t] = limit if limit < known else known
            fall.lowest[v], fall.highest[v] = windows, -1
    offsets[layers * WIDE] = count
    return count
