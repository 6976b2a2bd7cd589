"""Least wire and adapters at a target time, by elimination on a cactus of the kernel graph, with packing multipliers.

At a fixed time every kernel has one state (:mod:`bounds_states`). The bound is

    min over states of  Σ clusters (least wire of the case, adapters) + Σ_r λ_r · (Σ_i load_ir - 1),   λ >= 0,

which holds because each cluster's case holds (:mod:`bounds_clusters`), wires and adapters of edges outside the clusters
count with less than they cost, and every floorplan meets the packing inequalities (:mod:`bounds_packing`). It is
computed exactly: clusters are eliminated from the leaves of the forest, and a message depends on the arguments h, w, c
only through which of them agree, so that eight tables of minima per member suffice instead of all pairs of states.
Adapters on a cycle: an argument that differs anywhere on it differs on at least two of its edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds_clusters import Cluster, Plan, plan
from chipmap.heuristics.wafer.bounds_kernel import INFINITE, message
from chipmap.heuristics.wafer.bounds_packing import COUNT, FloatArray
from chipmap.heuristics.wafer.bounds_states import AGREE, States, Tables
from chipmap.instances.wafer.costs import TICKS, WaferProblem


class Relaxed(NamedTuple):
    """Ticks of wire and adapters (with the multipliers' part) and what the chosen states take of each inequality."""

    value: float
    load: FloatArray


class Elimination:
    """The program of this module for one problem."""

    def __init__(self, problem: WaferProblem, tables: Tables):
        self.problem, self.tables = problem, tables
        self.plan: Plan = plan(problem)
        self._masks = {
            (factor, with_c): (self._costs(factor, with_c), tables.groups - 1) for factor in (1, 2) for with_c in (0, 1)
        }

    def _costs(self, factor: int, with_c: int) -> FloatArray:
        if not self.tables.adapters:
            return np.zeros(1)
        adapter = TICKS * self.problem.instance.weights.adapter * factor
        return np.array([adapter * ((not h) + (not w) + with_c * (not c)) for h, w, c in AGREE], dtype=np.float64)

    def _counts_c(self, cluster: Cluster) -> int:
        """Whether c is compared within the cluster: one convolution per kernel, so that c_1 = c_n = c."""
        single = all(len(self.problem.convs[v]) == 1 for v in cluster.members)
        return int(single and self.problem.instance.protocol == "c_n")

    def evaluate(self, states: list[States], multipliers: FloatArray, check: Callable[[], None]) -> Relaxed:
        """The bound for these multipliers (its value may be infinite); ``check`` is called now and then."""
        wire = 2 * self.problem.instance.weights.wire
        own = [states[t] for t in self.problem.types.tolist()]
        if any(len(s.x) == 0 for s in own):
            return Relaxed(INFINITE, np.zeros(COUNT))
        values = [
            wire * loose * np.minimum(s.x, s.y) + s.load @ multipliers
            for s, loose in zip(own, self.plan.loose.tolist(), strict=True)
        ]
        loads = [s.load for s in own]
        for cluster in self.plan.clusters:
            check()
            *others, root = cluster.members
            added, picks = self._message(cluster, own, values)
            values[root] = values[root] + added
            loads[root] = loads[root] + sum(loads[v][picks[:, j]] for j, v in enumerate(others))
        value, load = -float(multipliers.sum()), np.zeros(COUNT)
        for root in self.plan.roots:
            best = int(np.argmin(values[root]))
            value += float(values[root][best])
            load += loads[root][best]
        return Relaxed(value, load)

    def _message(self, cluster: Cluster, own: list[States], values: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        wire = 2 * self.problem.instance.weights.wire
        *others, root = cluster.members
        start = np.cumsum([0] + [len(own[v].x) for v in others])
        members = (
            np.concatenate([values[v] for v in others]),
            np.concatenate([own[v].x for v in others]),
            np.concatenate([own[v].y for v in others]),
            np.concatenate([own[v].groups for v in others]),
            start,
        )
        shape = (wire * cluster.shape.coefficients, cluster.shape.chosen, wire * cluster.shape.root)
        masks = self._masks[cluster.shape.factor, self._counts_c(cluster)]
        top = (own[root].x, own[root].y, own[root].groups)
        added, picks = message(members, top, shape, masks, self.tables.groups)
        return added, picks
