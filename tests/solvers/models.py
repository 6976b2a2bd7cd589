"""Small models for the adapters' tests, each once in Pyomo and once for CP-SAT, and their brute-force optima."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pyomo.environ as pyo
from ortools.sat.python import cp_model

from chipmap.family import Standing

SOLVERS = ("highs", "gurobi", "cpsat")
MIP_SOLVERS = ("highs", "gurobi")


@dataclass
class SmallModel:
    """The Model protocol around a native model; a solution is the tuple of the values of ``decisions``."""

    kind: Literal["mip", "cpsat"]
    native: Any
    decisions: list[Any]
    standing: Standing = Standing.EXACT
    assumptions: dict[str, Any] = field(default_factory=dict)

    def encode(self, solution: tuple[int, ...]) -> list[tuple[Any, float]]:
        return list(zip(self.decisions, solution, strict=True))

    def decode(self, value: Callable[[Any], float] | None) -> tuple[int, ...]:
        assert value is not None
        return tuple(round(value(variable)) for variable in self.decisions)


@dataclass(frozen=True)
class Knapsack:
    """min offset - profit · x with weight rows and at least one item (rows c1_weight, c2_some)."""

    profits: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def make(items: int, rows: int, seed: int, offset: int = 0) -> Knapsack:
        rng = random.Random(seed)
        profits = tuple(rng.randint(1, 60) for _ in range(items))
        weights = tuple(tuple(rng.randint(1, 60) for _ in range(items)) for _ in range(rows))
        return Knapsack(profits, weights, tuple(sum(row) // 3 for row in weights), offset)

    def objective(self, x: tuple[int, ...]) -> int:
        return self.offset - sum(p * v for p, v in zip(self.profits, x, strict=True))

    def feasible(self, x: tuple[int, ...]) -> bool:
        rows = zip(self.weights, self.capacities, strict=True)
        return sum(x) >= 1 and all(sum(w * v for w, v in zip(row, x, strict=True)) <= cap for row, cap in rows)

    def optimum(self) -> int:
        return min(self.objective(x) for x in itertools.product((0, 1), repeat=len(self.profits)) if self.feasible(x))

    def model(self, solver: str) -> SmallModel:
        return self._cpsat() if solver == "cpsat" else self._mip()

    def _mip(self) -> SmallModel:
        m = pyo.ConcreteModel()
        m.x = pyo.Var(range(len(self.profits)), domain=pyo.Binary)
        m.c1_weight = pyo.Constraint(
            range(len(self.weights)),
            rule=lambda m, r: sum(w * m.x[i] for i, w in enumerate(self.weights[r])) <= self.capacities[r],
        )
        m.c2_some = pyo.Constraint(expr=sum(m.x.values()) >= 1)
        m.goal = pyo.Objective(expr=self.offset - sum(p * m.x[i] for i, p in enumerate(self.profits)))
        return SmallModel("mip", m, list(m.x.values()))

    def _cpsat(self) -> SmallModel:
        m = cp_model.CpModel()
        x = [m.new_bool_var(f"x{i}") for i in range(len(self.profits))]
        for row, capacity in zip(self.weights, self.capacities, strict=True):
            m.add(sum(w * v for w, v in zip(row, x, strict=True)) <= capacity)
        m.add_bool_or(x)
        m.minimize(self.offset - sum(p * v for p, v in zip(self.profits, x, strict=True)))
        return SmallModel("cpsat", m, x)


@dataclass(frozen=True)
class Makespan:
    """min T with job j on machine a[j] and T >= the load of each machine: T is no decision, but follows from them."""

    times: tuple[int, ...]
    machines: int

    @staticmethod
    def make(jobs: int, machines: int, seed: int) -> Makespan:
        rng = random.Random(seed)
        return Makespan(tuple(rng.randint(10, 99) for _ in range(jobs)), machines)

    def objective(self, a: tuple[int, ...]) -> int:
        return max(sum(t for t, on in zip(self.times, a, strict=True) if on == m) for m in range(self.machines))

    def optimum(self) -> int:
        return min(self.objective(a) for a in itertools.product(range(self.machines), repeat=len(self.times)))

    def model(self, solver: str) -> SmallModel:
        return self._cpsat() if solver == "cpsat" else self._mip()

    def start(self, model: SmallModel, a: tuple[int, ...]) -> tuple[tuple[Any, float], ...]:
        pairs = itertools.product(range(len(self.times)), range(self.machines))
        return tuple((v, int(a[j] == m)) for v, (j, m) in zip(model.decisions, pairs, strict=True))

    def _mip(self) -> SmallModel:
        jobs, machines = range(len(self.times)), range(self.machines)
        m = pyo.ConcreteModel()
        m.x = pyo.Var(jobs, machines, domain=pyo.Binary)
        m.T = pyo.Var(domain=pyo.NonNegativeIntegers)
        m.c1_once = pyo.Constraint(jobs, rule=lambda m, j: sum(m.x[j, k] for k in machines) == 1)
        m.t1_machine = pyo.Constraint(machines, rule=lambda m, k: sum(self.times[j] * m.x[j, k] for j in jobs) <= m.T)
        m.goal = pyo.Objective(expr=m.T)
        return SmallModel("mip", m, [m.x[j, k] for j in jobs for k in machines])

    def _cpsat(self) -> SmallModel:
        jobs, machines = range(len(self.times)), range(self.machines)
        m = cp_model.CpModel()
        x = [[m.new_bool_var(f"x{j}_{k}") for k in machines] for j in jobs]
        makespan = m.new_int_var(0, sum(self.times), "T")
        for row in x:
            m.add_exactly_one(row)
        for k in machines:
            m.add(makespan >= sum(self.times[j] * x[j][k] for j in jobs))
        m.minimize(makespan)
        return SmallModel("cpsat", m, [v for row in x for v in row])


def infeasible(solver: str) -> SmallModel:
    """c1_low, c2_high and c3_free, of which the first two can't hold together (also not without integrality)."""
    if solver == "cpsat":
        m = cp_model.CpModel()
        z = m.new_int_var(0, 9, "z")
        on = {label: m.new_bool_var(label) for label in ("c1_low", "c2_high", "c3_free")}
        m.add(z >= 5).only_enforce_if(on["c1_low"])
        m.add(z <= 3).only_enforce_if(on["c2_high"])
        m.add(z != 4).only_enforce_if(on["c3_free"])
        m.minimize(z)
        return SmallModel("cpsat", m, [z], assumptions=on)
    p = pyo.ConcreteModel()
    p.z = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    p.w = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    p.c1_low = pyo.Constraint(expr=p.z + p.w >= 5)
    p.c2_high = pyo.Constraint(expr=p.z + p.w <= 3)
    p.c3_free = pyo.Constraint(expr=p.z - p.w <= 8)
    p.goal = pyo.Objective(expr=p.z)
    return SmallModel("mip", p, [p.z])


def integer_infeasible() -> SmallModel:
    """c1_even and c2_odd contradict each other over the integers only; c3_free is in no conflict."""
    p = pyo.ConcreteModel()
    p.x = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    p.y = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    p.z = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    p.c1_even = pyo.Constraint(expr=p.z == 2 * p.x)
    p.c2_odd = pyo.Constraint(expr=p.z == 2 * p.y + 1)
    p.c3_free = pyo.Constraint(expr=p.x + p.y + p.z >= 1)
    p.goal = pyo.Objective(expr=p.x)
    return SmallModel("mip", p, [p.x, p.y])
