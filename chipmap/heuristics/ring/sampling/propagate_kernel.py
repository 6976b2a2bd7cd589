"""The compiled propagator of the ring's constraints over chip intervals (numba).

:mod:`chipmap.heuristics.ring.sampling.propagate` says what is propagated and why it is sound. All functions that
tighten return False on a contradiction; what changed lies on the trail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.heuristics.ring.sampling.propagate_memory import memory
from chipmap.heuristics.ring.sampling.propagate_state import Net, PropagationState, at_least, at_most, pop
from chipmap.kernels import njit

ONE = np.uint64(1)
ZERO = np.uint64(0)
#: How C2 is seen to: not in force; by the least solution (``path`` on a connected graph); by counting.
NO_PREFIX, LEAST, COUNT = 0, 1, 2


@njit(part=True)
def _flows(ends_at: Any, ends: Any, allowed: Any, box: Any, trail: Any, queue: Any, v: int) -> bool:
    """0 <= f(y) - f(x) <= cap on the flows (x, y) of operation v."""
    lo, hi = box[v, 0], box[v, 1]
    for e in range(ends_at[0, v], ends_at[0, v + 1]):
        w, cap = ends[0, e, 0], ends[0, e, 1]
        if lo > box[w, 0] and not at_least(allowed, box, trail, queue, w, lo):  # most are no news: spare the call
            return False
        if hi + cap < box[w, 1] and not at_most(allowed, box, trail, queue, w, hi + cap):
            return False
    for e in range(ends_at[1, v], ends_at[1, v + 1]):
        u, cap = ends[1, e, 0], ends[1, e, 1]
        if hi < box[u, 1] and not at_most(allowed, box, trail, queue, u, hi):
            return False
        if lo - cap > box[u, 0] and not at_least(allowed, box, trail, queue, u, lo - cap):
            return False
    return True


@njit(part=True)
def _one_of(allowed: Any, box: Any, trail: Any, queue: Any, u: int, w: int, v: int) -> bool:
    """f(w) is f(u) or f(v), where f(u) <= f(w) <= f(v)."""
    if box[w, 0] > box[u, 1]:
        if box[v, 0] > box[w, 0] and not at_least(allowed, box, trail, queue, w, box[v, 0]):
            return False
        if box[w, 1] < box[v, 1] and not at_most(allowed, box, trail, queue, v, box[w, 1]):
            return False
    if box[w, 1] < box[v, 0]:
        if box[u, 1] < box[w, 1] and not at_most(allowed, box, trail, queue, w, box[u, 1]):
            return False
        return box[w, 0] <= box[u, 0] or at_least(allowed, box, trail, queue, u, box[w, 0])
    return True


@njit(part=True)
def _skips(skips_at: Any, skips: Any, allowed: Any, box: Any, trail: Any, queue: Any, x: int) -> bool:
    """The skips of which operation x is an end or lies between the ends."""
    for s in range(skips_at[x], skips_at[x + 1]):
        if not _one_of(allowed, box, trail, queue, skips[s, 0], skips[s, 1], skips[s, 2]):
            return False
    return True


@njit(part=True)
def _quotient(flows: Any, box: Any, sets: Any) -> bool:
    """Edges and reachability between chips that the placed operations make; False if they break C3."""
    chips = sets.shape[1]
    sends, heard, after, before = sets[0], sets[1], sets[2], sets[3]
    sends[:] = ZERO
    heard[:] = ZERO
    for e in range(len(flows)):
        u, v = flows[e, 0], flows[e, 1]
        a, b = box[u, 0], box[v, 0]
        if a != b and a == box[u, 1] and b == box[v, 1]:
            sends[a] |= ONE << np.uint64(b)
            heard[b] |= ONE << np.uint64(a)
    for a in range(chips - 1, -1, -1):
        after[a] = sends[a]
        for b in range(a + 1, chips):
            if (sends[a] >> np.uint64(b)) & ONE:
                after[a] |= after[b]
    for b in range(chips):
        before[b] = heard[b]
        for a in range(b):
            if (heard[b] >> np.uint64(a)) & ONE:
                before[b] |= before[a]
                if after[a] & heard[b] != ZERO:
                    return False
    return True


@njit(part=True)
def _breaks(sets: Any, a: int, b: int) -> bool:
    """Whether an edge from chip a to chip b > a would break C3, given the edges of the placed operations."""
    sends, heard, after, before = sets[0], sets[1], sets[2], sets[3]
    if (sends[a] >> np.uint64(b)) & ONE:
        return False
    if after[a] & heard[b] != ZERO or before[a] & heard[b] != ZERO:
        return True
    source = before[a] | (ONE << np.uint64(a))
    goal = after[b] | (ONE << np.uint64(b))
    for y in range(b + 1, len(heard)):  # noqa: SIM110 - any() does not compile
        if heard[y] & source != ZERO and heard[y] & goal != ZERO:
            return True
    return False


@njit(part=True)
def _trim(sets: Any, allowed: Any, box: Any, trail: Any, queue: Any, w: int, a: int, forward: bool) -> bool:
    """Narrow operation w, which reads from (``forward``) or feeds a placed operation on chip a, by C3."""
    while True:
        c = box[w, 0]
        if c == a or not (_breaks(sets, a, c) if forward else _breaks(sets, c, a)):
            break
        if not at_least(allowed, box, trail, queue, w, c + 1):
            return False
    while True:
        c = box[w, 1]
        if c == a or not (_breaks(sets, a, c) if forward else _breaks(sets, c, a)):
            return True
        if not at_most(allowed, box, trail, queue, w, c - 1):
            return False


@njit(part=True)
def _triangle(flows: Any, sets: Any, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """C3 on the placed operations, and on those with one placed neighbour."""
    if not _quotient(flows, box, sets):
        return False
    for e in range(len(flows)):
        u, v = flows[e, 0], flows[e, 1]
        u_placed, v_placed = box[u, 0] == box[u, 1], box[v, 0] == box[v, 1]
        if u_placed and not v_placed and not _trim(sets, allowed, box, trail, queue, v, box[u, 0], True):
            return False
        if v_placed and not u_placed and not _trim(sets, allowed, box, trail, queue, u, box[v, 0], False):
            return False
    return True


@njit(part=True)
def _least(box: Any) -> bool:
    """C2 by the least solution: some operation can be on chip 0."""
    for v in range(len(box)):
        if box[v, 0] == 0:
            return True
    return len(box) == 0


@njit(part=True)
def _count(counts: Any, allowed: Any, box: Any, trail: Any, queue: Any) -> bool:
    """C2 by counting: chips a … b, if all in use, need b - a + 1 operations that can be there."""
    chips = counts.shape[1] - 1
    counts[:] = 0
    top = 0
    for v in range(len(box)):
        counts[0, box[v, 1] + 1] += 1  # counts[0, a]: those with hi < a, once summed up
        counts[1, box[v, 0]] += 1  # counts[1, b]: those with lo <= b, once summed up
        top = max(top, box[v, 0])
    for c in range(chips):
        counts[0, c + 1] += counts[0, c]
        counts[1, c + 1] += counts[1, c]
    for b in range(chips):
        for a in range(b, -1, -1):
            if counts[1, b] - counts[0, a] < b - a + 1:
                return b > top and _all_below(allowed, box, trail, queue, b)
        if b <= top and counts[1, b] - counts[0, b] == 1 and not _fill(allowed, box, trail, queue, b):
            return False
    return True


@njit(part=True)
def _all_below(allowed: Any, box: Any, trail: Any, queue: Any, b: int) -> bool:
    """No operation on chip b or a later one."""
    for v in range(len(box)):  # noqa: SIM110
        if not at_most(allowed, box, trail, queue, v, b - 1):
            return False
    return True


@njit(part=True)
def _fill(allowed: Any, box: Any, trail: Any, queue: Any, c: int) -> bool:
    """Put the only operation that can be on chip c there (the counts stay as they were: too high at worst)."""
    for v in range(len(box)):
        if box[v, 0] <= c <= box[v, 1]:
            if not at_least(allowed, box, trail, queue, v, c):
                return False
            return at_most(allowed, box, trail, queue, v, c)
    return True


@njit(part=True)
def _settle(net: Net, state: PropagationState) -> bool:
    box, trail, queue, allowed = state.box, state.trail, state.queue, net.allowed
    ends_at, ends, skips_at, skips = net.ends_at, net.ends, net.skips_at, net.skips
    prefix, triangle = net.modes[0], net.modes[1]
    while True:
        while queue[1] > 0:
            v = pop(box, queue)
            if not _flows(ends_at, ends, allowed, box, trail, queue, v):
                return False
            if skips_at[v] < skips_at[v + 1] and not _skips(skips_at, skips, allowed, box, trail, queue, v):
                return False
        if triangle and not _triangle(net.flows, state.sets, allowed, box, trail, queue):
            return False
        binds = queue[1] == 0 and net.sizes.sram[0] >= 0
        if binds and not memory(net.sizes, state.room, allowed, box, trail, queue):
            return False
        if queue[1] == 0:
            if prefix == LEAST and not _least(box):
                return False
            if prefix == COUNT and not _count(state.counts, allowed, box, trail, queue):
                return False
            if queue[1] == 0:
                return True


@njit(part=True)
def propagate(net: Net, state: PropagationState) -> bool:
    """Tighten until nothing changes; False (and an empty queue) if no valid mapping is left."""
    if _settle(net, state):
        return True
    while state.queue[1] > 0:
        pop(state.box, state.queue)
    return False


@njit(part=True)
def place(net: Net, state: PropagationState, v: int, c: int) -> bool:
    """f(v) = c, a chip of its domain, and what follows from it."""
    at_least(net.allowed, state.box, state.trail, state.queue, v, c)
    at_most(net.allowed, state.box, state.trail, state.queue, v, c)
    return propagate(net, state)
