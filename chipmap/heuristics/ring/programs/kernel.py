"""The compiled sweep of the programs over ideals (numba; one thread, no fastmath, cached)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.kernels import njit

#: No chain yet.
INFINITE = np.int64(1) << np.int64(62)
ZERO, ONE = np.uint64(0), np.uint64(1)


class Constants(NamedTuple):
    """Per constant that several operations read its ``readers`` as a bit set [s, w] and its ``bytes``; operation v
    reads the constants reads[first[v]:first[v + 1]].
    """

    readers: Any
    bytes: Any
    first: Any
    reads: Any


class Operations(NamedTuple):
    """Per operation of the flow graph [n]: ``ticks``, ``weights`` in bytes without the shared ``constants``,
    ``allowed`` chips as bits; as bit sets [n, w] its ``producers``, ``ancestors`` and ``descendants``.
    """

    ticks: Any
    weights: Any
    constants: Constants
    allowed: Any
    producers: Any
    ancestors: Any
    descendants: Any


class Storages(NamedTuple):
    """Per storage [s] its ``producer``, ``readers`` as a bit set [s, w], ``ticks`` on a link and ``bytes``; operation v
    reads the storages reads[read_first[v]:read_first[v + 1]] and makes made[made_first[v]:made_first[v + 1]].
    """

    producer: Any
    readers: Any
    ticks: Any
    bytes: Any
    read_first: Any
    reads: Any
    made_first: Any
    made: Any


class Terms(NamedTuple):
    """What a block must keep to: the ``rule`` and the cost ``mode`` by number, ``sram`` bytes (-1: no C4), a cost of at
    most ``upper``; the number of ``chips``, and whether some ``may_skip`` (stay empty).
    """

    rule: int
    mode: int
    sram: int
    upper: int
    chips: int
    may_skip: bool


class Lattice(NamedTuple):
    """The ideals as bit sets ``words`` [m, w], the steps between them (see ``ideals.IdealFamily``), and ``cut`` [m]
    (:func:`~chipmap.heuristics.ring.programs.cut.cut_ticks`).
    """

    words: Any
    first: Any
    added: Any
    target: Any
    cut: Any


class Chains(NamedTuple):
    """[m, chips + 1]: the value of the ``best`` chain to an ideal, by its number of blocks, and the ideal before it."""

    best: Any
    parent: Any


class _Blocks(NamedTuple):
    """The blocks from one ideal on, in the order of their search: the ideal j where each ends, ``work`` (later the
    cost), ``weight``, ``totals`` (ticks in, ticks out, boundary bytes), ``chips`` allowed; ``seen`` [m]: from where
    ideal j was met.
    """

    seen: Any
    end: Any
    work: Any
    weight: Any
    totals: Any
    chips: Any


class _Pairs(NamedTuple):
    """Collected pairs: ``target``, ``cost`` and ``chips`` allowed, [room]."""

    target: Any
    cost: Any
    chips: Any


@njit(part=True)
def has(words: Any, v: int) -> bool:
    """Whether v is in the bit set."""
    return (words[v >> 6] >> np.uint64(v & 63)) & ONE != 0


@njit(part=True)
def copy_words(source: Any, target: Any) -> None:
    """target = source, in a loop: an assignment of one array to another takes seconds to compile."""
    for w in range(len(source)):
        target[w] = source[w]


@njit(part=True)
def _crossing(inside: Any, producers: Any, out: Any) -> int:
    """The operations outside the ideal with a producer inside, into ``out``; returns how many."""
    count = 0
    for v in range(len(producers)):
        if not has(inside, v):
            for w in range(len(inside)):
                if producers[v, w] & inside[w] != 0:
                    out[count] = v
                    count += 1
                    break
    return count


@njit(part=True)
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


@njit(part=True)
def _obeys(rule: int, target: Any, crossing: Any, count: int, between: Any) -> bool:
    """Whether the block that ends at ``target`` obeys the rule (see the table of the module ``program``)."""
    for c in range(count):
        if not has(target, crossing[c]):
            if rule == 2:
                return False
            for w in range(len(target)):
                if between[c, w] & target[w] != 0:
                    return False
    return True


@njit(part=True)
def in_block(readers: Any, s: int, inside: Any, block_end: Any) -> bool:
    """Whether the block block_end \\ inside has one of the ``readers`` [s, w] of number s."""
    found = False
    for w in range(len(inside)):
        found = found or readers[s, w] & block_end[w] & ~inside[w] != 0
    return found


@njit(part=True)
def _fresh_constants(v: int, inside: Any, block_end: Any, constants: Constants) -> int:
    """Bytes of the shared constants that operation v would be the first of the block block_end \\ inside to read."""
    size = 0
    for r in range(constants.first[v], constants.first[v + 1]):
        s = constants.reads[r]
        if not in_block(constants.readers, s, inside, block_end):
            size += constants.bytes[s]
    return size


@njit(part=True)
def _extend(v: int, inside: Any, block_end: Any, storages: Storages, totals: Any) -> None:
    """Add operation v to the block block_end \\ inside: update ``totals`` = (ticks in, ticks out, boundary bytes).

    A storage that v is the first of the block to read enters; one made in the block leaves until all its readers are
    in the block too.
    """
    width = len(inside)
    for r in range(storages.read_first[v], storages.read_first[v + 1]):
        s = storages.reads[r]
        if has(inside, storages.producer[s]):
            if not in_block(storages.readers, s, inside, block_end):
                totals[0] += storages.ticks[s]
                totals[2] += storages.bytes[s]
        else:
            last = True
            for w in range(width):
                rest = storages.readers[s, w] & ~block_end[w]
                if w == v >> 6:
                    rest &= ~(ONE << np.uint64(v & 63))
                if rest != 0:
                    last = False
                    break
            if last:
                totals[1] -= storages.ticks[s]
                totals[2] -= storages.bytes[s]
    for m in range(storages.made_first[v], storages.made_first[v + 1]):
        totals[1] += storages.ticks[storages.made[m]]
        totals[2] += storages.bytes[storages.made[m]]


@njit(part=True)
def _blocks(m: int) -> _Blocks:
    """Room for the blocks from one of ``m`` ideals on."""
    return _Blocks(
        np.full(m, -1, dtype=np.int32),
        np.empty(m, dtype=np.int32),
        np.empty(m, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        np.zeros((m, 3), dtype=np.int64),
        np.empty(m, dtype=np.uint64),
    )


@njit(part=True)
def _pairs(room: int) -> _Pairs:
    return _Pairs(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.uint64))


@njit(part=True)
def _keep(pairs: _Pairs, number: int, count: int, blocks: _Blocks) -> _Pairs:
    """Enter the first ``count`` blocks after ``number`` pairs; the pairs, in new arrays where there was no room."""
    room = len(pairs.target)
    if number + count > room:
        longer = _pairs(max(number + count, 2 * room))
        for p in range(number):
            longer.target[p], longer.cost[p], longer.chips[p] = pairs.target[p], pairs.cost[p], pairs.chips[p]
        pairs = longer
    for b in range(count):
        p = number + b
        pairs.target[p], pairs.cost[p], pairs.chips[p] = blocks.end[b], blocks.work[b], blocks.chips[b]
    return pairs


@njit(part=True)
def _stay(i: int, cut: int, terms: Terms, best: Any, parent: Any) -> None:
    """Leave a chip empty after the chains to ideal i: what passes it by is all that it costs."""
    idle = 2 * cut if terms.mode == 2 else cut if terms.mode == 0 else 0
    for k in range(terms.chips):
        value = max(best[i, k], idle)
        if value <= terms.upper and value < best[i, k + 1]:
            best[i, k + 1] = value
            parent[i, k + 1] = i


@njit(part=True)
def _fewest(values: Any, chips: int) -> int:
    """The least number of blocks with a chain, or ``chips``."""
    for k in range(chips):
        if values[k] < INFINITE:
            return k
    return chips


@njit(part=True)
def _crossings(rule: int, inside: Any, operations: Operations, crossing: Any, between: Any) -> int:
    """What :func:`_obeys` needs to know of the ideal, into ``crossing`` and ``between``; returns how many cross."""
    if rule == 0:
        return 0
    count = _crossing(inside, operations.producers, crossing)
    if rule == 1:
        for c in range(count):
            v = crossing[c]
            _between(inside, v, operations.producers, operations.ancestors, operations.descendants, between[c])
    return count


@njit(part=True)
def _search(i: int, lattice: Lattice, operations: Operations, storages: Storages, terms: Terms, blocks: _Blocks) -> int:
    """All blocks from ideal i on with work, weights and chips as the terms say, into ``blocks`` after an empty one.

    Breadth first. Returns how many there are, with the empty one.
    """
    seen, end, work, weight, totals, chips = blocks
    upper, sram, reads = terms.upper, terms.sram, operations.constants.first
    end[0], work[0], weight[0], chips[0] = i, 0, 0, ~np.uint64(0)
    totals[0] = 0
    head, tail = 0, 1
    while head < tail:
        at = end[head]
        for s in range(lattice.first[at], lattice.first[at + 1]):
            j, v = lattice.target[s], lattice.added[s]
            if seen[j] == i:
                continue
            heavier = weight[head] + operations.weights[v]
            if sram >= 0 and reads[v] < reads[v + 1]:
                heavier += _fresh_constants(v, lattice.words[i], lattice.words[at], operations.constants)
            if work[head] + operations.ticks[v] > upper or (sram >= 0 and heavier > sram):
                continue
            chip_set = chips[head] & operations.allowed[v]
            if chip_set == 0:
                continue
            seen[j] = i
            end[tail], chips[tail] = j, chip_set
            work[tail], weight[tail] = work[head] + operations.ticks[v], heavier
            if terms.mode == 1 or sram >= 0:
                for x in range(3):
                    totals[tail, x] = totals[head, x]
                _extend(v, lattice.words[i], lattice.words[at], storages, totals[tail])
            tail += 1
        head += 1
    return tail


@njit(part=True)
def _admit(
    i: int, count: int, lattice: Lattice, terms: Terms, crossing: Any, crossings: int, between: Any, blocks: _Blocks
) -> int:
    """Keep the blocks within the terms, from the front, with their cost in place of the work; returns how many."""
    cut, sram = lattice.cut, terms.sram
    kept = 0
    for b in range(1, count):
        j, cost = blocks.end[b], blocks.work[b]
        if terms.mode == 0:
            cost = max(cost, cut[j])
        elif terms.mode == 1:
            cost += blocks.totals[b, 0] + blocks.totals[b, 1]
        else:
            cost += cut[i] + cut[j]
        if cost > terms.upper or (sram >= 0 and blocks.weight[b] + 2 * blocks.totals[b, 2] > sram):
            continue
        if terms.rule == 0 or _obeys(terms.rule, lattice.words[j], crossing, crossings, between):
            blocks.end[kept], blocks.work[kept], blocks.chips[kept] = j, cost, blocks.chips[b]
            kept += 1
    return kept


@njit(part=True)
def _offer(i: int, low: int, count: int, blocks: _Blocks, best: Any, parent: Any) -> None:
    """Prolong the chains of at least ``low`` blocks to ideal i by each of the first ``count`` blocks."""
    for b in range(count):
        j, cost, chips = blocks.end[b], blocks.work[b], blocks.chips[b]
        for k in range(low, best.shape[1] - 1):
            value = max(best[i, k], cost)
            if value < best[j, k + 1] and (chips >> np.uint64(k & 63)) & ONE != 0:
                best[j, k + 1] = value
                parent[j, k + 1] = i


@njit(cache=True)
def sweep(
    lattice: Lattice,
    operations: Operations,
    storages: Storages,
    terms: Terms,
    collect: bool,
    start: int,
    stop: int,
    chains: Chains,
) -> Any:
    """From each ideal I of [start, stop), visit the ideals J above it while the block keeps to the terms.

    Each pair (I, J) relaxes best[J, k + 1] by max(best[I, k], cost(I, J)), and ``parent`` remembers I; with ``collect``
    the pairs are kept instead and ``chains`` are not read.
    Returns the number of pairs, and for those kept how many there are per ideal [stop - start], their target, cost
    and chips allowed.
    """
    best, parent = chains
    n = len(operations.ticks)
    blocks = _blocks(len(lattice.words))
    crossing, between = np.empty(n, dtype=np.int64), np.zeros((n, lattice.words.shape[1]), dtype=np.uint64)
    kept = _pairs(1 << 16 if collect else 0)
    counts = np.zeros(stop - start, dtype=np.int64)
    pairs = 0
    for i in range(start, stop):
        if terms.may_skip and not collect:
            _stay(i, lattice.cut[i], terms, best, parent)
        low = _fewest(best[i], terms.chips) if not collect else 0
        if low == terms.chips:
            continue
        crossings = _crossings(terms.rule, lattice.words[i], operations, crossing, between)
        count = _search(i, lattice, operations, storages, terms, blocks)
        count = _admit(i, count, lattice, terms, crossing, crossings, between, blocks)
        if collect:
            kept = _keep(kept, pairs, count, blocks)
            counts[i - start] = count
        else:
            _offer(i, low, count, blocks, best, parent)
        pairs += count
    return pairs, counts, kept.target[:pairs], kept.cost[:pairs], kept.chips[:pairs]
