"""Lower bounds on T1 and T2 of family ``placement``.

Let p(v) be the least time of operation v on any allowed device and c(s) the least time of storage s over any route.

1. **Heads with communication** e(v) <= start(v). If an ancestor u of v is on another device than v, some edge of each
   path from u to v is a transfer. So v can't start before val(u) = e(u) + p(u) + (what lies on a path between) + (the
   least c on that path). Hence, for any starting time, all ancestors with a greater val run on v's device, one after
   the other, and have ended: e(v) >= min over k of max(when the k ancestors of greatest val are done on one machine
   from their heads, the val that follows) (after Papadimitriou and Yannakakis, 1990). To look at some ancestors only
   is a relaxation: the :data:`NEAREST` last ones in topological order are. **Tails** q(v) <= T1 - end(v) likewise, on
   the reversed graph.
2. **Path**: max e + p + q. **Group**: operations that share a device (C1) run on one.
3. **Target**: if T1 <= T, no edge with e(u) + p(u) + c + p(w) + q(w) > T joins two devices. What such edges join is
   on one device, which limits T. The greatest T that this refutes is found by bisection.

Rests between operations and transfers, channels and memory are left out, which only lowers the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.shared import joined
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.sorting import argsort

#: So many ancestors are looked at.
NEAREST = 64
#: More than any time: c where there is no route.
NO_WAY = 2**61
#: Operations per call of compiled code, after which the clock is looked at.
CHUNK = 4_000


class Edges(NamedTuple):
    """For each operation those that it waits for, with the least c on the way: ``other[at[v]:at[v + 1]]``, ``send``."""

    at: IntArray
    other: IntArray
    send: IntArray


class HeadsAndTails(NamedTuple):
    """Heads e, least times p and tails q [N], in ns."""

    head: IntArray
    time: IntArray
    tail: IntArray


def least_times(problem: PlacementProblem) -> IntArray:
    """p(v): the least over the allowed devices [N]."""
    return np.where(problem.allowed, problem.time, NO_WAY).min(axis=1, initial=NO_WAY)


def least_sends(problem: PlacementProblem) -> IntArray:
    """c(s): the least over all routes [S]; :data:`NO_WAY` where there is none."""
    kinds = np.unique(problem.network.kind[problem.network.kind >= 0])
    if not kinds.size:
        return np.full(len(problem.storages), NO_WAY, dtype=np.int64)
    found: IntArray = problem.storages.time[:, kinds].min(axis=1)
    return found


def edges(problem: PlacementProblem, reverse: bool) -> Edges:
    """What each operation waits for; ``reverse``: its readers."""
    storages, send = problem.storages, least_sends(problem)[problem.storages.read]
    here, there = (storages.sources, storages.readers)[:: 1 if reverse else -1]
    order = np.argsort(here, kind="stable")
    at = np.searchsorted(here[order], np.arange(problem.operations + 1)).astype(np.int64)
    return Edges(at, there[order], send[order])


def directions(problem: PlacementProblem) -> Iterator[tuple[IntArray, IntArray, Edges]]:
    """(order, position in it, what each operation waits for) of the graph, for heads, and of the reversed one."""
    for reverse in (False, True):
        order = problem.order[::-1].copy() if reverse else problem.order
        place = np.empty(problem.operations, dtype=np.int64)
        place[order] = np.arange(problem.operations)
        yield order, place, edges(problem, reverse)


def heads_and_tails(problem: PlacementProblem, deadline: Deadline) -> HeadsAndTails:
    """Heads and tails; where the deadline passes, those not reached are 0."""
    time, found = least_times(problem), []
    for order, place, waits in directions(problem):
        head = np.zeros(problem.operations, dtype=np.int64)
        for low in range(0, problem.operations, CHUNK):
            if not deadline.keep_going():
                break
            heads(order[low : low + CHUNK], place, waits, time, head)
        found.append(head)
    return HeadsAndTails(found[0], time, found[1])


@njit(cache=True, nogil=True)
def heads(order: IntArray, place: IntArray, waits: Edges, time: IntArray, head: IntArray) -> None:
    """Fill ``head`` for the operations of ``order``, where ``place`` is the position in the whole order."""
    most = 4 * NEAREST
    known, inner, least = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    near, val = np.zeros(NEAREST, np.int64), np.zeros(NEAREST, np.int64)
    for v in order:
        size, count, direct = 0, 0, 0
        u, length, cut = v, 0, NO_WAY
        while True:
            # u is v or an ancestor; ``length`` lies between its end and v's start on a path, ``cut`` is its least c
            for i in range(waits.at[u], waits.at[u + 1]):
                w = waits.other[i]
                if u == v:
                    direct = max(direct, head[w] + time[w])
                between = 0 if u == v else length + time[u]
                send = min(cut, waits.send[i])
                at = 0
                while at < size and known[at] != w:
                    at += 1
                if at == size:
                    if size == most:
                        continue
                    known[at], inner[at], least[at] = w, between, send
                    size += 1
                elif between + send > inner[at] + least[at]:
                    inner[at], least[at] = between, send
            if count == NEAREST or size == 0:
                break
            last = 0
            for at in range(1, size):
                if place[known[at]] > place[known[last]]:
                    last = at
            u, length, cut = known[last], inner[last], least[last]
            size -= 1
            known[last], inner[last], least[last] = known[size], inner[size], least[size]
            near[count], val[count] = u, min(NO_WAY, head[u] + time[u] + length + cut)
            count += 1
        head[v] = max(direct, _together(near, val, count, time, head))


@njit(part=True)
def _together(near: IntArray, val: IntArray, count: int, time: IntArray, head: IntArray) -> int:
    """min over k of max(completion of the k operations of greatest val on one machine, the val that follows)."""
    order = argsort(val, count, -1)
    best = NO_WAY
    chosen = np.zeros(count, np.int64)
    for k in range(count + 1):
        # ``chosen[:k]`` are the first k, in the order of their heads: so one machine is done first
        done = 0
        for i in range(k):
            done = max(done, head[chosen[i]]) + time[chosen[i]]
        following = val[order[k]] if k < count else 0
        best = min(best, max(done, following))
        if done >= best or k == count:
            break
        u = near[order[k]]
        i = k
        while i > 0 and head[chosen[i - 1]] > head[u]:
            chosen[i] = chosen[i - 1]
            i -= 1
        chosen[i] = u
    return best


def path(w: HeadsAndTails) -> int:
    """max e + p + q."""
    return int((w.head + w.time + w.tail).max(initial=0))


def group(problem: PlacementProblem, w: HeadsAndTails | None = None) -> int:
    """The operations of a group one after the other on the device that suits them: least head + Σ p + least tail."""
    count = problem.operations
    times, fine = np.zeros_like(problem.time), np.ones_like(problem.allowed)
    np.add.at(times, problem.group, problem.time)
    np.logical_and.at(fine, problem.group, problem.allowed)
    least = np.where(fine, times, NO_WAY).min(axis=1, initial=NO_WAY)
    around = np.zeros(count, dtype=np.int64)
    for given in () if w is None else (w.head, w.tail):
        first = np.full(count, NO_WAY, dtype=np.int64)
        np.minimum.at(first, problem.group, given)
        around += first
    some = np.unique(problem.group)
    some = some[least[some] < NO_WAY]
    return int((around[some] + least[some]).max(initial=0))


def _needed(problem: PlacementProblem, w: HeadsAndTails) -> IntArray:
    """T1 at least if what each of ``storages.readers`` reads comes from another device."""
    u, v = problem.storages.sources, problem.storages.readers
    send = least_sends(problem)[problem.storages.read]
    found: IntArray = w.head[u] + w.time[u] + send + w.time[v] + w.tail[v]
    return found


def target(problem: PlacementProblem, w: HeadsAndTails, low: int, high: int, deadline: Deadline) -> int:
    """The smallest target T in low … high that isn't refuted; all smaller ones are, so that it is a bound."""
    u, v, value = problem.storages.sources, problem.storages.readers, _needed(problem, w)
    by_head = np.argsort(-w.head, kind="stable")
    while low < high and deadline.keep_going():
        middle = (low + high) // 2
        uncut = value > middle
        if refuted(u[uncut], v[uncut], problem.group, by_head, w, problem.devices, middle):
            low = middle + 1
        else:
            high = middle
    return low


def parts(problem: PlacementProblem, w: HeadsAndTails, limit: int) -> IntArray:
    """For each operation the least one with which it shares a device in every schedule with T1 <= ``limit`` [N]."""
    uncut = _needed(problem, w) > limit
    found: IntArray = joined(
        problem.group, problem.storages.sources[uncut], problem.storages.readers[uncut], w.time, NO_WAY
    )
    return found


@njit(cache=True, nogil=True)
def refuted(
    u: IntArray, v: IntArray, group_of: IntArray, by_head: IntArray, w: HeadsAndTails, devices: int, limit: int
) -> bool:
    """Whether T1 <= ``limit`` is impossible if each edge (u, v) and each group is on one device."""
    count = len(group_of)
    part = joined(group_of, u, v, w.time, NO_WAY)
    work, tail = np.zeros(count, np.int64), np.full(count, NO_WAY, np.int64)
    for one in by_head:  # from the latest head on: those so far all start at this head or later
        a = part[one]
        work[a] += w.time[one]
        tail[a] = min(tail[a], w.tail[one])
        if w.head[one] + work[a] + tail[a] > limit:
            return True
    order = argsort(work, count, -1)
    return count > devices and work[order[devices - 1]] + work[order[devices]] > limit
