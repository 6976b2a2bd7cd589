"""Least wire and adapters at a target time, by elimination on a cactus of the kernel graph, with packing multipliers.

At a fixed time every kernel has one state (:mod:`.states`). The bound is

    min over states of  Σ clusters (least wire of the case, adapters) + Σ_r λ_r · (Σ_i load_ir - 1),   λ >= 0,

which holds because each cluster's case holds (:mod:`.clusters`), wires and adapters of edges outside the clusters
count with less than they cost, and every floorplan meets the packing inequalities (:mod:`.packing`). It is
computed exactly: clusters are eliminated from the leaves of the forest, and a message depends on the arguments h, w, c
only through which of them agree, so that eight tables of minima per member suffice instead of all pairs of states.
Adapters on a cycle: an argument that differs anywhere on it differs on at least two of its edges.

**Strips.** Let the centres range over r half tiles in y. In a connected graph the wires have at least r half tiles in
y: a path joins the lowest centre to the highest. So where all cases have parts in x only, the wire is at least their
sum plus r. On a square fabric a floorplan may be transposed, so that the centres range over no less in x than in y:
where all cases have parts in y only, the wire is at least their sum plus r as well. Tables per kernel and kind of parts
so far carry this through the elimination; r <= r_high gives two more packing inequalities. So either all kernels share
a row, or wires pay the way up, or some neighbours lie above each other and others beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.clusters import Cases, Cluster, Plan, Shape, plan
from chipmap.heuristics.wafer.bounds.kernel import INFINITE, message
from chipmap.heuristics.wafer.bounds.packing import COUNT, FloatArray, Packing
from chipmap.heuristics.wafer.bounds.states import AGREE, States, Tables
from chipmap.instances.wafer.holes import obstacles
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem
from chipmap.records import kept

#: Kinds of parts that a table counts with, as bits, and sets of kinds.
UP, ACROSS, BOTH = 1, 2, 3
ONLY_UP, ONLY_ACROSS, SOME_UP, SOME_ACROSS = (0, UP), (0, ACROSS), (UP, BOTH), (ACROSS, BOTH)
ANY = (0, UP, ACROSS, BOTH)


class Strip(NamedTuple):
    """The centres' y range over ``low`` to ``high`` half tiles."""

    low: int
    high: int


class Relaxed(NamedTuple):
    """Ticks of wire and adapters with the multipliers' parts, and the derivative by each multiplier [COUNT]."""

    value: float
    slope: FloatArray


#: Cases of a cluster and, for each member but the root, the kinds of its tables that go with them.
Option = tuple[Cases, list[tuple[int, ...]]]


class _Sent(NamedTuple):
    """What a cluster adds to its root's states, the option that gives it, and the members' states and the case."""

    options: list[Option]
    added: FloatArray
    option: IntArray
    picks: IntArray


@dataclass(eq=False)
class _Sweep:
    """One elimination: each kernel's states, the least side of its boxes and its tables by kind; what each cluster sent
    by kind, its root's before."""

    own: list[States]
    thin: IntArray
    values: list[dict[int, FloatArray]]
    sent: list[dict[int, _Sent]] = field(default_factory=list)
    before: list[dict[int, FloatArray]] = field(default_factory=list)


class Elimination:
    """The program of this module for one problem, with adapters or (not ``arguments``) on the Pareto fronts without."""

    def __init__(self, problem: WaferProblem, tables: Tables, arguments: bool):
        self.problem, self.arguments = problem, arguments
        self.groups = tables.groups if arguments else 1
        self.plan: Plan = plan(problem)
        fabric = problem.instance.fabric
        self.packing = Packing(problem.width, problem.height, kept(fabric, "_obstacles", obstacles))
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

    def evaluate(self, states: list[States], strip: Strip, multipliers: FloatArray, deadline: Deadline) -> Relaxed:
        """The bound for these multipliers λ [COUNT] (it may be infinite); ``deadline`` is asked once per cluster."""
        own = [states[t] for t in self.problem.types.tolist()]
        if any(len(s.x) == 0 for s in own):
            return Relaxed(INFINITE, np.zeros(COUNT))
        strips = strip.low > 0 and self.connected
        penalties = [self.packing.penalty(s.x, s.y, strip.high, multipliers) for s in states]
        loose = self.plan.loose.tolist()
        types = self.problem.types.tolist()
        thin = np.array([min(s.x.min(), s.y.min()) for s in states])[types]
        sweep = _Sweep(own, thin, [self._start(s, penalties[types[i]], loose[i], strips) for i, s in enumerate(own)])
        for cluster in self.plan.clusters:
            deadline.check()
            self._send(sweep, cluster, strips)
        value, chosen, kind = self._ends(sweep, self.wire * strip.low if strips else 0)
        self._trace(sweep, chosen, kind)
        x, y = np.array([(s.x[c], s.y[c]) for s, c in zip(own, chosen.tolist(), strict=True)]).T
        slope = self.packing.loads(x, y, strip.high).sum(axis=1) - 1
        return Relaxed(value - float(multipliers.sum()), slope)

    def _start(self, s: States, penalty: FloatArray, loose: int, strips: bool) -> dict[int, FloatArray]:
        """A kernel's own tables; a loose edge costs its ends' parts in x or in y."""
        across, up = self.wire * loose * s.x, self.wire * loose * s.y
        if not strips or not loose:
            return {0: penalty + np.minimum(across, up)}
        tables = {UP: penalty + up, ACROSS: penalty + across}
        return tables | {BOTH: penalty + np.minimum(across, up)} if loose > 1 else tables

    def _ends(self, sweep: _Sweep, way_up: int) -> tuple[float, IntArray, IntArray]:
        """The value, and the state and kind of every root."""
        value, chosen, kinds = 0.0, np.zeros(self.problem.n, np.int64), np.zeros(self.problem.n, np.int64)
        square = self.problem.width == self.problem.height and self.problem.room is None
        for root in self.plan.roots:
            best = INFINITE
            for kind, table in sweep.values[root].items():
                s = int(np.argmin(table))
                end = float(table[s]) + (way_up if kind == ACROSS or (kind == UP and square) else 0)
                if end < best:
                    best, chosen[root], kinds[root] = end, s, kind
            value += best
        return value, chosen, kinds

    def _send(self, sweep: _Sweep, cluster: Cluster, strips: bool) -> None:
        """Eliminate the members of a cluster but its root."""
        root = cluster.members[-1]
        sent = {}
        for kind, options in _options(cluster.shape, strips).items():
            if (part := self._message(sweep, cluster, options)) is not None:
                sent[kind] = part
        before, after = sweep.values[root], dict[int, FloatArray]()
        for kind, table in before.items():
            for other, part in sent.items():
                total = table + part.added
                after[kind | other] = np.minimum(after[kind | other], total) if kind | other in after else total
        sweep.values[root] = after
        sweep.before.append(before)
        sweep.sent.append(sent)

    def _message(self, sweep: _Sweep, cluster: Cluster, options: list[Option]) -> _Sent | None:
        """The best of the options for every state of the root; None if their tables are missing."""
        *others, root = cluster.members
        own = [sweep.own[v] for v in others]
        start = np.cumsum([0] + [len(s.x) for s in own])
        boxes = tuple(np.concatenate([getattr(s, name) for s in own]) for name in ("x", "y", "groups"))
        top = (sweep.own[root].x, sweep.own[root].y, sweep.own[root].groups)
        # c is compared where all have one convolution, so that c_1 = c_n = c
        single = all(len(self.problem.convs[v]) == 1 for v in cluster.members)
        with_c = single and self.problem.instance.protocol == "c_n"
        masks = (self._costs[cluster.shape.factor, with_c], self.groups - 1)
        best: _Sent | None = None
        for number, (cases, kinds) in enumerate(options):
            tables = [
                [sweep.values[v][kind] for kind in allowed if kind in sweep.values[v]]
                for v, allowed in zip(others, kinds, strict=True)
            ]
            if not all(tables):
                continue
            values = np.concatenate([np.minimum.reduce(some) for some in tables])
            ends = sweep.thin[np.array(cluster.links)[cases.link]]
            constants = self.wire * 4 * np.where(cases.link >= 0, ends, 0)
            shape = (self.wire * cases.coefficients, cases.chosen, self.wire * cases.root, constants)
            added, picks = message((values, *boxes, start), top, shape, masks, self.groups)
            if best is None:
                best = _Sent(options, added, np.full(len(added), number), picks)
            else:
                better = added < best.added
                best.added[better], best.picks[better], best.option[better] = added[better], picks[better], number
        return best

    def _trace(self, sweep: _Sweep, chosen: IntArray, kinds: IntArray) -> None:
        """Fill in the states that give the value, from the roots."""
        for number in range(len(self.plan.clusters) - 1, -1, -1):
            *others, root = self.plan.clusters[number].members
            sent, before, s = sweep.sent[number], sweep.before[number], chosen[root]
            pairs = [(a, b) for a in before for b in sent if a | b == kinds[root]]
            kinds[root], kind = min(pairs, key=lambda pair: before[pair[0]][s] + sent[pair[1]].added[s])
            part = sent[kind]
            allowed = part.options[part.option[s]][1]
            for j, v in enumerate(others):
                chosen[v] = pick = part.picks[s, j]
                kinds[v] = min((k for k in allowed[j] if k in sweep.values[v]), key=lambda k: sweep.values[v][k][pick])


def _options(shape: Shape, strips: bool) -> dict[int, list[Option]]:
    """By the kind of what is sent: the cases and the kinds of the members' tables."""
    count = shape.every.chosen.shape[1]
    if not strips:
        return {0: [(shape.every, [(0,)] * count)]}
    mixed: list[Option] = [(shape.both, [ANY] * count)] if shape.both else []
    for j in range(count):
        for cases, some in ((shape.across, SOME_UP), (shape.up, SOME_ACROSS)):
            mixed.append((cases, [some if i == j else ANY for i in range(count)]))
    return {UP: [(shape.up, [ONLY_UP] * count)], ACROSS: [(shape.across, [ONLY_ACROSS] * count)], BOTH: mixed}
