"""CU.POKer: kernels sized exactly for a target time and placed row by row, with searches over the target time.

Source: B. Jiang, J. Chen, J. Liu, L. Liu, F. Wang, X. Zhang, E. F. Y. Young, "CU.POKer: Placing DNNs on Wafer-Scale AI
Accelerator with Optimal Kernel Sizing", ICCAD 2020. Where the slides are silent, the reading is the one that gives
their figures: both orientations of a kernel are candidates; sizes are exact for the target time (a scan of targets
with the slides' rounded k reached neither A's nor I's published layout, nor E's wire); rows run to the right and to
the left in turn, each from its edge of the fabric, kernels centred in them; the row search minimises weighted wire and
adapters; c is at most the least C of a kernel's convolutions; refinement comes once, at the end, without annealing. At
the published times this has the published wire on E, I, N, O and T to the half tile, and the published adapters before
refinement on C, D, E, F, G, J and P. At target times 441 (K), 882 (L, Q) and 8970 (R) it has the published adapters
before refinement, and after it the published layouts of K, L and R and the wire of Q: exactly, as the tests state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.published import cu_poker_kernel as compiled
from chipmap.heuristics.wafer.published.cu_poker_refine import refine
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, IntArray, Parts, WaferProblem, depth_first_order, evaluate
from chipmap.instances.wafer.shapes import Shape, place, ports, shapes
from chipmap.networks.graph import neighbours

#: Rows tried at one target time before the search settles for what it has.
NODES = 400_000
#: States remembered by the search at one target time.
STATES = 1 << 16
#: The sweep over the target time goes up by 1/SWEEP of it; then steps finer by each factor, STEPS to either side.
SWEEP = 100
FINER = (4, 16, 64)
STEPS = 6
#: Targets of the sweep at most (where time weighs nothing).
MOST_STEPS = 1000


class Sized(NamedTuple):
    """Everything that one target time fixes: the shapes, and per type and allowed height the shape taken."""

    tau: int
    shapes: tuple[IntArray, ...]
    pick: IntArray
    boxes: compiled.Boxes
    rows: compiled.Rows
    least: IntArray


class Placer:
    """Row-by-row placement of one problem in depth-first order, at any target time.

    ``within`` sizes kernels with c at most the least C of their convolutions, as the published layouts do.
    """

    def __init__(self, problem: WaferProblem, within: bool = False) -> None:
        self.problem, self.within = problem, within
        self.order = depth_first_order(problem).tolist()
        n = problem.n
        ends = np.sort(np.argsort(self.order)[problem.edges], axis=1)
        before = neighbours(n, ends[:, ::-1].tolist())
        last = np.arange(n)
        np.maximum.at(last, ends[:, 0], ends[:, 1])
        table = np.full((n, max(map(len, before)) + 1), -1, dtype=np.int64)
        for i, members in enumerate(before):
            table[i, : len(members)] = members
        weights = problem.instance.weights
        ticks = np.array([2 * weights.wire, TICKS * weights.adapter], dtype=np.int64)
        self.course = compiled.Course(problem.types[self.order], table, last, ticks)
        seen = np.zeros((STATES, 2), dtype=np.int64)
        entry, floor, cost, start, x, y, cap, best = np.zeros((8, n + 2), dtype=np.int64)
        self._search = compiled.Search(entry, floor, cost, start, x, y, cap, best, seen)

    def size(self, tau: int, every: bool = False) -> Sized | None:
        """The shapes and rows within ``tau`` quarters; None where a kernel has no shape. ``every`` keeps redundant
        heights."""
        problem = self.problem
        found = shapes(problem, tau, self.within)
        if not all(len(boxes) for boxes in found):
            return None
        heights = np.arange(problem.height + 1)
        pick = np.stack([np.searchsorted(boxes[:, 1], heights, "right") - 1 for boxes in found])
        allowed = pick >= 0
        take = np.maximum(pick, 0)
        width = np.stack([boxes[take[t], 0] for t, boxes in enumerate(found)])
        height = np.stack([boxes[take[t], 1] for t, boxes in enumerate(found)])
        sockets = np.stack([ports(problem, t, boxes, tau)[take[t]] for t, boxes in enumerate(found)])
        boxes = compiled.Boxes(
            np.where(allowed, width, compiled.INFINITE), np.where(allowed, height, compiled.INFINITE), sockets
        )
        caps = np.unique(np.concatenate([boxes[:, 1] for boxes in found]))
        rows = compiled.list_rows(self.course, boxes, caps, problem.width, every)
        return Sized(tau, found, pick, boxes, rows, compiled.least_heights(rows))

    def fits(self, tau: int) -> bool:
        """Whether the rows can fit the fabric at ``tau``: exact for this placement in this order."""
        sized = self.size(tau)
        return sized is not None and int(sized.least[0]) <= self.problem.height

    def cost(self, sized: Sized, nodes: int = NODES) -> int | None:
        """The least cost of wire and adapters (ticks) that is found; its rows stay in the search. None: they don't fit.

        The limit on the cost starts at the lower bound and grows, so that few rows are tried: no layout under a limit
        that was searched through is lost. With ``nodes`` rows tried in vain, the rows of least bound are taken.
        """
        problem, search = self.problem, self._search
        bound = compiled.least_costs(self.course, sized.boxes, sized.rows, sized.least, problem.height)
        floor = int(bound[0, 0])
        if floor >= compiled.INFINITE:
            return None
        step = max(2, floor // 64)
        while nodes > 0:
            found, nodes = compiled.place_rows(
                self.course, sized.boxes, sized.rows, bound, search, problem.width, floor + step, nodes
            )
            if found < compiled.INFINITE:
                return int(found)
            step += max(2, step // 2)
        return int(compiled.follow_bound(self.course, sized.boxes, sized.rows, bound, search, problem.width))

    def placements(self, sized: Sized) -> list[Placement]:
        """The rows that :meth:`cost` found last, with the fewest columns within the target time."""
        rows, width = sized.rows, self.problem.width
        placed: dict[int, Placement] = {}
        start = floor = 0
        for depth, r in enumerate(self._search.best.tolist()):
            if r < 0:
                break
            x = 0
            for i in range(start, int(rows.end[r])):
                t = int(self.course.types[i])
                shape = Shape(*sized.shapes[t][sized.pick[t, rows.cap[r]]].tolist())
                left = x if depth % 2 == 0 else width - x - shape.width
                up = floor + (int(rows.top[r]) - shape.height) // 2
                placed[self.order[i]] = place(self.problem, self.order[i], shape, sized.tau, left, up)
                x += shape.width
            start, floor = int(rows.end[r]), floor + int(rows.top[r])
        return [placed[i] for i in range(self.problem.n)]


def least_time(placer: Placer, deadline: Deadline) -> int | None:
    """The least target time (quarters) at which the rows fit, by bisection; None where they never do."""
    most = placer.problem.longest
    low, high = 0, min(most, 4)
    while not placer.fits(high):
        deadline.check()
        if high == most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        deadline.check()
        middle = (low + high) // 2
        if placer.fits(middle):
            high = middle
        else:
            low = middle
    return high


class Found(NamedTuple):
    """A layout, its parts of the score, and the target time in quarters that it came from."""

    parts: Parts
    placements: list[Placement]
    tau: int


def best_over_times(
    problem: WaferProblem,
    taus: Iterable[int],
    at: Callable[[int], list[Placement] | None],
    deadline: Deadline,
    report: Callable[[Found], None],
) -> Found | None:
    """The best by score of the floorplans ``at`` ascending target times, as far as these can be better; None for none.

    ``report`` is called with every one that improves.
    """
    best: Found | None = None
    for tau in taus:
        deadline.check()
        if best is not None and problem.instance.weights.time * tau >= best.parts.score:
            break
        placements = at(tau)
        if placements is not None:
            parts = evaluate(problem, placements)
            if best is None or parts.score < best.parts.score:
                best = Found(parts, placements, tau)
                report(best)
    return best


class TimeSearch:
    """Searches over the target time: each target is sized and placed once; the best score stays.

    ``report`` is called with every layout that improves. ``each`` refines at every target, as the paper does not:
    slower and often better. ``anneal`` anneals c in the refinement, the "further improvement" of the slides that the
    published figures go without.
    """

    def __init__(
        self,
        placer: Placer,
        seed: int = 0,
        deadline: Deadline = Deadline(),
        report: Callable[[Found], None] = lambda found: None,
        each: bool = False,
        anneal: bool = True,
    ) -> None:
        self.placer, self.seed, self.deadline, self.report, self.each = placer, seed, deadline, report, each
        self.anneal = anneal
        self.best: Found | None = None
        self.tried: set[int] = set()

    def attempt(self, tau: int) -> None:
        """Place at ``tau`` quarters (and refine, with ``each``)."""
        if tau in self.tried:
            return
        self.tried.add(tau)
        self.deadline.check()
        sized = self.placer.size(tau)
        if sized is not None and self.placer.cost(sized) is not None:
            placements = self.placer.placements(sized)
            self._keep(placements, tau)
            if self.each:
                self._refine(placements, tau)

    def _refine(self, placements: list[Placement], tau: int) -> None:
        seed = self.seed if self.anneal else None
        self._keep(refine(self.placer.problem, placements, tau, seed, self.deadline), tau)

    def _keep(self, placements: list[Placement], tau: int) -> None:
        parts = evaluate(self.placer.problem, placements)
        if self.best is None or (parts.score, parts.adapters) < (self.best.parts.score, self.best.parts.adapters):
            self.best = Found(parts, placements, tau)
            self.report(self.best)

    def run(self) -> Found | None:
        """Bisection for the least feasible target, neighbour-range search upwards from it, post refinement."""
        least = least_time(self.placer, self.deadline)
        if least is None:
            return None
        weight, most = self.placer.problem.instance.weights.time, self.placer.problem.longest
        tau = least
        for _ in range(MOST_STEPS):
            self.attempt(tau)
            tau += max(1, tau // SWEEP)
            if tau > most or (self.best is not None and weight * tau >= self.best.parts.score):
                break
        for finer in FINER:
            if self.best is not None:
                middle = self.best.parts.time
                for step in range(-STEPS, STEPS + 1):
                    self.attempt(max(least, middle + step * max(1, middle // (SWEEP * finer))))
        if self.best is not None:
            self._refine(self.best.placements, self.best.tau)
        return self.best
