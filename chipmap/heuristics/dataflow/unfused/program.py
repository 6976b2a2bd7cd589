"""The exact program where every kernel is a partition: kernels are eliminated one after the other.

What it proves: no choice of sharding schemes, each kernel within its SRAM, has a smaller sum over kernels of
max(compute, memory, network) (``docs/families/dataflow-unfused.md``). A kernel's time depends on its own scheme and on
those of the kernels that it reads, never on the order in which kernels run. So the least sum is found kernel by kernel:
all tables with a kernel in their scope are added up, and the kernel goes, at its best scheme for each choice of the
others. Where schemes also decide on DRAM for good, transfers between stages or sums of gradients, labels carry these
sums; but first the mapping of least T4 is looked for, which is the best one if it fits and has the least of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import CELLS, Elimination, Limits, choices_of, elimination_order
from chipmap.heuristics.dataflow.unfused.running_order import least_waiting, running_order
from chipmap.heuristics.dataflow.unfused.tables import edges_of, scopes, stated
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.problem import BESIDE, DataflowProblem, IntArray, batch_ticks, outside, total_ticks

#: What schemes decide beside T4, summed over kernels.
SUMS = ("kept", *BESIDE)


class Found(NamedTuple):
    """What a program says: a lower bound in ticks of the batch (None: nothing fits), a mapping (the option and the
    partition of each kernel) with its ticks."""

    bound: int | None
    ticks: int | None = None
    chosen: tuple[int, ...] = ()
    partitions: tuple[int, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether nothing is left to decide."""
        return self.bound is None or self.bound == self.ticks


class UnfusedProgram:
    """The program for one problem, whose ``singles`` are its kernels by themselves.

    Raises :class:`TooWideError` where the schemes of too many kernels hang together.
    """

    def __init__(self, problem: DataflowProblem, deadline: Deadline, singles: SingleKernelCosts | None = None) -> None:
        self.problem, self.deadline = problem, deadline
        self.singles = SingleKernelCosts(problem) if singles is None else singles
        found, self.large = scopes(self.singles)
        self.order, self.widest = elimination_order(self.singles.sizes, edges_of(found, self.large))
        self.capacity = problem.instance.system.memory.capacity_bytes

    def best(self) -> Found:
        """The mapping of least batch time.

        Where no order is found in which its tensors fit DRAM, the bound stands without a mapping.
        """
        if self.widest > CELLS:
            raise TooWideError(f"the schemes of kernels that hang together make {self.widest:.3g} choices")
        plain = self._least(())
        if not plain:
            return Found(None)
        (layer, _), chosen = plain
        found = self.mapping(layer, chosen)
        least = all(outside(self.problem, f, chosen) == outside(self.problem, f) for f in BESIDE)
        if found is not None and least:
            return found
        whole = self._least(SUMS)
        if not whole:
            return Found(None)
        (layer, sums), chosen = whole
        found = self.mapping(layer, chosen)
        return Found(self._ticks(layer, sums)) if found is None else found

    def _least(self, sums: Sequence[str]) -> tuple[tuple[int, IntArray], tuple[int, ...]] | None:
        """(T4, the ``sums`` beside it) and the options of the mapping of least batch time; None where nothing fits."""
        singles, problem = self.singles, self.problem
        extras = [_extras(options, sums) for options in problem.options] * (len(singles.sizes) // problem.n)
        made = stated(singles, self.order, extras, len(sums))
        room = 2**62
        if self.capacity is not None:
            room = self.capacity - outside(problem, "kept") - least_waiting(problem)
        if room < 0:
            return None
        limits = Limits(made.columns, room, 1 if sums else -1)
        last = Elimination(singles.sizes, limits, self.deadline).run(made.tables, self.order, made.settles)
        rows = last.cells.rows
        ends = [(self._ticks(int(row[0]), row[1:]), i) for i, row in enumerate(rows) if not sums or row[1] <= room]
        if not ends:
            return None
        _, best = min(ends)
        options = choices_of(last, best)
        chosen = tuple(options.get(v, 0) for v in range(len(singles.sizes)))
        return (int(rows[best, 0]), rows[best, 1:]), chosen

    def _ticks(self, layer: int, sums: IntArray) -> int:
        """Picoseconds of the batch, with these ``SUMS`` beyond the least (none: the least)."""
        more = [int(x) for x in sums[1 : len(SUMS)]] if len(sums) >= len(SUMS) else [0] * len(BESIDE)
        least = (outside(self.problem, field) for field in BESIDE)
        return batch_ticks(self.problem, layer, *map(add, least, more))

    def mapping(self, layer: int, chosen: tuple[int, ...]) -> Found | None:
        """The mapping with these options if an order is found in which it fits DRAM."""
        ticks = total_ticks(self.problem, layer, chosen)
        for partitions in running_order(self.problem, chosen):
            if self.capacity is None or max(dram_bytes(self.problem, chosen, partitions)) <= self.capacity:
                return Found(ticks, ticks, chosen, partitions)
        return None


def _extras(options: Sequence[object], sums: Sequence[str]) -> IntArray:
    """What each option adds to these sums beyond the least of the kernel's."""
    found = np.array([[getattr(o, field) for field in sums] for o in options], dtype=np.int64)
    return found.reshape(len(options), len(sums)) - found.min(axis=0, initial=2**62) if sums else found
