"""The compiled search of the row-by-row placement of CU.POKer (numba; one thread, cached).

Costs are in ticks (quarters of a score): 2 · w_l for each half tile of wire, 4 · w_a for each adapter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table, integers, least_of

#: No shape, no row, no layout.
INFINITE = np.int64(1) << np.int64(60)
#: Places that a state may take in the table of states seen before the oldest entry is overwritten.
PROBES = 8


class Course(NamedTuple):
    """Kernels in the order of placement: their types [n], neighbours placed before them [n, d] (-1 fills), the last
    position that each is connected to [n], and the ticks of a half tile of wire and of an adapter [2]."""

    types: IntArray
    before: IntArray
    last: IntArray
    ticks: IntArray


class Boxes(NamedTuple):
    """For each type and allowed height [t, H + 1]: the least width, the least height that has it, and what adapters
    compare: h, w, c of the first convolution, c of the last one (by the protocol) [t, H + 1, 4]."""

    width: IntArray
    height: IntArray
    ports: IntArray


class Rows(NamedTuple):
    """Rows that start at kernel i: entries first[i]..first[i + 1] of the allowed height, the kernel after the row, the
    height of the row and the cost of the edges within it."""

    first: IntArray
    cap: IntArray
    end: IntArray
    top: IntArray
    inner: IntArray


class Search(NamedTuple):
    """Scratch of the search over n kernels: per depth and per position, the best layout, and states seen."""

    entry: IntArray
    floor: IntArray
    cost: IntArray
    start: IntArray
    x: IntArray
    y: IntArray
    cap: IntArray
    best: IntArray
    seen: IntArray


@njit(part=True)
def _fill(course: Course, boxes: Boxes, i: int, cap: int, width: int) -> tuple[int, int]:
    """(first kernel that no longer fits, height) of the row of kernels i.. that are at most ``cap`` high."""
    idle, top, j = width, 0, i
    while j < len(course.types):
        t = course.types[j]
        if boxes.width[t, cap] > idle:
            break
        idle -= boxes.width[t, cap]
        top = max(top, boxes.height[t, cap])
        j += 1
    return j, top


@njit(part=True)
def _adapters(a: Any, b: Any) -> int:
    """Adapters of an edge from a kernel with ports ``a`` to one with ports ``b``."""
    return int(a[0] != b[0]) + int(a[1] != b[1]) + int(a[3] != b[2])


@njit(part=True)
def _lay(course: Course, boxes: Boxes, span: Any, box: Any, x: Any, y: Any, caps: Any) -> int:
    """Lay kernels span[0]..span[1] in a row and return the cost of their edges to those from span[2] on.

    The row stands at height box[0], is box[1] high and starts at the left end (box[2] = 0) or at the right one (box[2]
    = the fabric's width). ``x``, ``y`` get doubled centres, ``caps`` the allowed height box[3].
    """
    at, cost, cap = 0, 0, box[3]
    for k in range(span[0], span[1]):
        t = course.types[k]
        w, h = boxes.width[t, cap], boxes.height[t, cap]
        x[k] = 2 * at + w
        if box[2] > 0:
            x[k] = 2 * box[2] - x[k]
        y[k] = 2 * (box[0] + (box[1] - h) // 2) + h
        caps[k] = cap
        at += w
        for d in range(course.before.shape[1]):
            u = course.before[k, d]
            if u < 0:
                break
            if u >= span[2]:
                cost += course.ticks[0] * (abs(x[k] - x[u]) + abs(y[k] - y[u]))
                if course.ticks[1] > 0:
                    cost += course.ticks[1] * _adapters(boxes.ports[course.types[u], caps[u]], boxes.ports[t, cap])
    return cost


@njit(cache=True, nogil=True)
def list_rows(course: Course, boxes: Boxes, caps: IntArray, width: int, every: bool) -> Rows:
    """All rows that start at each kernel; an allowed height that no kernel of its row takes is left out, as the row of
    that lower height is the same (``every`` keeps it)."""
    n = len(course.types)
    first = integers(n + 1, 0)
    table = integer_table(4, n * len(caps), 0)
    scratch = integer_table(3, n, 0)
    span, box = integers(3, 0), integers(4, 0)
    count = 0
    for i in range(n):
        for cap in caps:
            j, top = _fill(course, boxes, i, cap, width)
            if j > i and (every or top == cap):
                span[:], span[1], box[1], box[3] = i, j, top, cap
                table[0, count], table[1, count], table[2, count] = cap, j, top
                table[3, count] = _lay(course, boxes, span, box, scratch[0], scratch[1], scratch[2])
                count += 1
        first[i + 1] = count
    return Rows(first, table[0, :count], table[1, :count], table[2, :count], table[3, :count])


@njit(cache=True, nogil=True)
def least_heights(rows: Rows) -> IntArray:
    """[n + 1] the least height of rows for kernels i..n: exact, as each row's kernels depend on its start alone."""
    n = len(rows.first) - 1
    least = integers(n + 1, INFINITE)
    least[n] = 0
    for i in range(n - 1, -1, -1):
        for r in range(rows.first[i], rows.first[i + 1]):
            least[i] = min(least[i], rows.top[r] + least[rows.end[r]])
    return least


@njit(cache=True, nogil=True)
def least_costs(course: Course, boxes: Boxes, rows: Rows, least: IntArray, height: int) -> IntArray:
    """[n + 1, H + 1] lower bounds on the cost that kernels i..n add when their first row stands at a height; INFINITE
    where they don't fit. An edge between rows counts half the height of the upper kernel, half the thin side of the
    lower one."""
    n = len(course.types)
    thin = integers(n, 0)
    for i in range(n):
        t = course.types[i]
        thin[i] = min(least_of(boxes.height[t]), least_of(boxes.width[t]))
    bound = integer_table(n + 1, height + 1, INFINITE)
    bound[n] = 0
    for i in range(n - 1, -1, -1):
        for r in range(rows.first[i], rows.first[i + 1]):
            j, top, cost = rows.end[r], rows.top[r], rows.inner[r]
            for k in range(i, j):
                for d in range(course.before.shape[1]):
                    u = course.before[k, d]
                    if u < 0:
                        break
                    if u < i:
                        cost += course.ticks[0] * (thin[u] + boxes.height[course.types[k], rows.cap[r]])
            for floor in range(height - top - least[j] + 1):
                bound[i, floor] = min(bound[i, floor], cost + bound[j, floor + top])
    return bound


@njit(part=True)
def _key(course: Course, search: Search, i: int, floor: int, left: int) -> Any:
    """A hash of what kernels i.. cost depends on: the floor, its direction, the kernels still connected."""
    key = np.uint64(i * 4099 + floor * 2 + left + 1) * np.uint64(0x9E3779B97F4A7C15)
    for u in range(i):
        if course.last[u] >= i:
            key ^= np.uint64((search.x[u] * 65536 + search.y[u]) * 65536 + search.cap[u] + u * 104729)
            key *= np.uint64(0xD6E8FEB86659FD93)
            key ^= key >> np.uint64(32)
    return np.int64(key >> np.uint64(1))


@njit(part=True)
def _seen(table: IntArray, key: int, cost: int) -> bool:
    """Whether the state was reached before at no more cost; else it is remembered."""
    size = table.shape[0]
    for probe in range(PROBES):
        place = (key + probe) % size
        if table[place, 0] == key:
            if table[place, 1] <= cost:
                return True
            table[place, 1] = cost
            return False
        if table[place, 0] == 0:
            table[place, 0], table[place, 1] = key, cost
            return False
    table[key % size, 0], table[key % size, 1] = key, cost
    return False


@njit(cache=True, nogil=True, long=True)
def place_rows(
    course: Course, boxes: Boxes, rows: Rows, bound: IntArray, search: Search, width: int, below: int, nodes: int
) -> tuple[Any, int]:
    """Depth-first search over rows for the layout of least cost below ``below``; (cost or INFINITE, nodes left).

    The best layout's rows are left in ``search.best`` (entries of ``rows`` from the lowest up, -1 after the last). It
    stops, with what it has, when ``nodes`` are used up.
    """
    n = len(course.types)
    span, box = integers(3, 0), integers(4, 0)
    search.seen[:] = 0
    depth, found = 0, INFINITE
    search.entry[0], search.floor[0], search.cost[0], search.start[0] = 0, 0, 0, 0
    while depth >= 0 and nodes > 0:
        i, floor = search.start[depth], search.floor[depth]
        r = search.entry[depth]
        if r >= rows.first[i + 1]:
            depth -= 1
            continue
        search.entry[depth] = r + 1
        j = rows.end[r]
        top = floor + rows.top[r]
        if top >= bound.shape[1] or search.cost[depth] + rows.inner[r] + bound[j, top] >= below:
            continue
        nodes -= 1
        span[0], span[1] = i, j
        box[0], box[1], box[2], box[3] = floor, rows.top[r], width * (depth % 2), rows.cap[r]
        cost = search.cost[depth] + _lay(course, boxes, span, box, search.x, search.y, search.cap)
        if cost + bound[j, top] >= below:
            continue
        if j == n:
            below = found = cost
            for d in range(depth + 1):
                search.best[d] = search.entry[d] - 1
            search.best[depth + 1] = -1
        elif not _seen(search.seen, _key(course, search, j, top, (depth + 1) % 2), cost):
            depth += 1
            search.start[depth], search.floor[depth], search.cost[depth] = j, top, cost
            search.entry[depth] = rows.first[j]
    return found, nodes


@njit(cache=True, nogil=True)
def follow_bound(course: Course, boxes: Boxes, rows: Rows, bound: IntArray, search: Search, width: int) -> Any:
    """The layout that takes the row of least bound each time, left in ``search.best``; its cost, or INFINITE.

    It never runs out of room, as the bound is finite exactly where the rest fits.
    """
    n = len(course.types)
    span, box = integers(3, 0), integers(4, 0)
    i, floor, depth, cost = 0, 0, 0, 0
    while i < n:
        least, chosen = INFINITE, -1
        for r in range(rows.first[i], rows.first[i + 1]):
            top = floor + rows.top[r]
            if top < bound.shape[1] and rows.inner[r] + bound[rows.end[r], top] < least:
                least, chosen = rows.inner[r] + bound[rows.end[r], top], r
        if chosen < 0:
            return INFINITE
        span[0], span[1] = i, rows.end[chosen]
        box[0], box[1], box[2], box[3] = floor, rows.top[chosen], width * (depth % 2), rows.cap[chosen]
        cost += _lay(course, boxes, span, box, search.x, search.y, search.cap)
        search.best[depth] = chosen
        i, floor, depth = rows.end[chosen], floor + rows.top[chosen], depth + 1
    search.best[depth] = -1
    return cost
