"""The exact program over order ideals: sharding schemes and partitions together, fewest picoseconds per layer.

What it proves: no choice of schemes and of partitions in sequence, each within its SRAM, at most (or exactly) so many
per phase, has a smaller sum of max(compute, memory, network). It is a shortest path over states (ideal, schemes of the
kernels that are still read, number of partitions). Between two ideals, labels (compute, memory, network, SRAM) grow
kernel by kernel; a label that is no better in any of the four than one with the same open schemes can't be part of a
better mapping, since all that follows adds the same to both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.lattice import Lattice, TooWideError, as_words, ideals, members
from chipmap.heuristics.dataflow.program_kernel import (
    BITS,
    MASK,
    POOL,
    Graph,
    Labels,
    Rules,
    Table,
    extend,
    finish,
    solve,
)
from chipmap.instances.dataflow.costs import DataflowProblem, IntArray

#: Signatures per ideal, and no limit on picoseconds.
WIDTH = 512
NO_LIMIT = 2**62
#: Entries of the table, of 16 bytes each.
ENTRIES = 10**8
#: Columns of a graph that come from the options of its kernels.
_COLUMNS = ("compute", "collective", "dram", "buffer")


class Chain(NamedTuple):
    """The best mapping: picoseconds of a layer, the partition of each kernel (0, 1, …) and the number of its option."""

    ticks: int
    partitions: tuple[int, ...]
    chosen: tuple[int, ...]


class Floor(NamedTuple):
    """A lower bound on what kernels cost that are still to come: the sum of theirs, of the tensors that they read from
    earlier partitions, and a constant, in picoseconds."""

    kernels: list[float]
    edges: list[float]
    constant: float


class Program:
    """The program of a problem's layer (or of ``layers`` layers in a row), its ideals listed once.

    ``resident``: weights are never read from DRAM. ``after``: pairs of kernels of which the second may not be in an
    earlier partition than the first, beside the tensors; they make the program a restriction. Raises
    :class:`TooWideError` where there are more than ``limit`` ideals.
    """

    def __init__(
        self,
        problem: DataflowProblem,
        layers: int = 1,
        *,
        resident: bool = False,
        limit: int = 200_000,
        after: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.problem, self.layers, self.resident = problem, layers, resident
        kernels = problem.instance.workload.kernels
        edges = list(enumerate(problem.edges.tolist()))
        n = problem.n
        wired = [(k * n + u, k * n + v, e) for k in range(layers) for e, (u, v) in edges]
        index = {kernel.name: i for i, kernel in enumerate(kernels)}
        carried = [(index[u], index[v]) for u, v in problem.instance.workload.carries]
        if layers > 1:
            wired += [(k * n + u, (k + 1) * n + v, -1) for k in range(layers - 1) for u, v in carried]
        phases = [kernel.phase == "backward" for kernel in kernels] * layers
        self.order = topological(n * layers, [*((u, v) for u, v, _ in wired), *after], phases)
        place = {v: i for i, v in enumerate(self.order)}
        self.wired = [(place[u], place[v], e) for u, v, e in wired]
        self.forward = sum(not phases[v] for v in self.order)
        barrier = [(u, v) for u in range(self.forward) for v in range(self.forward, len(self.order))]
        plain = [*((u, v) for u, v, _ in self.wired), *((place[u], place[v]) for u, v in after)]
        self.lattice = self._ideals(plain + barrier if any(phases) else plain, limit)
        self.graph = self._graph()

    def _ideals(self, edges: list[tuple[int, int]], limit: int) -> Lattice:
        return ideals(len(self.order), edges, limit)

    def _graph(self) -> Graph:
        problem, order = self.problem, self.order
        options = [problem.options[v % problem.n] for v in order]
        flat = [option for one in options for option in one]
        columns = {name: np.array([getattr(o, name) for o in flat], dtype=np.int64) for name in _COLUMNS}
        n, lattice = len(order), self.lattice
        sources = np.array([u for u, _, _ in self.wired], dtype=np.int64)
        targets = np.array([v for _, v, _ in self.wired], dtype=np.int64)
        enter, entering = _rows(n, targets)
        leave, leaving = _rows(n, sources)
        readers = [sum({1 << int(targets[e]) for e in leaving[leave[u] : leave[u + 1]]}) for u in range(n)]
        open_sets = [[u for u in members(ideal) if readers[u] & ~ideal] for ideal in lattice.sets]
        grouped, sizes = self._groups()
        least = np.array([min(o.compute for o in one) for one in options], dtype=np.int64)
        return Graph(
            first=np.cumsum([0, *map(len, options)]).astype(np.int64),
            compute=columns["compute"],
            network=columns["collective"],
            memory=np.array([0 if self.resident else o.stream for o in flat], dtype=np.int64),
            held=np.array([o.weights for o in flat], dtype=np.int64),
            dram=columns["dram"],
            buffer=columns["buffer"],
            enter=enter,
            entering=entering,
            leave=leave,
            leaving=leaving,
            source=sources,
            target=targets,
            waits=self._waits(),
            converts=self._converts(),
            slot=_slots(n, [len(one) for one in options], self._open_together(open_sets)),
            sets=as_words(lattice.sets, n),
            grow=np.cumsum([0, *map(len, lattice.grows)]).astype(np.int64),
            by=np.array([v for one in lattice.grows for v, _ in one], dtype=np.int64),
            into=np.array([j for one in lattice.grows for _, j in one], dtype=np.int64),
            open_first=np.cumsum([0, *map(len, open_sets)]).astype(np.int64),
            open=np.array([u for one in open_sets for u in one], dtype=np.int64),
            grouped=grouped,
            sizes=sizes,
            rest=np.array([least.sum() - least[members(ideal)].sum() for ideal in lattice.sets], dtype=np.int64),
            gate=lattice.sets.index((1 << self.forward) - 1) if 0 < self.forward < n else 0,
        )

    def _open_together(self, open_sets: list[list[int]]) -> list[list[int]]:
        """Sets of kernels whose outputs are open at the same time."""
        return open_sets

    def _waits(self) -> IntArray:
        from chipmap.instances.dataflow.costs import levels

        level = levels(len(self.order), np.array([(u, v) for u, v, _ in self.wired], dtype=np.int64).reshape(-1, 2))
        return np.array([level[v] - level[u] + 1 for u, v, _ in self.wired], dtype=np.int64)

    def _converts(self) -> IntArray:
        problem = self.problem
        table = np.zeros((len(self.wired), 1 << BITS, 1 << BITS), dtype=np.int64)
        for i, (u, v, _) in enumerate(self.wired):
            a, b = self.order[u] % problem.n, self.order[v] % problem.n
            for s in range(len(problem.options[a])):
                for t in range(len(problem.options[b])):
                    table[i, s, t] = problem.converts(a, b, s, t)
        return table

    def _groups(self) -> tuple[IntArray, IntArray]:
        index = {kernel.name: v for v, kernel in enumerate(self.problem.instance.workload.kernels)}
        place = {v: i for i, v in enumerate(self.order)}
        groups = [
            sum(1 << place[k * self.problem.n + index[name]] for name in group)
            for k in range(self.layers)
            for group in self.problem.instance.task.together
        ]
        counts = [[(ideal & group).bit_count() for group in groups] for ideal in self.lattice.sets]
        return (
            np.array(counts, dtype=np.int64).reshape(len(self.lattice.sets), len(groups)),
            np.array([group.bit_count() for group in groups], dtype=np.int64),
        )

    def bound_rest(self, floor: Floor) -> None:
        """Bound what is left after each ideal by ``floor`` where that is more than compute alone."""
        n = len(self.order)
        inside = np.unpackbits(self.graph.sets.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.float64)
        rest = (1 - inside) @ np.array([floor.kernels[v] for v in self.order]) + floor.constant
        for u, v, e in self.wired:
            if floor.edges[e]:
                rest += floor.edges[e] * inside[:, u] * (1 - inside[:, v])
        least = np.maximum(self.graph.rest, np.floor(rest).astype(np.int64))
        least[-1] = 0
        self.graph = self.graph._replace(rest=least)

    def best(
        self,
        most: int | None,
        exactly: bool = False,
        fused: bool = True,
        sram: int | None = None,
        upper: int = NO_LIMIT,
    ) -> Chain | None:
        """The best mapping with at most (or exactly) ``most`` partitions per phase; None where none fits.

        ``sram`` stands in for the chip's own; only mappings below ``upper`` picoseconds are looked for. Raises
        :class:`TooWideError` where an ideal has too many combinations of open schemes.
        """
        g, instance = self.graph, self.problem.instance
        n, count = len(self.order), len(self.lattice.sets)
        if exactly and most is not None and most > n:
            return None
        most = n if most is None else min(most, n)
        rules = Rules(self.problem.sram if sram is None else sram, most, fused, instance.mode == "physical")
        combinations = int(max(1, *(2 ** _open_bits(g, j) for j in range(count))))
        width = min(WIDTH, combinations)
        if count * width * (most + 1) > ENTRIES:
            raise TooWideError(f"{count:,} order ideals, {width} sharding schemes and {most} partitions are too many")
        table = Table(
            signature=np.zeros((count, width), np.int64),
            used=np.zeros(count, np.int64),
            value=np.full((count, width, most + 1), -1, np.int64),
            origin=np.zeros((count, width, most + 1, 2), np.int32),
        )
        gate = np.zeros(width, np.int64)
        pool = Labels(*(np.zeros(POOL, np.int64) for _ in range(5)))
        if not solve(g, rules, table, pool, exactly, gate, upper):
            raise TooWideError("too many combinations of sharding schemes are open at once")
        last = count - 1
        ends = [
            (int(table.value[last, s, k]), s, k)
            for s in range(int(table.used[last]))
            for k in range(most + 1)
            if table.value[last, s, k] >= 0 and (k == most or not exactly)
        ]
        if not ends:
            return None
        ticks, s, k = min(ends)
        return self._trace(rules, table, gate, ticks, s, k)

    def _trace(self, rules: Rules, table: Table, gate: IntArray, ticks: int, s: int, k: int) -> Chain:
        g, arcs = self.graph, []
        j = len(self.lattice.sets) - 1
        while j > 0:
            if g.gate > 0 and j == g.gate and k == 0:
                k = int(gate[s])
            value = int(table.value[j, s, k]) if table.value[j, s, k] >= 0 else int(table.value[j, s, 0])
            root, before = (int(x) for x in table.origin[j, s, k])
            start = int(table.value[root, before, k - 1])
            if start < 0:  # the values of the first phase's end were kept under 0
                start = int(table.value[root, before, 0])
            arcs.append((root, before, j, int(table.signature[j, s]), value - start))
            j, s, k = root, before, k - 1
        partitions, chosen = [0] * len(self.order), [0] * len(self.order)
        for number, (root, before, j, signature, cost) in enumerate(reversed(arcs)):
            inside = members(self.lattice.sets[j] & ~self.lattice.sets[root])

            def costs(pool: Labels, i: int, j: int = j, root: int = root, cost: int = cost) -> bool:
                return bool(finish(g, rules, pool, i, j, g.sets[root]) == cost)

            options = self._options(rules, int(table.signature[root, before]), root, signature, costs, inside)
            for v, option in zip(inside, options, strict=True):
                partitions[self.order[v]], chosen[self.order[v]] = number, option
        return Chain(ticks, tuple(partitions), tuple(chosen))

    def _options(
        self,
        rules: Rules,
        begins: int,
        root: int,
        ends: int,
        costs: Callable[[Labels, int], bool],
        inside: Sequence[int],
    ) -> list[int]:
        """The options of the kernels ``inside`` of a partition after ideal I = ``root`` that leave signature ``ends``
        at the cost that ``costs`` says yes to."""
        g, pool = self.graph, Labels(*(np.zeros(POOL, np.int64) for _ in range(5)))
        pool.signature[0] = begins
        ranges, sets = [(0, 1)], [g.sets[root]]
        for v in inside:
            grown = sets[-1].copy()
            grown[v >> 6] |= np.uint64(1 << (v & 63))
            sets.append(grown)
            a, b = ranges[-1]
            options = (int(g.first[v]), int(g.first[v + 1]))
            ranges.append((b, extend(g, rules, pool, (a, b, b), v, options, grown, g.sets[root], NO_LIMIT)))
        found = next(i for i in range(*ranges[-1]) if pool.signature[i] == ends and costs(pool, i))
        chosen = []
        for level in range(len(inside), 0, -1):
            v, free = inside[level - 1], ranges[-1][1]
            wanted = tuple(int(column[found]) for column in pool)
            found, option = next(
                (i, option)
                for i in range(*ranges[level - 1])
                for option in range(int(g.first[v]), int(g.first[v + 1]))
                if extend(g, rules, pool, (i, i + 1, free), v, (option, option + 1), sets[level], sets[0], NO_LIMIT)
                > free
                and tuple(int(column[free]) for column in pool) == wanted
            )
            chosen.append(option - int(g.first[v]))
        return chosen[::-1]


def _open_bits(g: Graph, j: int) -> int:
    """An upper bound on the bits that the open kernels of ideal j have a choice of."""
    bits = 0
    for u in g.open[g.open_first[j] : g.open_first[j + 1]].tolist():
        if g.slot[u] >= 0:
            bits += int(g.first[u + 1] - g.first[u] - 1).bit_length()
    return min(bits, 20)


def topological(n: int, edges: Sequence[tuple[int, int]], later: Sequence[bool]) -> list[int]:
    """A topological order with all kernels of the first phase first."""
    waiting, readers = [0] * n, [[] for _ in range(n)]  # type: tuple[list[int], list[list[int]]]
    for u, v in edges:
        waiting[v] += 1
        readers[u].append(v)
    order: list[int] = []
    ready = [v for v in range(n) if waiting[v] == 0]
    while ready:
        v = min(ready, key=lambda v: (later[v], v))
        ready.remove(v)
        order.append(v)
        for w in readers[v]:
            waiting[w] -= 1
            if waiting[w] == 0:
                ready.append(w)
    return order


def _rows(n: int, ends: IntArray) -> tuple[IntArray, IntArray]:
    """CSR rows of the edges by an end."""
    order = np.argsort(ends, kind="stable").astype(np.int64)
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64), order


def _slots(n: int, options: Sequence[int], open_sets: Sequence[Sequence[int]]) -> IntArray:
    """Places in a signature: kernels with a choice that are open together have different ones."""
    clash: list[set[int]] = [set() for _ in range(n)]
    for together in open_sets:
        choice = [u for u in together if options[u] > 1]
        for u in choice:
            clash[u].update(choice)
    slots = np.full(n, -1, dtype=np.int64)
    for u in range(n):
        if clash[u]:
            taken = {int(slots[w]) for w in clash[u]}
            slots[u] = next(slot for slot in range(n + 1) if slot not in taken)
    if slots.max(initial=-1) * BITS + BITS > 60 or max(options) > MASK + 1:
        raise TooWideError("too many kernels with a choice of sharding schemes are open at once")
    return slots


__all__ = ["Chain", "Lattice", "Program", "TooWideError"]
