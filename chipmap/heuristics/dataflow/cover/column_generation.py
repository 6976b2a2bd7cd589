"""A lower bound for graphs of any width: fractions of partitions that cover every kernel once (column generation).

    min Σ_S time(S) · z_S   with every class of kernels covered as often as it has kernels, tensors read as often as
    written under each scheme of their makers, and at most so many partitions per phase

over all partitions S that obey C2, C3, C5 and of C1 what it asks of each by itself. A mapping is such a cover by whole
partitions, so the least value of a cover is at most the mapping's T4. The bound drops two things: partitions may be
fractions, and their order among each other (C1) is free.

Prices are first those of :mod:`chipmap.heuristics.dataflow.cover.compact`, then the duals of the linear program over
the partitions that are known so far. The :class:`~chipmap.heuristics.dataflow.cover.pricing.PricingProgram` finds a
partition that costs less than the prices of its kernels, or proves how much less any partition could cost. The latter
bounds the whole from below (Dantzig and Wolfe, 1960).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.compact import first_prices
from chipmap.heuristics.dataflow.cover.grown import PartitionBeamSearch, quickest
from chipmap.heuristics.dataflow.cover.pricing import (
    Floats,
    IntegerSolver,
    Partition,
    Prices,
    PricingProgram,
    covered,
    partitions_of,
)
from chipmap.heuristics.dataflow.program.graph import Floor
from chipmap.heuristics.dataflow.symmetric.classes import Classes
from chipmap.heuristics.engines.growing_lp import EmptyProgram, Master

#: Share of the best prices so far in those that are priced next (Wentges 1997); share of a bound that arithmetic errs.
SMOOTH, NOISE = 0.7, 1e-6
#: The bound is done when it is this near to the cover's value; longest seconds of one question.
NEAR, LONGEST = 1e-5, 20.0
#: Cost of leaving a row of the cover unmet, in units (a layer's compute is about 1000).
MISSING = 1e6
#: A beam search looks for partitions among at most so many kernels, at most so often before a question.
GROWN, PASSES = 40, 50
#: Units by which the answer to a pricing question may be off. A unit is a thousandth of a layer.
GAP = 1e-3


class PartitionBound:
    """The bound for one problem. ``most``: partitions per phase (None: any number). ``solver`` prices partitions, an
    empty ``program`` becomes that of the cover, which grows by them. ``longest``: seconds that a question may take."""

    def __init__(
        self, classes: Classes, most: int | None, solver: IntegerSolver, program: EmptyProgram, longest: float = LONGEST
    ) -> None:
        self.classes, self.most, self.longest = classes, most, longest
        self.first = max((_first(classes, field) for field in ("compute", "stream", "collective")), key=sum)
        self.unit = max(1.0, sum(self.first) / 1000)
        self.phases = sorted(set(classes.backward))
        self.pricing = {phase: PricingProgram(classes, phase, self.unit) for phase in self.phases}
        self.solver = {phase: solver(one.upper, one.integer, one.rows) for phase, one in self.pricing.items()}
        self.kernels = {
            phase: sum(classes.size(c) for c in range(len(classes.kernels)) if classes.backward[c] == phase)
            for phase in self.phases
        }
        self.matches = [(e, g) for e, k in enumerate(classes.links) for g in range(len(k.made)) if len(k.made) > 1]
        self.columns: list[tuple[bool, Partition]] = []
        self.found: list[tuple[bool, Partition]] = []
        self.infeasible = self.done = self.begun = False
        self.smooth = SMOOTH
        self.sizes = [classes.size(c) for c in range(len(classes.kernels))]
        self.row_of = {pair: row for row, pair in enumerate(self.matches, start=len(self.sizes))}
        limits = [] if most is None else [float(most)] * len(self.phases)
        self.covers, self.costs = Master(program, [*self.sizes, *([0.0] * len(self.matches))], limits), list[float]()
        self.best, self.bound, self.slack = self._start(), sum(self.first) / self.unit, 0.0
        self.growing = PartitionBeamSearch(classes, self.unit) if self._grows() else None

    def add(self, partitions: Iterable[tuple[bool, Partition]]) -> None:
        """Partitions known beforehand, with their phases."""
        self.columns += partitions

    def add_single_kernels(self) -> None:
        """Each kernel as a partition of its own, at its quickest option: no price is then above what that costs.

        Not where kernels have to share a partition (C5). A kernel that doesn't fit by itself (C2) is no partition, but
        neither is there a mapping then: columns decide about prices alone, and prices never about a bound's truth.
        """
        problem = self.classes.problem
        if not problem.instance.task.together:
            self.columns += partitions_of(self.classes, self.unit, range(problem.n), quickest(self.classes))

    def learn(self, other: PartitionBound, seen: int) -> int:
        """Add partitions that the bound of ``other`` found after its first ``seen``; how many are seen then.

        The other problem differs only in options. A partition is added if neither its kernels nor their neighbours do.
        """
        if self.classes.kernels != other.classes.kernels:
            return len(other.found)
        pairs = [(link.u, link.v) for link in self.classes.links]
        other_than = {c for c in range(len(self.sizes)) if self.classes.options(c) != other.classes.options(c)}
        near = other_than.union(*(pair for pair in pairs if other_than & {*pair}))
        scale = other.unit / self.unit
        for phase, part in other.found[seen:]:
            if not near & {c for c, _ in part.kernels}:
                self.columns.append((phase, part._replace(time=part.time * scale)))
        return len(other.found)

    def master(self, deadline: Deadline) -> tuple[float, Prices]:
        """Value and prices of the best cover by the partitions known so far; no value (inf) and the best prices where
        there is no time for it."""
        new = self.columns[len(self.costs) :]
        self.covers.add([self._entries(*one) for one in new])
        self.costs += [part.time for _, part in new]
        found = self.covers.minimise(np.array(self.costs), MISSING, deadline.seconds)
        if found is None:
            return float("inf"), self.best
        n, prices = len(self.sizes), found.prices.tolist()
        counted = n + len(self.matches)
        each = prices[counted:] or [0.0] * len(self.phases)
        matches = dict(zip(self.matches, prices[n:counted], strict=True))
        return found.value, Prices(found.prices[:n], matches, dict(zip(self.phases, each, strict=True)))

    def _entries(self, phase: bool, part: Partition) -> dict[int, float]:
        """A partition's column: kernels of each class, tensors of each match, and the partitions of its phase."""
        entries = Counter[int]()
        for (c, _), count in part.kernels.items():
            entries[c] += count
        column = {**entries, **{self.row_of[pair]: value for pair, value in part.crosses.items()}}
        if self.most is not None:
            column[len(self.sizes) + len(self.matches) + self.phases.index(phase)] = 1.0
        return column

    def run(self, rounds: int, deadline: Deadline, found: Callable[[int], None]) -> None:
        """Add partitions in so many rounds, until the bound meets the cover; ``found`` hears of the bound on a
        layer's picoseconds in every round.

        Sets ``infeasible`` where some phase has no partition at all, and ``done`` then or when the bound has met it.
        """
        found(self._ticks(self.bound))
        self._begin(deadline)
        found(self._ticks(self.bound))
        for _ in range(rounds):
            if self.infeasible:
                self.done = True
                return
            if not deadline.keep_going():
                return
            value, prices, grown = self._grown_master(deadline)
            asked = _between(self.best, prices, 0.0 if grown else self.smooth)
            added = self._ask(asked, prices, deadline)
            found(self._ticks(self.bound))
            if value - self.bound <= NEAR * value and value < MISSING:
                self.done = True
                return
            self.smooth = SMOOTH if added else self.smooth / 2  # nothing cheaper: ask nearer to the cover's own prices

    def floor(self, allowed: Sequence[Sequence[int]]) -> Floor:
        """What kernels still to come cost at least by the best prices, classes having the options ``allowed``."""
        of = self.classes.of()
        least = {
            (link.u, link.v): min(
                self.best.matches.get((e, g), 0.0)
                for g, made in enumerate(link.made)
                if set(made) & set(allowed[link.u])
            )
            for e, link in enumerate(self.classes.links)
        }
        unit = self.unit * (1 - NOISE)
        return Floor(
            [float(self.best.covers[c]) * unit for c in of],
            [least[of[u], of[v]] * self.unit for u, v in self.classes.problem.edges.tolist()],
            self.slack * self.unit - NOISE * self.unit * 1000,
        )

    def allowed(self, upper: int, deadline: Deadline) -> list[list[int]]:
        """For each class the options that a mapping below ``upper`` picoseconds may have.

        An option is left out if a cover that has it somewhere costs at least ``upper`` at the best prices.
        """
        kept, costs = [], dict[bool, Floats]()
        for c in range(len(self.classes.kernels)):
            phase, options = self.classes.backward[c], range(len(self.classes.options(c)))
            usable = []
            for o in options:
                bound: float | None = self.best.each[phase]  # as much as any partition costs
                if len(options) > 1 and deadline.keep_going():
                    if phase not in costs:
                        costs[phase] = self.pricing[phase].costs(self.best.covers, self.best.matches)
                    column = self.pricing[phase].names["x", c, o]
                    self.solver[phase].set_lower(column, 1.0)
                    bound = self.solver[phase].minimise(costs[phase], self._patience(deadline), GAP).bound
                    self.solver[phase].set_lower(column, 0.0)
                if bound is not None:
                    more = max(0.0, bound - self.best.each[phase])
                    if self._ticks(self.bound + more) < upper:
                        usable.append(o)
            kept.append(usable)
        return kept

    def _start(self) -> Prices:
        """Prices that no partition undercuts: those of compute, of weights or of collectives, without the others."""
        each = [one / self.classes.size(c) / self.unit for c, one in enumerate(self.first)]
        return Prices(np.array(each), dict.fromkeys(self.matches, 0.0), dict.fromkeys(self.phases, 0.0))

    def _grows(self) -> bool:
        """Whether a beam search looks for partitions: among few kernels, all unlike, free to share partitions."""
        instance = self.classes.problem.instance
        alone = len(self.sizes) == self.classes.problem.n <= GROWN
        return alone and bool(instance.asked[2]) and not instance.task.together

    def _grown_master(self, deadline: Deadline) -> tuple[float, Prices, bool]:
        """:meth:`master` once a beam search finds no partition that is cheaper than its prices, and whether it found
        any before that."""
        value, prices = self.master(deadline)
        for passes in range(PASSES if self.growing is not None else 0):
            assert self.growing is not None
            best = self.growing.best(prices, len(self.sizes), deadline)
            cheaper = [(phase, part) for phase, part in best if _is_cheaper(part, prices, phase)]
            if not cheaper:
                return value, prices, passes > 0
            self.columns += cheaper
            value, prices = self.master(deadline)
        return value, prices, self.growing is not None

    def _begin(self, deadline: Deadline) -> None:
        """Once, the bound at the prices of the linear program over sums of partitions."""
        if self.begun or not deadline.keep_going():
            return
        self.begun = True
        self.add_single_kernels()
        prices = first_prices(self.pricing, self.sizes, self.matches, self.most)
        if prices is not None:
            self._ask(prices, prices, deadline)

    def _ask(self, asked: Prices, prices: Prices, deadline: Deadline) -> int:
        """Bound at the prices ``asked``; returns how many partitions were added that are cheaper than ``prices``."""
        lower, added = float(np.dot(asked.covers, self.sizes)), 0
        for phase in self.phases:
            pricing = self.pricing[phase]
            most = self.kernels[phase] if self.most is None else min(self.most, self.kernels[phase])
            cost = pricing.costs(asked.covers, asked.matches)
            answer = self.solver[phase].minimise(cost, self._patience(deadline), GAP)
            if answer.bound is None:
                self.infeasible = True
                return added
            lower += asked.each[phase] * (self.most or 0) + most * min(0.0, answer.bound - asked.each[phase])
            if answer.values is None:
                continue
            part = pricing.partition(answer.values)
            if _is_cheaper(part, prices, phase):
                self.columns.append((phase, part))
                self.found.append((phase, part))
                added += 1
        if lower > self.bound:
            self.bound, self.best = lower, asked
            self.slack = lower - float(np.dot(asked.covers, self.sizes))
        return added

    def _patience(self, deadline: Deadline) -> float:
        """Seconds for one question."""
        return max(0.05, min(self.longest, deadline.seconds))

    def _ticks(self, bound: float) -> int:
        return max(0, int(np.ceil(bound * self.unit * (1 - NOISE) - 1e-6)))


def one_partition(
    classes: Classes, deadline: Deadline, solver: IntegerSolver, *, cached: bool = False, longest: float = LONGEST
) -> int | None:
    """A bound on the picoseconds of a layer that is all one partition, its weights never read (with ``cached`` nor its
    KV cache, which then lies in SRAM); None if none fits. ``longest``: seconds that it may take."""
    inside = [
        link.tensors * link.waits * min(option.buffer for option in classes.options(link.u)) for link in classes.links
    ]
    caches = sum(_first(classes, "cache")) if cached else 0
    if sum(inside) + sum(_first(classes, "weights")) + caches > classes.problem.sram:
        return None
    unit = max(1.0, sum(_first(classes, "compute")) / 1000)
    pricing, rows = PricingProgram(classes, classes.backward[0], unit, resident=True, cached=cached), []
    for c in range(len(classes.kernels)):
        row = {pricing.names["x", c, o]: 1.0 for o in range(len(classes.options(c)))}
        rows.append((row, float(classes.size(c)), float(classes.size(c))))
    program = solver(pricing.upper, pricing.integer, [*pricing.rows, *rows])
    answer = program.minimise(pricing.costs(np.zeros(len(classes.kernels)), {}), min(longest, deadline.seconds), GAP)
    return None if answer.bound is None else max(0, int(np.ceil(max(0.0, answer.bound) * unit * (1 - NOISE))))


def _is_cheaper(part: Partition, prices: Prices, phase: bool) -> bool:
    """Whether a partition of a phase takes less time than the prices of what it has."""
    return part.time - covered(part, prices) - prices.each[phase] < -1e-7 * max(1.0, part.time)


def _between(best: Prices, now: Prices, share: float) -> Prices:
    """``share`` of the best prices so far and the rest of those of now."""
    return Prices(
        share * best.covers + (1 - share) * now.covers,
        {key: share * best.matches[key] + (1 - share) * price for key, price in now.matches.items()},
        {key: share * best.each[key] + (1 - share) * price for key, price in now.each.items()},
    )


def _first(classes: Classes, field: str) -> list[int]:
    """The least of a column of options (picoseconds or bytes) for all kernels of each class."""
    return [
        classes.size(c) * min(getattr(option, field) for option in classes.options(c))
        for c in range(len(classes.kernels))
    ]
