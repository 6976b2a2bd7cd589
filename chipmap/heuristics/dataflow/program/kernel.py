"""The compiled part of the program over ideals: a table of the best values, filled from the empty ideal on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.program.label_setting import (
    HELD,
    NO_LIMIT,
    Graph,
    Labels,
    Rules,
    Step,
    below,
    extend,
    finish,
    has,
    waiting,
)
from chipmap.heuristics.engines.ideals import Words
from chipmap.instances.dataflow.problem import IntArray
from chipmap.kernels import njit


class Table(NamedTuple):
    """Best values: for each ideal its signatures [ideals, width], how many are used [ideals], and for each the fewest
    picoseconds by number of partitions [ideals, width, most + 1] (-1: none) with where they come from (ideal,
    signature, partitions). ``outside`` [ideals, width, K]: the sums of the graph's, with the most that waits in DRAM in
    its second column; signatures with different ones are different. ``work`` [2]: labels made so far, and the most that
    may be made. ``barred`` [ideals, indexes]: how many kernels of an ideal may not lie in the partition of each index,
    the last one and all larger (no indexes: they may lie in all)."""

    signature: IntArray
    used: IntArray
    value: IntArray
    origin: IntArray
    outside: IntArray
    work: IntArray
    barred: IntArray


@njit(part=True)
def add_entry(table: Table, j: int, signature: int) -> None:
    """Begin an entry of ideal j with no values yet."""
    table.signature[j, table.used[j]] = signature
    table.value[j, table.used[j], :] = -1
    table.used[j] += 1


@njit(part=True)
def may_lie(table: Table, root: int, j: int, index: int) -> bool:
    """Whether the partition J \\ I may be the one of that index, counted from 0 in its phase."""
    last = table.barred.shape[1] - 1
    k = min(index, last)
    return last < 0 or table.barred[j, k] == table.barred[root, k]


@njit(part=True)
def relax(table: Table, root: int, s: int, j: int, signature: int, cost: int, most: int, upper: int) -> bool:
    """Offer ideal j the values of (root, signature number s) with one more partition; False where the table is full.

    The sums that are offered stand behind those of the ideal's entries. Nothing is offered that an entry with no more
    of them has at no greater value for any number of partitions.
    """
    at, sums, new = -1, table.outside[j], table.used[j]
    for t in range(new):
        if table.signature[j, t] != signature or not below(sums, t, new):
            continue
        if below(sums, new, t):
            at = t
            break
        better = False
        for k in range(most):
            before, now = table.value[root, s, k], table.value[j, t, k + 1]
            less = before >= 0 and before + cost < upper and (now < 0 or before + cost < now)
            better = better or (less and may_lie(table, root, j, k))
        if not better:
            return True
    if at < 0:
        at = new
        if at >= table.signature.shape[1]:
            return False
        add_entry(table, j, signature)
    for k in range(most):
        before = table.value[root, s, k]
        if before < 0 or before + cost >= upper or not may_lie(table, root, j, k):
            continue
        now = table.value[j, at, k + 1]
        if now < 0 or before + cost < now:
            table.value[j, at, k + 1] = before + cost
            table.origin[j, at, k + 1, 0], table.origin[j, at, k + 1, 1] = root, s
    return True


@njit(part=True)
def together(g: Graph, i: int, j: int) -> bool:
    """Whether the partition J \\ I holds all of one group and nothing of another, or nothing of any; and at most one
    kernel of each group that lies apart."""
    held = 0
    for k in range(len(g.sizes)):
        count = g.grouped[j, k] - g.grouped[i, k]
        if count == 0:
            continue
        if g.sizes[k] < 0:
            if count > 1:
                return False
            continue
        held += 1
        if count != g.sizes[k] or held > 1:
            return False
    return True


@njit(part=True)
def most_left(g: Graph, j: int) -> int:
    """A lower bound on the time of what is outside ideal j: the largest of its resources and floors."""
    return g.rest[j].max()


@njit(part=True)
def known_cases(g: Graph, root: Words) -> int:
    """The bits that say where parameters rest that are still used after ideal ``root``."""
    x, found = g.exchanges, 0
    for i in range(len(x.owner)):
        if has(root, x.owner[i]):
            for k in range(x.users[i], x.users[i + 1]):
                if not has(root, x.user[k]):
                    found |= x.cases[i] << x.at[i]
                    break
    return found


@njit(part=True)
def drop_dearer(g: Graph, table: Table, root: int, s: int) -> None:
    """Drop the values of an ideal's signature number ``s`` that another one has at no more picoseconds, with all that
    its parameters may cost more than those of s later on: it differs in where these rest, and in nothing else."""
    x, cases = g.exchanges, known_cases(g, g.sets[root])
    mine, most = table.signature[root, s], table.value.shape[2]
    for t in range(table.used[root]):
        differ = mine ^ table.signature[root, t]
        if t == s or differ & ~cases != 0 or not below(table.outside[root], t, s):
            continue
        more, fine = 0, True
        for i in range(len(x.owner)):
            if (differ >> x.at[i]) & x.cases[i] & (cases >> x.at[i]) != 0:
                a = (table.signature[root, t] >> x.at[i]) & x.cases[i]
                b = (mine >> x.at[i]) & x.cases[i]
                more += x.dearer[i, a, b]
                fine = fine and x.beside[i, a, b]
        if not fine and table.outside.shape[2] > 0:
            continue
        for k in range(most):
            own, other = table.value[root, s, k], table.value[root, t, k]
            if own >= 0 and other >= 0 and (other + more < own or (other + more == own and t < s)):
                table.value[root, s, k] = -1


@njit(part=True)
def least_value(table: Table, most: int, root: int, s: int) -> int:
    """The least value of a signature at ideal ``root`` over the counts of partitions below ``most``; -1 for none."""
    least = -1
    for k in range(most):
        value = table.value[root, s, k]
        if value >= 0 and (least < 0 or value < least):
            least = value
    return least


@njit(part=True)
def carried_on(table: Table, pool: Labels, root: int, s: int, j: int, i: int, dram: int) -> int:
    """The bytes of DRAM with the partition of label ``i``, which ends at ideal ``j``, beside its own ``dram``.

    What lies outside the signature is laid where the next signature of ``j`` will be.
    """
    new, columns = table.used[j], table.outside.shape[2]
    if columns == 0:
        return dram
    for c in range(columns):
        table.outside[j, new, c] = table.outside[root, s, c] + pool.outside[i, c]
    table.outside[j, new, 1] = max(table.outside[root, s, 1], dram + pool.outside[i, HELD])
    return table.outside[j, new, 0] + table.outside[j, new, 1]


@njit(part=True)
def explore(g: Graph, rules: Rules, table: Table, pool: Labels, root: int, s: int, upper: int) -> bool:
    """Every partition that may follow ideal ``root`` with its signature number ``s``; False where room ran out.

    Depth first: a set of kernels is reached once, by adding them in ascending order.
    """
    if len(g.exchanges.owner) > 0:
        drop_dearer(g, table, root, s)
    least = least_value(table, rules.most, root, s)
    if least < 0 or least + most_left(g, root) >= upper:
        return True
    most = g.first.shape[0] + 1
    node, lower, higher = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    last, step = np.full(most, -1, np.int64), np.zeros(most, np.int64)
    node[0], higher[0], step[0] = root, 1, g.grow[root]
    pool.compute[0] = pool.memory[0] = pool.network[0] = pool.held[0] = 0
    pool.signature[0], pool.parent[0], pool.outside[0] = table.signature[root, s], -1, 0
    before = waiting(g, rules, table.signature[root, s], root, g.sets[0])
    limited = rules.room < NO_LIMIT
    depth, made = 0, 0
    while depth >= 0:
        if step[depth] >= g.grow[node[depth] + 1] or (depth == 1 and not rules.fused):
            depth -= 1
            continue
        k = step[depth]
        step[depth] += 1
        v, j = g.by[k], g.into[k]
        if v < last[depth] or (g.gate > 0 and root < g.gate < j):
            continue
        if depth > 0 and g.runs[v] != g.runs[last[depth]]:
            continue
        # kernels outside may join the partition under way: they add to its resources one by one, not to its time
        room, runs = upper - least, g.runs[v]
        limits = (-((g.rest[j, 0] - room) // runs), -((g.rest[j, 1] - room) // runs), -((g.rest[j, 2] - room) // runs))
        adding = Step(v, g.first[v], g.first[v + 1], lower[depth], higher[depth])
        end = extend(g, rules, pool, adding, g.sets[j], g.sets[root], limits)
        made += higher[depth] - lower[depth]
        if end < 0 or table.work[0] + made > table.work[1]:  # whoever watches the clock changes work[1] meanwhile
            table.work[0] += made
            return False
        if end == higher[depth]:
            continue
        if together(g, root, j):
            for i in range(higher[depth], end):
                left = most_left(g, j)
                once = finish(g, rules, pool, i, j, g.sets[root], -((left - room) // runs))
                if once < 0 or runs * once >= room - left:
                    continue
                lasting = pool.signature[i] & g.fields.lasting
                dram = before + waiting(g, rules, lasting, j, g.sets[root]) if limited else 0
                if carried_on(table, pool, root, s, j, i, dram) > rules.room:
                    continue
                if not relax(table, root, s, j, lasting, runs * once, rules.most, upper - left):
                    return False
        lower[depth + 1], higher[depth + 1] = higher[depth], end
        depth += 1
        node[depth], last[depth], step[depth] = j, v, g.grow[j]
    table.work[0] += made
    return True


@njit(part=True)
def pass_gate(g: Graph, rules: Rules, table: Table, exactly: bool, gate: IntArray) -> None:
    """At the end of the first phase the count of partitions starts anew; ``gate`` [width] keeps how many there were."""
    j = g.gate
    for s in range(table.used[j]):
        best = 0
        for k in range(1, rules.most + 1):
            value = table.value[j, s, k]
            if value < 0 or (exactly and k < rules.most):
                continue
            if best == 0 or value < table.value[j, s, best]:
                best = k
        gate[s] = best
        if best > 0:
            table.value[j, s, 0] = table.value[j, s, best]
        table.value[j, s, 1:] = -1


@njit(cache=True, nogil=True)
def solve(g: Graph, rules: Rules, table: Table, pool: Labels, exactly: bool, gate: IntArray, upper: int) -> bool:
    """Fill the table from the empty ideal on; False where room ran out. Once a mapping is known, shorter ones are
    searched for, unless more than time counts."""
    add_entry(table, 0, 0)
    table.value[0, 0, 0] = 0
    last = len(g.sets) - 1
    for root in range(last):
        if table.outside.shape[2] == 0:
            for s in range(table.used[last]):
                for k in range(rules.most if exactly else 0, rules.most + 1):
                    if table.value[last, s, k] >= 0:
                        upper = min(upper, table.value[last, s, k])
        if g.gate > 0 and root == g.gate:
            pass_gate(g, rules, table, exactly, gate)
        for s in range(table.used[root]):
            if not explore(g, rules, table, pool, root, s, upper):
                return False
    return True
