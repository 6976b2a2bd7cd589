"""What columns over windows prove of one problem: lines below all schedules, by tables of coarse or fine cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.columns.column_generation import KNOTS, NEAR, Column, Prices, WindowColumns
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.tables.ranges import Table, build
from chipmap.heuristics.multimodel.tables.sets import places
from chipmap.heuristics.multimodel.windows.any_windows import (
    SAFE,
    AnyWindows,
    Line,
    above,
    corner,
    energy_within,
    product_ticks,
)
from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, placed, sums, terms, watts
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.refutation import above_limits
from chipmap.solvers.repeated import GrowingProgram

#: Below the share LEAST of the windows' time, as of T1, a cell of bottlenecks is no narrower, nor does its width grow
#: by more than GROWTH of them. The first cell ends at SHORT of T1.
LEAST, SHORT, GROWTH = 0.15, 1e-3, 0.3
#: Width of the windows' cells as a share of that of the bottlenecks' cells, which take most of the time.
FINER = 0.25
#: Rates of the tables' weighted sums, as shares of T2 / T1.
RATES = (0.3, 1.0, 3.0)
#: A weight is not tried again when one so near has been; at most so many weights. There are no more where
#: the last two raised the bound by less than this share of the cells' width; finer cells gain about a third of it.
CLOSE, MOST_WEIGHTS, LITTLE = 0.05, 6, 0.1
#: How near bound and program come: a share of them, for coarse cells this share of the cells' width; and where no finer
#: tables fit the time that is left.
NEAR_CELLS, NEAR_LAST = 0.05, 1e-4
#: Share of the time that is left in which windows of the last tables become columns of the next ones.
KNOWN = 0.1
#: A bound is told when it is better by this share.
TOLD = 3e-4
#: Weight of time, in T2 / T1, at which energy doesn't count.
TIME_ALONE = 1e5


class ColumnBound:
    """The lines of one problem, and what they prove."""

    def __init__(self, problem: MultiProblem, turn: Turn, paths: Paths | Counts) -> None:
        self.problem, self.turn, self.run = problem, turn, turn.run
        #: Of the last tables.
        self.cells: Cells
        #: Those of the next tables; they may be others for each.
        self.paths = paths
        self.program = program = AnyWindows(problem)
        self.least = program.least
        self.lines: list[Line] = []
        self.told = self.run.lower.value if self.run.lower is not None else 0
        found = self._found()
        self.time, self.energy = found or self.least
        self.limit = problem.instance.task.latency_limit_ns
        for factor in (1.0, 0.3, 3.0, 0.1, 10.0):
            self.lines.append(program.line(factor * self.ratio))
        self.prices: dict[float, Prices] = {}
        self.points: list[tuple[float, float]] = []
        self.windows: list[Column] = []
        #: Width of the tables' cells, how near bound and program come, entries of all tables.
        self.width, self.near, self.entries = 0.0, NEAR, 0
        #: What whole sequences of windows prove beside the lines, in ticks.
        self.floor = 0
        #: Seconds of the last tables, and of the columns over them.
        self.spent = 0.0, 0.0

    def _found(self) -> tuple[int, int] | None:
        best = self.run.best
        return None if best is None else (best.certificate.terms["T1"], best.certificate.terms["T2"])

    @property
    def ratio(self) -> float:
        """T2 / T1 of the best schedule, or of the least of both; never 0."""
        return max(1, self.energy) / max(1, self.time)

    def longest(self) -> int:
        """An upper limit on T1 of every schedule that is better than the best one."""
        time, best = self.problem.most_time, self.run.upper
        if self.limit is not None:
            time = min(time, self.limit)
        if best is None:
            return time
        objective, (_, energy) = self.problem.instance.task.objective, self.least
        if objective == "latency":
            return min(time, best)
        if objective == "weighted":
            rate = watts(self.problem.instance)
            return time if not rate else min(time, 1000 * (best - energy) // rate + 1)
        if objective == "energy" or not energy:
            return time
        tick = self.problem.edp_tick
        high = best * tick // energy + 1
        for _ in range(50):  # energy is above the lines, too: T falls to the largest one that still pays
            lower = int(best * tick / above(self.lines, high, energy) * (1 + SAFE)) + 1
            if lower >= high:
                break
            high = lower
        return min(time, high)

    def rate(self, tried: Sequence[float]) -> float | None:
        """The weight of T1 to try next, in pJ per ns; None where none is left."""
        objective, ratio = self.problem.instance.task.objective, self.ratio
        if objective == "weighted":
            rate = watts(self.problem.instance) / 1000
        elif objective == "latency":
            rate = TIME_ALONE * ratio
        elif objective == "energy":
            rate = self._slope(ratio)
        else:
            t, e = corner(self.lines, *self.least)
            rate = max(1.0, e) / max(1.0, t) if tried else ratio
        near = any(abs(rate - one) <= CLOSE * one for one in tried)
        return None if near or len(tried) >= MOST_WEIGHTS else rate

    def _slope(self, ratio: float) -> float:
        """The slope of T2 over T1 between the points on both sides of the limit on T1."""
        assert self.limit is not None
        left = [point for point in self.points if point[0] <= self.limit]
        right = [point for point in self.points if point[0] > self.limit]
        if not self.points:
            return ratio
        if not left:
            return 3 * max(self.prices)
        if not right:
            return min(self.prices) / 3
        (t, e), (u, f) = max(left), min(right)
        return (e - f) / (u - t) if e > f else ratio

    def value(self, lines: Sequence[Line] | None = None) -> int:
        """The bound that the lines prove, in ticks; ``lines``: these and no others."""
        lines = self.lines if lines is None else lines
        objective, energy = self.problem.instance.task.objective, self.least[1]
        if objective == "energy":
            return energy_within(list(lines), energy, self.limit) if self.limit is not None else energy
        if objective == "weighted":
            rate = watts(self.problem.instance) / 1000
            return max(int(line.value) for line in lines if line.rate == rate)
        if objective == "latency":
            return max(int((line.value * (1 - SAFE) - self.problem.most_energy) / line.rate) for line in lines)
        return product_ticks(list(lines), self.least, self.problem.edp_tick)

    def tell(self, best: int | None, last: bool = False, source: str = "columns over windows") -> None:
        """Report what the lines prove; schedules worse than ``best`` were left out."""
        value = max(self.value(), self.floor) if best is None else min(best, max(self.value(), self.floor))
        if value > self.told * (1 + (0 if last else TOLD)):
            self.told = value
            self.turn.bound(value, source)
        if best is None and (reasons := above_limits(self.problem, self.lines)):
            self.turn.infeasible(*reasons)
            self.turn.deadline.check()

    def stage(self, ratio: float) -> WindowColumns:
        """Tables with cells of this width, and the program over them."""
        found = self._found()
        if found is not None:
            self.time, self.energy = found
        latency = self.problem.instance.task.objective == "latency"
        coarse = grid(max(1, self.time), max(1, self.longest()), ratio)
        edges = grid(max(1, self.time), max(1, self.longest()), ratio * FINER)
        rates = None if latency else [share * self.ratio for share in RATES]
        started = time.monotonic()
        self.cells = Cells(ratio, edges, coarse, rates)
        pricing = priced(self.problem, self.paths, self.cells, self.turn.deadline)
        self.entries = sum(len(table.energy) for table in pricing.tables)
        self.spent = time.monotonic() - started, 0.0
        self.width, self.near = ratio, max(NEAR, ratio * NEAR_CELLS)
        layers = [model.layers for model in self.problem.models]
        return WindowColumns(layers, self.problem.windows, pricing, GrowingProgram)

    def prove(self, program: WindowColumns, share: float = 1.0) -> bool:
        """Lines from the program, within this share of the time that is left; whether until no weight is left."""
        turn, started = self.turn, time.monotonic()
        self.turn, tried = turn.share(share), list[float]()
        try:
            self._weights(program, tried)
        except Stop:
            turn.deadline.check()
            return False
        finally:
            self.turn, self.spent = turn, (self.spent[0], time.monotonic() - started)
            cells = program.pricing.cells
            what = f"{cells} cells, {self.entries} entries, {program.rounds} rounds, {len(tried)} weights"
            seconds = f"{self.spent[0]:.1f} s of tables, {self.spent[1]:.1f} s of columns"
            self.run.note("search", f"columns over windows: {what}; {seconds}")
        return True

    def _weights(self, program: WindowColumns, tried: list[float]) -> None:
        """Lines from the program, until no weight is left to try."""
        best, values = self.run.upper, list[int]()
        self._known_windows(program)
        known = self.turn.share(KNOWN) if self.run.clocked else self.turn
        program.again(self.windows[::-1], self.ratio, known.deadline)
        while (rate := self.rate(tried)) is not None:
            tried.append(rate)
            self._line(program, rate, best)
            values.append(self.value())
            if len(values) > 2 and values[-1] < values[-3] * (1 + LITTLE * self.width):
                break
        self.tell(best, last=True)

    def _known_windows(self, program: WindowColumns) -> None:
        """The windows of the best schedule are columns."""
        best = self.run.best
        if best is None:
            return
        assert isinstance(best.solution, MultiSolution)
        columns = list[Column]()
        for window in placed(self.problem, best.solution):
            if not window:
                continue
            time, energy = terms(self.problem, [window])
            nodes = []
            for m in range(len(self.problem.models)):
                own = [segment for segment in window if segment[0] == m]
                nodes.append((own[0][1], own[-1][2] + 1) if own else (0, 0))
            columns.append(Column(float(time), float(energy), tuple(nodes), not columns))
        program.add(columns)

    def _line(self, program: WindowColumns, rate: float, best: int | None) -> None:
        """A line of this rate."""
        at = len(self.lines)
        self.lines.append(Line(rate, 0.0))

        def report(value: float) -> None:
            self.lines[at] = Line(rate, max(value, self.lines[at].value))
            self.tell(best)

        knots = () if program.rounds and program.whole else KNOTS
        if self.prices:
            prices = max(self._guesses(rate), key=lambda one: program.price(one, rate)[0])
        else:
            self.program.line(rate)
            ends = np.cumsum([model.layers for model in self.problem.models])[:-1]
            prices = program.start(np.split(self.program.prices, ends))
        try:
            program.bound(rate, prices, self.turn.deadline, report, self.near, knots)
        finally:
            self.prices[rate] = program.best or prices
        self.windows += program.used()
        if program.point is not None:
            self.points.append(program.point)

    def _guesses(self, rate: float) -> list[Prices]:
        """Prices for this rate to begin with: those of the nearest one, and what follows from both nearest ones, or
        where there is one alone, from T1 of the program's optimum."""
        near, *others = sorted(self.prices, key=lambda one: abs(one - rate))
        first = self.prices[near]
        if others:
            share = (rate - near) / (others[0] - near)
            more = [(1 - share) * x + share * y for x, y in zip(first, self.prices[others[0]], strict=True)]
        elif self.points:
            time, energy = self.points[-1]
            factor = (rate * time + energy) / max(1.0, near * time + energy)
            more = [factor * x for x in first]
        else:
            more = first
        return [first, more]


class Cells(NamedTuple):
    """What tables are made of: the width of the bottlenecks' cells, the edges of the windows' cells and of those that
    bottlenecks have, in ns, and rates in pJ per ns."""

    width: float
    edges: IntArray
    coarse: IntArray
    rates: list[float] | None


def priced(
    problem: MultiProblem, paths: Paths | Counts, cells: Cells, deadline: Deadline, cautious: bool = False
) -> Pricing:
    """Tables of all models with these cells, and the program over them."""
    models, (_, edges, coarse, rates) = range(len(problem.models)), cells
    tables = [build(problem, m, paths, edges, rates, deadline, coarse, cautious) for m in models]
    tables = [shared_cells(problem, m, table, edges) for m, table in enumerate(tables)]
    # without energies there is no static one
    return Pricing(tables, places(paths), edges, 0.0 if rates is None else problem.power / 1000)


def shared_cells(problem: MultiProblem, m: int, table: Table, edges: IntArray) -> Table:
    """The entries of model m's ``table`` in windows long enough for their own bytes at the shared rate of DRAM."""
    sharing = problem.sharing
    if sharing is None or sharing.dram is None:
        return table
    weights = sums(sharing.weights[m])
    last = table.last.astype(np.int64)
    moved = weights[last + 1] - weights[table.first] + sharing.read[m][table.first] + sharing.sent[m][last]
    cell = np.maximum(table.cell, np.searchsorted(edges[1:], moved / float(sharing.dram) * (1 - SAFE)))
    kept = cell < len(edges) - 1
    raised = table._replace(cell=cell.astype(table.cell.dtype))
    return Table._make(column[kept] for column in raised)


def grid(usual: float, longest: float, ratio: float) -> IntArray:
    """Edges of cells from 0 to ``longest`` ns; those of long windows are ``ratio`` of their time wide."""
    edges = [0.0, min(SHORT * usual, longest)]
    while edges[-1] < longest:
        edges.append(edges[-1] + max(1.0, ratio * edges[-1], min(ratio * LEAST * usual, GROWTH * edges[-1])))
    return np.unique(np.ceil(np.array(edges)).astype(np.int64))
