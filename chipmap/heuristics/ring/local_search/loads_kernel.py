"""What a mapping puts on chips and links, kept up to date while operations move (compiled, numba).

:mod:`chipmap.heuristics.ring.local_search.search` says what is searched, :mod:`.moves_kernel` how. Moves keep C1, so
that all flows lead to later chips. When an operation moves, the storages that it makes or reads are taken away, and put
back when it has moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.kernels import njit

ONE, NOTHING = np.uint64(1), np.uint64(0)
#: Operations that move at once, at most.
MOST_TOGETHER = 40


class Net(NamedTuple):
    """The computing operations, numbered 0 … n - 1 in topological order: ``ticks`` and ``weights`` [n].

    The storages that v makes are ``made[made_first[v] : made_first[v + 1]]``; likewise those that it ``reads``, the
    shared constants (``shared``) that it reads, and the ``readers`` of a storage. ``producer``, ``link`` ticks and
    ``bytes`` are per storage, ``shared_bytes`` per shared constant. ``allowed`` [n, C]: the chips of each operation
    (empty: it may go anywhere).
    """

    ticks: Any
    weights: Any
    made_first: Any
    made: Any
    reads_first: Any
    reads: Any
    shared_first: Any
    shared: Any
    readers_first: Any
    readers: Any
    producer: Any
    link: Any
    bytes: Any
    shared_bytes: Any
    allowed: Any


class Place(NamedTuple):
    """A mapping, ``chip`` [n], and what follows from it.

    Per chip: ``work``, ``load`` of the link after it, ``moved`` ticks of the storages that it sends or receives,
    ``weights`` and ``boundary`` bytes, ``over`` (what it exceeds the goal by), ``senders``: bit k says that chip
    c - 1 - k sends to it. ``flows`` [C, C] counts the pairs (storage, reader) from chip to chip, ``held`` [constants,
    C] the readers of a shared constant. ``seen`` [C + 1], ``ancestors`` [C] and ``marked`` [n + 1] are for marks.
    """

    chip: Any
    work: Any
    load: Any
    moved: Any
    weights: Any
    boundary: Any
    over: Any
    senders: Any
    flows: Any
    held: Any
    seen: Any
    ancestors: Any
    marked: Any


class Goal(NamedTuple):
    """What is asked: at most ``target`` ticks per chip and link in cost ``mode`` (0 period, 1 sum, 2 sum_forward) and
    ``sram`` bytes per chip (-1: no limit). A pair of chips that breaks C3 adds ``pair`` to the excess, and ``flow`` for
    each of its flows.
    """

    target: int
    mode: int
    sram: int
    pair: float
    flow: float


@njit(part=True)
def over(place: Place, goal: Goal, c: int) -> float:
    """What chip c and the link after it exceed the goal by, in shares of the target and of the SRAM."""
    more = 0.0
    time = place.work[c]
    if goal.mode == 0:
        if place.load[c] > goal.target:
            more += (place.load[c] - goal.target) / goal.target
    elif goal.mode == 1:
        time += place.moved[c]
    else:
        time += place.load[c] + (place.load[c - 1] if c else 0)
    if time > goal.target:
        more += (time - goal.target) / goal.target
    memory = place.weights[c] + 2 * place.boundary[c]
    if goal.sram >= 0 and memory > goal.sram:
        more += 1.0 + (memory - goal.sram) / (goal.sram + 1.0)
    return more


@njit(part=True, forceinline=True)
def put(net: Net, place: Place, s: int, sign: int) -> bool:
    """Put storage s where its producer and readers are (``sign`` 1), or take it away (-1); whether a pair of chips
    begins or ceases to have flows.
    """
    p = place.chip[net.producer[s]]
    ticks, bytes_, seen = sign * net.link[s], sign * net.bytes[s], place.seen
    seen[-1] += 1
    seen[p] = seen[-1]
    last, changed = p, False
    for at in range(net.readers_first[s], net.readers_first[s + 1]):
        q = place.chip[net.readers[at]]
        if q == p:
            continue
        flows = place.flows[p, q]
        place.flows[p, q] = flows + sign
        if (flows == 0) if sign > 0 else (flows == 1):
            place.senders[q] ^= ONE << np.uint64(q - 1 - p)
            changed = True
        if seen[q] != seen[-1]:
            seen[q] = seen[-1]
            place.moved[q] += ticks
            place.boundary[q] += bytes_
            last = max(last, q)
    if last > p:
        place.moved[p] += ticks
        place.boundary[p] += bytes_
        for c in range(p, last):
            place.load[c] += ticks
    return changed


@njit(part=True, forceinline=True)
def hold(net: Net, place: Place, v: int, sign: int) -> None:
    """Add the work and the weights of v to its chip (``sign`` 1), or take them away (-1)."""
    c = place.chip[v]
    place.work[c] += sign * net.ticks[v]
    place.weights[c] += sign * net.weights[v]
    for at in range(net.shared_first[v], net.shared_first[v + 1]):
        s = net.shared[at]
        before = place.held[s, c]
        place.held[s, c] = before + sign
        if min(before, before + sign) == 0:  # the first reader comes, or the last one goes
            place.weights[c] += sign * net.shared_bytes[s]


@njit(part=True)
def ascending(items: Any, count: int) -> None:
    """Sort the first ``count`` (few) of the items; numba's own sort takes a second to compile."""
    for i in range(1, count):
        item, at = items[i], i
        while at > 0 and items[at - 1] > item:
            items[at] = items[at - 1]
            at -= 1
        items[at] = item


@njit(cache=True)
def fill(net: Net, place: Place) -> None:
    """All of the mapping ``place.chip``, where nothing is counted yet."""
    for v in range(len(net.ticks)):
        hold(net, place, v, 1)
    for s in range(len(net.link)):
        put(net, place, s, 1)


@njit(part=True)
def shift(net: Net, place: Place, v: int, d: int) -> bool:
    """Move v to chip d; whether a pair of chips begins or ceases to have flows."""
    changed = False
    for sign in range(-1, 2, 2):
        if sign == 1:
            place.chip[v] = d
        hold(net, place, v, sign)
        for side in range(2):
            firsts, storages = (net.made_first, net.made) if side == 0 else (net.reads_first, net.reads)
            for at in range(firsts[v], firsts[v + 1]):
                changed |= put(net, place, storages[at], sign)
    return changed


@njit(part=True)
def broken(place: Place, goal: Goal) -> float:
    """What pairs of chips that break C3 add to the excess: a sends to b, and to a chip from which another sender of b
    is reached.

    Senders and ancestors of b are the bits of the 64 chips before it; with C1 no other chip matters.
    """
    total = 0.0
    if goal.pair + goal.flow == 0.0:
        return total
    for b in range(len(place.senders)):
        mine = left = place.senders[b]
        above = bad = NOTHING
        k = 0
        while left:
            while not left & ONE:
                left >>= ONE
                k += 1
            before = place.ancestors[b - 1 - k] << np.uint64(k + 1) if k < 63 else NOTHING
            bad |= before & mine
            above |= before | (ONE << np.uint64(k))
            left >>= ONE
            k += 1
        place.ancestors[b] = above
        k = 0
        while bad:
            if bad & ONE:
                total += goal.pair + goal.flow * place.flows[b - 1 - k, b]
            bad >>= ONE
            k += 1
    return total


@njit(part=True)
def excess(place: Place, goal: Goal) -> float:
    """What all chips, links and pairs exceed the goal by: 0 where the mapping meets it."""
    total = 0.0
    for c in range(len(place.work)):
        place.over[c] = over(place, goal, c)
        total += place.over[c]
    return total + broken(place, goal)
