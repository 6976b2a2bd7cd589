"""Lower bounds on weighted sums of T1 and T2, and so on EDP, that hold for any number of windows: a linear program.

Let x(l, k) be the share of layer l that runs on chiplets of class k (of a schedule: 0 or 1). With least costs per
class, every schedule obeys

- Σ_k x(l, k) = 1 for each layer;
- a class with n chiplets is busy for at most n · T1: Σ q · time(l, k) · x(l, k) <= n · T1;
- for each model, with t(l) = Σ_k time(l, k) · x(l, k): T1 >= Σ t + reads, writes and weights + (q − 1) · s, where the
  sum s of the slowest segments of its windows is at least each t(l), and at least Σ t over the number of chiplets;
- T2 >= Σ energies · x + the first reads and the last writes.

The least λ · T1 + T2 under these is a bound for each λ >= 0. The product T1 · T2 over the polyhedron that such lines
leave is smallest at one of its corners, as it is concave along every edge (a quasi-concave function).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import coo_array

from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.instances.multimodel.problem import MultiProblem, watts

#: What floating point may add to a value is taken off, as a share of it.
SAFE = 1e-7


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
        self._rows: list[tuple[list[tuple[int, float]], float]] = []
        self.energy = np.zeros(self.count + 1 + len(problem.models))
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
        value = (found.fun + self.fixed) * self.units[1]
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
        cost[self.count] = weight
        entries = [(i, j, a) for i, (row, _) in enumerate(self._rows) for j, a in row]
        i, j, a = zip(*entries, strict=True)
        upper = coo_array((a, (i, j)), shape=(len(self._rows), len(cost))).tocsr()
        layers, size = self.count // len(self.classes), len(self.classes)
        shares = coo_array(
            (np.ones(self.count), (np.repeat(np.arange(layers), size), np.arange(self.count))),
            shape=(layers, len(cost)),
        )
        limits = [(0, 1)] * self.count + [(1, most)] + [(0, None)] * len(self.problem.models)
        right = [b for _, b in self._rows]
        return linprog(cost, upper, right, shares.tocsr(), np.ones(layers), limits, method="highs")

    def _state(self) -> None:
        """The rows, in units: variables x by layer and class, T1, then s of each model."""
        problem, time, energy = self.problem, *self.units
        total, first = self.count, 0
        busy: list[list[tuple[int, float]]] = [[] for _ in self.classes]
        for m, model in enumerate(problem.models):
            slow, sums = total + 1 + m, []
            for k in range(model.layers):
                own = []
                for kind, chiplets in enumerate(self.classes):
                    column = (first + k) * len(self.classes) + kind
                    least = float(model.time[k, chiplets].min()) / time
                    own.append((column, least))
                    busy[kind].append((column, model.q * least))
                    joules = (model.energy[k, chiplets] + model.weight_energy[k, chiplets]).min()
                    self.energy[column] = float(joules) / energy
                self._rows.append(([*own, (slow, -1.0)], 0.0))
                sums += own
            ends = float(model.read_time[0].min() + model.write_time[-1].min()) / time
            weights = float(model.weight_time.sum()) / time
            segments = min(problem.chiplets, model.layers)
            self._rows.append(([*((j, a / segments) for j, a in sums), (slow, -1.0)], -ends / segments))
            self._rows.append(([*sums, (slow, model.q - 1.0), (total, -1.0)], -ends - weights))
            self.fixed += float(model.read_energy[0].min() + model.write_energy[-1].min()) / energy
            first += model.layers
        for row, chiplets in zip(busy, self.classes, strict=True):
            self._rows.append(([*row, (total, -float(len(chiplets)))], 0.0))


def bound(program: AnyWindows, lines: list[Line], rate: float) -> int:
    """The best bound on the objective in ticks from ``lines`` and one more: of weight ``rate`` (EDP), or the task's."""
    problem = program.problem
    objective, (time, energy) = problem.instance.task.objective, program.least
    if objective == "energy":
        if (limit := problem.instance.task.latency_limit_ns) is not None:
            lines.append(program.line(program.rate_within(limit)))
            return energy_within(lines, energy, limit)
        return energy
    if objective == "weighted":
        lines.append(program.line(watts(problem.instance) / 1000))
        return max(problem.objective(time, energy), int(lines[-1].value))
    if objective == "latency":
        # E weighs nothing against a large rate: T1 >= (value - E) / rate for the greatest E
        line = program.line(1e6 * program.units[1] / program.units[0])
        return max(time, int((line.value - 1e-9 * line.value - problem.most_energy) / line.rate))
    lines.append(program.line(rate))
    return max(problem.objective(time, energy), product_ticks(lines, program.least))


def energy_within(lines: list[Line], energy: int, limit: int) -> int:
    """A lower bound on T2 in pJ where T1 <= ``limit`` ns: its least ``energy``, and above all ``lines``."""
    return max(energy, *(int(line.value - line.rate * limit) for line in lines))


def product_ticks(lines: list[Line], least: tuple[int, int]) -> int:
    """A lower bound on EDP in ticks: T1 and T2 at their ``least``, and above all ``lines``."""
    return int(least_product(lines, *least) / 1e9 * (1 - SAFE))


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
