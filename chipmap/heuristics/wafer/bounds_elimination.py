"""Least wire and adapters at a target time, by elimination on a cactus of the kernel graph, with packing multipliers.

At a fixed time every kernel has one state (:mod:`bounds_states`). The bound is

    min over states of  Σ clusters (least wire of the case, adapters) + Σ_r λ_r · (Σ_i load_ir - 1),   λ >= 0,

which holds because each cluster's case holds (:mod:`bounds_clusters`), wires and adapters of edges outside the clusters
count with less than they cost, and every floorplan meets the packing inequalities (:mod:`bounds_packing`). It is
computed exactly: clusters are eliminated from the leaves of the forest, and a message depends on the arguments h, w, c
only through which of them agree, so that eight tables of minima per member suffice instead of all pairs of states.
Adapters on a cycle: an argument that differs anywhere on it differs on at least two of its edges.

**Strips.** Let the centres' y range over r half tiles. In a connected graph the wires have at least r half tiles in y:
a path joins the lowest centre to the highest. So for r >= r_low the wire is at least

    Σ X-parts of the cases + r_low                            where no case has a part in y,
    Σ X-parts of the cases + (1 - m)·Σ Y-parts + m·r_low      otherwise, for every m in [0, 1],

while r <= r_high gives two more packing inequalities. A fold thus pays its way up; kernels that don't fold share one
row. Two tables per kernel, without and with a part in y so far, carry this through the elimination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds_clusters import Cases, Cluster, Plan, plan
from chipmap.heuristics.wafer.bounds_kernel import INFINITE, message
from chipmap.heuristics.wafer.bounds_packing import COUNT, FloatArray, Packing
from chipmap.heuristics.wafer.bounds_states import AGREE, States, Tables
from chipmap.instances.wafer.costs import TICKS, IntArray, WaferProblem


class Strip(NamedTuple):
    """The centres' y ranges over ``low`` to ``high`` half tiles."""

    low: int
    high: int


class Relaxed(NamedTuple):
    """Ticks of wire and adapters with the multipliers' parts, and the derivative by each multiplier [COUNT + 1]."""

    value: float
    slope: FloatArray


class _Sent(NamedTuple):
    """What a cluster adds to its root's states, the members' states and case [s, members], and their flags."""

    added: FloatArray
    picks: IntArray
    cases: list[Cases]
    #: Per alternative which member must have a part in y (-1: none must, -2: none may), and the alternative per state.
    forced: list[int]
    alternative: IntArray


@dataclass(eq=False)
class _Pass:
    """The tables of one elimination: per kernel without (0) and with (1) a part in y; per cluster what was sent."""

    own: list[States]
    values: list[list[FloatArray]]
    sent: list[list[_Sent]] = field(default_factory=list)
    before: list[list[FloatArray]] = field(default_factory=list)


class Elimination:
    """The program of this module for one problem, with adapters or (``arguments`` False) on the Pareto fronts without.

    ``multipliers`` [COUNT + 1]: λ >= 0 of the packing inequalities and m·r_low in ticks.
    """

    def __init__(self, problem: WaferProblem, tables: Tables, arguments: bool):
        self.problem, self.arguments = problem, arguments
        self.groups = tables.groups if arguments else 1
        self.plan: Plan = plan(problem)
        self.packing = Packing(problem.width, problem.height)
        self.wire = 2 * problem.instance.weights.wire
        self._costs = {(f, c): self._mask_costs(f, c) for f in (1, 2) for c in (False, True)}

    @property
    def connected(self) -> bool:
        """Whether strips mean anything: a path joins any two kernels."""
        return len(self.plan.roots) == 1

    def _mask_costs(self, factor: int, with_c: bool) -> FloatArray:
        if not self.arguments:
            return np.zeros(1)
        adapter = TICKS * self.problem.instance.weights.adapter * factor
        return np.array([adapter * ((not h) + (not w) + with_c * (not c)) for h, w, c in AGREE], dtype=np.float64)

    def _counts_c(self, cluster: Cluster) -> bool:
        """Whether c is compared within the cluster: one convolution per kernel, so that c_1 = c_n = c."""
        single = all(len(self.problem.convs[v]) == 1 for v in cluster.members)
        return single and self.problem.instance.protocol == "c_n"

    def evaluate(
        self, states: list[States], strip: Strip, multipliers: FloatArray, check: Callable[[], None]
    ) -> Relaxed:
        """The bound for these multipliers (its value may be infinite); ``check`` is called now and then."""
        own = [states[t] for t in self.problem.types.tolist()]
        if any(len(s.x) == 0 for s in own):
            return Relaxed(INFINITE, np.zeros(COUNT + 1))
        full = self.wire * strip.low
        share = float(multipliers[-1]) / full if full else 0.0
        penalties = [self.packing.penalty(s.x, s.y, strip.high, multipliers[:-1]) for s in states]
        sweep = _Pass(own, [])
        for i, s in enumerate(own):
            sweep.values.append(self._start(s, penalties[self.problem.types[i]], int(self.plan.loose[i]), full, share))
        for cluster in self.plan.clusters:
            check()
            self._send(sweep, cluster, full > 0, share)
        value, chosen, flag = 0.0, np.zeros(self.problem.n, np.int64), np.zeros(self.problem.n, np.int64)
        for root in self.plan.roots:
            ends = [sweep.values[root][0] + full, sweep.values[root][1] + float(multipliers[-1])]
            flag[root] = int(ends[1].min() < ends[0].min())
            chosen[root] = int(np.argmin(ends[flag[root]]))
            value += float(ends[flag[root]][chosen[root]])
        bent = bool(flag.any())
        up = self._trace(sweep, chosen, flag)
        slope = self._slope(sweep, chosen, strip, up if bent else -1, share)
        return Relaxed(value - float(multipliers[:-1].sum()), slope)

    def _start(self, s: States, penalty: FloatArray, loose: int, full: float, share: float) -> list[FloatArray]:
        """A kernel's own cost; its loose edges cost their ends' parts in x or in y."""
        if full == 0:
            return [penalty + self.wire * loose * np.minimum(s.x, s.y), np.full(len(s.x), INFINITE)]
        bent = np.full(len(s.x), INFINITE)
        if loose:
            bent = penalty + self.wire * loose * np.minimum(s.x, (1 - share) * s.y)
        return [penalty + self.wire * loose * s.x, bent]

    def _send(self, sweep: _Pass, cluster: Cluster, strips: bool, share: float) -> None:
        """Eliminate the members of a cluster but its root."""
        *others, root = cluster.members
        shape, values = cluster.shape, sweep.values
        straight = [values[v][0] for v in others]
        sweep.before.append(values[root])
        if not strips:
            sent = [self._message(sweep, cluster, [(shape.every, straight, -2)], share)]
            values[root] = [values[root][0] + sent[0].added, values[root][1]]
        else:
            either = [np.minimum(*values[v]) for v in others]
            bent = [(shape.moving, either, -1)]
            for j, v in enumerate(others):
                if np.isfinite(values[v][1]).any():
                    bent.append((shape.still, [*either[:j], values[v][1], *either[j + 1 :]], j))
            sent = [self._message(sweep, cluster, part, share) for part in ([(shape.still, straight, -2)], bent)]
            zero, one = values[root]
            added = sent[0].added, sent[1].added
            values[root] = [zero + added[0], np.minimum(zero + added[1], one + np.minimum(*added))]
        sweep.sent.append(sent)

    def _message(
        self, sweep: _Pass, cluster: Cluster, parts: list[tuple[Cases, list[FloatArray], int]], share: float
    ) -> _Sent:
        """The best of several alternatives (cases, the other members' values, which member is forced)."""
        *others, root = cluster.members
        own = [sweep.own[v] for v in others]
        start = np.cumsum([0] + [len(s.x) for s in own])
        boxes = tuple(np.concatenate([getattr(s, name) for s in own]) for name in ("x", "y", "groups"))
        top = (sweep.own[root].x, sweep.own[root].y, sweep.own[root].groups)
        masks = (self._costs[cluster.shape.factor, self._counts_c(cluster)], self.groups - 1)
        scale = self.wire * np.array([1.0, 1.0 - share])
        best: _Sent | None = None
        for number, (cases, values, _) in enumerate(parts):
            shape = (scale * cases.coefficients, cases.chosen, scale * cases.root)
            added, picks = message((np.concatenate(values), *boxes, start), top, shape, masks, self.groups)
            if best is None:
                best = _Sent(added, picks, [p[0] for p in parts], [p[2] for p in parts], np.zeros(len(added), np.int64))
            else:
                better = added < best.added
                best.added[better], best.picks[better], best.alternative[better] = added[better], picks[better], number
        assert best is not None
        return best

    def _trace(self, sweep: _Pass, chosen: IntArray, flag: IntArray) -> int:
        """Fill in the states that give the value, from the roots; returns the half tiles of the cases in y."""
        up = 0
        for number in range(len(self.plan.clusters) - 1, -1, -1):
            *others, root = self.plan.clusters[number].members
            sent, (zero, one), s = sweep.sent[number], sweep.before[number], chosen[root]
            kind = 0
            if flag[root]:
                added = sent[0].added[s], sent[1].added[s]
                was = int(one[s] + min(added) < zero[s] + added[1])
                kind = int(not was or added[1] < added[0])
                flag[root] = was
            picks, alternative = sent[kind].picks[s], sent[kind].alternative[s]
            forced = sent[kind].forced[alternative]
            for j, v in enumerate(others):
                chosen[v] = picks[j]
                low, high = sweep.values[v][0][picks[j]], sweep.values[v][1][picks[j]]
                flag[v] = int(forced == j or (forced != -2 and high < low))
            boxes = [sweep.own[v].y[chosen[v]] for v in (*others, root)]
            up += int(sent[kind].cases[alternative].full[picks[-1], :, 1] @ np.array(boxes))
        return up

    def _slope(self, sweep: _Pass, chosen: IntArray, strip: Strip, up: int, share: float) -> FloatArray:
        """The derivatives at the chosen states; ``up``: half tiles of the cases in y, -1 where there is no case in y."""
        x = np.array([s.x[c] for s, c in zip(sweep.own, chosen.tolist(), strict=True)])
        y = np.array([s.y[c] for s, c in zip(sweep.own, chosen.tolist(), strict=True)])
        excess = self.packing.loads(x, y, strip.high).sum(axis=1) - 1
        if strip.low == 0 or up < 0:
            return np.append(excess, 0.0)
        up += int((self.plan.loose * y)[(1 - share) * y < x].sum())
        return np.append(excess, 1 - up / strip.low)
