"""Heads and tails by the work of all ancestors. A bound for ``placement``.

All ancestors of v are done before it starts. Let J be some of them, none with a head below h, each with at least the
time ``inner`` on a path from its end to v's start, and at least ``far`` if it is on another device than v (the
greatest, over paths, of what lies between and the least transfer on the path). If v starts at s, its own device has
worked on J from h to s - inner, and each of the other D - 1 from h to s - far. So e(v) is at least the least s with
Σ p(J) <= (s - inner - h) + (D - 1) · max(0, s - far - h). J are those with a head and a ``far`` above thresholds: a
table of :data:`CELLS` × :data:`CELLS` sums. Tails likewise on the reversed graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import Edges, HeadsAndTails, directions
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: Thresholds on heads, and on ``far``.
CELLS = 40
#: Operations up to which all positions before v are looked at; above it, positions times N. On 14,461 operations all of
#: them took 3.6 CPU seconds instead of 2.4 and raised the bound by 0.3%. On 52,213 twice as many gained nothing.
WHOLE, LOOKS = 16_000, 100_000_000
#: Operations per call of compiled code, after which the clock is looked at.
CHUNK = 500
#: More than any time.
NEVER = 2**60


class Paths(NamedTuple):
    """For each ancestor of ``seen``: ``inner``; of the path of greatest ``far``: what lies between and its least c."""

    seen: IntArray
    inner: IntArray
    between: IntArray
    send: IntArray


class Cells(NamedTuple):
    """For each pair of thresholds: Σ p, the least head, ``inner`` and ``far``; one row and column more."""

    work: IntArray
    head: IntArray
    inner: IntArray
    far: IntArray


def raised(problem: PlacementProblem, w: HeadsAndTails, deadline: Deadline) -> HeadsAndTails:
    """``w`` with heads and tails at least as large; where the deadline passes, the others stay as they are."""
    count, found = problem.operations, []
    for (order, place, waits), given in zip(directions(problem), (w.head, w.tail), strict=True):
        paths = Paths(np.full(count, -1, np.int64), *(np.zeros(count, np.int64) for _ in range(3)))
        cells = Cells(*(np.zeros((CELLS + 1, CELLS + 1), np.int64) for _ in range(4)))
        head, reach = given.copy(), count if count <= WHOLE else LOOKS // count
        for low in range(0, count, CHUNK):
            if not deadline.keep_going():
                break
            part = order[low : low + CHUNK]
            raise_heads(part, order, place, waits, w.time, head, problem.devices, reach, paths, cells)
        found.append(head)
    return HeadsAndTails(found[0], w.time, found[1])


@njit(cache=True, nogil=True)
def raise_heads(
    part: IntArray,
    order: IntArray,
    place: IntArray,
    waits: Edges,
    time: IntArray,
    head: IntArray,
    devices: int,
    reach: int,
    paths: Paths,
    cells: Cells,
) -> None:
    """Raise ``head`` of the operations of ``part``, whose ancestors have theirs."""
    near = np.empty(len(order), np.int64)
    for v in part:
        for i in range(waits.at[v], waits.at[v + 1]):
            head[v] = max(head[v], head[waits.other[i]] + time[waits.other[i]])
        if waits.at[v + 1] - waits.at[v] < 2:  # one read: hardly more than behind its producer
            continue
        count = _gather(v, order, place, waits, time, reach, paths, near)
        head[v] = max(head[v], _worked_off(near, count, time, head, devices, paths, cells))


@njit(part=True)
def _gather(
    v: int, order: IntArray, place: IntArray, waits: Edges, time: IntArray, reach: int, paths: Paths, near: IntArray
) -> int:
    """Fill ``paths`` for the ancestors of v at most ``reach`` positions before it, and list them."""
    seen, inner, between, sent = paths.seen, paths.inner, paths.between, paths.send
    count = 0
    for k in range(place[v], max(-1, place[v] - 1 - reach), -1):
        u = order[k]
        if u != v:
            if seen[u] != v:
                continue
            near[count] = u
            count += 1
        for i in range(waits.at[u], waits.at[u + 1]):
            w = waits.other[i]
            length = 0 if u == v else inner[u] + time[u]
            far = 0 if u == v else between[u] + time[u]
            send = min(NEVER, waits.send[i] if u == v else min(sent[u], waits.send[i]))
            if seen[w] != v:
                seen[w], inner[w], between[w], sent[w] = v, length, far, send
                continue
            inner[w] = max(inner[w], length)
            if far + send > between[w] + sent[w]:
                between[w], sent[w] = far, send
    return count


@njit(part=True)
def _worked_off(
    near: IntArray, count: int, time: IntArray, head: IntArray, devices: int, paths: Paths, cells: Cells
) -> int:
    """The least start that leaves enough time for each set J of ``near[:count]``."""
    high_head, high_far = 1, 1
    for k in range(count):
        u = near[k]
        high_head = max(high_head, head[u])
        if paths.send[u] < NEVER:
            high_far = max(high_far, paths.between[u] + paths.send[u])
    work, first, inner, least = cells.work, cells.head, cells.inner, cells.far
    work[:], first[:], inner[:], least[:] = 0, NEVER, NEVER, NEVER
    for k in range(count):
        u = near[k]
        if time[u] > 0:
            far = min(high_far, paths.between[u] + paths.send[u])
            a, b = head[u] * (CELLS - 1) // high_head, far * (CELLS - 1) // high_far
            work[a, b] += time[u]
            first[a, b] = min(first[a, b], head[u])
            inner[a, b] = min(inner[a, b], paths.inner[u])
            least[a, b] = min(least[a, b], far)
    best = 0
    for a in range(CELLS - 1, -1, -1):
        for b in range(CELLS - 1, -1, -1):
            work[a, b] += work[a + 1, b] + work[a, b + 1] - work[a + 1, b + 1]
            first[a, b] = min(first[a, b], first[a + 1, b], first[a, b + 1])
            inner[a, b] = min(inner[a, b], inner[a + 1, b], inner[a, b + 1])
            least[a, b] = min(least[a, b], least[a + 1, b], least[a, b + 1])
            if work[a, b] > 0:
                alone = inner[a, b] + work[a, b]  # after the head, if one device does all of it
                if alone > least[a, b]:
                    alone = -(-(alone + (devices - 1) * least[a, b]) // devices)
                best = max(best, first[a, b] + alone)
    return best
