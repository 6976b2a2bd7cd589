"""SCAR's search (sections IV-A to IV-D of its paper) as a baseline: windows, nodes, segments, trees.

1. *Windows* (Algorithm 1): a layer is expected to take its mean time over the chiplets (equation 1). The longest
   model's expected time is cut into n_splits + 1 equal windows, and layers are packed into them in order.
2. *Nodes* (equation 2): in each window the models share the chiplets by their expected metric, at least one each.
3. *Segments*: for each model by itself the best segmentations into at most so many segments.
4. *Trees*: for all combinations of these segmentations, all ways to lay them out along disjoint paths of linked
   chiplets. The layout with the best metric of the window is kept.

The metric is the task's objective, of a model or of a window by itself. The search doesn't know limits (C4).

Readings where the paper is silent: expected times are those of the whole batch without transfers; the expected metric
of EDP is expected latency times expected energy; where no disjoint paths exist, the model with most nodes loses one;
segments that don't fit a chiplet's SRAM are left out; rounding as in
:func:`chipmap.heuristics.multimodel.baselines.provide`. The paper tries all cuts and all trees. Which cuts we try:
:mod:`chipmap.heuristics.multimodel.published.scar_segments`. Trees are tried by branch and bound, up to ``STEPS`` steps
a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.baselines import Range, pack, provide
from chipmap.heuristics.multimodel.published.scar_segments import (
    Begins,
    Metric,
    Part,
    Segmentations,
    joined,
    metric_of,
    score,
)
from chipmap.instances.multimodel.problem import FloatArray, IntArray, MultiProblem, Segment
from chipmap.kernels import njit
from chipmap.kernels.arrays import floats, integers

#: Steps of the branch and bound in a window, and between two looks at the clock.
STEPS, CHUNK = 100_000_000, 2_000_000
#: The paper's population and generations; how far a cut moves; random trees per individual; how often a path keeps to
#: where it is narrow.
POPULATION, GENERATIONS, REACH, TREES, TIGHT = 10, 4, 3, 200, 0.7


@njit(cache=True, nogil=True)
def _undominated(parts: Part) -> IntArray:
    """Which layouts, ordered by chiplets, Lat and energy, none before them on the same chiplets beats."""
    keep, count, least = integers(len(parts.mask), 0), 0, np.inf
    for i in range(len(parts.mask)):
        if i == 0 or parts.mask[i] != parts.mask[i - 1]:
            least = np.inf
        if parts.latency[i] < np.inf and parts.energy[i] < least:
            keep[count], least = i, parts.energy[i]
            count += 1
    return keep[:count]


_score = njit(part=True)(score)


@njit(cache=True, nogil=True)
def _trees(
    parts: Part, bounds: IntArray, least: FloatArray, metric: Metric, at: IntArray, best: IntArray, top: FloatArray
) -> bool:
    """CHUNK steps of branch and bound over layouts with disjoint chiplets, model after model; True when all are tried.

    Model m's layouts are bounds[m] to bounds[m + 1] - 1. least [2, M + 1]: of the models from m on the greatest of the
    least latencies, and the sum of the least energies. at [M + 1]: the layout to be tried next by each model, and the
    model whose turn it is. best [M] and top [1]: the best layouts so far, and their metric.
    """
    count = len(bounds) - 1
    time, energy, used = floats(count + 1, 0.0), floats(count + 1, 0.0), integers(count + 1, 0)
    m = at[count]
    for k in range(m):  # where the last call stopped
        i = at[k] - 1
        time[k + 1], energy[k + 1] = max(time[k], parts.latency[i]), energy[k] + parts.energy[i]
        used[k + 1] = used[k] | parts.mask[i]
    for _ in range(CHUNK):
        i = at[m]
        if i == bounds[m + 1]:
            at[m] = bounds[m]
            m -= 1
            if m < 0:
                return True
            continue
        at[m] += 1
        if used[m] & parts.mask[i]:
            continue
        later, more = max(time[m], parts.latency[i]), energy[m] + parts.energy[i]
        if _score(metric, max(later, least[0, m + 1]), more + least[1, m + 1]) >= top[0]:
            continue
        if m + 1 < count:
            time[m + 1], energy[m + 1], used[m + 1] = later, more, used[m] | parts.mask[i]
            m += 1
        else:
            top[0] = _score(metric, later, more)
            for k in range(count):
                best[k] = at[k] - 1
    at[count] = m
    return False


class Scar:
    """SCAR's search on some of a module's chiplets (None: all)."""

    def __init__(self, problem: MultiProblem, deadline: Deadline, chiplets: Sequence[int] | None = None) -> None:
        self.problem, self.deadline, self.metric = problem, deadline, metric_of(problem)
        self.chiplets = tuple(range(problem.chiplets) if chiplets is None else chiplets)
        self.segmentations = Segmentations(problem, deadline, self.chiplets)
        #: Whether a window's trees were too many.
        self.cut_short = False
        #: Why there was no schedule.
        self.reason = ""

    def windows(self, splits: int, plain: bool = False) -> list[list[Segment]] | None:
        """The schedule for so many splits (``plain``: at once, with a single chiplet per model and window).

        None where a window has more models than chiplets, or segments don't fit (C5).
        """
        times = [(model.q * model.time[:, self.chiplets].sum(axis=1)).tolist() for model in self.problem.models]
        found = []
        for ranges in pack(times, splits):
            spans = {m: span for m, span in enumerate(ranges) if span is not None}
            if plain and len(spans) <= len(self.chiplets):
                window = Scar._layout(self, spans, dict.fromkeys(spans, 1))
            else:
                window = self.window(spans)
            if window is None:
                crowd = f"a window has {len(spans)} models; chiplets: {len(self.chiplets)}"
                memory = "in a window the models' segments don't fit the SRAM of chiplets (C5)"
                self.reason = crowd if len(spans) > len(self.chiplets) else memory
                return None
            found.append(window)
        return found

    def nodes(self, spans: dict[int, Range]) -> dict[int, int]:
        """How many chiplets each model of a window gets."""
        metrics = []
        for m, (first, last) in spans.items():
            model, run = self.problem.models[m], slice(first, last + 1)
            time, cost = (int(amounts[run, self.chiplets].sum()) for amounts in (model.time, model.energy))
            metrics.append(int(score(self.metric, model.q * time, cost)))
        return dict(zip(spans, provide(metrics, len(self.chiplets)), strict=True))

    def window(self, spans: dict[int, Range]) -> list[Segment] | None:
        """The best layout of these layers, None without any."""
        nodes = self.nodes(spans)
        if sum(nodes.values()) > len(self.chiplets):
            return None
        while (found := self._layout(spans, nodes)) is None and max(nodes.values()) > 1:
            nodes[max(nodes, key=lambda m: nodes[m])] -= 1  # no disjoint paths: one segment less
        return found

    def _layout(self, spans: dict[int, Range], nodes: dict[int, int]) -> list[Segment] | None:
        order = sorted(nodes, key=lambda m: -nodes[m])
        layouts = [self._spread(m, spans[m], self.segmentations.best(m, spans[m], nodes[m])) for m in order]
        if not all(len(part.mask) for part, _ in layouts):
            return None
        bounds = np.cumsum([0, *(len(part.mask) for part, _ in layouts)])
        least = np.zeros((2, len(order) + 1))
        for k, (part, _) in reversed(list(enumerate(layouts))):
            least[:, k] = max(least[0, k + 1], part.latency.min()), least[1, k + 1] + part.energy.min()
        parts, at = joined([part for part, _ in layouts]), np.append(bounds[:-1], 0)
        best, top = np.full(len(order), -1), np.array([np.inf])
        for _ in range(STEPS // CHUNK):
            self.deadline.check()
            if _trees(parts, bounds, least, self.metric, at, best, top):
                break
        else:
            self.cut_short = True
        if best[0] < 0:
            return None
        return [segment for k, i in enumerate(best) for segment in layouts[k][1](int(i - bounds[k]))]

    def _spread(self, m: int, span: Range, choices: list[Begins]) -> tuple[Part, Callable[[int], list[Segment]]]:
        """The layouts of these segmentations that no other one on the same chiplets beats, and how to read them."""
        found = []
        for begins in choices:
            self.deadline.check()
            found.append(self.segmentations.along(m, span, begins))
        if not found:
            return Part(np.zeros(0), np.zeros(0), np.zeros(0, np.int64)), lambda _: []
        parts = joined(found)
        which = np.concatenate([np.full(len(part.mask), i) for i, part in enumerate(found)])
        path = np.concatenate([np.arange(len(part.mask)) for part in found])
        self.deadline.check()
        order = np.lexsort((parts.energy, parts.latency, parts.mask))
        order = order[_undominated(parts.at(order))]
        order = order[np.argsort(score(self.metric, parts.latency[order], parts.energy[order]), kind="stable")]

        def segments(i: int) -> list[Segment]:
            begins = choices[which[order[i]]]
            chiplets = self.segmentations.paths.of[len(begins)][path[order[i]]]
            return pieces(m, span, begins, chiplets.tolist())

        return parts.at(order), segments


#: Metric, layout, and each model's cuts.
Individual = tuple[float, list[Segment] | None, dict[int, Begins]]


class Evolution(Scar):
    """The same search with cuts by an evolutionary algorithm, for modules whose paths are too many (section V-D).

    An individual is a segmentation of each model of a window. The first one cuts each model into pieces of equal
    expected time, as many as it has nodes; the others are drawn. The better half are parents; a child has each model's
    cuts from one of two parents, and one model's cuts change. An individual is worth its best layout in ``TREES``
    random trees: models in random order, each along a random path that prefers chiplets where the segment costs little
    and those with few free neighbours. The paper tells the population and the generations, the rest is our reading.
    """

    def __init__(self, problem: MultiProblem, deadline: Deadline, seed: int) -> None:
        super().__init__(problem, deadline)
        self.random = Random(seed)

    def _layout(self, spans: dict[int, Range], nodes: dict[int, int]) -> list[Segment] | None:
        """The best layout that the generations find; None if the first individual has none."""
        first = {m: self._even(m, spans[m], nodes[m]) for m in spans}
        value, layout = self._worth(spans, first)
        if layout is None:
            return None
        population: list[Individual] = [(value, layout, first)]
        for _ in range(POPULATION - 1):
            drawn = {m: self._drawn(m, spans[m], nodes[m]) for m in spans}
            population.append((*self._worth(spans, drawn), drawn))
        for _ in range(GENERATIONS):
            parents = sorted(population, key=lambda one: one[0])[: POPULATION // 2]
            children = list[Individual]()
            for _ in range(POPULATION - len(parents)):
                one, other = self.random.choice(parents)[2], self.random.choice(parents)[2]
                child = {m: self.random.choice((one, other))[m] for m in spans}
                m = self.random.choice(list(spans))
                child[m] = self._changed(spans[m], child[m], nodes[m])
                children.append((*self._worth(spans, child), child))
            population = parents + children
        return min(population, key=lambda one: one[0])[1]

    def _even(self, m: int, span: Range, count: int) -> Begins:
        times = self.problem.models[m].time[span[0] : span[1] + 1, self.chiplets].sum(axis=1)
        done = np.cumsum(times) - times  # before each layer
        marks = done.searchsorted(times.sum() * np.arange(1, count) / count)
        return tuple(sorted({span[0], *(span[0] + min(int(k), len(times) - 1) for k in marks)}))

    def _drawn(self, m: int, span: Range, most: int) -> Begins:
        """Cuts of equal expected time into a random number of pieces, each cut moved a little."""
        begins = self._even(m, span, self.random.randint(1, most))
        moved = {min(span[1], max(span[0] + 1, cut + self.random.randint(-REACH, REACH))) for cut in begins[1:]}
        return (span[0], *sorted(moved))

    def _changed(self, span: Range, begins: Begins, most: int) -> Begins:
        """A cut moved, added or taken away."""
        cuts = list(begins[1:])
        move = self.random.random()
        if cuts and (move < 0.6 or len(begins) >= most):
            cut = cuts.pop(self.random.randrange(len(cuts)))
            if move < 0.8:
                cuts.append(min(span[1], max(span[0] + 1, cut + self.random.randint(-REACH, REACH))))
        elif span[0] < span[1] and most > 1:
            cuts.append(self.random.randint(span[0] + 1, span[1]))
        return (span[0], *sorted(set(cuts)))

    def _worth(self, spans: dict[int, Range], one: dict[int, Begins]) -> tuple[float, list[Segment] | None]:
        """The metric of an individual's best layout, and the layout; infinite without any."""
        self.deadline.check()
        tables = {m: self.segmentations.by_chiplet(m, spans[m], begins) for m, begins in one.items()}
        burdens = {m: (_relative(time) + _relative(cost)).tolist() for m, (time, cost) in tables.items()}
        value, best = np.inf, None
        for _ in range(TREES):
            free, paths = set(self.chiplets), dict[int, list[int]]()
            time = cost = 0.0
            for m in self.random.sample(list(spans), len(spans)):
                paths[m] = self._walk(free, burdens[m])
                free -= set(paths[m])
                if len(paths[m]) < len(one[m]):
                    break
                steps = np.arange(len(one[m]))
                times = tables[m][0][steps, paths[m]]
                if times.max() == np.inf:
                    break
                own = times.sum() + self.segmentations.fixed(m, spans[m]) + (self.problem.models[m].q - 1) * times.max()
                time, cost = max(time, own), cost + tables[m][1][steps, paths[m]].sum()
            else:
                found = float(score(self.metric, time, cost))
                if found < value:
                    value, best = found, paths
        if best is None:
            return value, None
        return value, [piece for m, path in best.items() for piece in pieces(m, spans[m], one[m], path)]

    def _walk(self, free: set[int], burdens: list[list[float]]) -> list[int]:
        """A random path over free chiplets, shorter where it comes to a dead end.

        ``burdens`` of each segment on each chiplet: its time and its energy, each by its mean.
        """
        path, left, guided = list[int](), set(free), self.random.random()
        for burden in burdens:
            near = [c for c in self.problem.neighbours[path[-1]] if c in left] if path else sorted(left)
            if not near:
                break
            pick = self.random.random()
            if pick < guided:
                near = _least(near, [burden[c] for c in near])
            if path and pick < TIGHT:
                near = _least(near, [sum(d in left for d in self.problem.neighbours[c]) for c in near])
            path.append(self.random.choice(near))
            left.discard(path[-1])
        return path


def _relative(amounts: FloatArray) -> FloatArray:
    """The amounts by the mean of those that are finite."""
    finite = amounts[np.isfinite(amounts)]
    return amounts / max(1.0, finite.mean() if finite.size else 1.0)


def _least(things: list[int], amounts: Sequence[float]) -> list[int]:
    least = min(amounts)
    return [thing for thing, amount in zip(things, amounts, strict=True) if amount <= least]


def pieces(m: int, span: Range, begins: Begins, chiplets: Sequence[int]) -> list[Segment]:
    """The segments of a segmentation along a path."""
    ends = [*(begin - 1 for begin in begins[1:]), span[1]]
    return [(m, a, b, c) for a, b, c in zip(begins, ends, chiplets, strict=True)]
