"""SCAR's segmentations of one model by itself, and their layouts along paths of linked chiplets.

The paper tries all cuts; from about 100 layers on there are too many. Here a forward program finds the best cuts for
each sequence of chiplet types along a path, and for each of a grid of limits on the slowest segment. The best of these
by the exact metric are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.search import tables
from chipmap.heuristics.multimodel.annealing.state import BOTH, Tables, segment_time
from chipmap.heuristics.multimodel.baselines import Range
from chipmap.instances.multimodel.problem import UNLIMITED, FloatArray, IntArray, MultiProblem, watts
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table

Begins = tuple[int, ...]
#: Segmentations of a model that are combined with those of the others (the paper doesn't tell its k).
TOP = 64
#: Limits on the slowest segment: so many in a grid, then so many between the neighbours of the best one.
GRID, FINER = 24, 12
#: Weights of time that are tried for EDP without a pipeline, as multiples of energy / time.
RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
#: So many paths of one length are tried at most; a model gets no more nodes than such paths have.
MOST_PATHS = 20_000
#: Cells of the forward program between two looks at the clock.
CELLS = 20_000_000
#: Stands for no limit on the slowest segment.
HUGE = 1e300


class Metric(NamedTuple):
    """What a model or a window is judged by: weights of its time, its energy, and their product."""

    time: float
    energy: float
    product: float


def metric_of(problem: MultiProblem) -> Metric:
    """The task's objective as a metric."""
    objective = problem.instance.task.objective
    weighted = Metric(watts(problem.instance) / 1000, 1.0, 0.0)
    known = {"latency": Metric(1.0, 0.0, 0.0), "energy": Metric(0.0, 1.0, 0.0), "weighted": weighted}
    return known.get(objective, Metric(0.0, 0.0, 1.0))


def score(metric: Metric, time: Any, energy: Any) -> Any:
    """The metric of a time and an energy, or of arrays of them."""
    return metric.time * time + metric.energy * energy + metric.product * time * energy


class Trie(NamedTuple):
    """Sequences of chiplet types, parents first; node 0 is the empty one. ``kind``: a chiplet of the last type."""

    parent: IntArray
    kind: IntArray
    depth: IntArray


class Paths:
    """Simple paths over some chiplets up to a greatest length, and the sequences of chiplet types along them.

    ``of[n]``: the paths of n chiplets, int64 [paths, n]; ``masks[n]``: their chiplets as bits. Chiplets of the same
    class, hops and SRAM are of one type.
    """

    def __init__(self, problem: MultiProblem, chiplets: Sequence[int], most: int) -> None:
        types, inside = _types(problem), set(chiplets)
        level: list[tuple[tuple[int, ...], int]] = [((c,), 0) for c in sorted(inside)]
        self.of, self.masks = dict[int, IntArray](), dict[int, IntArray]()
        nodes, length = [(0, -1, 0)], 0
        known: dict[tuple[int, int], int] = {}
        while level and length < most and (length == 0 or len(level) <= MOST_PATHS):
            length += 1
            ends = []
            for path, before in level:
                step = (before, types[path[-1]])
                if step not in known:
                    known[step] = len(nodes)
                    nodes.append((*step, length))
                ends.append(known[step])
            self.of[length] = np.array([path for path, _ in level], dtype=np.int64)
            self.masks[length] = (np.int64(1) << self.of[length]).sum(axis=1)
            level = [
                ((*path, c), node)
                for (path, _), node in zip(level, ends, strict=True)
                for c in problem.neighbours[path[-1]]
                if c in inside and c not in path
            ]
        self.longest = length
        self.trie = Trie(*(np.array(column, dtype=np.int64) for column in zip(*nodes, strict=True)))


def _types(problem: MultiProblem) -> list[int]:
    seen: dict[tuple[str, int, int | None], int] = {}
    chiplets = enumerate(problem.instance.module.chiplets)
    return [seen.setdefault((one.kind, one.hops, one.sram_bytes), c) for c, one in chiplets]


class Aim(NamedTuple):
    """A task of the forward program: layers of a model from ``first`` on, segments up to ``slowest`` ns, weights."""

    model: int
    first: int
    layers: int
    slowest: int
    by_time: float
    by_energy: float


@njit(cache=True, nogil=True)
def _forward(p: Tables, trie: Trie, aim: Aim, nodes: Range, values: FloatArray, came: IntArray) -> None:
    """Fill rows ``nodes`` (first, end) of ``values`` and ``came`` [nodes, count + 2].

    values[node, j]: the least weighted cost of the first j layers in segments along the sequence of ``node``, the last
    of which sends on; came[node, j]: where that one begins. Column count + 1: all layers, and the last one writes.
    """
    row, first, count = p.base[aim.model], aim.first, aim.layers
    for node in range(nodes[0], nodes[1]):
        c, up, alone = trie.kind[node], trie.parent[node], trie.depth[node] == 1
        for j in range(1, count + 2):
            values[node, j], came[node, j] = np.inf, -1
            end = first + min(j, count)  # behind the segment's last layer
            tail, cost_tail = p.send_time[row + end - 1], p.send_energy[row + end - 1]
            if j > count:
                tail, cost_tail = p.write_time[row + end - 1, c], p.write_energy[row + end - 1, c]
            need = 0
            for begin in range(end - 1, first - 1, -1):
                time = p.time[row + end, c] - p.time[row + begin, c] + tail
                need = max(need, p.need[0, row + begin])
                if time > aim.slowest or p.weights[row + end] - p.weights[row + begin] + need > p.sram[c]:
                    break  # earlier beginnings only add
                cost = p.energy[row + end, c] - p.energy[row + begin, c] + cost_tail
                before = 0.0
                if begin == first:
                    time += p.read_time[row + begin, c]
                    cost += p.read_energy[row + begin, c]
                else:
                    time += p.send_time[row + begin - 1] if p.task[BOTH] > 0 else 0
                    before = values[up, begin - first]
                if time > aim.slowest or alone != (begin == first):
                    continue
                value = before + aim.by_time * time + aim.by_energy * cost
                if value < values[node, j]:
                    values[node, j], came[node, j] = value, begin - first


@njit(cache=True, nogil=True)
def _trace(p: Tables, trie: Trie, aim: Aim, came: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Of the best segmentation of each node: where its segments begin, and Σ t, max t and energy [nodes, 3]."""
    row, begins, totals = p.base[aim.model], integer_table(len(came), most, 0), integer_table(len(came), 3, 0)
    for whole in range(1, len(came)):
        if came[whole, aim.layers + 1] < 0:
            continue
        node, j = whole, aim.layers + 1
        while node > 0:
            c, begin, end = trie.kind[node], aim.first + came[node, j], aim.first + min(j, aim.layers)
            head, tail = begin == aim.first, j > aim.layers
            time = segment_time(p, aim.model, begin, end, c, head, tail)
            cost = p.energy[row + end, c] - p.energy[row + begin, c]
            cost += p.write_energy[row + end - 1, c] if tail else p.send_energy[row + end - 1]
            if head:
                cost += p.read_energy[row + begin, c]
            begins[whole, trie.depth[node] - 1] = begin
            totals[whole, 0] += time
            totals[whole, 1] = max(totals[whole, 1], time)
            totals[whole, 2] += cost
            j, node = came[node, j], trie.parent[node]
    return begins, totals


class Part(NamedTuple):
    """Layouts of one model in a window: Lat, energy and chiplets (as bits) of each."""

    latency: FloatArray
    energy: FloatArray
    mask: IntArray

    def at(self, which: Any) -> Part:
        """Those at positions ``which``."""
        return Part(self.latency[which], self.energy[which], self.mask[which])


def joined(parts: Sequence[Part]) -> Part:
    """All of these layouts."""
    latency, energy = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return Part(latency, energy, np.concatenate([part.mask for part in parts]))


class Segmentations:
    """The segmentations of each model along the paths over some chiplets."""

    def __init__(self, problem: MultiProblem, deadline: Deadline, chiplets: Sequence[int]) -> None:
        self.problem, self.deadline, self.metric = problem, deadline, metric_of(problem)
        longest = max(model.layers for model in problem.models)
        self.paths = Paths(problem, chiplets, min(len(chiplets), longest))
        self.tables = tables(problem)

    def best(self, m: int, span: Range, nodes: int) -> list[Begins]:
        """The best segmentations into at most ``nodes`` segments, by the model's own metric: where each begins."""
        model, count = self.problem.models[m], span[1] - span[0] + 1
        nodes, scores = min(nodes, count, self.paths.longest), dict[Begins, float]()
        alone = self.along(m, span, (span[0],), unlimited=True)
        i = int(np.argmin(score(self.metric, alone.latency, alone.energy)))
        time, cost = float(alone.latency[i]), float(alone.energy[i])
        fixed = self.fixed(m, span)
        chain = max(1, int(time - fixed) // model.q)  # a mini-batch's way through that chiplet

        def attempt(slowest: int, factor: float = 1.0) -> float:
            expected = fixed + chain + (model.q - 1) * min(slowest, chain)
            by_time = factor * (self.metric.time + self.metric.product * cost)
            aim = Aim(m, span[0], count, slowest, by_time, self.metric.energy + self.metric.product * expected)
            return self._program(m, aim, nodes, scores)

        if model.q == 1 or nodes == 1 or not (self.metric.time or self.metric.product):
            for factor in RATES if self.metric.product else (1.0,):
                attempt(UNLIMITED, factor)
        else:
            low = max(1, chain // (2 * nodes), int(model.time[span[0] : span[1] + 1].min(axis=1).max()))
            limits = [round(x) for x in np.geomspace(low, 2 * max(low, chain), GRID)]
            least = int(np.argmin([attempt(slowest) for slowest in limits]))
            for slowest in np.geomspace(limits[max(0, least - 1)], limits[min(least + 1, GRID - 1)], FINER):
                attempt(round(slowest))
        return sorted(scores, key=lambda begins: scores[begins])[:TOP]

    def _program(self, m: int, aim: Aim, nodes: int, scores: dict[Begins, float]) -> float:
        """Note the best segmentation for each sequence of types; the metric of the best of them."""
        trie, model = self.paths.trie, self.problem.models[m]
        end = int(np.searchsorted(trie.depth, nodes, side="right"))
        values, came = np.full((end, aim.layers + 2), np.inf), np.full((end, aim.layers + 2), -1)
        step = max(1, 2 * CELLS // aim.layers**2)
        for node in range(1, end, step):
            self.deadline.check()
            _forward(self.tables, trie, aim, (node, min(end, node + step)), values, came)
        begins, totals = _trace(self.tables, trie, aim, came, nodes)
        fixed = self.fixed(m, (aim.first, aim.first + aim.layers - 1))
        metrics = score(self.metric, totals[:, 0] + fixed + (model.q - 1.0) * totals[:, 1], totals[:, 2])
        metrics[came[:, -1] < 0] = np.inf
        for node in np.argsort(metrics, kind="stable")[:TOP]:
            if metrics[node] < np.inf:
                own = tuple(begins[node, : trie.depth[node]].tolist())
                scores[own] = min(scores.get(own, np.inf), float(metrics[node]))
        return float(metrics.min())

    def along(self, m: int, span: Range, begins: Begins, unlimited: bool = False) -> Part:
        """A segmentation along each path of its length; Lat is infinite where a segment doesn't fit (C5).

        ``unlimited``: as if all of them fitted.
        """
        model, count = self.problem.models[m], len(begins)
        time, cost = self.by_chiplet(m, span, begins, unlimited)
        paths, steps = self.paths.of[count], np.arange(count)
        times = time[steps, paths]
        slowest = np.minimum(times.max(axis=1), HUGE)  # 0 · inf is no number
        latency = times.sum(axis=1) + self.fixed(m, span) + (model.q - 1) * slowest
        return Part(latency, cost[steps, paths].sum(axis=1), self.paths.masks[count])

    def fixed(self, m: int, span: Range) -> int:
        """The time for the weights of layers, in ns."""
        return int(self.problem.models[m].weight_time[span[0] : span[1] + 1].sum())

    def by_chiplet(self, m: int, span: Range, begins: Begins, unlimited: bool = False) -> tuple[FloatArray, FloatArray]:
        """Time of a mini-batch and energy of the batch, by segment and chiplet; infinite time where one doesn't fit."""
        p, row, count = self.tables, self.tables.base[m], len(begins)
        received = p.send_time if self.problem.both_ends else np.zeros_like(p.send_time)
        time, cost = np.zeros((count, self.problem.chiplets)), np.zeros((count, self.problem.chiplets))
        for i, (begin, end) in enumerate(zip(begins, [*begins[1:], span[1] + 1], strict=True)):
            time[i] = p.time[row + end] - p.time[row + begin]
            time[i] += received[row + begin - 1] if i else p.read_time[row + begin]
            time[i] += p.send_time[row + end - 1] if i < count - 1 else p.write_time[row + end - 1]
            cost[i] = p.energy[row + end] - p.energy[row + begin]
            cost[i] += 0 if i else p.read_energy[row + begin]
            cost[i] += p.send_energy[row + end - 1] if i < count - 1 else p.write_energy[row + end - 1]
            need = p.weights[row + end] - p.weights[row + begin] + p.need[0, row + begin : row + end].max()
            if not unlimited:
                time[i, need > p.sram] = np.inf
        return time, cost
