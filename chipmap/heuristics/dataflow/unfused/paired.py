"""The exact program where every kernel is a partition and a stage runs two passes at once (``dualpipe-v``).

T4 is the largest of four weighted sums over kernels there (:mod:`chipmap.instances.dataflow.pairs`). Any mixture of
them is one sum, whose least value kernels give one after the other: a lower bound, and a mapping that may reach it. The
weights of the mixture move towards the sum that was largest. Where bound and mapping don't meet, labels carry all four
sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import add

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused import dense
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import CELLS, Table
from chipmap.heuristics.dataflow.unfused.program import SUMS, Found, UnfusedProgram, most_ticks
from chipmap.heuristics.dataflow.unfused.relaxed import relaxed
from chipmap.heuristics.dataflow.unfused.tables import NEVER, extra, scopes, times
from chipmap.instances.dataflow.batch_time import BESIDE, batch_ticks, outside, total_ticks
from chipmap.instances.dataflow.pairs import Arm, arms, mixed, shares
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray

#: Mixtures that are tried, the sum of a mixture's weights, and cells of a table where kernels hang together too much.
ROUNDS, WEIGHTS, WIDE = 8, 48, 1 << 16


class PairedProgram(UnfusedProgram):
    """The program for one problem whose passes run in pairs."""

    def __init__(self, problem: DataflowProblem, deadline: Deadline) -> None:
        super().__init__(problem, deadline)
        self.plain, self.several = self.singles, arms(problem)
        self.all = shares(problem.instance, problem.degrees).all
        self.unit = self.all
        if most_ticks(self.plain) * self.all * WEIGHTS >= dense.MOST:
            raise TooWideError("sums of weighted picoseconds pass 64 bits")

    def best(self, below: int | None = None) -> Found:
        """The mapping of least batch time that is found, with a bound; proved where they are equal.

        A bound stands alone where it is ``below`` or more, or no order is found in which tensors fit DRAM.
        """
        best, share = Found(0), np.full(len(self.several), 1 / len(self.several))
        for step in range(ROUNDS):
            weights = np.floor(share * WEIGHTS).astype(int)
            weights[int(share.argmax())] += WEIGHTS - int(weights.sum())
            tried = self._mixture(weights.tolist())
            if tried is None:
                return Found(None)
            best = best._replace(bound=max(best.bound or 0, total_ticks(self.problem, tried[0])))
            values = self._values(tried[1])
            if values is None:
                break
            best = self._better(best, tried[1], values)
            if best.proved or (below is not None and best.bound is not None and best.bound >= below):
                return best
            share += (np.eye(len(share))[values.index(max(values))] - share) * 2 / (step + 3)
        return best if self.large or self.widest > CELLS else self._closed(best)

    def _mixture(self, weights: Sequence[int]) -> tuple[Fraction, tuple[int, ...]] | None:
        """T4 that no mapping is below, and the options that have the least mixture of the four sums; None where nothing
        fits SRAM."""
        arm = mixed(self.several, weights)
        self.singles, self.unit = _weighted(self.plain, arm), self.all * sum(weights)
        if self.widest > (CELLS if self.large else dense.CELLS):
            loose = relaxed(self.singles, self.order, WIDE, self.deadline)
            if loose.bound is None:
                return None
            return Fraction(loose.bound, self.unit), tuple(loose.chosen[: self.singles.kernels])
        plain = self._least(()) if self.large else None
        chosen = plain[1] if plain is not None else None if self.large else self._alone((1, 0))
        if chosen is None:
            return None
        values = self._values(chosen)
        assert values is not None, "a mapping that the tables have fits"
        mixture = sum(w * x for w, x in zip(weights, values, strict=True))
        return Fraction(mixture, self.unit), chosen

    def _values(self, chosen: Sequence[int]) -> list[int] | None:
        """The four sums of a mapping, in parts of a picosecond; None where a kernel doesn't fit SRAM."""
        each = self.plain.taken(chosen, self.problem.places)
        if each is None:
            return None
        own = [self.plain.launch + compute + memory for compute, memory, _ in each]
        network = [one for *_, one in each]
        return [
            sum(w * x for w, x in zip((*arm.own, *arm.network), (*own, *network), strict=True)) for arm in self.several
        ]

    def _better(self, best: Found, chosen: tuple[int, ...], values: Sequence[int]) -> Found:
        """The better of the best mapping and one of these options, with the bound of the best."""
        ticks = total_ticks(self.problem, Fraction(max(values), self.all), chosen)
        if best.ticks is not None and best.ticks <= ticks:
            return best
        found = self.mapping(Fraction(max(values), self.all), chosen)
        return best if found is None else found._replace(bound=best.bound)

    def _closed(self, best: Found) -> Found:
        """The best mapping of all, by labels that carry the four sums; or the ``best`` so far where they are too
        many."""
        self.singles, self.unit = _weighted(self.plain, self.several[0]), self.all
        try:
            whole = self._least((*SUMS, *range(1, len(self.several))))
        except TooWideError:
            return best
        if whole is None:
            return Found(None)
        (layer, sums), chosen = whole
        bound = self._ticks(layer, sums)
        values = self._values(chosen)
        assert values is not None, "a mapping that the tables have fits"
        found = self.mapping(Fraction(max(values), self.all), chosen)
        return Found(bound) if found is None else found._replace(bound=bound)

    def _extras(self, sums: Sequence[str | int], weight: int) -> list[Table]:
        """What options add to the named sums, and in columns behind these the numbered ones of the four."""
        named = [one for one in sums if isinstance(one, str)]
        found = [_widened(table, 1 + len(sums)) for table in super()._extras(named, weight)]
        if len(named) == len(sums):
            return found
        several = [_weighted(self.plain, arm) for arm in self.several]
        for v, scope in enumerate(scopes(self.singles)[0]):
            columns = [times(one, v, scope) for one in several]
            values = np.zeros((*columns[0].shape, 1 + len(sums)), np.int64)
            for k, column in enumerate(columns[1:]):
                values[..., 1 + len(named) + k] = np.where(columns[0] >= NEVER, 0, column)
            found.append(extra(self.singles, scope, values))
        return found

    def _ticks(self, layer: int, sums: IntArray) -> int:
        """Picoseconds of the batch, where ``layer`` and the sums behind :data:`SUMS` are the four (or a mixture)."""
        more = [int(x) for x in sums[1 : len(SUMS)]] if len(sums) else [0] * len(BESIDE)
        least = (outside(self.problem, field) for field in BESIDE)
        longest = max(layer, *(int(x) for x in sums[len(SUMS) :])) if len(sums) else layer
        return batch_ticks(self.problem, Fraction(longest, self.unit), *map(add, least, more))


def _weighted(singles: SingleKernelCosts, arm: Arm) -> SingleKernelCosts:
    """The same kernels at the weights of an arm, launches among their compute."""
    other = object.__new__(SingleKernelCosts)
    other.__dict__.update(singles.__dict__)
    other.known, other.launch, other.singles = {}, 0, []
    for one, own, network in zip(singles.singles, *arm, strict=True):
        parts = [part._replace(memory=own * part.memory, network=network * part.network) for part in one.parts]
        compute, memory = own * (one.compute + singles.launch), own * one.memory
        scaled = one._replace(compute=compute, memory=memory, network=network * one.network)
        other.singles.append(scaled._replace(parts=tuple(parts), reads=(), runs=1))
    return other


def _widened(table: Table, columns: int) -> Table:
    """The table with as many columns of labels, those that it lacks 0."""
    rows = np.zeros((len(table.cells.rows), columns), np.int64)
    rows[:, : table.cells.rows.shape[1]] = table.cells.rows
    return table._replace(cells=table.cells._replace(rows=rows))
