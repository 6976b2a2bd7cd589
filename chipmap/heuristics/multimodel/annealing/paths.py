"""Changes of a slot's path: a random walk, a chiplet more or less at an end, a detour or a shortcut on the way."""

from __future__ import annotations

from chipmap.heuristics.multimodel.annealing.state import ScheduleState, Slots, Tables, below, compiled, taken, uniform


@compiled
def walk(p: Tables, s: ScheduleState, k: Slots, i: int, n: int) -> bool:
    """A random path of up to ``n`` chiplets that no other model has; False where none is free."""
    k.size[i] = 0
    for _ in range(20):
        c = below(k, len(p.sram))
        if not taken(s, k, i, c):
            k.chip[i, 0] = c
            k.size[i] = 1
            break
    while 0 < k.size[i] < n:
        c, length = k.chip[i, k.size[i] - 1], k.size[i]
        turn = below(k, max(1, p.degree[c]))
        for step in range(p.degree[c]):
            to = p.near[c, (turn + step) % p.degree[c]]
            if not taken(s, k, i, to):
                k.chip[i, length] = to
                k.size[i] = length + 1
                break
        if k.size[i] == length:
            break
    return k.size[i] > 0


@compiled
def add(k: Slots, i: int, c: int, tail: bool, at: int) -> None:
    """A segment more on ``c``, behind the last one (or before the first), cut at layer ``at``."""
    n = k.size[i]
    if tail:
        k.end[i, n] = k.end[i, n - 1]
        k.chip[i, n], k.end[i, n - 1] = c, at
    else:
        for j in range(n, 0, -1):
            k.end[i, j], k.chip[i, j] = k.end[i, j - 1], k.chip[i, j - 1]
        k.end[i, 0], k.chip[i, 0] = at, c
    k.size[i] = n + 1


@compiled
def drop(k: Slots, i: int, tail: bool) -> None:
    """The last (or first) segment's layers go to the one beside it."""
    n = k.size[i] - 1
    if tail:
        k.end[i, n - 1] = k.end[i, n]
    else:
        for j in range(n):
            k.end[i, j], k.chip[i, j] = k.end[i, j + 1], k.chip[i, j + 1]
    k.size[i] = n


@compiled
def bend(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """One or two chiplets more (free ones) or less between two that follow each other; the cuts are to be made anew."""
    n = k.size[i]
    if n < 2:
        return False
    j = below(k, n - 1)
    here, there = k.chip[i, j], k.chip[i, j + 1]
    if uniform(k) < 0.5:  # a shortcut
        gone = 1 + int(2 * uniform(k))
        if j + gone + 1 >= n or not p.linked[here, k.chip[i, j + gone + 1]]:
            return False
        for h in range(j + 1, n - gone):
            k.chip[i, h] = k.chip[i, h + gone]
        k.size[i] = n - gone
        return True
    first = p.near[here, below(k, p.degree[here])]
    if taken(s, k, i, first):
        return False
    second, more = -1, 1
    if not p.linked[first, there]:
        turn, more = below(k, p.degree[first]), 2
        for step in range(p.degree[first]):
            c = p.near[first, (turn + step) % p.degree[first]]
            if p.linked[c, there] and not taken(s, k, i, c):
                second = c
                break
        if second < 0:
            return False
    if n + more > k.chip.shape[1]:
        return False
    for h in range(n - 1, j, -1):
        k.chip[i, h + more] = k.chip[i, h]
    k.chip[i, j + 1] = first
    if more == 2:
        k.chip[i, j + 2] = second
    k.size[i] = n + more
    return True
