"""The compiled sweep of the programs over ideals (numba; one thread, no fastmath, cached)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

#: No chain yet.
INFINITE = np.int64(1) << np.int64(62)
ONE = np.uint64(1)


@njit(cache=True, inline="always")
def _has(words: Any, v: int) -> bool:
    return (words[v >> 6] >> np.uint64(v & 63)) & ONE != 0


@njit(cache=True)
def cut_ticks(words: Any, producer: Any, readers: Any, ticks: Any) -> Any:
    """[m] ticks of the storages made inside each ideal and read outside it."""
    cut = np.zeros(len(words), dtype=np.int64)
    for i in range(len(words)):
        for s in range(len(producer)):
            if _has(words[i], producer[s]):
                for w in range(words.shape[1]):
                    if readers[s, w] & ~words[i, w] != 0:
                        cut[i] += ticks[s]
                        break
    return cut


@njit(cache=True)
def _crossing(inside: Any, producers: Any, out: Any) -> int:
    """The operations outside the ideal with a producer inside, into ``out``; returns how many."""
    count = 0
    for v in range(len(producers)):
        if not _has(inside, v):
            for w in range(len(inside)):
                if producers[v, w] & inside[w] != 0:
                    out[count] = v
                    count += 1
                    break
    return count


@njit(cache=True)
def _between(inside: Any, v: int, producers: Any, ancestors: Any, descendants: Any, out: Any) -> None:
    """Into ``out``: operations outside the ideal, strictly between v and a producer of v inside the ideal."""
    out[:] = 0
    for w in range(len(inside)):
        word = producers[v, w] & inside[w]
        u = w * 64
        while word != 0:
            if word & ONE:
                for x in range(len(inside)):
                    out[x] |= descendants[u, x] & ancestors[v, x] & ~inside[x]
            word >>= ONE
            u += 1


@njit(cache=True)
def _obeys(rule: int, target: Any, crossing: Any, count: int, between: Any) -> bool:
    """Whether the block that ends at ``target`` obeys the rule (see the table of the module ``program``)."""
    for c in range(count):
        if not _has(target, crossing[c]):
            if rule == 2:
                return False
            for w in range(len(target)):
                if between[c, w] & target[w] != 0:
                    return False
    return True


@njit(cache=True)
def _extend(
    v: int,
    inside: Any,
    block_end: Any,
    storage_producer: Any,
    storage_readers: Any,
    storage_ticks: Any,
    storage_bytes: Any,
    read_first: Any,
    reads: Any,
    made_first: Any,
    made: Any,
    totals: Any,
) -> None:
    """Add operation v to the block block_end \\ inside: update ``totals`` = (ticks in, ticks out, boundary bytes).

    A storage that v is the first of the block to read enters; one made in the block leaves until all its readers are
    in the block too.
    """
    width = len(inside)
    for r in range(read_first[v], read_first[v + 1]):
        s = reads[r]
        if _has(inside, storage_producer[s]):
            fresh = True
            for w in range(width):
                if storage_readers[s, w] & block_end[w] & ~inside[w] != 0:
                    fresh = False
                    break
            if fresh:
                totals[0] += storage_ticks[s]
                totals[2] += storage_bytes[s]
        else:
            last = True
            for w in range(width):
                rest = storage_readers[s, w] & ~block_end[w]
                if w == v >> 6:
                    rest &= ~(ONE << np.uint64(v & 63))
                if rest != 0:
                    last = False
                    break
            if last:
                totals[1] -= storage_ticks[s]
                totals[2] -= storage_bytes[s]
    for m in range(made_first[v], made_first[v + 1]):
        totals[1] += storage_ticks[made[m]]
        totals[2] += storage_bytes[made[m]]


@njit(cache=True)
def _longer(array: Any, room: int) -> Any:
    longer = np.empty(room, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@njit(cache=True)
def sweep(
    words: Any,
    first: Any,
    added: Any,
    target: Any,
    cut: Any,
    ticks: Any,
    weights: Any,
    producers: Any,
    ancestors: Any,
    descendants: Any,
    allowed: Any,
    storage_producer: Any,
    storage_readers: Any,
    storage_ticks: Any,
    storage_bytes: Any,
    read_first: Any,
    reads: Any,
    made_first: Any,
    made: Any,
    rule: int,
    mode: int,
    sram: int,
    upper: int,
    chips: int,
    may_skip: bool,
    collect: int,
    start: int,
    stop: int,
    best: Any,
    parent: Any,
) -> Any:
    """From each ideal I of [start, stop), visit the ideals J above it while the block stays within the limits.

    With ``collect`` 0, each admissible pair relaxes best[J, k + 1] (value of the best chain of exactly k blocks to J,
    [m, chips + 1]) by max(best[I, k], cost(I, J)), and parent [m, chips + 1] remembers I. Otherwise the pairs are
    kept, at most ``collect`` of them. Returns the number of pairs (-1: more than ``collect``), and for collected
    pairs how many there are per ideal [stop - start], their target, cost and chips allowed.
    """
    m, width = words.shape
    n = len(ticks)
    seen = np.full(m, -1, dtype=np.int32)
    queue = np.empty(m, dtype=np.int32)
    work = np.empty(m, dtype=np.int64)
    weight = np.empty(m, dtype=np.int64)
    totals = np.zeros((m, 3), dtype=np.int64)
    domain = np.empty(m, dtype=np.uint64)
    crossing = np.empty(n, dtype=np.int64)
    between = np.zeros((n, width), dtype=np.uint64)
    track = mode == 1 or sram >= 0
    pairs = 0
    pair_count = np.zeros(stop - start, dtype=np.int64)
    room = min(collect, 1 << 16)
    pair_target = np.empty(room, dtype=np.int32)
    pair_cost = np.empty(room, dtype=np.int64)
    pair_chips = np.empty(room, dtype=np.uint64)
    for i in range(start, stop):
        if may_skip and not collect:
            idle = 2 * cut[i] if mode == 2 else cut[i] if mode == 0 else 0
            for k in range(chips):
                value = max(best[i, k], idle)
                if value <= upper and value < best[i, k + 1]:
                    best[i, k + 1] = value
                    parent[i, k + 1] = i
        low = chips
        for k in range(chips):
            if best[i, k] < INFINITE:
                low = k
                break
        if low == chips and not collect:
            continue
        inside = words[i]
        count = 0
        if rule != 0:
            count = _crossing(inside, producers, crossing)
            if rule == 1:
                for c in range(count):
                    _between(inside, crossing[c], producers, ancestors, descendants, between[c])
        head, tail = 0, 1
        queue[0], work[0], weight[0], domain[0] = i, 0, 0, ~np.uint64(0)
        totals[0] = 0
        while head < tail:
            at = queue[head]
            for s in range(first[at], first[at + 1]):
                j, v = target[s], added[s]
                if seen[j] == i:
                    continue
                if work[head] + ticks[v] > upper or (sram >= 0 and weight[head] + weights[v] > sram):
                    continue
                chip_set = domain[head] & allowed[v]
                if chip_set == 0:
                    continue
                seen[j] = i
                queue[tail] = j
                work[tail] = work[head] + ticks[v]
                weight[tail] = weight[head] + weights[v]
                domain[tail] = chip_set
                if track:
                    totals[tail] = totals[head]
                    _extend(
                        v,
                        inside,
                        words[at],
                        storage_producer,
                        storage_readers,
                        storage_ticks,
                        storage_bytes,
                        read_first,
                        reads,
                        made_first,
                        made,
                        totals[tail],
                    )
                here = tail
                tail += 1
                if mode == 0:
                    cost = max(work[here], cut[j])
                elif mode == 1:
                    cost = work[here] + totals[here, 0] + totals[here, 1]
                else:
                    cost = work[here] + cut[i] + cut[j]
                if cost > upper:
                    continue
                if sram >= 0 and weight[here] + 2 * totals[here, 2] > sram:
                    continue
                if rule != 0 and not _obeys(rule, words[j], crossing, count, between):
                    continue
                if collect:
                    if pairs == collect:
                        return -1, pair_count, pair_target, pair_cost, pair_chips
                    if pairs == room:
                        room = min(collect, 2 * room)
                        pair_target = _longer(pair_target, room)
                        pair_cost = _longer(pair_cost, room)
                        pair_chips = _longer(pair_chips, room)
                    pair_target[pairs], pair_cost[pairs], pair_chips[pairs] = j, cost, chip_set
                    pairs += 1
                    pair_count[i - start] += 1
                    continue
                pairs += 1
                for k in range(low, chips):
                    value = max(best[i, k], cost)
                    if value < best[j, k + 1] and (chip_set >> np.uint64(k & 63)) & ONE != 0:
                        best[j, k + 1] = value
                        parent[j, k + 1] = i
            head += 1
    return pairs, pair_count, pair_target[:pairs], pair_cost[:pairs], pair_chips[:pairs]
