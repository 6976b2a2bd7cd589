"""The best partitions that are pieces of one order of all kernels, under given schemes: a mapping at once.

A restriction: kernels keep their order and their schemes, so that no bound follows. Partition by partition the cost is
that of the problem; the pieces of least sum are a shortest path over positions, n · (kernels that fit a chip) steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.contiguous_partitions.kernel import NEVER, Bounds, IntArray, Line, Table, cut
from chipmap.heuristics.dataflow.program.program import Chain
from chipmap.instances.dataflow.batch import forward_runs
from chipmap.instances.dataflow.exchanged import exchanged
from chipmap.instances.dataflow.problem import DataflowProblem, levels, wires
from chipmap.instances.dataflow.suppliers import possible_suppliers, spared
from chipmap.networks.graph import neighbours, topological

#: Tensors that a call of compiled code looks at (some 0.1 s); counted partitions per phase; values of the table.
CALL, COUNTED, VALUES = 5_000_000, 1000, 10**7


class Pieces:
    """Mappings of a problem whose partitions are pieces of the order in which its kernels are listed.

    Not for kernels that share tiles, as their compute doesn't add up, nor where some forward kernels are recomputed.
    """

    def __init__(self, problem: DataflowProblem, deadline: Deadline) -> None:
        self.problem, self.deadline, n = problem, deadline, problem.n
        self.layers = problem.instance.mapped_layers
        self.tensors = wires(problem, self.layers)
        self.kernels = problem.instance.workload.kernels
        self.backward = [kernel.phase == "backward" for kernel in self.kernels] * self.layers
        self.order = topological(neighbours(n * self.layers, self.tensors), self.backward.__getitem__)
        level = levels(n * self.layers, np.array(self.tensors, dtype=np.int64).reshape(-1, 2))
        self.waits = {(u, v): int(level[v] - level[u]) + 1 for u, v in self.tensors}

    def best(self, chosen: Sequence[int]) -> Chain | None:
        """The mapping of fewest picoseconds with these options of all kernels; None where no piece fits."""
        line, count = self.line(chosen), len(self.order)
        most, exactly, fused = self.problem.instance.asked
        turn = sum(not late for late in self.backward)
        starts: list[int] = []
        runs, total = forward_runs(self.problem.instance), 0
        for begin, end in ((0, turn), (turn, count)):
            if begin == end:
                continue
            again = runs if begin == 0 and turn < count else 1
            found = self._phase(
                line, begin, end, most if most is not None and most < end - begin else None, exactly, fused
            )
            if found is None or (exactly and most is not None and most > end - begin):
                return None
            total += again * found[0]
            starts += found[1]
        return Chain(total, self.partitions(starts), tuple(chosen), ())

    def _phase(
        self, line: Line, begin: int, end: int, most: int | None, exactly: bool, fused: bool
    ) -> tuple[int, list[int]] | None:
        """(picoseconds, the first position of each partition) of the best pieces of a phase."""
        table = self.table(line, begin, end, most, fused)
        if table is None:
            return None
        value = table.value
        last = value.shape[1] - 1 if exactly and most is not None else int(value[end].argmin())
        if value[end, last] >= NEVER:
            return None
        return int(value[end, last]), starts_of(table, begin, end, last)

    def table(self, line: Line, begin: int, end: int, most: int | None, fused: bool) -> Table | None:
        """The fewest picoseconds from ``begin`` to each position up to ``end``; None where it would be too large."""
        instance, count = self.problem.instance, len(self.order)
        counts = 1 if most is None else most + 1
        if counts > COUNTED or (count + 1) * counts > VALUES:
            return None
        value = np.full((count + 1, counts), NEVER, np.int64)
        origin = np.zeros((count + 1, counts), np.int64)
        value[begin, 0] = 0
        longest = (end - begin) if fused else 1
        physical = instance.mode == "physical"
        overlap, launch = instance.task.overlap, self.problem.launch
        bounds = Bounds(begin, end, self.problem.sram, longest, physical, overlap, most is not None, launch)
        state = np.array([begin, CALL], np.int64)
        left, seen = np.zeros(count, np.int64), np.zeros(count, np.int64)
        while not cut(line, bounds, Table(value, origin), left, seen, state):
            self.deadline.check()
            state[1] = CALL
        return Table(value, origin)

    def partitions(self, starts: Sequence[int]) -> tuple[int, ...]:
        """The partition of each kernel where these are their first positions."""
        places = np.searchsorted(starts, np.arange(len(self.order)), side="right") - 1
        partitions = [0] * len(self.order)
        for position, v in enumerate(self.order):
            partitions[v] = int(places[position])
        return tuple(partitions)

    def line(self, chosen: Sequence[int]) -> Line:
        """The kernels in their order under these options."""
        problem, n = self.problem, self.problem.n
        options = [problem.options[v % n][chosen[v]] for v in self.order]
        place = {v: i for i, v in enumerate(self.order)}
        makers: list[list[int]] = [[] for _ in self.order]
        # the last one of added products is the same in all pieces of the order
        sums = exchanged(problem, chosen, problem.places).sums
        network = [option.collective + sums[v] for v, option in zip(self.order, options, strict=True)]
        for u, v in self.tensors:
            makers[v].append(u)
        pairs = [(u, v) for v in self.order for u in makers[v]]
        free, suppliers = spared(problem, chosen), possible_suppliers(problem, chosen)
        change = [problem.converts(u % n, v % n, chosen[u], chosen[v]) * ((u, v) not in free) for u, v in pairs]
        supplier = [max((place[r] for r in suppliers.get(pair, ())), default=-1) for pair in pairs]
        readers = np.bincount([place[u] for u, _ in self.tensors], minlength=len(self.order))
        group, sizes = self._groups()
        return Line(
            compute=_column(options, "compute"),
            network=np.array(network, np.int64),
            stream=_column(options, "stream"),
            dram=_column(options, "dram"),
            weights=_column(options, "weights"),
            buffer=_column(options, "buffer"),
            readers=readers.astype(np.int64),
            enter=np.cumsum([0, *(len(makers[v]) for v in self.order)]).astype(np.int64),
            maker=np.array([place[u] for u, _ in pairs], np.int64),
            waits=np.array([self.waits[pair] for pair in pairs], np.int64),
            change=np.array(change, np.int64),
            supplier=np.array(supplier, np.int64),
            group=group,
            sizes=sizes,
        )

    def _groups(self) -> tuple[IntArray, IntArray]:
        together = self.problem.instance.task.together
        number = {name: g for g, group in enumerate(together) for name in group}
        of = [number.get(kernel.name, -1) for kernel in self.kernels]
        n = self.problem.n
        # a group of each layer has a number of its own
        listed = [of[v % n] + len(together) * (v // n) if of[v % n] >= 0 else -1 for v in self.order]
        sizes = [len(group) for group in together] * self.layers
        return np.array(listed, np.int64), np.array(sizes or [0], np.int64)


def starts_of(table: Table, begin: int, end: int, pieces: int) -> list[int]:
    """The first position of each piece of the best way to ``end``, with that number of pieces where it counts."""
    starts, at, k = list[int](), end, pieces
    while at > begin:
        at, k = int(table.origin[at, k]), max(k - 1, 0)
        starts.append(at)
    return starts[::-1]


def _column(options: Sequence[object], field: str) -> IntArray:
    return np.array([getattr(option, field) for option in options], dtype=np.int64)
