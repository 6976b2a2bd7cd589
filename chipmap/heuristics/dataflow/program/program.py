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

from chipmap.deadline import around
from chipmap.heuristics.dataflow.program.graph import OUTSIDE, IdealGraph
from chipmap.heuristics.dataflow.program.kernel import Table, solve
from chipmap.heuristics.dataflow.program.label_setting import (
    HELD,
    NO_LIMIT,
    Graph,
    Labels,
    Rules,
    Step,
    chosen,
    empty_labels,
    extend,
    finish,
    waiting,
)
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.parameters import MANY_LABELS, TIMES, each_way, few_ways, next_step, tightened
from chipmap.heuristics.dataflow.program.watch import watched
from chipmap.heuristics.engines.ideals import bits
from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.batch_time import BESIDE, batch_ticks, first_layer, outside, total_ticks
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.problem import IntArray
from chipmap.instances.dataflow.tiles import sharing
from chipmap.records import counted

#: Signatures per ideal; with sums beside the partitions up to the second number.
WIDTH = 512
WIDE = 4096
#: Entries of the table, of 16 bytes each.
ENTRIES = 10**8


class Chain(NamedTuple):
    """The best mapping: picoseconds of a layer, the partition of each kernel (0, 1, …), the number of its option, and
    the picoseconds of each partition."""

    ticks: int
    partitions: tuple[int, ...]
    chosen: tuple[int, ...]
    costs: tuple[int, ...]


class Program(IdealGraph):
    """The shortest path over the states of an :class:`IdealGraph`, which says what the parameters are."""

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
        :class:`TooWideError` where an ideal has too many combinations of open schemes, and after so many labels.
        """
        self.work[0] = 0
        if not fused and self.problem.added and len(self.lattice.masks) > len(self.order) + 1:
            raise TooWideError("kernel by kernel, it takes their order to say which of added products runs last")
        if exactly and most is not None and most > len(self.order):
            return None
        rules = self.rules(most, fused, sram, dram)
        if len(self.graph.exchanges.owner) and few_ways(self.exchanging):
            most_labels = int(self.work[1])
            self.work[1] = min(NO_LIMIT, TIMES * most_labels)
            try:
                return self._by_parameters(rules, exactly, below)
            finally:
                self.work[1] = most_labels
        return self._in_graph(rules, exactly, below)

    def _by_parameters(self, rules: Rules, exactly: bool, below: int) -> Chain | None:
        """The mapping of least batch time where it counts where parameters rest: the best of all ways in which they
        can. All are searched below a limit that grows slowly until one has a mapping, then below what is as good."""
        whole, ways = self.graph, sorted(each_way(self.graph, self.exchanging), key=lambda g: int(g.rest[0].max()))
        top, limit = min(below, self._all()), int(ways[0].rest[0].max())
        best, step, labels, loose = None, limit // 8 + 1, 0, True
        try:
            while best is None and limit < top:
                limit, begin, before = min(limit + step, top), int(self.work[0]), labels
                best = self._of_ways(ways, rules, exactly, limit, None)
                labels = int(self.work[0]) - begin
                step = next_step(limit, step, top, labels, before)
                if best is None and loose and labels >= MANY_LABELS:
                    loose, ways = False, [tightened(g, rules.overlap) for g in ways]
                    limit = max(limit, min(int(g.rest[0].max()) for g in ways))
                step = step if loose else limit // 32 + 1
            if best is None or first_layer(self.problem, self._ticks(best)) <= limit:
                return best
            return self._of_ways(ways, rules, exactly, below, best)
        finally:
            self.graph = whole

    def _of_ways(
        self, ways: Sequence[Graph], rules: Rules, exactly: bool, below: int, best: Chain | None
    ) -> Chain | None:
        """The best mapping of these graphs whose layer takes less than ``below``, or ``best``.

        The shortest layer of each graph is found first: what counts beside it rarely matters then.
        """
        shortest, limit = list[tuple[Graph, Chain]](), self._limit(below, best)
        for graph in ways:
            self.graph = graph
            plain = self._fewest(rules, exactly, limit, at_once=True) if graph.rest[0].max() < limit else None
            if plain is not None:
                shortest.append((graph, plain))
                if self._fits(rules, plain) and (best is None or self._ticks(plain) < self._ticks(best)):
                    best, limit = plain, self._limit(below, plain)
        for graph, plain in shortest:
            self.graph = graph
            found = self._in_graph(rules, exactly, limit, plain) if plain.ticks < limit else None
            if found is not None and (best is None or self._ticks(found) < self._ticks(best)):
                best, limit = found, self._limit(below, found)
        return best

    def _limit(self, below: int, best: Chain | None) -> int:
        """``below``, or the least picoseconds of a layer that are no better than the ``best`` mapping."""
        return below if best is None else min(below, first_layer(self.problem, self._ticks(best)))

    def _in_graph(self, rules: Rules, exactly: bool, below: int, plain: Chain | None = None) -> Chain | None:
        """The mapping of least batch time in the graph as it is; ``plain`` is the one of the shortest layer, if it is
        known."""
        if plain is None:
            plain = self._fewest(rules, exactly, below)
        if plain is None or not self._beside():
            return plain
        least = all(outside(self.problem, f, plain.chosen) == outside(self.problem, f) for f in BESIDE)
        fits = self._fits(rules, plain)
        return plain if least and fits else self._whole(rules, exactly, below, plain, fits)

    def _fits(self, rules: Rules, chain: Chain) -> bool:
        """Whether a mapping fits DRAM."""
        return rules.room == NO_LIMIT or self.dram(chain) <= rules.room + outside(self.problem, "kept")

    def _beside(self) -> bool:
        """Whether options differ in what counts beside the partitions' time."""
        exchanges = self.graph.exchanges
        return bool(self.graph.outside.any() or exchanges.after.any() or exchanges.held.any())

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
            launch=self.problem.launch,
        )

    def _fewest(self, rules: Rules, exactly: bool, below: int, at_once: bool = False) -> Chain | None:
        """The mapping of fewest picoseconds per layer below a limit, schemes that keep least in DRAM taken for granted.

        Limits that grow from the bound by ``rest`` on, their distance doubling, until a mapping stays below one, leave
        most labels out: what is found below a limit is the best of all. Not so where it is searched for ``at_once``.
        """
        g, rough = self.graph._replace(outside=self.graph.outside[:, :0]), rules._replace(shared=False)
        least, slack, most_ever = int(g.rest[0].max()), 1, self._all()
        while True:
            limit = least + (least // 4 + 1) * slack
            limit, slack = (limit, 2 * slack) if limit < min(below, most_ever) and not at_once else (below, 0)
            found = self._best(g, rough, exactly, limit)
            if found is not None or slack == 0:
                break
        if found is None or not rules.shared:
            return found
        return self._best(g, rules, exactly, min(below, self._shared(found) + 1))

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
            limit = plain.ticks + step if plain.ticks + step < min(below, self._all()) else below
            found = self._best(g, rules, exactly, limit)
            if found is not None and limit < below:
                return self._whole(rules, exactly, below, found, fits=True)
            if found is not None or limit == below:
                return found

    def _ticks(self, chain: Chain) -> int:
        """Picoseconds of the batch."""
        return total_ticks(self.problem, chain.ticks, chain.chosen)

    def _all(self) -> int:
        """More picoseconds than any mapping takes: everything at its most, one after the other."""
        g, options = self.graph, np.repeat(np.arange(len(self.order)), np.diff(self.graph.first))
        most = np.zeros(len(self.order), dtype=np.int64)
        edges = np.diff(g.leave)[options]
        np.maximum.at(most, options, g.compute + g.memory + g.network + 2 * edges * g.dram)
        changes = int(g.converts.max(axis=(1, 2)).sum()) if len(g.converts) else 0
        changes += self.exchanging_most
        return int(g.runs.max(initial=1)) * (int(most.sum()) + changes + len(self.order) * self.problem.launch) + 1

    def _shared(self, chain: Chain) -> int:
        """The picoseconds that ``chain`` takes where kernels share tiles: each partition at least its own.

        ``NO_LIMIT`` - 1 where a partition has more kernels than there are tiles.
        """
        problem, total = self.problem, 0
        often = runs(problem.instance)
        for number, cost in enumerate(chain.costs):
            inside = [i for i, p in enumerate(chain.partitions) if p == number]
            shared = sharing([problem.shares[i % problem.n][chain.chosen[i]] for i in inside], self.graph.tiles.total)
            if shared is None:
                return NO_LIMIT - 1
            total += max(cost, often[inside[0] % problem.n] * (shared.ticks + problem.launch))
        return total

    def dram(self, chain: Chain) -> int:
        """The most bytes that a mapping has in DRAM while a partition runs."""
        return max(dram_bytes(self.problem, chain.chosen, chain.partitions))

    def _best(self, g: Graph, rules: Rules, exactly: bool, below: int) -> Chain | None:
        """The mapping of least batch time, of those whose layer takes less than ``below`` picoseconds."""
        count, most, columns = len(self.lattice.masks), rules.most, g.outside.shape[1]
        width = min(WIDTH, self.combinations)
        if columns or len(g.exchanges.owner):
            width = max(
                width, min(WIDE, self.combinations if not columns else WIDE, ENTRIES // (5 * count * (most + 1)))
            )
        if count * width * (most + 1) > ENTRIES:
            sizes = f"{counted(count, 'order ideal')}, {counted(width, 'sharding scheme')}"
            raise TooWideError(f"{sizes} and {counted(most, 'partition')} are too many")
        table = self._table(count, width, most, columns)
        gate = np.zeros(width, np.int64)
        with watched(self.work, around()):
            solved = solve(g, rules, table, empty_labels(columns), exactly, gate, below)
        if not solved:
            if self.work[0] > self.work[1]:
                raise TooWideError(f"the program over {count:,} order ideals takes more than {self.work[1]:,} labels")
            raise TooWideError("too many combinations of sharding schemes are open at once")
        ends = [
            (self._batch(ticks, table.outside[count - 1, s]), s, k) for ticks, s, k in ends_of(table, most, exactly)
        ]
        if not ends:
            return None
        _, s, k = min(ends)
        return self._trace(g, rules, table, gate, s, k)

    def _table(self, count: int, width: int, most: int, columns: int = 0) -> Table:
        """An empty table for so many ideals, signatures of each, partitions and columns of sums. Where it isn't used it
        has any numbers: no page of memory is touched for nothing."""
        return Table(
            signature=np.zeros((count, width), np.int64),
            used=np.zeros(count, np.int64),
            value=np.empty((count, width, most + 1), np.int64),
            origin=np.empty((count, width, most + 1, 2), np.int32),
            outside=np.zeros((count, width + 1, columns), np.int64),
            work=self.work,
            barred=self.barred(),
        )

    def _batch(self, layer: int, more: IntArray) -> int:
        """Picoseconds of the batch, ``more`` in the columns of the graph's ``outside``."""
        added = dict(zip(OUTSIDE, more.tolist(), strict=False))
        return batch_ticks(self.problem, layer, *(outside(self.problem, f) + added.get(f, 0) for f in BESIDE))

    def _trace(self, g: Graph, rules: Rules, table: Table, gate: IntArray, s: int, k: int) -> Chain:
        arcs = arcs_of(g, table, gate, s, k)
        partitions, picked = [0] * len(self.order), [0] * len(self.order)
        for number, (root, before, j, s, cost) in enumerate(arcs):
            inside = bits(self.lattice.masks[j] & ~self.lattice.masks[root])
            begins = int(table.signature[root, before]), cost + 1
            wanted = self._wanted(g, rules, table, (root, before, j, s, cost))
            for v, option in zip(inside, self._options(g, rules, begins, root, inside, wanted), strict=True):
                partitions[self.order[v]], picked[self.order[v]] = number, option
        costs = tuple(cost for *_, cost in arcs)
        return Chain(sum(costs), tuple(partitions), tuple(picked), costs)

    def _wanted(
        self, g: Graph, rules: Rules, table: Table, arc: tuple[int, int, int, int, int]
    ) -> Callable[[Labels, int], bool]:
        """Whether a label is the one behind the ``arc`` (I, its entry, J, its entry, picoseconds)."""
        root, before, j, s, cost = arc
        once = cost // int(g.runs[bits(self.lattice.masks[j] & ~self.lattice.masks[root])[0]])
        more, most = table.outside[j, s] - table.outside[root, before], NO_LIMIT
        if len(more) and rules.room < NO_LIMIT:
            most = int(table.outside[j, s, HELD])
            most -= waiting(g, rules, table.signature[root, before], root, g.sets[0])
            most -= waiting(g, rules, table.signature[j, s], j, g.sets[root])

        def wanted(pool: Labels, i: int) -> bool:
            same = pool.signature[i] & g.fields.lasting == table.signature[j, s]
            same = same and all(pool.outside[i, c] == more[c] for c in range(len(more)) if c != HELD)
            same = same and (most == NO_LIMIT or pool.outside[i, HELD] <= most)
            return bool(same and finish(g, rules, pool, i, j, g.sets[root], once + 1) == once)

        return wanted

    def _options(
        self,
        g: Graph,
        rules: Rules,
        begins: tuple[int, int],
        root: int,
        inside: Sequence[int],
        wanted: Callable[[Labels, int], bool],
    ) -> list[int]:
        """The options of the kernels ``inside`` of a partition after ideal I = ``root`` whose label is ``wanted``.

        ``begins``: the signature of I, and picoseconds that no resource of the label reaches.
        """
        pool = empty_labels(g.outside.shape[1])
        pool.signature[0], pool.parent[0] = begins[0], -1
        ranges, grown = [(0, 1)], g.sets[root]
        limits = begins[1] - sum(_least_of(g, rules, v) for v in inside)
        for v in inside:  # what kernels still to come take at least is kept free, as it was in the search
            limits = limits + _least_of(g, rules, v)
            grown = grown.copy()
            grown[v >> 6] |= np.uint64(1 << (v & 63))
            a, b = ranges[-1]
            step = Step(v, int(g.first[v]), int(g.first[v + 1]), a, b)
            bounds = int(limits[0]), int(limits[1]), int(limits[2])
            ranges.append((b, extend(g, rules, pool, step, grown, g.sets[root], bounds)))
        found = next(i for i in range(*ranges[-1]) if wanted(pool, i))
        return [int(option - g.first[v]) for option, v in zip(chosen(pool, found)[::-1], inside, strict=True)]


def ends_of(table: Table, most: int, exactly: bool) -> list[tuple[int, int, int]]:
    """(picoseconds, number of the signature, of partitions) of every mapping that the table holds."""
    return [
        (int(table.value[-1, s, k]), s, k)
        for s in range(int(table.used[-1]))
        for k in range(most + 1)
        if table.value[-1, s, k] >= 0 and (k == most or not exactly)
    ]


def arcs_of(
    g: Graph, table: Table, gate: IntArray, s: int, k: int, capped: bool = True
) -> list[tuple[int, int, int, int, int]]:
    """The partitions (I, its entry, J, its entry, picoseconds) behind entry s of the last ideal with k partitions.

    ``capped``: partitions are counted; else all numbers of them from 1 on share a place.
    """
    arcs, j = [], len(table.value) - 1
    while j > 0:
        if g.gate > 0 and j == g.gate and k == 0:
            k = int(gate[s])
        value = int(table.value[j, s, k]) if table.value[j, s, k] >= 0 else int(table.value[j, s, 0])
        root, before = (int(x) for x in table.origin[j, s, k])
        k = k - 1 if capped else int(root not in (0, g.gate))
        start = int(table.value[root, before, k])
        if start < 0:  # the values of the first phase's end were kept under 0
            start = int(table.value[root, before, 0])
        arcs.append((root, before, j, s, value - start))
        j, s = root, before
    return arcs[::-1]


def _least_of(g: Graph, rules: Rules, v: int) -> IntArray:
    """Compute, memory and network [3] that kernel v takes at least; without overlap their sum and nothing."""
    options = slice(int(g.first[v]), int(g.first[v + 1]))
    each = np.array([g.compute[options], g.memory[options], g.network[options]])
    return each.min(axis=1) if rules.overlap else np.array([each.sum(axis=0).min(), 0, 0])
