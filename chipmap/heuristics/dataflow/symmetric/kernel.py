"""The compiled part of the program over ideals up to symmetry: it lists the partitions that may follow an ideal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.program.kernel import Table, add_entry, most_left, pass_gate, together
from chipmap.heuristics.dataflow.program.label_setting import (
    Graph,
    Labels,
    Rules,
    Step,
    extend,
    has,
    option_of,
)
from chipmap.heuristics.engines.ideals import Words
from chipmap.instances.dataflow.problem import IntArray
from chipmap.kernels import njit


class Branches(NamedTuple):
    """Interchangeable branches and the index of canonical ideals.

    ``member`` [branches, positions] are kernels (-1: none), ascending; ``start`` [groups + 1] parts the branches;
    ``branch``, ``position`` [n] of each kernel (-1: none); ``trunk`` the other kernels as a bit set; ``table`` is a
    hash table of ideals (-1: empty) whose length is a power of two. ``forward``: kernels of the first phase.
    """

    member: IntArray
    start: IntArray
    branch: IntArray
    position: IntArray
    trunk: Words
    table: IntArray
    forward: int


class Wanted(NamedTuple):
    """A partition to find again, and where it is written.

    ``end`` [3] are the ideal (-1: none is wanted), the signature and the cost that it ends with. Once it is found,
    ``words`` is its set of kernels, and ``taken`` [branches + 1] the branch that each place of the canonical ideal
    takes, with the signature before the branches are sorted in the last entry.
    """

    end: IntArray
    words: Words
    taken: IntArray


class Search(NamedTuple):
    """What one run of the program works on. Where ``capped``, there may be no more than ``rules.most`` partitions; only
    values below ``upper`` picoseconds are kept."""

    graph: Graph
    rules: Rules
    branches: Branches
    table: Table
    pool: Labels
    capped: bool
    upper: int


class IdealState(NamedTuple):
    """A canonical ideal ``root`` with the ``number`` of one of its signatures."""

    root: int
    number: int


@njit(part=True)
def hash_of(words: Words) -> int:
    """A hash of a bit set (splitmix64 of its words)."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for w in words:
        h ^= w
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.int64(h >> np.uint64(1))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def fill_index(table: IntArray, sets: Words) -> None:
    """Put every ideal into the hash table."""
    for j in range(len(sets)):
        at = hash_of(sets[j]) & (len(table) - 1)
        while table[at] >= 0:
            at = (at + 1) & (len(table) - 1)
        table[at] = j


@njit(part=True)
def index_of(b: Branches, sets: Words, words: Words) -> int:
    """The position of a canonical ideal (-1: not one)."""
    at = hash_of(words) & (len(b.table) - 1)
    while b.table[at] >= 0:
        j = b.table[at]
        same = True
        for w in range(len(words)):
            same = same and sets[j, w] == words[w]
        if same:
            return j
        at = (at + 1) & (len(b.table) - 1)
    return -1


@njit(part=True)
def code_of(b: Branches, words: Words, branch: int) -> int:
    """The kernels of a branch in a set, as a number: the first position counts most."""
    code = 0
    for j in range(b.member.shape[1]):
        v = b.member[branch, j]
        code = 2 * code + (v >= 0 and has(words, v))
    return code


@njit(part=True)
def choice_of(g: Graph, b: Branches, signature: int, branch: int) -> int:
    """What a signature says of a branch's kernels, as a number."""
    part = 0
    for j in range(b.member.shape[1]):
        v = b.member[branch, j]
        if v >= 0:
            part = part * (g.fields.mask[v] + 1) + ((signature >> g.fields.slot[v]) & g.fields.mask[v])
    return part


@njit(part=True)
def canonicalise(g: Graph, b: Branches, words: Words, signature: int, taken: IntArray, into: Words) -> int:
    """Sort the branches of each group by how far they are (furthest first), then by their open schemes.

    ``taken`` gets the branch that each place takes, ``into`` the canonical ideal; returns the canonical signature.
    """
    count = len(b.member)
    codes, parts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i in range(count):
        codes[i], parts[i], taken[i] = code_of(b, words, i), choice_of(g, b, signature, i), i
    for group in range(len(b.start) - 1):
        for i in range(b.start[group] + 1, b.start[group + 1]):
            k, mine = i, taken[i]
            while k > b.start[group]:
                other = taken[k - 1]
                if codes[other] > codes[mine] or (codes[other] == codes[mine] and parts[other] <= parts[mine]):
                    break
                taken[k] = other
                k -= 1
            taken[k] = mine
    for w in range(len(words)):
        into[w] = words[w] & b.trunk[w]
    canonical = signature
    for i in range(count):
        for j in range(b.member.shape[1]):
            v = b.member[i, j]
            if v < 0:
                continue
            u = b.member[taken[i], j]
            if has(words, u):
                into[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
            canonical &= ~(g.fields.mask[v] << g.fields.slot[v])
            canonical |= ((signature >> g.fields.slot[u]) & g.fields.mask[u]) << g.fields.slot[v]
    return canonical


@njit(part=True)
def may_add(g: Graph, b: Branches, tied: IntArray, words: Words, v: int) -> bool:
    """Whether kernel v has all its makers in the set, and its branch doesn't overtake an equal one before it."""
    for k in range(g.enter[v], g.enter[v + 1]):
        if not has(words, g.source[g.entering[k]]):
            return False
    i = b.branch[v]
    if i < 0 or not tied[i]:
        return True
    for j in range(b.position[v]):
        if has(words, b.member[i - 1, j]) != has(words, b.member[i, j]):
            return True
    return has(words, b.member[i - 1, b.position[v]])


@njit(part=True)
def partition_time(g: Graph, rules: Rules, pool: Labels, i: int, inside: IntArray, words: Words) -> int:
    """max(compute, memory, network) and the launch of the partition of the kernels ``inside``, all of them up to
    ``words`` (-1: what leaves doesn't fit)."""
    memory, held = pool.memory[i], pool.held[i]
    for u in inside:
        leaves = 0
        for e in range(g.leave[u], g.leave[u + 1]):
            leaves += not has(words, g.target[g.leaving[e]])
        if leaves == 0:
            continue
        option = option_of(g, pool.signature[i], u)
        if rules.multicast:
            leaves = 1
        memory += leaves * g.dram[option]
        held += 2 * leaves * g.buffer[option]
    if held > rules.sram:
        return -1
    return rules.launch + max(memory, pool.compute[i], pool.network[i])


@njit(part=True)
def offer(search: Search, state: IdealState, j: int, signature: int, cost: int, upper: int) -> bool:
    """Offer ideal j the values of ``state`` with one more partition, below ``upper``; False where the table is full.

    Without a cap all numbers of partitions from the most on share a place.
    """
    table, top, (root, s) = search.table, search.rules.most, state
    at = -1
    for t in range(table.used[j]):
        if table.signature[j, t] == signature:
            at = t
            break
    for k in range(top + 1):
        before = table.value[root, s, k]
        if before < 0 or before + cost >= upper or (k == top and search.capped):
            continue
        if at < 0:
            at = table.used[j]
            if at >= table.signature.shape[1]:
                return False
            add_entry(table, j, signature)
        to = min(k + 1, top)
        now = table.value[j, at, to]
        if now < 0 or before + cost < now:
            table.value[j, at, to] = before + cost
            table.origin[j, at, to, 0], table.origin[j, at, to, 1] = root, s
    return True


@njit(part=True)
def least_of(table: Table, state: IdealState) -> int:
    """The least value of a state (-1: none)."""
    least = -1
    for value in table.value[state.root, state.number]:
        if value >= 0 and (least < 0 or value < least):
            least = value
    return least


@njit(part=True)
def ties(g: Graph, b: Branches, words: Words, signature: int) -> IntArray:
    """Whether each branch stands where the one before it in its group does, with the same open schemes."""
    tied = np.zeros(len(b.member), np.int64)
    for group in range(len(b.start) - 1):
        for i in range(b.start[group] + 1, b.start[group + 1]):
            same = code_of(b, words, i) == code_of(b, words, i - 1)
            tied[i] = same and choice_of(g, b, signature, i) == choice_of(g, b, signature, i - 1)
    return tied


@njit(part=True)
def offer_ends(
    search: Search,
    state: IdealState,
    labels: tuple[int, int, int],
    inside: IntArray,
    words: Words,
    limits: tuple[int, int],
    wanted: Wanted,
) -> int:
    """Offer the ends of a partition of the kernels ``inside`` to the canonical ideal of all that is done then.

    ``labels`` are the first and the end of its labels, and that ideal; ``words`` is the ideal before its branches are
    sorted; ``limits`` are those of the partition's cost and of the value. Returns 1 where the wanted partition is
    found, -1 where room ran out, else 0.
    """
    g, b, (first, end, j) = search.graph, search.branches, labels
    taken, into = np.zeros(len(b.member), np.int64), np.zeros(len(words), np.uint64)
    for i in range(first, end):
        cost = partition_time(g, search.rules, search.pool, i, inside, words)
        if cost < 0 or cost >= limits[0]:
            continue
        own = search.pool.signature[i] & g.fields.lasting
        signature = canonicalise(g, b, words, own, taken, into)
        if wanted.end[0] < 0:
            if not offer(search, state, j, signature, cost, limits[1]):
                return -1
        elif wanted.end[0] == j and wanted.end[1] == signature and wanted.end[2] == cost:
            wanted.words[:] = words
            wanted.taken[:-1] = taken
            wanted.taken[-1] = own
            return 1
    return 0


@njit(part=True)
def grow(search: Search, state: IdealState, wanted: Wanted) -> bool:
    """Every partition that may follow a ``state``, up to symmetry; False where room ran out.

    Where a partition is ``wanted``, stop at the first that is it.
    """
    g, b, table, pool, root = search.graph, search.branches, search.table, search.pool, state.root
    n, least = g.first.shape[0] - 1, least_of(table, state)
    if least < 0 or least + most_left(g, root) >= search.upper:
        return True
    # by depth: the set with the kernels added so far, the labels of their partition, and the kernel to try next
    words = np.zeros((n + 2, g.sets.shape[1]), np.uint64)
    words[0] = g.sets[root]
    rows = np.zeros((4, n + 2), np.int64)
    lower, higher, step, inside = rows[0], rows[1], rows[2], rows[3]
    taken, into = np.zeros(len(b.member), np.int64), np.zeros(g.sets.shape[1], np.uint64)
    tied = ties(g, b, g.sets[root], table.signature[root, state.number])
    higher[0] = 1
    pool.compute[0] = pool.memory[0] = pool.network[0] = pool.held[0] = 0
    pool.signature[0], pool.parent[0] = table.signature[root, state.number], -1
    stop, depth = b.forward if g.gate > 0 and root < g.gate else n, 0
    while depth >= 0:
        v = step[depth]
        if v >= stop or (depth == 1 and not search.rules.fused):
            depth -= 1
            continue
        step[depth] += 1
        if has(words[depth], v) or not may_add(g, b, tied, words[depth], v):
            continue
        grown = words[depth + 1]
        grown[:] = words[depth]
        grown[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
        canonicalise(g, b, grown, 0, taken, into)
        j = index_of(b, g.sets, into)
        # what kernels outside take at least is kept free
        room, left = search.upper - least, most_left(g, j)
        limits = (room - g.rest[j, 0], room - g.rest[j, 1], room - g.rest[j, 2])
        adding = Step(v, g.first[v], g.first[v + 1], lower[depth], higher[depth])
        end = extend(g, search.rules, pool, adding, grown, g.sets[root], limits)
        work = search.table.work
        work[0] += higher[depth] - lower[depth]
        if end < 0 or work[0] > work[1]:  # whoever watches the clock changes work[1] meanwhile
            return False
        if end == higher[depth]:
            continue
        inside[depth] = v
        if together(g, root, j):
            labels, costs = (higher[depth], end, j), (room - left, search.upper - left)
            ended = offer_ends(search, state, labels, inside[: depth + 1], grown, costs, wanted)
            if ended != 0:
                return ended > 0
        lower[depth + 1], higher[depth + 1] = higher[depth], end
        depth += 1
        step[depth] = v + 1
    return True


@njit(cache=True, nogil=True)
def fill_table(search: Search, exactly: bool, gate: IntArray, only: IdealState, wanted: Wanted) -> bool:
    """Fill the table from the empty ideal on, with ``exactly`` so many partitions; False where room ran out.

    With ``only`` one state (a root of -1: all of them), the partition that is ``wanted`` is found among those that
    follow it.
    """
    g, table = search.graph, search.table
    if only.root >= 0:
        return grow(search, only, wanted)
    for root in range(len(g.sets) - 1):
        if g.gate > 0 and root == g.gate:
            pass_gate(g, search.rules, table, exactly, gate)
        for s in range(table.used[root]):
            if not grow(search, IdealState(root, s), wanted):
                return False
    return True
