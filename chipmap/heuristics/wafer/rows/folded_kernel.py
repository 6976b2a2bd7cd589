"""Compiled search for the cheapest folding of a row, every kernel in its narrowest shape for its row's height.

Tables are indexed [height, position]: ``width`` of the kernel at a position in a strip of that height (0 for a kernel
that doesn't fit), and sums before a position: ``tiles`` of widths, ``cost`` of wires (half tiles) and ``bad`` of the
kernels that don't fit. Rows start and end at ``cuts``: positions before which one wire alone passes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows.kernel import INF
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table


class Tables(NamedTuple):
    """``width`` [heights, n]; ``tiles``, ``cost``, ``bad`` [heights, n + 1]; ``cuts`` [m] from 0 to n."""

    width: IntArray
    tiles: IntArray
    cost: IntArray
    bad: IntArray
    cuts: IntArray


@njit(part=True)
def _wires(t: Tables, h: int, a: int, b: int) -> int:
    """Wires of a row of positions a to b - 1 of height h, those that turn at its ends left out."""
    cost = t.cost[h, b] - t.cost[h, a]
    if a > 0:
        cost -= t.width[h, a]
    if b < t.width.shape[1]:
        cost -= t.width[h, b - 1]
    return cost


@njit(part=True)
def _turn(t: Tables, width: int, before: tuple[int, int, int], row: tuple[int, int, int]) -> int:
    """Half tiles along the rows that a turn from row ``before`` to ``row`` (first, end, height) costs.

    Flush with the fabric's side, centres are half the difference of widths apart; what the longer row leaves can be
    used to shift one against the other.
    """
    long = max(
        t.tiles[before[2], before[1]] - t.tiles[before[2], before[0]], t.tiles[row[2], row[1]] - t.tiles[row[2], row[0]]
    )
    apart = abs(t.width[before[2], before[1] - 1] - t.width[row[2], row[0]])
    return max(0, apart - 2 * (width - long))


@njit(cache=True, nogil=True)
def snake(t: Tables, width: int, height: int) -> tuple[int, IntArray]:
    """A cheap snake of rows to and fro: (half tiles, rows [count, 3] with first, end and height); INF where none.

    A turn costs half the heights of its two rows and :func:`_turn`; that looks at the cheapest way to the row before
    only, so that the program is a heuristic.
    """
    n, m = t.width.shape[1], len(t.cuts)
    best = integer_table(m, height + 1, INF)
    how = np.zeros((m, height + 1, 2), np.int64)
    best[0, 0] = 0
    for i in range(m - 1):
        a = t.cuts[i]
        for h in range(1, height + 1):
            for j in range(i + 1, m):
                b = t.cuts[j]
                if t.bad[h, b] > t.bad[h, a] or t.tiles[h, b] - t.tiles[h, a] > width:
                    break
                cost = _wires(t, h, a, b) + h * (int(a > 0) + int(b < n))
                for used in range(height - h + 1):
                    total = best[i, used] + cost
                    if total >= best[j, used + h]:
                        continue
                    if a > 0:
                        total += _turn(t, width, (t.cuts[how[i, used, 0]], a, how[i, used, 1]), (a, b, h))
                    if total < best[j, used + h]:
                        best[j, used + h] = total
                        how[j, used + h, 0], how[j, used + h, 1] = i, h
    used = int(best[m - 1].argmin())
    value = best[m - 1, used]
    rows = integer_table(m, 3, 0)
    count, j = 0, m - 1
    while value < INF and j > 0:
        i, h = how[j, used]
        rows[count, 0], rows[count, 1], rows[count, 2] = t.cuts[i], t.cuts[j], h
        count, j, used = count + 1, i, used - h
    return value, rows[:count][::-1].copy()


@njit(cache=True, nogil=True)
def tails(t: Tables, width: int, height: int) -> tuple[IntArray, IntArray]:
    """For each cut and width the cheapest end of the row folded once: there at height h, back at ``height`` - h.

    Returns half tiles [m, width + 1] (INF where none; the end not folded has no entry) and (turn, h) of each.
    """
    n, m = t.width.shape[1], len(t.cuts)
    best = integer_table(m, width + 1, INF)
    how = np.zeros((m, width + 1, 2), np.int64)
    for h in range(1, height):
        back = height - h
        for i in range(m - 2):
            a = t.cuts[i]
            for j in range(i + 1, m - 1):
                q = t.cuts[j]
                there = t.tiles[h, q] - t.tiles[h, a]
                if t.bad[h, q] > t.bad[h, a] or there > width:
                    break
                home = t.tiles[back, n] - t.tiles[back, q]
                if t.bad[back, n] > t.bad[back, q] or home > width:
                    continue
                cost = t.cost[h, q] - t.cost[h, a] - t.width[h, q - 1] + _wires(t, back, q, n)
                needed = max(there, home)
                right = 2 * there + t.width[back, q] - t.width[h, q - 1]
                cost += height + back + max(0, right - 2 * needed, 2 * home - right)
                if cost < best[i, needed]:
                    best[i, needed] = cost
                    how[i, needed, 0], how[i, needed, 1] = q, h
    for i in range(m):
        for w in range(1, width + 1):
            if best[i, w - 1] <= best[i, w]:
                best[i, w] = best[i, w - 1]
                how[i, w, 0], how[i, w, 1] = how[i, w - 1, 0], how[i, w - 1, 1]
    return best, how


@njit(cache=True, nogil=True)
def between(t: Tables, head: IntArray, tail: IntArray, width: int, height: int) -> tuple[int, int, int, int]:
    """The cheapest row across the whole height with folded ends: (half tiles, start and end of the middle, head width).

    ``head`` [m, width + 1] and ``tail`` cost the folded ends before and from each cut. Start 0 and end n: no fold.
    """
    m, n = len(t.cuts), t.width.shape[1]
    best, start, end, room = INF, 0, 0, 0
    for i in range(m - 1):
        a = t.cuts[i]
        for j in range(i + 1, m):
            b = t.cuts[j]
            left = width - (t.tiles[height, b] - t.tiles[height, a])
            if t.bad[height, b] > t.bad[height, a] or left < 0:
                break
            cost = t.cost[height, b] - t.cost[height, a]
            for w in range(left + 1):
                total = cost + (head[i, w] if a > 0 else 0) + (tail[j, left - w] if b < n else 0)
                if total < best:
                    best, start, end, room = total, i, j, w
                if a == 0:
                    break
    return best, start, end, room
