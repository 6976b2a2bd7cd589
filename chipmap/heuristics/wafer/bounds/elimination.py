"""Least wire and adapters at a target time, by elimination on a cactus of the kernel graph, with packing multipliers.

At a fixed time every kernel has one state (:mod:`.states`). The bound is

    min over states of  Σ clusters (least wire of the case, adapters) + Σ_r λ_r · (Σ_i load_ir - 1),   λ >= 0,

which holds because each cluster's case holds (:mod:`.clusters`), wires and adapters of edges outside the clusters
count with less than they cost, and every floorplan meets the packing inequalities (:mod:`.packing`). It is
computed exactly: clusters are eliminated from the leaves of the forest, and a message depends on the arguments h, w, c
only through which of them agree, so that eight tables of minima per member suffice instead of all pairs of states.
Adapters on a cycle: an argument that differs anywhere on it differs on at least two of its edges.

**Ranges.** Let the centres range over p half tiles in x and q in y. Then boxes meet the packing inequalities of
smaller sides (:mod:`.packing`), and all of them take parts of crosses (:mod:`.crosses`). In a connected graph the
wires have at least q half tiles in y, as a path joins the outermost centres. Where edges lie on cycles, at least two
of them cross every line between two centres that they join. So wires in y are at least d·q plus (1 - d) of their
parts on bridges and (1 - d / 2) of those on other edges, for any discount d in [0, 1]; the same holds in x with p and
a discount of its own. Discounts are multipliers as the others are. What links add is discounted as bridges are: all
lines of the proof scale x and y. Where all cases have parts in x only, the wires in y cost q in full: tables per
kernel and kind of parts so far carry this through the elimination. Of a graph with a core p and q are the ranges of
the core's centres: its wires in y are at least 2·q, bridges aren't discounted, and its other edges keep (1 - d).

**Stars.** The edges of a kernel with many neighbours cost at least what :mod:`.stars` says, a sum over their boxes, as
well as what they cost one by one. So a share z of the former and (1 - z) of the latter hold, for any z in [0, 1]: one
more multiplier. The former has parts in x and y, so it keeps (1 - d) for the larger of both discounts.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.clusters import Cases, Cluster, Plan, plan
from chipmap.heuristics.wafer.bounds.crosses import CROSSES, Crosses
from chipmap.heuristics.wafer.bounds.kernel import INFINITE, message, picks
from chipmap.heuristics.wafer.bounds.links import End, direction
from chipmap.heuristics.wafer.bounds.packing import COUNT, FloatArray, Packing, Ranges
from chipmap.heuristics.wafer.bounds.stars import Shared, StarCosts, star_costs, stars
from chipmap.heuristics.wafer.bounds.states import AGREE, States, compares_c
from chipmap.heuristics.wafer.bounds.sweep import ACROSS, UP, Option, Scale, Sent, Sweep, better, options_of
from chipmap.instances.wafer.holes import obstacles
from chipmap.instances.wafer.problem import TICKS, IntArray, WaferProblem
from chipmap.records import kept

#: Number of packing inequalities: within the ranges, and on the whole fabric.
PACKED = 2 * COUNT
#: These and the crosses.
ROWS = PACKED + CROSSES
#: Number of multipliers: those of the inequalities, the discounts in x and in y, and the share of stars.
SIZE = ROWS + 3
#: The discounts among the multipliers, and the share of stars.
DISCOUNTS, STARS = slice(ROWS, ROWS + 2), ROWS + 2


class Relaxed(NamedTuple):
    """Ticks of wire and adapters with the multipliers' parts, and the derivative by each multiplier [SIZE]."""

    value: float
    slope: FloatArray


class Elimination:
    """The program of this module for one problem, with adapters or (not ``arguments``) on the Pareto fronts without."""

    def __init__(self, problem: WaferProblem, arguments: bool):
        self.problem, self.arguments = problem, arguments
        self.plan: Plan = plan(problem)
        self.stars = stars(self.plan.clusters) if problem.instance.weights.wire else ()
        self._starred = frozenset(number for star in self.stars for number in star.clusters)
        self._star_costs: tuple[list[States], list[StarCosts]] = ([], [])
        fabric = problem.instance.fabric
        self.packing = Packing(problem.width, problem.height, kept(fabric, "_obstacles", obstacles))
        self.crosses = Crosses(problem.width, problem.height)
        self.wire = 2 * problem.instance.weights.wire
        #: A discount of 1 as a multiplier.
        self.discount = float(self.wire * 2 * max(problem.width, problem.height, 1)) or 1.0
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

    def caps(self, ranges: Ranges) -> FloatArray:
        """[SIZE] the largest multipliers: discounts are at most 1, and 0 where nothing is paid for the range; so is the
        share of stars, and 0 without stars."""
        most = [self.discount if strip.low > 0 and self.wire and self.connected else 0.0 for strip in ranges]
        twice = 0.0 if self._whole(ranges) else np.inf
        share = self.discount if self.stars else 0.0
        every = np.full(CROSSES, np.inf)
        return np.concatenate([np.full(COUNT, np.inf), np.full(COUNT, twice), every, most, [share]])

    def evaluate(self, states: list[States], ranges: Ranges, multipliers: FloatArray, deadline: Deadline) -> Relaxed:
        """The bound for these multipliers [SIZE] (it may be infinite); ``deadline`` is asked once per cluster."""
        own = [states[t] for t in self.problem.types.tolist()]
        if any(len(s.x) == 0 for s in own):
            return Relaxed(INFINITE, np.zeros(SIZE))
        strips = max(ranges.across.low, ranges.up.low) > 0 and self.connected
        shares = np.minimum(multipliers[ROWS:], self.caps(ranges)[ROWS:]) / self.discount
        less = shares[:2]
        core = self.plan.core
        scale = Scale(self.wire * (1 - (0 if core else 1) * less), self.wire * (1 - less / (1 if core else 2)))
        whole, inside = self.packing.whole, self._inside(ranges)
        penalties = [self.packing.penalty(s.x, s.y, ranges, multipliers[:COUNT]) for s in states]
        beside = [self.packing.penalty(s.x, s.y, whole, multipliers[COUNT:PACKED]) for s in states]
        crossed = [self.crosses.penalty(s.x, s.y, ranges, multipliers[PACKED:ROWS]) for s in states]
        types = self.problem.types.tolist()
        thin = np.array([min(scale.bridge[0] * s.x.min(), scale.bridge[1] * s.y.min()) for s in states])[types]
        loose = self.plan.loose
        start = [
            {
                0: penalties[types[i]] * inside[i]
                + beside[types[i]]
                + crossed[types[i]] * self._core[i]
                + loose[i] * np.minimum(scale.cycle[0] * s.x, scale.cycle[1] * s.y)
            }
            for i, s in enumerate(own)
        ]
        shared = Shared(
            self.stars, self._of_stars(states), types, float(shares[2]), self.wire * (1 - float(less.max()))
        )
        for v, cost in shared.boxes():
            start[v][0] += cost
        sweep = Sweep(own, scale, shared, thin, start)
        for number in range(len(self.plan.clusters)):
            deadline.check()
            self._send(sweep, number, strips)
        pays = self.wire * (2 if core else 1) * np.array([ranges.across.low, ranges.up.low]) * strips
        value, chosen, kinds = self._ends(sweep, pays, less)
        end = int(kinds[self.plan.roots[0]])
        lower, apart = self._trace(sweep, chosen, kinds)
        wire = shared.wire(chosen)
        lower[int(np.argmax(less))] += shared.share * self.wire * wire
        gains = np.append(pays * [bool(end & ACROSS), bool(end & UP)] - lower, shared.tick * wire - apart)
        x, y = np.array([(s.x[c], s.y[c]) for s, c in zip(own, chosen.tolist(), strict=True)]).T
        loads = [self.packing.loads(x, y, ranges) * inside, self.packing.loads(x, y, whole)]
        loads.append(self.crosses.loads(x, y, ranges) * self._core)
        slope = np.concatenate(loads).sum(axis=1) - 1
        value -= float(multipliers[:ROWS].sum()) + shared.constant
        return Relaxed(value, np.append(slope, gains / self.discount))

    def _of_stars(self, states: list[States]) -> list[StarCosts]:
        """The costs of all stars for these states, as long as the next states are the same ones."""
        if self._star_costs[0] is not states:
            width, height, types = self.problem.width, self.problem.height, self.problem.types.tolist()
            self._star_costs = states, [star_costs(star, types, states, width, height) for star in self.stars]
        return self._star_costs[1]

    def _whole(self, ranges: Ranges) -> bool:
        """Whether the ranges leave the fabric as it is."""
        return ranges.across.high >= self.problem.width and ranges.up.high >= self.problem.height

    def _inside(self, ranges: Ranges) -> NDArray[np.bool_]:
        """[n] which kernels the packing inequalities within the ranges count: where they cut the fabric, the core."""
        return np.ones(self.problem.n, bool) if self._whole(ranges) else self._core

    @cached_property
    def _core(self) -> NDArray[np.bool_]:
        """[n] the kernels whose centres lie within the ranges: of a graph with a core, the core's."""
        return ~self.plan.outside if self.plan.core else np.ones(self.problem.n, bool)

    def _ends(self, sweep: Sweep, pays: FloatArray, less: FloatArray) -> tuple[float, IntArray, IntArray]:
        """The value, the state and kind of every root. Ranges are paid for in full where no parts lie along them."""
        value, chosen, kinds = 0.0, np.zeros(self.problem.n, np.int64), np.zeros(self.problem.n, np.int64)
        for root in self.plan.roots:
            best = INFINITE
            for kind, table in sweep.values[root].items():
                s = int(np.argmin(table))
                share = np.where([kind & ACROSS, kind & UP], less, 1.0)
                end = float(table[s]) + float(share @ pays)
                if end < best:
                    best, chosen[root], kinds[root] = end, s, kind
            value += best
        return value, chosen, kinds

    def _send(self, sweep: Sweep, number: int, strips: bool) -> None:
        """Eliminate the members of a cluster but its root."""
        cluster, less, sent = self.plan.clusters[number], sweep.stars.share if number in self._starred else 0.0, {}
        root = cluster.members[-1]
        for kind, options in options_of(cluster.shape, strips, less > 0).items():
            if (part := self._message(sweep, cluster, options, 1 - less)) is not None:
                sent[kind] = part
        before, after = sweep.values[root], dict[int, FloatArray]()
        for kind, table in before.items():
            for other, part in sent.items():
                total = table + part.added
                after[kind | other] = np.minimum(after[kind | other], total) if kind | other in after else total
        sweep.values[root] = after
        sweep.before.append(before)
        sweep.sent.append(sent)

    def _message(self, sweep: Sweep, cluster: Cluster, options: list[Option], share: float) -> Sent | None:
        """The best of the options for every state of the root, with a share of the parts (not of what links add); None
        if their tables are missing."""
        if cluster.link:
            return self._link_message(sweep, cluster, options)
        top, boxes, best = sweep.own[cluster.members[-1]], sweep.boxes(cluster), None
        lattice = top.lattice.merges, np.repeat(self._adapters(cluster), top.lattice.counts)
        for number, (cases, kinds) in enumerate(options):
            if (values := sweep.least(cluster, kinds)) is None:
                continue
            ends = sweep.thin[np.array(cluster.links)[cases.link]]
            constants = 4.0 * np.where(cases.link >= 0, ends, 0)
            shape = (
                share * sweep.scale.parts(cases.coefficients, cluster.looped),
                cases.chosen,
                share * sweep.scale.parts(cases.root, cluster.looped),
                constants,
            )
            added, case = message((values, *boxes), (top.x, top.y, top.groups), shape, lattice)
            best = better(best, Sent(options, added, np.full(len(added), number), case))
        return best

    def _adapters(self, cluster: Cluster) -> FloatArray:
        """[masks] what a cluster's adapters cost where its members agree as the mask says."""
        with_c = compares_c(self.problem, self.problem.types[list(cluster.members)].tolist())
        return self._costs[cluster.shape.factor, with_c]

    def _link_message(self, sweep: Sweep, cluster: Cluster, options: list[Option]) -> Sent | None:
        """As :meth:`_message`, for an edge that is a link (:class:`.links.End`)."""
        top, boxes, best = sweep.own[cluster.members[-1]], sweep.boxes(cluster), None
        lattice = top.lattice.merges, np.repeat(self._adapters(cluster), top.lattice.counts)
        shape = np.zeros((1, 2)), np.zeros((1, 1), np.int64), np.zeros((1, 2)), np.zeros(1)
        ends = [self._end(sweep, cluster, place).costs() for place in (0, 1)]
        for number, (cases, kinds) in enumerate(options):
            if (values := sweep.least(cluster, kinds)) is None:
                continue
            for case, row in enumerate(cases.root):
                members = values + ends[0][direction(row)], *boxes
                added, _ = message(members, (top.x, top.y, top.groups), shape, lattice)
                added += ends[1][direction(row)]
                best = better(best, Sent(options, added, np.full(len(added), number), np.full(len(added), case)))
        return best

    def _picks(self, sweep: Sweep, cluster: Cluster, option: Option, case: int, state: int, share: float) -> list[int]:
        """The members' states that go with a state of the root and a case."""
        (cases, kinds), root = option, sweep.own[cluster.members[-1]]
        values = sweep.least(cluster, kinds)
        assert values is not None
        coefficients = share * sweep.scale.parts(cases.full[case, :-1], cluster.looped)
        if cluster.link:
            coefficients = np.zeros((1, 2))
            values = values + self._end(sweep, cluster, 0).costs()[direction(cases.root[case])]
        lattice = root.lattice.numbers, self._adapters(cluster)
        found: IntArray = picks((values, *sweep.boxes(cluster)), int(root.groups[state]), coefficients, lattice)
        return found.tolist()

    def _end(self, sweep: Sweep, cluster: Cluster, place: int) -> End:
        """One of the ends of a link."""
        claimed, own = cluster.links[place], sweep.own[cluster.members[place]]
        other = sweep.own[claimed] if claimed in cluster.members else None
        return End(own, other, sweep.scale.bridge)

    def _trace(self, sweep: Sweep, chosen: IntArray, kinds: IntArray) -> tuple[FloatArray, float]:
        """Fill in the states that give the value, from the roots.

        Returns [2] by how much a discount of 1 lowers it, and what the edges of stars cost one by one.
        """
        lower, apart = np.zeros(2), 0.0
        for number in range(len(self.plan.clusters) - 1, -1, -1):
            cluster = self.plan.clusters[number]
            *others, root = cluster.members
            sent, before, s = sweep.sent[number], sweep.before[number], chosen[root]
            pairs = [(a, b) for a in before for b in sent if a | b == kinds[root]]
            kinds[root], kind = min(pairs, key=lambda pair: before[pair[0]][s] + sent[pair[1]].added[s])
            part = sent[kind]
            (cases, allowed), case = part.options[part.option[s]], int(part.case[s])
            share = 1 - sweep.stars.share if number in self._starred else 1.0
            found = self._picks(sweep, cluster, (cases, allowed), case, int(s), share)
            for v, some, pick in zip(others, allowed, found, strict=True):
                chosen[v] = pick
                kinds[v] = min((k for k in some if k in sweep.values[v]), key=lambda k: sweep.values[v][k][pick])
            if cluster.link:
                at, picked = direction(cases.root[case]), chosen[list(cluster.members)].tolist()
                ends = [self._end(sweep, cluster, place).discounted(at, s) for place, s in enumerate(picked)]
                taken = self.wire * np.sum(ends, axis=0)
            else:
                taken = self._discounted(sweep, cluster, cases, case, chosen)
            if number in self._starred:
                taken *= share
                parts = sweep.scale.parts(cases.full[case], cluster.looped)
                apart += float((parts * sweep.sides(cluster.members, chosen)).sum())
            lower += taken
        return lower + self._loose(sweep, chosen), apart

    def _loose(self, sweep: Sweep, chosen: IntArray) -> FloatArray:
        """[2] ticks of edges outside the clusters that a discount of 1 takes away."""
        lower = np.zeros(2)
        for v in np.flatnonzero(self.plan.loose).tolist():
            sides = sweep.sides((v,), chosen)[0]
            at = int(np.argmin(sweep.scale.cycle * sides))
            lower[at] += self.wire * self.plan.loose[v] * sides[at] / (1 if self.plan.core else 2)
        return lower

    def _discounted(self, sweep: Sweep, cluster: Cluster, cases: Cases, case: int, chosen: IntArray) -> FloatArray:
        """[2] ticks of a cluster's parts in x and in y that a discount of 1 takes away."""
        full = cases.full[case]
        factors = (0.0, 1.0) if self.plan.core else (1.0, 0.5)
        parts = full[:, :2] * factors[cluster.looped] + full[:, 2:]
        taken: FloatArray = self.wire * (parts * sweep.sides(cluster.members, chosen)).sum(axis=0)
        if cases.link[case] >= 0:
            other = sweep.own[cluster.links[cases.link[case]]]
            least = np.array([other.x.min(), other.y.min()])
            at = np.argmin(sweep.scale.bridge * least)
            taken[at] += 4 * self.wire * least[at]
        return taken
