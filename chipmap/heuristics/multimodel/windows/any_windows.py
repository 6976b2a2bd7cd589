"""Lower bounds on weighted sums of T1 and T2, and so on EDP, that hold for any number of windows: a linear program.

Let x(l, k) be the share of layer l that runs on chiplets of class k (of a schedule: 0 or 1). With least costs per
class, every schedule obeys

- Σ_k x(l, k) = 1 for each layer;
- a class with n chiplets is busy for at most n · T1: Σ q · time(l, k) · x(l, k) <= n · T1;
- for each model, with t(l) = Σ_k time(l, k) · x(l, k): T1 >= Σ t + reads, writes and weights + (q − 1) · s, where the
  sum s of the slowest segments of its windows is at least each t(l), and at least Σ t over the number of chiplets;
- T2 >= Σ energies · x + the first reads and the last writes + static energy of T1.

A model of several mini-batches holds its chiplets longer than they work. In a window of T ns with bottleneck M and n(k)
chiplets of class k, the model's time there is S(k) <= n(k) · M, and Σ S + reads, writes and weights + (q − 1) · M <= T.
With r = (q − 1) · M / T, that is Σ S <= (1 − r) · T and (q − 1) · S(k) <= r · n(k) · T: a short window needs a small
bottleneck, and so many chiplets. Both are linear for a given r. Windows are dealt to cells a <= r <= b of this ratio;
their lengths T, times S and chiplet times n · T are summed over the windows of a cell:

- Σ S(k) + its part of reads, writes and weights <= (1 − a) · (lengths), and the lengths of all cells are at most T1;
- (q − 1) · S(k) <= b · (chiplet times of class k), which are at most n(k) · (lengths);
- the chiplet times of all models and cells are at most n(k) · T1, in place of the busy times above.

A model with a deadline D (C4) is done by then. So its lengths, the last one up to its own end, sum to at most D, as the
row with its slowest segments does. The chiplet times of all models with deadlines up to D are at most n(k) · D.

The least λ · T1 + T2 under these is a bound for each λ >= 0. The product T1 · T2 over the polyhedron that such lines
leave is smallest at one of its corners, as it is concave along every edge (a quasi-concave function).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations, pairwise

import numpy as np
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import coo_array

from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.instances.multimodel.problem import MultiProblem, static_power, watts

#: What floating point may add to a value is taken off, as a share of it.
SAFE = 1e-7
#: Width of the cells of ratios (q − 1) · M / T, as a share of the number of chiplets that a model needs.
WIDTH = 0.02


@dataclass(frozen=True)
class Line:
    """``rate`` · T1 + T2 >= ``value``: ns, pJ and pJ per ns."""

    rate: float
    value: float


class AnyWindows:
    """The program of one problem; :meth:`line` solves it for a weight of T1."""

    def __init__(self, problem: MultiProblem) -> None:
        self.problem = problem
        self.least = least_time(problem), least_energy(problem)
        kinds = [chiplet.kind for chiplet in problem.instance.module.chiplets]
        self.classes = [[c for c, kind in enumerate(kinds) if kind == one] for one in sorted(set(kinds))]
        self.count = sum(model.layers for model in problem.models) * len(self.classes)
        #: Time in units of the least T1 and energy in units of the least T2, so that coefficients are near 1.
        self.units = tuple(max(1, amount) for amount in self.least)
        #: Static energy in units, per unit of time.
        self.static = static_power(problem.instance) / 1000 * self.units[0] / self.units[1]
        self.due = [model.deadline_ns for model in problem.instance.models]
        self._rows: list[tuple[list[tuple[int, float]], float]] = []
        #: Ends of the cells of ratios by model; none where it has a single mini-batch.
        self.cells = [ratios(model.q, min(problem.chiplets, model.layers)) for model in problem.models]
        own = 2 + 2 * len(self.classes)
        self.size = self.count + 1 + len(problem.models) + own * sum(max(0, len(ends) - 1) for ends in self.cells)
        self.energy = np.zeros(self.size)
        self.fixed = 0.0
        #: What each layer adds to the last line's value, in pJ.
        self.prices = np.zeros(self.count // len(self.classes))
        self._state()

    def line(self, rate: float) -> Line:
        """The least ``rate`` · T1 + T2 in pJ, ``rate`` in pJ per ns; 0 where the program isn't solved."""
        found = self._solve(rate * self.units[0] / self.units[1], None)
        if found.status != 0:
            return Line(rate, 0.0)
        self.prices = found.eqlin.marginals * self.units[1]
        value = (self._proved(found, rate * self.units[0] / self.units[1]) + self.fixed) * self.units[1]
        return Line(rate, max(0.0, value * (1 - SAFE)))

    def rate_within(self, limit: int) -> float:
        """The weight of T1 whose line bounds T2 best where T1 <= ``limit`` ns: what the limit is worth, in pJ per ns.

        That of the limit's dual; 0 where the limit doesn't bind, or the program has no solution within it.
        """
        found = self._solve(0.0, limit / self.units[0])
        if found.status != 0:
            return 0.0
        return max(0.0, -float(found.upper.marginals[self.count])) * self.units[1] / self.units[0]

    def _solve(self, weight: float, most: float | None) -> OptimizeResult:
        """The least ``weight`` · T1 + T2 where T1 <= ``most``, all in units."""
        cost = self.energy.copy()
        cost[self.count] = weight + self.static
        limits = [(0, 1)] * self.count + [(1, most)] + [(0, None)] * (self.size - self.count - 1)
        return linprog(cost, *self._upper, *self._shares, limits, method="highs")

    def _proved(self, found: OptimizeResult, weight: float) -> float:
        """What the duals of ``found`` prove without its tolerances: each variable at the better end of its limits."""
        (upper, right), (shares, ones) = self._upper, self._shares
        duals, prices = np.minimum(0.0, found.ineqlin.marginals), found.eqlin.marginals
        left = self.energy - upper.T @ duals - shares.T @ prices
        left[self.count] += weight + self.static
        # no time is above that of T1, no chiplet time above that of all chiplets
        most = np.full(self.size, max(1.0, self.problem.most_time / self.units[0]) * self.problem.chiplets)
        most[: self.count] = 1.0
        least = np.zeros(self.size)
        least[self.count] = 1.0
        return float(duals @ right + prices @ ones + (left * np.where(left > 0, least, most)).sum())

    def _state(self) -> None:
        """The rows, in units: variables x by layer and class, T1, then s of each model."""
        problem, time, energy = self.problem, *self.units
        total, first, own = self.count, 0, self.count + 1 + len(self.problem.models)
        busy: list[list[list[tuple[int, float]]]] = [[] for _ in self.classes]
        for m, model in enumerate(problem.models):
            slow, sums = total + 1 + m, []
            work: list[list[tuple[int, float]]] = [[] for _ in self.classes]
            for k in range(model.layers):
                layer = []
                for kind, chiplets in enumerate(self.classes):
                    column = (first + k) * len(self.classes) + kind
                    least = float(model.time[k, chiplets].min()) / time
                    layer.append((column, least))
                    work[kind].append((column, least))
                    joules = (model.energy[k, chiplets] + model.weight_energy[k, chiplets]).min()
                    self.energy[column] = float(joules) / energy
                self._rows.append(([*layer, (slow, -1.0)], 0.0))
                sums += layer
            ends = float(model.read_time[0].min() + model.write_time[-1].min()) / time
            weights = float(model.weight_time.sum()) / time
            segments = min(problem.chiplets, model.layers)
            self._rows.append(([*((j, a / segments) for j, a in sums), (slow, -1.0)], -ends / segments))
            self._rows.append(([*sums, (slow, model.q - 1.0), (total, -1.0)], -ends - weights))
            if (due := self.due[m]) is not None:
                self._rows.append(([*sums, (slow, model.q - 1.0)], due / time - ends - weights))
            self.fixed += float(model.read_energy[0].min() + model.write_energy[-1].min()) / energy
            first += model.layers
            if len(self.cells[m]):
                held = self._state_ratios(m, own, work, ends + weights)
                own += (len(self.cells[m]) - 1) * (2 + 2 * len(self.classes))
            else:
                held = work
            for row, more in zip(busy, held, strict=True):
                row.append(more)
        for row, chiplets in zip(busy, self.classes, strict=True):
            self._rows.append(([*chain(*row), (total, -float(len(chiplets)))], 0.0))
            for last in sorted({due for due in self.due if due is not None}):
                early = chain(*(own for own, due in zip(row, self.due, strict=True) if due is not None and due <= last))
                self._rows.append(([*early], len(chiplets) * last / time))
        self._matrices()

    def _matrices(self) -> None:
        """The rows as sparse matrices, and the shares of each layer, which add up to one."""
        entries = [(i, j, a) for i, (row, _) in enumerate(self._rows) for j, a in row]
        rows, columns, values = (np.array(column) for column in zip(*entries, strict=True))
        matrix = coo_array((values, (rows, columns)), shape=(len(self._rows), self.size)).tocsr()
        self._upper = matrix, np.array([b for _, b in self._rows])
        layers, size = self.count // len(self.classes), len(self.classes)
        places = np.repeat(np.arange(layers), size), np.arange(self.count)
        self._shares = coo_array((np.ones(self.count), places), shape=(layers, self.size)).tocsr(), np.ones(layers)

    def _state_ratios(
        self, m: int, first: int, work: list[list[tuple[int, float]]], extra: float
    ) -> list[list[tuple[int, float]]]:
        """The rows of model m's cells, whose variables begin at ``first``; its chiplet times by class.

        ``work``: the terms of its time on each class; ``extra``: reads, writes and weights, in units.
        """
        model, ends, kinds, rows = self.problem.models[m], self.cells[m], len(self.classes), self._rows
        most = float(min(self.problem.chiplets, model.layers))
        lengths, extras = list[int](), list[int]()
        times: list[list[int]] = [[] for _ in self.classes]
        held: list[list[tuple[int, float]]] = [[] for _ in self.classes]
        # by cell: length, its part of extra, time by class, chiplet time by class
        for low, high in pairwise(ends):
            length, part = first, first + 1
            own, chips = range(first + 2, first + 2 + kinds), range(first + 2 + kinds, first + 2 + 2 * kinds)
            first += 2 + 2 * kinds
            rows.append(([*((j, 1.0) for j in own), (part, 1.0), (length, low - 1.0)], 0.0))
            rows.append(([*((j, 1.0) for j in chips), (length, -most)], 0.0))
            for k, (time, chip) in enumerate(zip(own, chips, strict=True)):
                rows.append(([(time, model.q - 1.0), (chip, -high)], 0.0))
                rows.append(([(chip, 1.0), (length, -float(len(self.classes[k])))], 0.0))
                times[k].append(time)
                held[k].append((chip, 1.0))
            lengths.append(length)
            extras.append(part)
        rows.append(([*((j, 1.0) for j in lengths), (self.count, -1.0)], 0.0))
        if (due := self.due[m]) is not None:
            rows.append(([(j, 1.0) for j in lengths], due / self.units[0]))
        rows.append(([(j, -1.0) for j in extras], -extra))
        slow = (self.count + 1 + m, model.q - 1.0)
        rows.append(([slow, *((j, -high) for j, high in zip(lengths, ends[1:], strict=True))], 0.0))
        for terms, own_times in zip(work, times, strict=True):
            rows.append(([*terms, *((j, -1.0) for j in own_times)], 0.0))
        return held


def ratios(q: int, segments: int) -> list[float]:
    """Ends of cells of r = (q − 1) · M / T, from 0 to the most, (q − 1) / q; none for q = 1.

    A model that n chiplets share evenly has r = (q − 1) / (n + q − 1) in a window that ends with it. As q · M <= T, no
    ratio is above that of n = 1.
    """
    if q == 1:
        return []
    shared = np.geomspace(segments, 1, math.ceil(math.log(segments) / WIDTH) + 1)
    return [0.0, *((q - 1) / (n + q - 1) for n in shared.tolist()[:-1]), (q - 1) / q]


def bound(program: AnyWindows, lines: list[Line], rate: float) -> int:
    """The best bound on the objective in ticks from ``lines`` and one more: of weight ``rate`` (EDP), or the task's."""
    problem = program.problem
    objective, (time, energy) = problem.instance.task.objective, program.least
    if objective == "energy":
        if (limit := problem.instance.task.latency_limit_ns) is not None:
            lines.append(program.line(program.rate_within(limit)))
            return energy_within(lines, energy, limit)
        alone = not program.static and all(due is None for due in program.due)
        return energy if alone else max(energy, int(program.line(0.0).value))
    if objective == "weighted":
        lines.append(program.line(watts(problem.instance) / 1000))
        return max(problem.objective(time, energy), int(lines[-1].value))
    if objective == "latency":
        # E weighs nothing against a large rate: T1 >= (value - E) / rate for the greatest E
        line = program.line(1e6 * program.units[1] / program.units[0])
        return max(time, int((line.value - 1e-9 * line.value - problem.most_energy) / line.rate))
    lines.append(program.line(rate))
    return max(problem.objective(time, energy), product_ticks(lines, program.least, problem.edp_tick))


def energy_within(lines: list[Line], energy: int, limit: int) -> int:
    """A lower bound on T2 in pJ where T1 <= ``limit`` ns: its least ``energy``, and above all ``lines``."""
    return max(energy, *(int(line.value - line.rate * limit) for line in lines))


def product_ticks(lines: list[Line], least: tuple[int, int], tick: int) -> int:
    """A lower bound on EDP in ticks of ``tick`` ns · pJ: T1 and T2 at their ``least``, and above all ``lines``."""
    return int(least_product(lines, *least) / tick * (1 - SAFE))


def least_product(lines: list[Line], time: float, energy: float) -> float:
    """The least T1 · T2 with T1 >= ``time``, T2 >= ``energy`` and above all ``lines``, at a corner."""
    t, e = corner(lines, time, energy)
    return t * e


def corner(lines: list[Line], time: float, energy: float) -> tuple[float, float]:
    """(T1, T2) of the least product, see :func:`least_product`."""
    corners = [time, *((line.value - energy) / line.rate for line in lines if line.rate)]
    for a, b in combinations(lines, 2):
        if a.rate != b.rate:
            corners.append((a.value - b.value) / (a.rate - b.rate))
    return min(((t, above(lines, t, energy)) for t in corners if t >= time), key=lambda at: at[0] * at[1])


def above(lines: list[Line], time: float, energy: float) -> float:
    """The least T2 at this T1: at least ``energy``, and above all ``lines``."""
    return max([energy, *(line.value - line.rate * time for line in lines)])
