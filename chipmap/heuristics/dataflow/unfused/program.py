"""The exact program where every kernel is a partition: kernels are eliminated one after the other.

What it proves: no choice of sharding schemes, each kernel within its SRAM, has a smaller sum over kernels of
max(compute, memory, network) (``docs/families/dataflow-unfused.md``). A kernel's time depends on its own scheme and on
those of other kernels, never on the order in which kernels run. So the least sum is found kernel by kernel: all tables
with a kernel in their scope are added up, and the kernel goes, at its best scheme for each choice of the others. What
the batch takes for gradients counts with it, at its weight. Where schemes also decide on DRAM for good, transfers
between stages or sums of gradients, labels carry these sums; but first the mapping that takes least without them is
looked for, which is the best one if it fits and has the least of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import add
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused import dense
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import (
    CELLS,
    Elimination,
    Limits,
    Table,
    choices_of,
    elimination_order,
)
from chipmap.heuristics.dataflow.unfused.running_order import least_waiting, running_order
from chipmap.heuristics.dataflow.unfused.tables import edges_of, extra, over, own_tables, scopes, stated
from chipmap.instances.dataflow.batch import in_turn, waited_hops
from chipmap.instances.dataflow.batch_time import BESIDE, batch_factor, batch_ticks, outside, stage_ticks, total_ticks
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray

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
        self._take(SingleKernelCosts(problem) if singles is None else singles)
        if self.widest > dense.CELLS and problem.shared and problem.instance.task.keep in ("phase", "step"):
            before = self.singles, self.widest
            self._take(SingleKernelCosts(problem, few=True))
            if self.widest >= before[1]:
                self._take(before[0])
        self.capacity = problem.instance.system.memory.capacity_bytes

    def _take(self, singles: SingleKernelCosts) -> None:
        """These kernels, and an order in which they are eliminated."""
        self.singles = singles
        found, self.large = scopes(singles)
        self.order, self.widest = elimination_order(singles.sizes, edges_of(singles, found, self.large))

    def best(self, below: int | None = None) -> Found:
        """The mapping of least batch time, or a bound of ``below`` or more.

        Where no order is found in which its tensors fit DRAM, the bound stands without a mapping.
        """
        if self.widest > (CELLS if self.large else dense.CELLS):
            raise TooWideError(f"the schemes of kernels that hang together make {self.widest:.3g} choices")
        plain = self._quick()
        if plain is None:
            return Found(None)
        if plain.proved or (below is not None and plain.bound is not None and plain.bound >= below):
            return plain
        if self.widest > CELLS:
            raise TooWideError(f"the schemes of kernels that hang together make {self.widest:.3g} choices")
        whole = self._least(SUMS)
        if not whole:
            return Found(None)
        (layer, sums), chosen = whole
        found = self.mapping(layer, chosen)
        return Found(self._ticks(layer, sums)) if found is None else found

    def _quick(self) -> Found | None:
        """The mapping that takes least but for transfers between stages and sums over replicas, with a bound; None
        where nothing fits SRAM."""
        factor, after = batch_factor(self.problem), list(self._beyond(("after",)))
        weights = (factor.numerator, factor.denominator) if after else (1, 0)
        most, more = most_ticks(self.singles), sum(int(values.max()) for _, values in after)
        if most * weights[0] + more * weights[1] >= dense.MOST or self.problem.longest is not None:
            weights = 1, 0
        if self.large or most >= dense.MOST:
            plain = self._least((), weights)
            chosen = plain[1] if plain else None
        else:
            chosen = self._alone(weights)
        if chosen is None:
            return None
        each = self.singles.ticks(chosen, self.problem.places)
        assert each is not None, "a mapping that the tables have fits"
        layer = sum(each)
        bound, found = self._bound(layer, chosen if weights[1] else None), self.mapping(layer, chosen)
        if found is None:
            return Found(bound)
        least = all(outside(self.problem, f, chosen) == outside(self.problem, f) for f in ("hop", "summed"))
        if weights[1]:  # no mapping takes less, as later micro-batches don't wait for transfers under this one
            hop = self.problem.instance.task.parts * outside(self.problem, "hop")
            least = least and (in_turn(self.problem.instance) or hop <= stage_ticks(self.problem, layer))
        else:
            least = least and outside(self.problem, "after", chosen) == outside(self.problem, "after")
        return found if least else found._replace(bound=bound)

    def _bound(self, layer: int, chosen: tuple[int, ...] | None) -> int:
        """Picoseconds that the batch takes at least: the options ``chosen`` have the least sum of T4 and T6; or where
        none are, no T4 is below that of the ``layer``."""
        if chosen is None:
            return total_ticks(self.problem, layer)
        hop, _, summed = (outside(self.problem, field) for field in BESIDE)
        waited = waited_hops(self.problem.instance, self.problem.degrees) * hop
        return batch_ticks(self.problem, layer, 0, outside(self.problem, "after", chosen), summed) + waited

    def _alone(self, weights: tuple[int, int]) -> tuple[int, ...] | None:
        """The options of least T4 · ``weights[0]`` + T6 · ``weights[1]``, where every kernel has a table of its own."""
        singles = self.singles
        weight, tables = weights[0], list[dense.Sum]()
        for scope, values in own_tables(singles):
            tables.append(dense.Sum(scope, np.minimum(values, -(-dense.NEVER // weight)) * weight))
        for scope, values in self._beyond(("after",)) if weights[1] else ():
            within, wide = over(singles, scope, values[..., 0])
            tables.append(dense.Sum(within, wide * weights[1]))
        found = dense.least(tables, singles.sizes, self.order, self.deadline)
        return None if found is None else tuple(found[1].get(v, 0) for v in range(singles.kernels))

    def _least(
        self, sums: Sequence[str], weights: tuple[int, int] = (1, 0)
    ) -> tuple[tuple[int, IntArray], tuple[int, ...]] | None:
        """(T4, the ``sums`` beside it) and the options of the mapping of least batch time; None where nothing fits.

        Without ``sums`` those of the least T4 · ``weights[0]`` + T6 · ``weights[1]``.
        """
        singles, problem = self.singles, self.problem
        made = stated(singles, self.order, self._extras(sums, weights[1]), 1 + len(sums), weights[0])
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
        chosen = tuple(options.get(v, 0) for v in range(singles.kernels))
        return (int(rows[best, 0]), rows[best, 1:]), chosen

    def _extras(self, sums: Sequence[str], weight: int) -> list[Table]:
        """What options, and values of other variables, add to these sums beyond the least; T6 at its ``weight`` to the
        first column."""
        fields, front = (*(("after",) if weight else ()), *sums), 0 if weight else 1
        found = []
        for scope, values in self._beyond(fields):
            wide = np.concatenate([np.zeros((*values.shape[:-1], front), np.int64), values], axis=-1)
            found.append(extra(self.singles, scope, wide * (weight or 1)))
        return found

    def _beyond(self, fields: Sequence[str]) -> Iterator[tuple[tuple[int, ...], IntArray]]:
        """What options, and values of other variables, add to these columns beyond the least: their variables, and
        values [those of each variable, columns]."""
        several = [_beyond(options, fields) if fields else None for options in self.problem.options]
        for v in range(self.singles.kernels):
            values = several[v % self.problem.n]
            if values is not None and values.any():
                yield (v,), values
        for one in self.singles.extras:
            if one.column in fields:
                values = np.zeros((*one.values.shape, len(fields)), np.int64)
                values[..., fields.index(one.column)] = one.values
                yield one.scope, values

    def _ticks(self, layer: int, sums: IntArray) -> int:
        """Picoseconds of the batch, with these ``SUMS`` beyond the least (none: the least)."""
        more = [int(x) for x in sums[1 : len(SUMS)]] if len(sums) >= len(SUMS) else [0] * len(BESIDE)
        least = (outside(self.problem, field) for field in BESIDE)
        return batch_ticks(self.problem, layer, *map(add, least, more))

    def mapping(self, layer: int | Fraction, chosen: tuple[int, ...]) -> Found | None:
        """The mapping with these options if an order is found in which it fits DRAM."""
        ticks = total_ticks(self.problem, layer, chosen)
        for partitions in running_order(self.problem, chosen):
            if self.capacity is None or max(dram_bytes(self.problem, chosen, partitions)) <= self.capacity:
                return Found(ticks, ticks, chosen, partitions)
        return None


def most_ticks(singles: SingleKernelCosts) -> int:
    """Picoseconds that T4 never passes."""
    total = 0
    for one in singles.singles:
        own = sum(int(column.max()) for column in one[:3])
        taken = sum(int(part.memory.max() + part.network.max()) for part in one.parts)
        total += one.runs * (singles.launch + own + taken)
    return total


def _beyond(options: Sequence[object], fields: Sequence[str]) -> IntArray:
    """What each option adds to these columns beyond the least of the kernel's."""
    found = np.array([[getattr(o, field) for field in fields] for o in options], dtype=np.int64)
    return found - found.min(axis=0)
