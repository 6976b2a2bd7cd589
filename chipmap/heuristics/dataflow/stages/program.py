"""The exact program for pipelines whose stages share out kernels: the shortest step.

It proves that no mapping has a shorter slowest stage or transfer, over all choices of schemes, of partitions in
sequence, each within its SRAM, and of the stages that run them (page ``dataflow-stages``). Of DRAM (C6) it counts the
bytes that rest there at least. So where its mapping doesn't fit the DRAM, its step is only a bound.

A node is an ideal with the schemes of its open kernels, and a partition is an arc between two nodes, as in
:mod:`chipmap.heuristics.dataflow.program.program`. All arcs of at most some picoseconds are listed once. For a
threshold, labels by node, stage and number of partitions hold the least time of the stage under way (with a limit on
DRAM: all Pareto pairs of time and bytes at rest). They say whether stages within the threshold take all kernels, where
a stage may end at a node if the tensors that are open there can be sent on within the threshold.

Bisection over whole picoseconds finds the least threshold. Where there are such stages, their slowest is the next upper
bound; where there are none, the next picosecond is the next lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline, around
from chipmap.heuristics.dataflow.program.label_setting import (
    NO_LIMIT,
    Graph,
    Labels,
    Rules,
    empty_labels,
    finish,
    waiting,
)
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import ENTRIES, WIDTH, Program
from chipmap.heuristics.dataflow.program.watch import watched
from chipmap.heuristics.dataflow.stages.kernel import GROW, WIDE, Arcs, Nodes, Rest, StageArcs, Stages, explore, fill
from chipmap.heuristics.engines.ideals import bits
from chipmap.instances.dataflow.batch_time import resident
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray, wires
from chipmap.networks.graph import neighbours, topological
from chipmap.records import counted

#: Labels of a stage at a node where DRAM is limited.
PLACES = 16
#: Partitions that are listed at most.
MOST_ARCS = 10**7


class Division(NamedTuple):
    """A mapping: picoseconds of a step, partition and number of the option of each kernel, stage of each partition."""

    step: int
    partitions: tuple[int, ...]
    chosen: tuple[int, ...]
    stages: tuple[int, ...]


class StageArc(NamedTuple):
    """A partition from a node to another, its picoseconds and stage, and whether its weights stay in SRAM."""

    start: int
    end: int
    cost: int
    stage: int
    stays: bool
    extra: int = 0


class Listed(NamedTuple):
    """All nodes, the ``ideal`` and ``signature`` of each by number and their ``order`` by the size of ideals, and the
    partitions between them."""

    ideal: IntArray
    signature: IntArray
    order: IntArray
    arcs: StageArcs


def linear_order(problem: DataflowProblem, layers: int, window: int) -> list[tuple[int, int]]:
    """Pairs (first, later) of kernels ``window`` places apart in a linear order of all.

    With a window of 1 they leave one ideal more than there are kernels.
    """
    order = topological(neighbours(layers * problem.n, wires(problem, layers)))
    return list(zip(order, order[window:], strict=False))


class StageProgram(Program):
    """The program on the ideals of one pass (:class:`IdealGraph` says what the parameters are).

    Tensors that wait in DRAM are left out, so that the step that it finds is a bound. ``columns`` of what options add
    beyond the least are told apart from partition to partition.
    """

    columns = 0

    def divide(
        self,
        most: int | None,
        exactly: bool = False,
        fused: bool = True,
        below: int = NO_LIMIT,
        deadline: Deadline = Deadline(),
        least: int = 0,
    ) -> Division | None:
        """The mapping with the shortest step, with at most (or exactly) ``most`` partitions per stage; None where none
        fits whose step takes less than ``below`` picoseconds. No step is known to take less than ``least``.

        Raises :class:`TooWideError` for too many partitions or open schemes.
        """
        if exactly and most is not None and most * self.problem.degrees.pipeline > len(self.order):
            return None
        rules, low = self.rules(most, fused)._replace(room=NO_LIMIT), max(least, self.floor())
        top, slack = min(below, self._longest() + 1), 1
        while low < top:
            limit = min(low + (low // 4 + 1) * slack, top - 1)
            slack *= 2
            listed = self._list(rules, limit, deadline)
            found = self._within(listed, most, exactly, limit, rules)
            if found is None:
                low = limit + 1
                continue
            while low < found.step:  # bisection
                deadline.check()
                middle = (low + found.step) // 2
                better = self._within(listed, most, exactly, middle, rules)
                if better is None:
                    low = middle + 1
                else:
                    found = better
            return found
        return None

    def floor(self) -> int:
        """No step takes fewer picoseconds: the longest kernel, or an equal share of a resource for each stage."""
        rows = []
        for v in self.order:
            options = self.problem.options[v % self.problem.n]
            row = [min(column) for column in zip(*((o.compute, o.fetch, o.collective) for o in options), strict=True)]
            rows.append(row if self.problem.instance.task.overlap else [sum(row)])
        share = -(-max(map(sum, zip(*rows, strict=True))) // self.problem.degrees.pipeline)
        return int(max(share, *(max(row) for row in rows)))

    def _longest(self) -> int:
        """No step takes more picoseconds."""
        edges = max(1, len(self.wired))
        sent = sum(max(o.link for o in self.problem.options[v % self.problem.n]) for v in self.order)
        shared = sum(max(int(one[:, 1].max()) for one in choice) for choice in self._shares())
        return max(self._all() + shared, edges * sent)

    # the partitions

    def _list(self, rules: Rules, limit: int, deadline: Deadline) -> Listed:
        """All nodes, and partitions of at most ``limit`` picoseconds."""
        streamed, stays = self._graphs()
        count = len(self.lattice.masks)
        width = min(WIDTH, self.combinations)
        if count * width > ENTRIES:
            raise TooWideError(f"{count:,} order ideals and {width} sharding schemes are too many")
        nodes = Nodes(*(np.zeros(shape, np.int64) for shape in ((count, width), count, 1024, 1024, 1)))
        nodes.used[0] = nodes.total[0] = 1
        pool, room = empty_labels(streamed.outside.shape[1]), [np.zeros((3, 1 << 12), np.int64)]
        chunks: list[list[tuple[int, IntArray]]] = [[], []]
        order, total = list[int](), 0
        graphs = [streamed, *([stays] if stays is not None else [])]
        with watched(self.work, deadline):
            for j in range(count):
                deadline.check()
                for t in range(int(nodes.used[j])):
                    start = int(nodes.number[j, t])
                    order.append(start)
                    for g, chunk in zip(graphs, chunks, strict=False):
                        nodes, found = _explored(g, rules, nodes, pool, start, limit, room, self.work)
                        chunk.append((start, found))
                        total += found.shape[1]
                        if total > MOST_ARCS:
                            raise TooWideError(f"there are more than {MOST_ARCS:,} partitions to choose from")
        sent = streamed._replace(waits_dram=self._column("link"))
        size = int(nodes.total[0])
        ideal, signature = nodes.ideal[:size], nodes.signature[:size]
        links = [waiting(sent, rules, int(s), int(j), streamed.sets[0]) for j, s in zip(ideal, signature, strict=True)]
        return Listed(
            ideal=ideal,
            signature=signature,
            order=np.array(order, dtype=np.int64),
            arcs=StageArcs(
                streamed=_rows(chunks[0], size),
                resident=_rows(chunks[1], size),
                links=np.array(links, dtype=np.int64),
                rest=self._rest(ideal),
            ),
        )

    def _graphs(self) -> tuple[Graph, Graph | None]:
        """The graph, and that in which weights stay in SRAM (None: they never do)."""
        streamed = self.graph._replace(outside=np.ascontiguousarray(self.graph.outside[:, : self.columns]))
        stays = resident(self.problem) and any(o.spared for options in self.problem.options for o in options)
        return streamed, streamed._replace(memory=self._column("fetch")) if stays else None

    def _column(self, field: str) -> IntArray:
        """A column of all options, kernels in the order of the program."""
        options = (o for v in self.order for o in self.problem.options[v % self.problem.n])
        return np.array([getattr(o, field) for o in options], dtype=np.int64)

    def _rest(self, ideal: IntArray) -> Rest:
        """Bytes at rest in DRAM up to each node, each kernel under the scheme that keeps least."""
        capacity = self.problem.instance.system.memory.capacity_bytes
        if capacity is None:
            return Rest(np.zeros(len(ideal), np.int64), NO_LIMIT)
        kept = [min(option.kept for option in self.problem.options[v % self.problem.n]) for v in self.order]
        sums = [sum(kept[v] for v in bits(one)) for one in self.lattice.masks]
        return Rest(np.array(sums, dtype=np.int64)[ideal], capacity)

    # stages within a threshold

    def _within(self, listed: Listed, most: int | None, exactly: bool, below: int, rules: Rules) -> Division | None:
        """A mapping whose step takes at most ``below`` picoseconds."""
        if listed.ideal[listed.order[-1]] != len(self.lattice.masks) - 1:
            return None
        limited, pipeline = most is not None and most < len(self.order), self.problem.degrees.pipeline
        places = 1 if listed.arcs.rest.room == NO_LIMIT else min(pipeline * len(self.order), PLACES)
        shape = (len(listed.ideal), pipeline + 1, (most if limited and most else 1) + 1, places)
        if np.prod(shape, dtype=np.float64) > ENTRIES:
            sizes = f"{counted(shape[0], 'node')}, {counted(pipeline, 'stage')}"
            raise TooWideError(f"{sizes} and {counted(shape[2] - 1, 'partition')} are too many")
        kinds = (np.int64, np.int64, np.int32, np.int32, np.int32)
        table = Stages(*(np.zeros(shape, kind) for kind in kinds))
        with watched(self.work, around()):
            found = fill(listed.arcs, listed.order, limited, exactly, below, table, self.work)
        if found == WIDE:
            raise TooWideError("too many different bytes at rest in DRAM")
        if not found:
            return None
        return self._division(listed, list(self._arcs(listed, table, exactly))[::-1], rules)

    def _arcs(self, listed: Listed, table: Stages, exactly: bool) -> Iterator[StageArc]:
        """The partitions of the mapping that a table holds, the last one first."""
        y, k, p, pipeline = int(listed.order[-1]), 0, 0, table.value.shape[1] - 1
        s = pipeline if exactly else int(np.flatnonzero(table.value[y, :, 0, 0] == 0)[0])
        while y != listed.order[0] or s > 0:
            x, before, place = (int(column[y, s, k, p]) for column in (table.origin, table.before, table.place))
            if k == 0 and before < 0:
                yield StageArc(x, y, _least(listed.arcs.resident, x, y), s - 1, True)
            elif k > 0:
                yield StageArc(x, y, int(table.value[y, s, k, p] - table.value[x, s, before, place]), s, False)
            s, y, k, p = s - (k == 0), x, max(before, 0), place

    def _division(self, listed: Listed, arcs: list[StageArc], rules: Rules) -> Division:
        streamed, stays = self._graphs()
        partitions, picked = [0] * len(self.order), [0] * len(self.order)
        times = [0] * self.problem.degrees.pipeline
        links = [int(listed.arcs.links[a.end]) for a, b in pairwise(arcs) if a.stage < b.stage]
        for number, arc in enumerate(arcs):
            times[arc.stage] += arc.cost
            g = stays if arc.stays and stays is not None else streamed
            root, j = int(listed.ideal[arc.start]), int(listed.ideal[arc.end])
            inside = bits(self.lattice.masks[j] & ~self.lattice.masks[root])
            wanted = _wanted(g, rules, (root, j), int(listed.signature[arc.end]), arc)
            begins = int(listed.signature[arc.start]), arc.cost + 1
            for v, option in zip(inside, self._options(g, rules, begins, root, inside, wanted), strict=True):
                partitions[self.order[v]], picked[self.order[v]] = number, option
        step = max(*times, *links, 0)
        return Division(step, tuple(partitions), tuple(picked), tuple(arc.stage for arc in arcs))


def _wanted(
    g: Graph, rules: Rules, ideals: tuple[int, int], signature: int, arc: StageArc
) -> Callable[[Labels, int], bool]:
    """Whether a label is that of the partition ``arc`` between two ideals."""
    root, j = ideals

    def wanted(pool: Labels, i: int) -> bool:
        same = pool.signature[i] & g.fields.lasting == signature and (
            g.outside.shape[1] == 0 or pool.outside[i, 0] == arc.extra
        )
        return bool(same and finish(g, rules, pool, i, j, g.sets[root], arc.cost + 1) == arc.cost)

    return wanted


def _explored(
    g: Graph, rules: Rules, nodes: Nodes, pool: Labels, start: int, limit: int, room: list[IntArray], work: IntArray
) -> tuple[Nodes, IntArray]:
    """The partitions that may follow a node, rows (target, picoseconds, beyond the least at rest); the nodes, and
    ``room``, grow as need be."""
    while True:
        count = explore(g, rules, nodes, pool, start, limit, room[0], work)
        if count == WIDE:
            raise TooWideError("too many combinations of sharding schemes are open at once")
        if count != GROW:
            return nodes, room[0][:, :count].copy()
        room[0] = np.zeros((3, 2 * room[0].shape[1]), np.int64)
        if 2 * nodes.total[0] > len(nodes.ideal):
            more = np.zeros(len(nodes.ideal), np.int64)
            nodes = nodes._replace(
                ideal=np.concatenate([nodes.ideal, more]), signature=np.concatenate([nodes.signature, more])
            )


def _rows(chunks: list[tuple[int, IntArray]], size: int) -> Arcs:
    """The partitions of all nodes, by the number of the node where they start."""
    chunks = sorted(chunks, key=lambda chunk: chunk[0])
    counts = np.zeros(size, np.int64)
    counts[[start for start, _ in chunks]] = [found.shape[1] for _, found in chunks]
    joined = np.concatenate([np.zeros((3, 0), np.int64), *(found for _, found in chunks)], axis=1)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Arcs(first, *(np.ascontiguousarray(row) for row in joined))


def _least(arcs: Arcs, x: int, y: int) -> int:
    """The picoseconds of the partition from node x to y."""
    rows = slice(int(arcs.first[x]), int(arcs.first[x + 1]))
    return int(arcs.cost[rows][arcs.target[rows] == y].min())
