"""One window, exactly: given a range of layers for each model, the best cuts and chiplets for all of them at once.

The tables (:mod:`chipmap.heuristics.multimodel.tables.ranges`) say how little energy each model needs on each set of
chiplets within T ns. A program over subsets puts the models side by side, E(T) = min over disjoint sets of Σ energies,
for all cells of T at once. E falls with T, so that no schedule in a cell (a, b] is better than the objective at (a + 1,
E(b)). Cells that can't hold a better schedule than the best one known are dropped, the others refined. Where few pairs
(Lat, energy) are left for each signature, all of them are listed and the same program over them is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.bounds import least_latency
from chipmap.heuristics.multimodel.tables.beside import Beside
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.kernel import NONE, FloatArray
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.tables.ranges import build_whole
from chipmap.heuristics.multimodel.tables.segmentation import Chain, Segmentation
from chipmap.heuristics.multimodel.tables.sets import places
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, Segment

#: Widths of the cells of windows and bottlenecks, as shares, round by round.
RATIOS = (0.04, 0.012, 0.004)
#: Rates of the tables as shares of energy per time.
RATES = (0.1, 0.25, 0.5, 0.8, 1.3, 2.5)
#: Cells that are worked on at once, and cells in which a schedule is looked for in each round.
BLOCK, TRIED = 256, 3


class Find(NamedTuple):
    """What is known now: no window is better than ``bound`` (None: nothing new); a window, if a better one is found.

    Without any window that keeps the limits the bound is infinite.
    """

    bound: float | None
    segments: list[Segment] | None


class OneWindow:
    """The program for one instance; C4 is that of a schedule with this window alone.

    With counts in place of paths it finds bounds and no windows."""

    def __init__(self, problem: MultiProblem, paths: Paths | Counts) -> None:
        self.problem, self.paths, self.models = problem, paths, problem.models
        task, given = problem.instance.task, problem.instance.models
        #: Longest window in ns, most energy in pJ, latest end of each model in ns.
        self.latest_end = math.inf if task.latency_limit_ns is None else task.latency_limit_ns
        self.most_energy = math.inf if task.energy_limit_pj is None else task.energy_limit_pj
        self.ends = [math.inf if model.deadline_ns is None else model.deadline_ns for model in given]
        models = self.models
        work = sum(model.q * int(model.time.min(axis=1).sum()) for model in models)
        self.weights = [int(model.weight_time.sum()) for model in models]
        self.low = max(-(-work // problem.chiplets), *(least_latency(problem, model) for model in models))
        #: No window needs longer than its slowest model at its slowest.
        self.high = max(
            model.q
            * int((model.time + model.read_time + model.write_time).max(axis=1).sum() + 2 * model.send_time.sum())
            + weights
            for model, weights in zip(models, self.weights, strict=True)
        )
        self.least = sum(int(model.run_energy.min(axis=1).sum()) for model in models)
        rate = self.least / max(1, self.low)
        self.rates = [share * rate for share in RATES]
        parts = [(m, 0, model.layers - 1) for m, model in enumerate(models)]
        self.chains = [Chain(problem, part, paths, self.rates) for part in parts] if isinstance(paths, Paths) else []
        self.best: int | None = None

    def run(self, best: int | None, deadline: Deadline) -> Iterator[Find]:
        """Bounds and windows better than ``best`` one by one; raises :class:`chipmap.deadline.Stop` at the deadline."""
        self.best = best
        high = int(min(self.high, self.latest_end))
        if self.low > high:
            yield Find(math.inf, None)
            return
        low, proved = self.low, self.problem.value(self.low, self.least)
        for ratio in RATIOS:
            high = self.latest(low, high)
            if high < low:
                break
            edges = geometric(low - 1, high, ratio)
            tables = [self.table(p, edges, ratio, deadline) for p in range(len(self.models))]
            cells = _Cells(self, edges, tables)
            tried = sorted(cells.alive(), key=cells.bound)[: TRIED if self.chains else 0]
            for t in tried:
                deadline.check()
                segments = self._window(cells, t)
                if segments is not None:
                    yield Find(None, segments)
            alive = cells.alive()
            if not alive:
                low = high + 1
                break
            proved = max(proved, min(map(cells.bound, alive)))
            yield Find(proved if self.best is None else min(proved, self.best), None)
            low, high = int(edges[alive[0]]) + 1, int(edges[alive[-1] + 1])
        if high < low:
            yield Find(math.inf if self.best is None else self.best, None)
            return
        if self.chains:
            yield from self._exactly(cells, deadline)

    def latest(self, low: int, high: int) -> int:
        """The longest window that may be better than the best."""
        if self.best is None or self.problem.value(high, self.least) < self.best:
            return high
        while low <= high:
            middle = (low + high) // 2
            if self.problem.value(middle, self.least) < self.best:
                low = middle + 1
            else:
                high = middle - 1
        return high

    def budget(self, time: int) -> float:
        """The most energy with which a window of ``time`` ns is better than the best one."""
        if self.best is None:
            return self.most_energy
        low, high = 0, self.problem.most_energy
        while low < high:
            middle = (low + high + 1) // 2
            if self.problem.value(time, middle) < self.best:
                low = middle
            else:
                high = middle - 1
        return min(self.most_energy, low if self.problem.value(time, low) < self.best else -1)

    def table(self, p: int, edges: IntArray, ratio: float, deadline: Deadline) -> FloatArray:
        """Least energy by signature and cell, shorter windows included."""
        model = self.models[p]
        low, high = float(edges[0] - self.weights[p]), float(edges[-1] - self.weights[p])
        longest = self.paths.longest
        # with a bottleneck up to the first end even the longest path is done in the shortest window
        ends = geometric(max(1, int(low / (model.q - 1 + longest))), max(2, math.ceil(high / model.q)), ratio)
        grid = edges, np.concatenate([[0.0], ends.astype(np.float64)])
        table = build_whole(self.problem, p, self.paths, grid, self.rates, deadline)
        # the first cell holds what is done before it as well
        keep = (table.cell == 0) | (edges[table.cell] < self.ends[p])
        return self._scattered(table.signature[keep], table.cell[keep], table.energy[keep], len(edges) - 1)

    def _scattered(self, signature: IntArray, cell: IntArray, energy: FloatArray, cells: int) -> FloatArray:
        own = np.full((self.paths.signatures, cells), NONE)
        np.minimum.at(own, (signature, cell), energy)
        least: FloatArray = np.minimum.accumulate(own, axis=1)
        return least

    def _window(self, cells: _Cells, t: int) -> list[Segment] | None:
        """A real window where the cells say that one might be; None where there is none, or no better one."""
        latest, segments, time, energy = int(cells.edges[t + 1]), list[Segment](), 0, 0
        for p, (signature, way) in enumerate(cells.choice(t)):
            found = self.real(p, signature, latest, float(cells.tables[p][signature, t]))
            if found is None:
                return None
            segments += self.segments(p, found, way)
            time, energy = max(time, found.latency), energy + found.energy
        return self.accept(segments, time, energy)

    def real(self, p: int, signature: int, latest: int, hoped: float) -> Segmentation | None:
        """The segmentation of model p of least energy, by no means below ``hoped``, in a window of ``latest`` ns."""
        return self.chains[p].best(signature, int(min(latest, self.ends[p])), hoped)

    def segments(self, p: int, found: Segmentation, way: tuple[int, ...]) -> list[Segment]:
        """Model p's segments, the i-th on chiplet ``way[i]``: (model, first layer, last layer, chiplet) each."""
        starts = [*found.starts, self.models[p].layers]
        return [(p, starts[i], starts[i + 1] - 1, c) for i, c in enumerate(way)]

    def accept(self, segments: list[Segment], time: int, energy: int) -> list[Segment] | None:
        """These segments if they keep the limits and are better than the best; they are the best then."""
        value = self.problem.value(time, energy)
        if (
            time > self.latest_end
            or self.problem.powered(time, energy) > self.most_energy
            or (self.best is not None and value >= self.best)
        ):
            return None
        self.best = value
        return segments

    def _exactly(self, cells: _Cells, deadline: Deadline) -> Iterator[Find]:
        """List all pairs (Lat, energy) that a better window may hold, and put them side by side."""
        listed: list[list[tuple[Segmentation, int]]] = []
        for p in range(len(self.models)):
            allowed, pairs = cells.allowed(p), list[tuple[Segmentation, int]]()
            for s in np.flatnonzero(allowed.max(axis=1) >= 0):
                deadline.check()
                last = int(np.flatnonzero(allowed[s] >= 0)[-1])
                latest = int(min(cells.edges[last + 1], self.ends[p]))
                front = self.chains[p].front(int(s), latest, float(allowed[s].max()))
                if front is None:
                    return
                pairs += [(one, int(s)) for one in front]
            listed.append(pairs)
        low = int(cells.edges[0])
        times = sorted({max(low + 1, one.latency) for pairs in listed for one, _ in pairs})
        for i in range(0, len(times), BLOCK):
            deadline.check()
            edges = np.array([times[i] - 1, *times[i : i + BLOCK]], dtype=np.int64)
            tables = []
            for pairs in listed:
                known = [(s, max(0, int(np.searchsorted(edges, one.latency)) - 1), one.energy) for one, s in pairs]
                columns = np.array([one for one in known if one[1] < len(edges) - 1], dtype=np.int64).reshape(-1, 3).T
                energy = columns[2].astype(np.float64)
                tables.append(self._scattered(columns[0], columns[1], energy, len(edges) - 1))
            exact = _Cells(self, edges, tables)
            for t in sorted(exact.alive(), key=exact.end):
                segments = self._listed(exact, t, listed)
                if segments is None:
                    break
                yield Find(None, segments)
        yield Find(math.inf if self.best is None else self.best, None)

    def _listed(self, cells: _Cells, t: int, listed: list[list[tuple[Segmentation, int]]]) -> list[Segment] | None:
        """The window of listed pairs that cell t's least energy comes from."""
        segments, time, energy = list[Segment](), 0, 0
        for p, (signature, way) in enumerate(cells.choice(t)):
            fit = [one for one, s in listed[p] if s == signature and one.latency <= cells.edges[t + 1]]
            found = min(fit, key=lambda one: one.energy)
            segments += self.segments(p, found, way)
            time, energy = max(time, found.latency), energy + found.energy
        return self.accept(segments, time, energy)


class _Cells:
    """Cells of windows with the least energies that the tables leave."""

    def __init__(self, program: OneWindow, edges: IntArray, tables: list[FloatArray]) -> None:
        self.program, self.edges, self.tables = program, edges, tables
        self.places = places(program.paths)
        self.sets = [self.places.least(table) for table in tables]
        self.beside = Beside(self.places, self.sets)
        self.energy = self.beside.least

    def bound(self, t: int) -> int:
        """No window of cell t is better."""
        return self.program.problem.value(int(self.edges[t]) + 1, math.ceil(self.energy[t]))

    def end(self, t: int) -> int:
        """The objective at the end of cell t."""
        return self.program.problem.value(int(self.edges[t + 1]), math.ceil(self.energy[t]))

    def alive(self) -> list[int]:
        """Cells that may hold a window better than the best."""
        limit, best = self.program.most_energy, self.program.best
        cells = [t for t in range(len(self.energy)) if self.energy[t] <= min(limit, NONE / 2)]
        return [t for t in cells if best is None or self.bound(t) < best]

    def choice(self, t: int) -> list[tuple[int, tuple[int, ...]]]:
        """Signature and path of each model at the least energy of cell t."""
        found, paths = [], self.program.paths
        assert isinstance(paths, Paths)
        for table, mask in zip(self.tables, self.beside.divide(t), strict=True):
            [(_, at)] = self.places.within(mask, table[:, t], 1)
            s = int(self.places.signature[at])
            found.append((s, paths.way(s, int(self.places.mask[at]))))
        return found

    def allowed(self, p: int) -> FloatArray:
        """[signatures, cells]: the most energy that model p may take for the window to be better than the best; −1
        where its least is more."""
        others = [sets for r, sets in enumerate(self.sets) if r != p]
        rests = reduce(self.places.side_by_side, others)[::-1] if others else None
        budget = np.full(len(self.energy), -1.0)
        for t in self.alive():
            budget[t] = min(self.program.budget(int(self.edges[t]) + 1), NONE)
        found = np.full(self.tables[p].shape, -1.0)
        assert isinstance(self.program.paths, Paths)
        for s, masks in enumerate(self.program.paths.masks):
            rest = np.zeros(len(budget)) if rests is None else rests[masks].min(axis=0)
            room = budget - rest
            found[s] = np.where(self.tables[p][s] <= room, room, -1.0)
        return found


def geometric(low: int, high: int, ratio: float) -> IntArray:
    """Whole numbers from ``low`` to ``high``, each about ``ratio`` above the one before."""
    if high <= low:
        return np.array([low, low + 1], dtype=np.int64)
    count = math.ceil(math.log(high / max(1, low)) / ratio)
    inner = np.geomspace(max(1, low), high, count + 1).round().astype(np.int64)
    return np.unique([low, *inner.clip(low, high).tolist()])
