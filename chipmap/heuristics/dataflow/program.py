"""The exact program over order ideals: sharding schemes and partitions together, fewest picoseconds per layer.

What it proves: no choice of schemes and of partitions in sequence, each within its SRAM, at most (or exactly) so many
per phase, has a smaller sum of max(compute, memory, network). It is a shortest path over states (ideal, schemes of the
kernels that are still read, number of partitions). Between two ideals, labels (compute, memory, network, SRAM) grow
kernel by kernel; a label that is no better in any of the four than one with the same open schemes can't be part of a
better mapping, since all that follows adds the same to both. Where schemes also decide on DRAM for good, transfers
between stages or sums of gradients, these sums, and the most that ever waits in DRAM, are part of states and labels;
but first the mapping of fewest picoseconds is looked for, which is the best one if it fits and has the least of them.

Where kernels share tiles, compute doesn't add up: the least time of a partition is found for each of its labels, and of
two labels one goes only if, besides, none of its kernels would do with fewer tiles at any time. A first run with the
tiles spread at will gives a mapping whose time, with its tiles shared out, limits the second run; what a kernel takes
of all tiles at least bounds what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.lattice import Lattice, TooWideError, as_words, ideals, members
from chipmap.heuristics.dataflow.program_kernel import (
    BITS,
    MASK,
    NO_LIMIT,
    Graph,
    Labels,
    Rules,
    Table,
    chosen,
    empty_labels,
    extend,
    finish,
    solve,
)
from chipmap.heuristics.dataflow.sharing import tiles
from chipmap.instances.dataflow.batch import forward_runs
from chipmap.instances.dataflow.costs import (
    DataflowProblem,
    IntArray,
    Option,
    batch_ticks,
    first_layer,
    outside,
    total_ticks,
)
from chipmap.instances.dataflow.tiles import Shares, sharing

#: Signatures per ideal; with sums beside the partitions up to the second number.
WIDTH = 512
WIDE = 4096
#: No limit on compute, memory and network.
NO_LIMITS = (NO_LIMIT, NO_LIMIT, NO_LIMIT)
#: Entries of the table, of 16 bytes each.
ENTRIES = 10**8
#: Columns of a graph that come from the options of its kernels.
_COLUMNS = ("compute", "collective", "dram", "buffer", "waits")
#: Columns of an option that are summed beside the partitions (None: the most that waits in DRAM).
_OUTSIDE = ("kept", None, "hop", "gradient")


class Chain(NamedTuple):
    """The best mapping: picoseconds of a layer, the partition of each kernel (0, 1, …), the number of its option, and
    the picoseconds of each partition."""

    ticks: int
    partitions: tuple[int, ...]
    chosen: tuple[int, ...]
    costs: tuple[int, ...]


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
        runs = forward_runs(problem.instance)
        times = [runs if i < self.forward < n else 1 for i in range(n)]
        least = [[k * x for x in self._least(one)] for k, one in zip(times, options, strict=True)]
        return Graph(
            first=np.cumsum([0, *map(len, options)]).astype(np.int64),
            compute=columns["compute"],
            network=columns["collective"],
            memory=np.array([o.fetch if self.resident else o.stream for o in flat], dtype=np.int64),
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
            rest=_rest(np.array(least, dtype=np.int64), lattice),
            gate=lattice.sets.index((1 << self.forward) - 1) if 0 < self.forward < n else 0,
            tiles=tiles(self._shares(), problem.instance.system.chip.tiles, 1 << BITS),
            waits_dram=columns["waits"],
            outside=_outside(options),
        )

    def _shares(self) -> list[tuple[Shares, ...]]:
        """Those of every copy of a kernel; none where a utilisation is given."""
        listed = self.problem.shares
        return [listed[v % self.problem.n] for v in self.order] if listed else []

    def _least(self, options: Sequence[Option]) -> tuple[int, int, int]:
        """Compute, memory and network that a kernel takes at least; where nothing overlaps, their sum and nothing."""
        memory = [o.fetch if self.resident else o.stream for o in options]
        if not self.problem.instance.task.overlap:
            return min(o.compute + m + o.collective for o, m in zip(options, memory, strict=True)), 0, 0
        return min(o.compute for o in options), min(memory), min(o.collective for o in options)

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
        """Bound what is left after each ideal by ``floor`` too: not where kernels may join a partition under way."""
        n = len(self.order)
        inside = np.unpackbits(self.graph.sets.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.float64)
        rest = (1 - inside) @ np.array([floor.kernels[v] for v in self.order]) + floor.constant
        for u, v, e in self.wired:
            if floor.edges[e]:
                rest += floor.edges[e] * inside[:, u] * (1 - inside[:, v])
        floors = np.floor(rest).astype(np.int64)
        floors[-1] = 0
        self.graph = self.graph._replace(rest=np.column_stack([self.graph.rest, floors]))

    def best(
        self,
        most: int | None,
        exactly: bool = False,
        fused: bool = True,
        sram: int | None = None,
        dram: int | None = None,
        below: int = NO_LIMIT,
    ) -> Chain | None:
        """The mapping of least batch time with at most (or exactly) ``most`` partitions per phase; None where none fits
        whose layer takes less than ``below`` picoseconds.

        ``sram`` and ``dram`` (bytes, where the instance limits DRAM) stand in for the chip's own. Raises
        :class:`TooWideError` where an ideal has too many combinations of open schemes.
        """
        if exactly and most is not None and most > len(self.order):
            return None
        rules = self.rules(most, fused, sram, dram)
        plain = self._fewest(rules, exactly, below)
        if plain is None or not self.graph.outside.any():
            return plain
        least = all(outside(self.problem, f, plain.chosen) == outside(self.problem, f) for f in ("hop", "gradient"))
        room = NO_LIMIT if rules.room == NO_LIMIT else rules.room + outside(self.problem, "kept")
        fits = self.dram(plain) <= room
        return plain if least and fits else self._whole(rules, exactly, below, plain, fits)

    def rules(self, most: int | None, fused: bool = True, sram: int | None = None, dram: int | None = None) -> Rules:
        """What partitions obey, with at most ``most`` of them per phase, ``sram`` and ``dram`` bytes (None: the
        chip's own)."""
        instance, n = self.problem.instance, len(self.order)
        capacity = instance.system.memory.capacity_bytes
        limit = dram if capacity is not None and dram is not None else capacity
        return Rules(
            sram=self.problem.sram if sram is None else sram,
            most=n if most is None else min(most, n),
            fused=fused,
            multicast=instance.mode == "physical",
            overlap=instance.task.overlap,
            shared=bool(self.graph.tiles.total),
            room=NO_LIMIT if limit is None else limit - outside(self.problem, "kept"),
            runs=forward_runs(instance),
        )

    def _fewest(self, rules: Rules, exactly: bool, below: int) -> Chain | None:
        """The mapping of fewest picoseconds per layer below a limit, schemes that keep least in DRAM taken for granted.

        Limits that grow from the bound by ``rest`` on, their distance doubling, until a mapping stays below one, leave
        most labels out: what is found below a limit is the best of all.
        """
        g, rough = self.graph._replace(outside=self.graph.outside[:, :0]), rules._replace(shared=False)
        least, slack, most_ever = int(g.rest[0].max()), 1, self._all(rules.runs)
        while True:
            limit = least + least * slack // 4 + 1
            limit, slack = (limit, 2 * slack) if limit < min(below, most_ever) else (below, 0)
            found = self._best(g, rough, exactly, limit)
            if found is not None or slack == 0:
                break
        if found is None or not rules.shared:
            return found
        return self._best(g, rules, exactly, min(below, self._shared(found, rules.runs) + 1))

    def _whole(self, rules: Rules, exactly: bool, below: int, plain: Chain, fits: bool) -> Chain | None:
        """The mapping of least batch time: no worse than ``plain`` where that ``fits`` DRAM, else of longer layers.

        A mapping is the best of all once every layer that is left makes a longer batch.
        """
        g = self.graph
        if fits:
            limit = first_layer(self.problem, self._ticks(plain))
            found = self._best(g, rules, exactly, min(limit, below))
            return min((plain, found), key=self._ticks) if found is not None else plain
        step = plain.ticks // 4 + 1
        while True:
            step *= 2
            limit = plain.ticks + step if plain.ticks + step < min(below, self._all(rules.runs)) else below
            found = self._best(g, rules, exactly, limit)
            if found is not None and limit < below:
                return self._whole(rules, exactly, below, found, fits=True)
            if found is not None or limit == below:
                return found

    def _ticks(self, chain: Chain) -> int:
        """Picoseconds of the batch."""
        return total_ticks(self.problem, chain.ticks, chain.chosen)

    def _all(self, runs: int) -> int:
        """More picoseconds than any mapping takes: everything at its most, one after the other."""
        g, options = self.graph, np.repeat(np.arange(len(self.order)), np.diff(self.graph.first))
        most = np.zeros(len(self.order), dtype=np.int64)
        edges = np.diff(g.leave)[options]
        np.maximum.at(most, options, g.compute + g.memory + g.network + 2 * edges * g.dram)
        changes = int(g.converts.max(axis=(1, 2)).sum()) if len(g.converts) else 0
        return runs * (int(most.sum()) + changes) + 1

    def _shared(self, chain: Chain, runs: int) -> int:
        """The picoseconds that ``chain`` takes where kernels share tiles: each partition at least its own.

        ``NO_LIMIT`` - 1 where a partition has more kernels than there are tiles.
        """
        problem, total = self.problem, 0
        kernels = problem.instance.workload.kernels
        for number, cost in enumerate(chain.costs):
            inside = [i for i, p in enumerate(chain.partitions) if p == number]
            shared = sharing([problem.shares[i % problem.n][chain.chosen[i]] for i in inside], self.graph.tiles.total)
            if shared is None:
                return NO_LIMIT - 1
            forward = kernels[inside[0] % problem.n].phase == "forward"
            total += max(cost, (runs if forward else 1) * shared.ticks)
        return total

    def dram(self, chain: Chain) -> int:
        """The most bytes that a mapping has in DRAM while a partition runs."""
        multicast = self.problem.instance.mode == "physical"
        waiting = [0] * (max(chain.partitions) + 1)
        for c in range(len(waiting)):
            tensors = [
                self.order[u]
                for u, v, _ in self.wired
                if chain.partitions[self.order[u]] <= c <= chain.partitions[self.order[v]]
                and chain.partitions[self.order[u]] < chain.partitions[self.order[v]]
            ]
            for u in set(tensors) if multicast else tensors:
                waiting[c] += self.problem.options[u % self.problem.n][chain.chosen[u]].waits
        return outside(self.problem, "kept", chain.chosen) + max(waiting)

    def _best(self, g: Graph, rules: Rules, exactly: bool, below: int) -> Chain | None:
        """The mapping of least batch time, of those whose layer takes less than ``below`` picoseconds."""
        count, most, columns = len(self.lattice.sets), rules.most, g.outside.shape[1]
        combinations = int(max(1, *(2 ** _open_bits(g, j) for j in range(count))))
        width = min(WIDTH, combinations)
        if columns:
            width = max(width, min(WIDE, ENTRIES // (5 * count * (most + 1))))
        if count * width * (most + 1) > ENTRIES:
            raise TooWideError(f"{count:,} order ideals, {width} sharding schemes and {most} partitions are too many")
        table = Table(
            signature=np.zeros((count, width), np.int64),
            used=np.zeros(count, np.int64),
            value=np.full((count, width, most + 1), -1, np.int64),
            origin=np.zeros((count, width, most + 1, 2), np.int32),
            outside=np.zeros((count, width + 1, columns), np.int64),
        )
        gate = np.zeros(width, np.int64)
        if not solve(g, rules, table, empty_labels(columns), exactly, gate, below):
            raise TooWideError("too many combinations of sharding schemes are open at once")
        last = count - 1
        ends = [
            (self._batch(int(table.value[last, s, k]), table.outside[last, s]), s, k)
            for s in range(int(table.used[last]))
            for k in range(most + 1)
            if table.value[last, s, k] >= 0 and (k == most or not exactly)
        ]
        if not ends:
            return None
        _, s, k = min(ends)
        return self._trace(g, rules, table, gate, s, k)

    def _batch(self, layer: int, more: IntArray) -> int:
        """Picoseconds of the batch, ``more`` in the columns of the graph's ``outside``."""
        added = dict(zip(_OUTSIDE, more.tolist(), strict=False))
        hop, gradient = (outside(self.problem, field) + added.get(field, 0) for field in ("hop", "gradient"))
        return batch_ticks(self.problem, layer, hop, gradient)

    def _trace(self, g: Graph, rules: Rules, table: Table, gate: IntArray, s: int, k: int) -> Chain:
        arcs = []
        j = len(self.lattice.sets) - 1
        ticks = int(table.value[j, s, k])
        while j > 0:
            if g.gate > 0 and j == g.gate and k == 0:
                k = int(gate[s])
            value = int(table.value[j, s, k]) if table.value[j, s, k] >= 0 else int(table.value[j, s, 0])
            root, before = (int(x) for x in table.origin[j, s, k])
            start = int(table.value[root, before, k - 1])
            if start < 0:  # the values of the first phase's end were kept under 0
                start = int(table.value[root, before, 0])
            arcs.append((root, before, j, s, value - start))
            j, s, k = root, before, k - 1
        partitions, picked = [0] * len(self.order), [0] * len(self.order)
        for number, (root, before, j, s, cost) in enumerate(reversed(arcs)):
            inside = members(self.lattice.sets[j] & ~self.lattice.sets[root])
            wanted = self._wanted(g, rules, table, (root, before, j, s, cost))
            for v, option in zip(
                inside, self._options(g, rules, int(table.signature[root, before]), root, inside, wanted), strict=True
            ):
                partitions[self.order[v]], picked[self.order[v]] = number, option
        return Chain(ticks, tuple(partitions), tuple(picked), tuple(cost for *_, cost in reversed(arcs)))

    def _wanted(
        self, g: Graph, rules: Rules, table: Table, arc: tuple[int, int, int, int, int]
    ) -> Callable[[Labels, int], bool]:
        """Whether a label is the one behind the ``arc`` (I, its entry, J, its entry, picoseconds)."""
        root, before, j, s, cost = arc
        once = cost // (rules.runs if j <= g.gate else 1)
        more = table.outside[j, s] - table.outside[root, before]

        def wanted(pool: Labels, i: int) -> bool:
            same = pool.signature[i] == table.signature[j, s]
            same = same and all(pool.outside[i, c] == more[c] for c in range(len(more)) if c != 1)
            return bool(same and finish(g, rules, pool, i, j, g.sets[root], once + 1) == once)

        return wanted

    def _options(
        self,
        g: Graph,
        rules: Rules,
        begins: int,
        root: int,
        inside: Sequence[int],
        wanted: Callable[[Labels, int], bool],
    ) -> list[int]:
        """The options of the kernels ``inside`` of a partition after ideal I = ``root`` and its signature ``begins``
        whose label is ``wanted``."""
        pool = empty_labels(g.outside.shape[1])
        pool.signature[0], pool.parent[0] = begins, -1
        ranges, grown = [(0, 1)], g.sets[root]
        for v in inside:
            grown = grown.copy()
            grown[v >> 6] |= np.uint64(1 << (v & 63))
            a, b = ranges[-1]
            options = (int(g.first[v]), int(g.first[v + 1]))
            ranges.append((b, extend(g, rules, pool, (a, b, b), v, options, grown, g.sets[root], NO_LIMITS)))
        found = next(i for i in range(*ranges[-1]) if wanted(pool, i))
        return [int(option - g.first[v]) for option, v in zip(chosen(pool, found)[::-1], inside, strict=True)]


def _outside(options: Sequence[Sequence[Option]]) -> IntArray:
    """Rows of :data:`_OUTSIDE` for all options, less the least of each kernel's."""
    rows = [
        [getattr(o, field) - min(getattr(other, field) for other in one) if field else 0 for field in _OUTSIDE]
        for one in options
        for o in one
    ]
    return np.array(rows, dtype=np.int64)


def _open_bits(g: Graph, j: int) -> int:
    """An upper bound on the bits that the open kernels of ideal j have a choice of."""
    bits = 0
    for u in g.open[g.open_first[j] : g.open_first[j + 1]].tolist():
        if g.slot[u] >= 0:
            bits += int(g.first[u + 1] - g.first[u] - 1).bit_length()
    return min(bits, 20)


def _rest(least: IntArray, lattice: Lattice) -> IntArray:
    """For each ideal what the kernels outside it take at least of each resource (columns of ``least``)."""
    return np.array([least.sum(axis=0) - least[members(ideal)].sum(axis=0) for ideal in lattice.sets], dtype=np.int64)


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
