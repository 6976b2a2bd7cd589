"""Contiguous throughput (C7) by an exact program over ideals.

With C7 the devices can be put in an order in which each operation reads from its own device or an earlier one. So the
forward units of the devices, in this order, are I_1, I_2 \\ I_1, … of a chain of ideals, and every chain gives such
devices. The load of a block depends on its two ideals alone: a net is cut unless all its units are in the block. The
program finds, for each ideal and number of used devices of each kind, the chain of least largest load:

    best(J, c + 1_k) = min over I ⊂ J of max(best(I, c), load_k(J \\ I))

Pairs (I, J) are streamed, I by size and J by search from I; none of them is kept. Backward operations go with the
forward ones of their groups. **It is exact where each backward operation has such a group.** The units of others
(``LoadGraph.free``) are left out with their ends of nets: then the value is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import IdealFamily, TooManyIdealsError, all_ideals, prefixes, to_words
from chipmap.heuristics.placement.throughput.ideals_kernel import (
    NONE,
    Blocks,
    Chains,
    Kinds,
    Lattice,
    UnitNets,
    Units,
    sweep,
)
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import IntArray

#: Chains (ideals · states) that are kept, 13 bytes each.
MOST_CHAINS = 40_000_000
#: Ideals of a call of compiled code at first, and blocks of a call later on (some 0.2 s), after which the clock is
#: looked at.
FIRST, CHUNK = 4, 2_000_000


@dataclass(frozen=True)
class Chain:
    """The best chain: its largest ``load`` in ns, and the devices of the units [U] (-1: free units)."""

    load: int
    devices: IntArray


def ideals_of(graph: LoadGraph, limit: int, deadline: Deadline) -> IdealFamily:
    """All ideals of the units that C7 speaks of. Raises :class:`TooManyIdealsError` beyond ``limit``."""
    producers = [0] * graph.units
    for u, v in graph.before:
        producers[v] |= 1 << u
    return all_ideals(producers, limit, deadline, without=sum(1 << v for v in range(graph.units) if graph.free[v]))


def prefixes_of(graph: LoadGraph, orders: Iterable[Sequence[int]]) -> IdealFamily:
    """The prefixes of topological orders of the units alone."""
    return prefixes(orders, graph.units)


def states(graph: LoadGraph) -> int:
    """How many numbers of used devices of each kind there are."""
    return int(np.prod([len(devices) + 1 for devices in graph.kinds], dtype=object))


def best_chain(graph: LoadGraph, ideals: IdealFamily, upper: int, deadline: Deadline) -> Chain | None:
    """The chain over ``ideals`` whose largest load is least and below ``upper``; None if there is none.

    Raises :class:`TooManyIdealsError` where there are too many chains to keep, and ``Stop`` at the deadline.
    """
    if len(ideals) * states(graph) > MOST_CHAINS:
        raise TooManyIdealsError(f"{len(ideals)} ideals and {states(graph)} numbers of used devices")
    count = np.array([len(devices) for devices in graph.kinds], dtype=np.int64)
    kinds = Kinds(
        count, graph.memory, graph.paying, np.cumprod([1, *(count[:-1] + 1)]), graph.problem.instance.task.overlap
    )
    lattice, units, nets = _arrays(graph, ideals)
    chains, blocks = _room(graph, len(ideals))
    begin, length = 0, FIRST
    while begin < len(ideals):
        deadline.check()
        end = min(begin + length, len(ideals))
        made = sweep(begin, end, upper, lattice, units, nets, kinds, chains, blocks)
        length = max(1, min(4 * length, CHUNK * (end - begin) // max(1, made)))
        begin = end
    state = int(chains.best[-1].argmin())
    load = int(chains.best[-1, state])
    if load >= upper:
        return None
    return Chain(load, _devices(graph, ideals, chains, kinds, state))


def _arrays(graph: LoadGraph, ideals: IdealFamily) -> tuple[Lattice, Units, UnitNets]:
    """The arrays of the kernel, without free units."""
    bound = ~graph.free
    least = np.where(graph.allowed, graph.time, NONE).min(axis=1)
    least[~bound] = 0
    inside = np.unpackbits(ideals.words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    left = int(least.sum()) - np.array([int(least[: row.size][row[: graph.units] > 0].sum()) for row in inside])
    lattice = Lattice(ideals.words, ideals.first, ideals.added, ideals.target, left.astype(np.int64))
    kept = [([u for u in units if bound[u]], cost, size) for units, cost, size in graph.nets]
    kept = [net for net in kept if net[0]]
    of: list[list[int]] = [[] for _ in range(graph.units)]
    for n, (members, _, _) in enumerate(kept):
        for u in members:
            of[u].append(n)
    allowed = (graph.allowed << np.arange(len(graph.kinds))).sum(axis=1)
    units = Units(
        np.ascontiguousarray(graph.time),
        graph.bytes,
        allowed.astype(np.int64),
        np.cumsum([0, *map(len, of)]).astype(np.int64),
        np.array([n for listed in of for n in listed], dtype=np.int64),
    )
    words = to_words([sum(1 << u for u in members) for members, _, _ in kept], graph.units)
    costs, sizes = (np.array([net[i] for net in kept], dtype=np.int64) for i in (1, 2))
    return lattice, units, UnitNets(words, costs, sizes)


def _room(graph: LoadGraph, ideals: int) -> tuple[Chains, Blocks]:
    shape = (ideals, states(graph))
    chains = Chains(
        np.full(shape, NONE, dtype=np.int64), np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int8)
    )
    chains.best[0, 0] = 0
    blocks = Blocks(
        np.full(ideals, -1, dtype=np.int32),
        np.empty(ideals, dtype=np.int32),
        np.empty((ideals, len(graph.kinds)), dtype=np.int64),
        np.empty((ideals, 4), dtype=np.int64),
    )
    return chains, blocks


def _devices(graph: LoadGraph, ideals: IdealFamily, chains: Chains, kinds: Kinds, state: int) -> IntArray:
    """Follow the best chain back: the devices of the units, each block on the next one of its kind."""
    found = np.full(graph.units, -1, dtype=np.int64)
    used, j = [0] * len(graph.kinds), len(ideals) - 1
    while j > 0:
        i, k = int(chains.before[j, state]), int(chains.kind[j, state])
        members = np.unpackbits((ideals.words[j] & ~ideals.words[i]).astype("<u8").view(np.uint8), bitorder="little")
        found[np.flatnonzero(members[: graph.units])] = graph.kinds[k][used[k]]
        used[k] += 1
        j, state = i, state - int(kinds.stride[k])
    return found
