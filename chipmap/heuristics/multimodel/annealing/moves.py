"""The moves of the annealing: each changes a model's segments in a window or two, and the loop that tries them.

A move fills slots (:mod:`chipmap.heuristics.multimodel.annealing.state`), of which ``i`` has its model, and says
whether it has something to propose.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.multimodel.annealing.cuts import balance, recut
from chipmap.heuristics.multimodel.annealing.paths import add, bend, drop, walk
from chipmap.heuristics.multimodel.annealing.state import (
    ScheduleState,
    Slots,
    Tables,
    accept,
    below,
    called,
    compiled,
    copy,
    judge,
    load,
    segment_time,
    uniform,
)
from chipmap.kernels.annealing import temperature


@compiled
def pick(s: ScheduleState, k: Slots) -> int:
    """A slot of a random model of a random window that it runs in, by its chiplets; -1 after many vain tries."""
    for _ in range(16):
        w, c = k.focus[0] + below(k, k.focus[1] - k.focus[0]), below(k, s.owner.shape[1])
        if s.owner[w, c] >= 0:
            return load(s, k, w, s.owner[w, c])
    return -1


@compiled
def rebalance(p: Tables, s: ScheduleState, k: Slots, i: int, high: int) -> bool:
    """New cuts for a slot's chiplets: balanced, and in one of four cases the best ones near that balance."""
    if not balance(p, k, i, high):
        return False
    return uniform(k) < 0.75 or high - k.first[i] > 150 or optimise(p, s, k, i)


@compiled
def optimise(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """The best cuts for a random weight of time, with the slowest segment at most a little above what it is."""
    m, a, slowest = k.model[i], k.first[i], 0
    for j in range(k.size[i]):
        t = segment_time(p, m, a, k.end[i, j], k.chip[i, j], j == 0, j == k.size[i] - 1)
        slowest, a = max(slowest, t), k.end[i, j]
    rate = s.totals[1] / max(1.0, float(s.totals[0])) * uniform(k) ** 3
    return recut(p, k, i, rate, int(slowest * (0.9 + 0.3 * uniform(k))) + 1)


@compiled
def cut(k: Slots, i: int) -> bool:
    """Move the cut between two segments."""
    if k.size[i] < 2:
        return False
    j = below(k, k.size[i] - 1)
    low, high = (k.end[i, j - 1] if j > 0 else k.first[i]) + 1, k.end[i, j + 1] - 1
    if uniform(k) < 0.6:
        step = 1 + int(3 * uniform(k))
        k.end[i, j] = min(high, max(low, k.end[i, j] + (step if uniform(k) < 0.5 else -step)))
    else:
        k.end[i, j] = low + below(k, high - low + 1)
    return True


@compiled
def grow(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """A chiplet more at an end of a path: a free one, or one that ends another model's path."""
    n, w, tail = k.size[i], k.window[i], uniform(k) < 0.5
    here = k.chip[i, n - 1 if tail else 0]
    if p.degree[here] == 0:
        return False
    c = p.near[here, below(k, p.degree[here])]
    m = s.owner[w, c]
    if m == k.model[i]:
        return False
    if m >= 0:
        other = load(s, k, w, m)
        last = k.chip[other, k.size[other] - 1] == c
        if k.size[other] == 1 or not (last or k.chip[other, 0] == c):
            return False
        drop(k, other, last)
        if uniform(k) < 0.5 and not rebalance(p, s, k, other, k.end[other, k.size[other] - 1]):
            return False
    low, high = (k.end[i, n - 2] if tail and n > 1 else k.first[i]), k.end[i, n - 1 if tail else 0]
    if high - low < 2 or uniform(k) < 0.5:
        end = k.end[i, n - 1]
        add(k, i, c, tail, end)
        return rebalance(p, s, k, i, end)
    add(k, i, c, tail, low + 1 + below(k, high - low - 1))
    return True


@compiled
def place(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """Another chiplet for a segment, or two segments exchange theirs."""
    w, m, n = k.window[i], k.model[i], k.size[i]
    j = below(k, n)
    to = below(k, len(p.sram))
    if n > 1:  # a neighbour of the chiplet beside it
        beside = k.chip[i, j - 1 if j > 0 else 1]
        to = p.near[beside, below(k, p.degree[beside])]
    c, owner = k.chip[i, j], s.owner[w, to]
    if to == c:
        return False
    if owner >= 0:
        other = i if owner == m else load(s, k, w, owner)
        for h in range(k.size[other]):
            if k.chip[other, h] == to:
                k.chip[other, h] = c
                break
    k.chip[i, j] = to
    return True


@compiled
def rewalk(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """A new random path: as long as before, or a chiplet more or less, or in one of five cases of any length."""
    n, high = k.size[i], k.end[i, k.size[i] - 1]
    longer = 1 + below(k, len(p.sram)) if uniform(k) < 0.2 else n - 1 + int(3 * uniform(k))
    if not walk(p, s, k, i, max(1, longer)):
        return False
    return (k.size[i] == n and uniform(k) < 0.5) or rebalance(p, s, k, i, high)


@compiled
def detour(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """A detour or a shortcut on the way of a path, with new cuts."""
    high = k.end[i, k.size[i] - 1]
    return bend(p, s, k, i) and rebalance(p, s, k, i, high)


@compiled
def until(p: Tables, s: ScheduleState, k: Slots, i: int, high: int) -> bool:
    """Let a slot's range end before layer ``high``; a first segment goes to a free chiplet."""
    if high <= k.first[i]:
        k.size[i] = 0
        return True
    if k.size[i] == 0:
        if not walk(p, s, k, i, 1 if uniform(k) < 0.5 else 1 + below(k, len(p.sram))):
            return False
        n = k.size[i]
        k.size[i] = min(n, high - k.first[i])
        return balance(p, k, i, high)
    while k.size[i] > 1 and k.end[i, k.size[i] - 2] >= high:
        k.size[i] -= 1
    k.end[i, k.size[i] - 1] = high
    return True


@compiled
def since(p: Tables, s: ScheduleState, k: Slots, i: int, low: int) -> bool:
    """Let a slot's range begin with layer ``low``; a first segment goes to a free chiplet."""
    if k.size[i] == 0:
        high = k.first[i]
        k.first[i] = low
        return until(p, s, k, i, high)
    n, high = k.size[i], k.end[i, k.size[i] - 1]
    k.first[i] = low
    if low >= high:
        k.size[i] = 0
        return True
    gone = 0
    while k.end[i, gone] <= low:
        gone += 1
    for j in range(gone, n):
        k.end[i, j - gone], k.chip[i, j - gone] = k.end[i, j], k.chip[i, j]
    k.size[i] = n - gone
    return True


@compiled
def shift(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """Give layers of a model's range, or all of it, to the window before or behind."""
    w, m = k.window[i], k.model[i]
    v = w + 1 if uniform(k) < 0.5 else w - 1
    if not k.focus[0] <= v < k.focus[1]:
        return False
    o = load(s, k, v, m)
    a, b = (i, o) if v > w else (o, i)
    low = k.first[a]
    high = k.end[b, k.size[b] - 1] if k.size[b] > 0 else k.first[b]
    middle, r = k.first[b], uniform(k)
    if r < 0.4:
        step = 1 + int(4 * uniform(k))
        at = middle + (step if uniform(k) < 0.5 else -step)
    elif r < 0.8:
        at = low + below(k, high - low + 1)
    else:
        at = low if v > w else high
    at = max(low, min(high, at))
    if at == middle or not until(p, s, k, a, at) or not since(p, s, k, b, at):
        return False
    for x in (a, b):
        if k.size[x] > 0 and uniform(k) < 0.3 and not rebalance(p, s, k, x, k.end[x, k.size[x] - 1]):
            return False
    return True


@compiled
def reoptimise(p: Tables, s: ScheduleState, k: Slots, i: int) -> bool:
    """The best cuts of a range on its chiplets."""
    if k.size[i] < 2:
        return False
    length = k.end[i, k.size[i] - 1] - k.first[i]
    return (length < 100 or uniform(k) < 1e4 / length**2) and optimise(p, s, k, i)


@compiled
def swap_empty_window(s: ScheduleState, k: Slots) -> None:
    """An empty window changes places with the one before or behind, if there is one: nothing else changes."""
    w = k.focus[0] + below(k, k.focus[1] - k.focus[0] - 1)
    if (s.longest[w] == 0) == (s.longest[w + 1] == 0):
        return
    empty, full = (w, w + 1) if s.longest[w] == 0 else (w + 1, w)
    for m in range(s.first.shape[1]):
        n = s.size[full, m]
        after = s.end[full, m, n - 1] if n > 0 else s.first[full, m]
        before = s.first[full, m]
        for j in range(n):
            s.end[empty, m, j], s.chip[empty, m, j] = s.end[full, m, j], s.chip[full, m, j]
        s.size[empty, m], s.size[full, m] = n, 0
        s.first[empty, m], s.first[full, m] = before, after if empty < full else before
        s.latency[empty, m], s.latency[full, m] = s.latency[full, m], 0
        s.energy[empty, m], s.energy[full, m] = s.energy[full, m], 0
    for c in range(s.owner.shape[1]):
        s.owner[empty, c], s.owner[full, c] = s.owner[full, c], -1
    s.longest[empty], s.longest[full] = s.longest[full], 0
    s.shared[empty], s.shared[full] = s.shared[full], 0


@compiled
def propose(p: Tables, s: ScheduleState, k: Slots) -> bool:
    """A random move into the slots, of a random model in a random window."""
    r = uniform(k)
    k.used[0] = 0
    if r >= p.shares[6]:
        if k.focus[1] - k.focus[0] > 1:
            swap_empty_window(s, k)
        return False
    i = pick(s, k)
    if i < 0:
        return False
    if r < p.shares[0]:
        return cut(k, i)
    if r < p.shares[1]:
        return grow(p, s, k, i)
    if r < p.shares[2]:
        return place(p, s, k, i)
    if r < p.shares[3]:
        return rewalk(p, s, k, i)
    if r < p.shares[4]:
        return shift(p, s, k, i)
    if r < p.shares[5]:
        return reoptimise(p, s, k, i)
    return detour(p, s, k, i)


@called
def anneal(
    p: Tables,
    s: ScheduleState,
    best: ScheduleState,
    k: Slots,
    moves: int,
    hot: float,
    cold: float,
    latency_weight: float,
) -> None:
    """So many moves from temperature ``hot`` to ``cold``, shares of the value.

    Values are compared with all latencies, ``latency_weight`` times, beside T1.
    """
    now = s.value[0] * (1 + latency_weight * s.totals[2] / max(1, s.totals[0]))
    for move in range(moves):
        if not propose(p, s, k):
            continue
        value = judge(p, s, k)
        if value < 0:
            continue
        weighted = value * (1 + latency_weight * k.totals[2] / max(1, k.totals[0]))
        rise = weighted / max(now, 1e-300) - 1
        if rise <= 0 or rise < -temperature(hot, cold, move / moves) * np.log(1 - uniform(k)):
            accept(s, k, value)
            now = weighted
            if value < best.value[0] * (1 - 1e-12):
                copy(s, best)
