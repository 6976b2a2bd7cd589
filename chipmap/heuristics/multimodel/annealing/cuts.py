"""The cuts of a path: balanced ones, and the best ones by a forward program."""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.multimodel.annealing.state import BOTH, Slots, Tables, compiled, segment_time


@compiled
def greedy(p: Tables, k: Slots, i: int, high: int, most: int) -> bool:
    """Cut layers up to below ``high`` so that each segment takes at most ``most``, the first ones as long as may be."""
    m, n, a = k.model[i], k.size[i], k.first[i]
    for j in range(n):
        c, low, up = k.chip[i, j], a + 1, high - (n - 1 - j)
        if j == n - 1:
            if segment_time(p, m, a, high, c, j == 0, j == n - 1) > most:
                return False
            k.end[i, j] = high
            return True
        if segment_time(p, m, a, low, c, j == 0, j == n - 1) > most:
            return False
        while low < up:
            middle = (low + up + 1) // 2
            if segment_time(p, m, a, middle, c, j == 0, j == n - 1) <= most:
                low = middle
            else:
                up = middle - 1
        k.end[i, j] = low
        a = low
    return True


@compiled
def balance(p: Tables, k: Slots, i: int, high: int) -> bool:
    """Cut layers up to below ``high`` for a small slowest segment, on the chiplets of the slot."""
    m, n = k.model[i], k.size[i]
    if high - k.first[i] < n or n == 0:
        return False
    row, low, up = p.base[m], 0, 0
    for j in range(n):
        c = k.chip[i, j]
        up = max(up, p.time[row + high, c] - p.time[row + k.first[i], c] + p.read_time[row + k.first[i], c])
        for b in (k.first[i] + 1, high):
            up = max(up, p.write_time[row + b - 1, c])
    up = 2 * up + 1
    while not greedy(p, k, i, high, up):
        up *= 2
    while up - low > 1 + (up >> 8):
        middle = (low + up) // 2
        if greedy(p, k, i, high, middle):
            up = middle
        else:
            low = middle
    return greedy(p, k, i, high, up)


@compiled
def recut(p: Tables, k: Slots, i: int, rate: float, most: int) -> bool:
    """The cuts of least Σ rate · t + energy on the slot's chiplets, with no t above ``most``: a forward program."""
    m, n, first, high = k.model[i], k.size[i], k.first[i], k.end[i, k.size[i] - 1]
    row, length = p.base[m], high - first
    for j in range(n):
        c, old, new = k.chip[i, j], k.least[1 - j % 2], k.least[j % 2]
        for b in range(j + 1, length - (n - 1 - j) + 1):
            new[b] = np.inf
            if j == n - 1 and b < length:
                continue
            to = row + first + b
            after = p.write_time[to - 1, c] if j == n - 1 else p.send_time[to - 1]
            joules = p.write_energy[to - 1, c] if j == n - 1 else p.send_energy[to - 1]
            here = rate * (after + p.time[to, c]) + p.energy[to, c] + joules
            for a in range(b - 1 if j > 0 else 0, j - 1, -1):
                start = row + first + a
                before = p.time[start, c]
                if j == 0:
                    before -= p.read_time[start, c]
                elif p.task[BOTH] > 0:
                    before -= p.send_time[start - 1]
                if p.time[to, c] + after - p.time[start, c] > most:
                    break
                if p.time[to, c] + after - before > most:
                    continue
                value = here - rate * before - p.energy[start, c] + (old[a] if j > 0 else 0.0)
                if value < new[b]:
                    new[b] = value
                    k.cut[j, b] = a
    if not k.least[(n - 1) % 2, length] < np.inf:
        return False
    b = length
    for j in range(n - 1, -1, -1):
        k.end[i, j] = first + b
        b = k.cut[j, b]
    return True
