"""Schedules from tables: where each model stands at the boundaries between windows, improved one model at a time.

Behind window w model m has done ``nodes[m][w]`` layers. With all other models' ranges fixed, the tables price every
range of model m in every window at once. With the weight λ of time in pJ per ns,

    h[s, t] = min over t' >= t of λ · edges[t' + 1] + least energy of the other models beside a path of signature s

falls out of a program over sets of chiplets, and an entry (s, first, last, t, energy) of the model's table says that a
window of these layers costs at least energy + h[s, t]. The best ranges of model m over all windows follow from a
program over its nodes. Models take turns until none changes. Chiplets, cuts and times of all windows are free in every
step. What the tables say is a lower bound; :meth:`Boundaries.windows` looks for the real segmentations behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.search import Annealing
from chipmap.heuristics.multimodel.columns.pricing import Floats, Pricing
from chipmap.heuristics.multimodel.tables.beside import Beside
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.tables.segmentation import Chain
from chipmap.instances.multimodel.problem import MultiProblem, Segment, static_power, terms, watts
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table

#: Rates of the labels' criteria, as shares of the weight of time.
RATES = (0.3, 1.0, 3.0)
#: Numbers in all that are kept: of ranges and of sums of two, by set of chiplets and cell; and of the costs of a
#: model's ranges beside others'.
KEPT, PRICED = 2**24, 2**22
#: Moves of annealing from each new schedule, this often more from the best one, and its first and last temperature as
#: shares of the objective.
MOVES, LONGER, HOT, COLD = 100_000, 10, 2e-3, 1e-6
#: Nodes whose cost by the tables is above the least by more than this share aren't looked at.
WORSE = 0.015
#: A schedule worse by up to this share may be the next one to start from.
ACCEPT = 0.005

#: A model, the node before its range and the one behind it.
Part = tuple[int, int, int]
#: For each model its nodes 0 … L behind 0 … W windows.
Nodes = list[list[int]]


def improve(
    program: Boundaries, windows: list[list[Segment]], seed: int, most: int | None = None
) -> Iterator[list[list[Segment]]]:
    """Schedules better and better than ``windows``, for so many descents; :class:`chipmap.deadline.Stop` at the
    program's deadline."""
    problem, deadline, random = program.problem, program.deadline, np.random.default_rng(seed)
    seen: set[tuple[tuple[int, ...], ...]] = set()
    least: dict[float, float] = {}
    point, number = terms(problem, windows), 0
    best = current = problem.objective(*point)
    kept = nodes = program.nodes_of(windows)
    while most is None or number < most:
        rate = weight(problem, *point)
        value, nodes = program.descend(nodes, rate, int(random.integers(len(nodes))))
        number += 1
        key = tuple(map(tuple, nodes))
        least[rate] = min(value, least.get(rate, np.inf))
        if key not in seen and value <= least[rate] * (1 + WORSE):
            seen.add(key)
            found = program.windows(nodes, rate)
            if found is not None:
                found = annealed(problem, found, seed + number, MOVES, deadline, program.hot)
                if problem.objective(*terms(problem, found)) < best:
                    found = annealed(problem, found, seed, LONGER * MOVES, deadline)
                reached = terms(problem, found)
                objective = problem.objective(*reached)
                if objective < best:
                    best, point = objective, reached
                    yield found
                if objective < current * (1 + ACCEPT):
                    current, kept = objective, program.nodes_of(found)
        nodes = shaken(kept, random)


def annealed(
    problem: MultiProblem, windows: list[list[Segment]], seed: int, moves: int, deadline: Deadline, hot: float = HOT
) -> list[list[Segment]]:
    """The best schedule of a short and cold annealing."""
    for better in Annealing(problem, windows, seed).run(moves, deadline, hot, COLD):
        windows = better
    return windows


def weight(problem: MultiProblem, time: int, energy: int) -> float:
    """The weight of T1 beside the energy of layers and transfers at which the objective falls fastest from (T1, T2), in
    pJ per ns.

    For latency alone any weight does: tables for it hold no energies.
    """
    if problem.instance.task.objective == "weighted":
        return (watts(problem.instance) + static_power(problem.instance)) / 1000
    return energy / max(1, time) + static_power(problem.instance) / 1000


def shaken(nodes: Nodes, random: np.random.Generator) -> Nodes:
    """A few random changes: one node, all of a model, or a boundary that goes while another one comes."""
    found = [list(own) for own in nodes]
    count = len(found[0]) - 1
    for _ in range(int(random.integers(1, 4)) if count > 1 else 0):
        kind, m, w, u = random.integers(3), int(random.integers(len(found))), *map(int, random.integers(1, count, 2))
        own = found[m]
        if kind == 0:
            own[w] = int(random.integers(own[w - 1], own[w + 1] + 1))
        elif kind == 1:
            own[1:-1] = sorted(int(node) for node in random.integers(0, own[-1] + 1, count - 1))
        else:
            for own in found:
                own.pop(w)
                own.insert(u, int(random.integers(own[u - 1], own[u] + 1)))
    return found


class Sets(NamedTuple):
    """A range's least energy by signature and cell, and by set of chiplets and cell."""

    values: Floats
    sets: Floats


class Boundaries:
    """The search for one problem over the tables of ``pricing``; ``hot``: the first temperature of annealing from what
    they say."""

    hot = HOT

    def __init__(self, problem: MultiProblem, paths: Paths | Counts, pricing: Pricing, deadline: Deadline) -> None:
        self.problem, self.paths, self.pricing, self.deadline = problem, paths, pricing, deadline
        self.models, self.count = problem.models, problem.windows
        self._known: dict[Part, Sets] = {}
        self._pairs: dict[tuple[Part, Part], Floats] = {}
        self._rate, self._priced = 0.0, dict[tuple[int, tuple[Part, ...]], Floats]()
        self._real: dict[tuple[int, int, int, int, int], tuple[int, ...] | None] = {}

    def nodes_of(self, windows: Sequence[Sequence[Segment]]) -> Nodes:
        """The nodes of a schedule; empty windows come last."""
        found = []
        for m in range(len(self.models)):
            at = [0]
            for w in range(self.count):
                own = [last + 1 for k, _, last, _ in windows[w] if k == m] if w < len(windows) else []
                at.append(max([at[-1], *own]))
            found.append(at)
        return found

    def descend(self, nodes: Nodes, rate: float, first: int = 0) -> tuple[float, Nodes]:
        """(λ · T1 + T2 by the tables, nodes) where no model alone does better."""
        best, same, m = np.inf, 0, first
        nodes = [list(own) for own in nodes]
        while same < len(nodes):
            self.deadline.check()
            value, own = self.model(m, nodes, rate)
            # no window of the tables may be long enough for where the others stand: the cost is infinite then
            same = 0 if value < best * (1 - 1e-9) else same + 1
            if value < best:
                best, nodes[m] = value, own
            m = (m + 1) % len(nodes)
        return best, nodes

    def model(self, m: int, nodes: Nodes, rate: float) -> tuple[float, list[int]]:
        """The best nodes of model m, the others' fixed."""
        layers = self.models[m].layers
        least = np.full((self.count + 1, layers + 1), np.inf)
        least[0, 0] = 0.0
        steps = []
        for w in range(self.count):
            others = tuple((k, own[w], own[w + 1]) for k, own in enumerate(nodes) if k != m and own[w] < own[w + 1])
            total = least[w][:, None] + self._prices(m, others, rate)
            steps.append(np.argmin(total, axis=0))
            least[w + 1] = total.min(axis=0)
        own = [layers]
        for w in range(self.count - 1, -1, -1):
            own.append(int(steps[w][own[-1]]))
        return float(least[-1, -1]), own[::-1]

    def _prices(self, m: int, others: tuple[Part, ...], rate: float) -> Floats:
        """[node before, node behind]: the least cost of a window with model m beside ``others`` (model, nodes)."""
        self.deadline.check()
        if rate != self._rate:
            self._rate, self._priced = rate, {}
        if (m, others) not in self._priced:
            layers, table, pricing = self.models[m].layers, self.pricing.tables[m], self.pricing
            times, places = rate * pricing.edges[1:], pricing.places
            beside = self._beside(others) if others else np.zeros_like(pricing.sets[m])
            alone = float((beside[-1] + times).min()) if others else 0.0
            rest = rests(places.mask, places.signature, beside, times, pricing.values[m].shape[0])
            price = np.empty((layers + 1, layers + 1))
            prices(table.signature, table.first, table.last, table.cell, table.energy, rest, alone, price)
            make_room(self._priced, PRICED // price.size)
            self._priced[m, others] = price
        return self._priced[m, others]

    def _beside(self, parts: Sequence[Part]) -> Floats:
        """[set, cell]: the least energy of these ranges (model, nodes) side by side.

        Sums of the models 2i and 2i + 1 are kept: of four models, two beside a third are mostly known."""
        pairs = [pair for pair in pairwise(parts) if pair[0][0] % 2 == 0 and pair[1][0] == pair[0][0] + 1]
        paired = {part for pair in pairs for part in pair}
        sums = [self.range(*part).sets for part in parts if part not in paired]
        return reduce(self.pricing.places.side_by_side, [*sums, *map(self._pair, pairs)])

    def _pair(self, pair: tuple[Part, Part]) -> Floats:
        if pair not in self._pairs:
            found = self.pricing.places.side_by_side(*(self.range(*part).sets for part in pair))
            make_room(self._pairs, KEPT // found.size)
            self._pairs[pair] = found
        return self._pairs[pair]

    def range(self, m: int, low: int, high: int) -> Sets:
        """What the table says of the range of model m from node ``low`` to ``high``."""
        key = m, low, high
        if key not in self._known:
            make_room(self._known, KEPT // self.pricing.sets[m].size)
            self.pricing.range(m, low, high)
            self._known[key] = Sets(self.pricing.values[m].copy(), self.pricing.sets[m].copy())
        return self._known[key]

    def windows(self, nodes: Nodes, rate: float) -> list[list[Segment]] | None:
        """Real windows that the tables' least costs come from; None where one isn't found."""
        found = []
        for w in range(self.count):
            parts = [(m, own[w], own[w + 1]) for m, own in enumerate(nodes) if own[w] < own[w + 1]]
            window = self._window(parts, rate) if parts else []
            if window is None:
                return None
            found.append(window)
        return found

    def _window(self, parts: list[tuple[int, int, int]], rate: float) -> list[Segment] | None:
        known = [self.range(*part) for part in parts]
        beside = Beside(self.pricing.places, [one.sets for one in known])
        sums = beside.least + rate * self.pricing.edges[1:]
        for t in np.argsort(sums)[:3]:
            if not np.isfinite(sums[t]):
                return None
            window = self._cell(parts, known, int(t), beside.divide(int(t)), rate)
            if window is not None:
                return window
        return None

    def _cell(
        self, parts: list[tuple[int, int, int]], known: list[Sets], t: int, masks: list[int], rate: float
    ) -> list[Segment] | None:
        assert isinstance(self.paths, Paths)
        places, window = self.pricing.places, list[Segment]()
        for part, own, mask in zip(parts, known, masks, strict=True):
            for hoped, at in places.within(mask, own.values[:, t], 4):
                s = int(places.signature[at])
                starts = self._starts(part, s, t, hoped, rate)
                if starts is not None:
                    break
            else:
                return None
            way = self.paths.way(s, int(places.mask[at]))
            ends = [*starts[1:], part[2]]
            window += [(part[0], a, b - 1, c) for a, b, c in zip(starts, ends, way, strict=True)]
        return window

    def _starts(self, part: tuple[int, int, int], s: int, t: int, hoped: float, rate: float) -> tuple[int, ...] | None:
        key = (*part, s, t)
        if key not in self._real:
            assert isinstance(self.paths, Paths)
            m, low, high = part
            chain = Chain(self.problem, (m, low, high - 1), self.paths, [share * rate for share in RATES])
            found = chain.best(s, int(self.pricing.edges[t + 1]), hoped)
            self._real[key] = found.starts if found is not None else None
        return self._real[key]


def make_room(kept: dict[Any, Any], most: int) -> None:
    """Let go what was kept first, so that with one more there are at most so many, or only that one."""
    while kept and len(kept) >= most:
        kept.pop(next(iter(kept)))


@njit(nogil=True, cache=True)
def rests(mask, signature, others, times, signatures):  # type: ignore[no-untyped-def]
    """h [signature, cell] of the module's text."""
    cells = others.shape[1]
    top = others.shape[0] - 1
    found = float_table(signatures, cells, np.inf)
    for i in range(len(mask)):
        rest, s = top - mask[i], signature[i]
        for t in range(cells):
            found[s, t] = min(found[s, t], others[rest, t] + times[t])
    for s in range(signatures):
        for t in range(cells - 2, -1, -1):
            found[s, t] = min(found[s, t], found[s, t + 1])
    return found


@njit(nogil=True, cache=True)
def prices(signature, first, last, cell, energy, beside, alone, price):  # type: ignore[no-untyped-def]
    """``price`` [node before, node behind]: the least cost of a window with this range; ``alone`` without one."""
    price[:] = np.inf
    for i in range(price.shape[0]):
        price[i, i] = alone
    for e in range(len(energy)):
        cost = energy[e] + beside[signature[e], cell[e]]
        i, j = first[e], last[e] + 1
        if cost < price[i, j]:
            price[i, j] = cost
