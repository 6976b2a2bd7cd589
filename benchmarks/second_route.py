"""A second route to "no mapping is better": plain Python over order ideals, and CP-SAT, apart from chipmap's programs.

The plain program shares nothing with ``chipmap.heuristics``: it starts from the checker's own facts, lists the ideals
as frozen sets of bits and asks whether a chain of at most C blocks has a period of at most T under a necessary part of
C3 (no operation of a block strictly between an operation before it and a reader after it). "No" refutes T.
"""

from __future__ import annotations

from benchmarks.ring_refute import refute
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import RingInstance
from chipmap.validation.ring.facts import Facts, facts

#: Pairs of ideals that plain Python may look at.
PAIR_LIMIT = 12_000_000


def confirm(instance: RingInstance, optimum: int, seconds: float) -> str:
    """Which routes found that no mapping has an objective below ``optimum`` ticks; "" if none did."""
    known = facts(instance)
    target = optimum - 1
    if max(known.ticks.values()) > target:
        return "largest operation"
    routes = []
    if _plain_refutes(instance, known, target):
        routes.append("plain program")
    if refute(contract(instance).instance, target, time_limit=seconds, threads=2) == "infeasible":
        routes.append("CP-SAT")
    return ", ".join(routes)


def _plain_refutes(instance: RingInstance, known: Facts, target: int) -> bool:
    """Whether no chain of at most C ideals has every block within ``target`` ticks (False also: too much work)."""
    number = {v: i for i, v in enumerate(known.computing)}
    n = len(number)
    into, outof = [0] * n, [0] * n
    stored = [(number[s.made_by], sum(1 << number[v] for v in s.read_by), s.ticks) for s in known.stored]
    for producer, readers, _ in stored:
        outof[producer] |= readers
        for v in _ones(readers):
            into[v] |= 1 << producer
    ticks = [known.ticks[v] for v in known.computing]
    above = [0] * n  # descendants; positions in the file are not assumed to be topological
    for v in _order(into, outof):
        for u in _ones(into[v]):
            above[v] |= above[u] | 1 << u
    below = [sum(1 << v for v in range(n) if above[v] >> u & 1) for u in range(n)]
    reached = {0: 0}  # ideal -> fewest blocks
    looked = 0
    everything = (1 << n) - 1
    for size in range(n):
        level = [ideal for ideal in reached if ideal.bit_count() == size]
        for ideal in level:
            blocks = reached.pop(ideal)
            if blocks >= instance.package.chips:
                continue
            crossing = [
                (1 << v, _union(below, into[v] & ideal) & above[v] & ~ideal)
                for v in range(n)
                if not ideal >> v & 1 and into[v] & ideal
            ]
            cut_before = sum(t for p, r, t in stored if ideal >> p & 1 and r & ~ideal)
            seen = {ideal: 0}
            front = [ideal]
            while front:
                at = front.pop()
                for v in range(n):
                    bit = 1 << v
                    after = at | bit
                    if at & bit or into[v] & ~at or after in seen or seen[at] + ticks[v] > target:
                        continue
                    looked += 1
                    if looked > PAIR_LIMIT:
                        return False
                    work = seen[after] = seen[at] + ticks[v]
                    front.append(after)
                    if any(not after & reader and after & between for reader, between in crossing):
                        continue
                    if _cost(instance.cost_mode, work, ideal, after, stored, cut_before) > target:
                        continue
                    if after == everything:
                        return False
                    if blocks + 1 < reached.get(after, 1 << 30):
                        reached[after] = blocks + 1
    return True


def _cost(mode: str, work: int, before: int, after: int, stored: list[tuple[int, int, int]], cut_before: int) -> int:
    cut = sum(t for p, r, t in stored if after >> p & 1 and r & ~after)
    if mode == "period":
        return max(work, cut)
    if mode == "sum_forward":
        return work + cut_before + cut
    block = after & ~before
    enters = sum(t for p, r, t in stored if before >> p & 1 and r & block)
    leaves = sum(t for p, r, t in stored if block >> p & 1 and r & ~after)
    return work + enters + leaves


def _ones(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _union(sets: list[int], mask: int) -> int:
    union = 0
    for i in _ones(mask):
        union |= sets[i]
    return union


def _order(into: list[int], outof: list[int]) -> list[int]:
    done = 0
    order: list[int] = []
    while len(order) < len(into):
        ready = [v for v in range(len(into)) if not done >> v & 1 and not into[v] & ~done]
        for v in ready:
            done |= 1 << v
        order += ready
    return order
