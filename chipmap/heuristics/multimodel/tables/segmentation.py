"""Real segmentations of one range of layers along one signature: the best pairs of latency and energy, exactly.

Labels (S, M, E) of the first segments, by number of segments and last layer, are extended segment by segment: S = Σ t,
M = max t, E the energy. A label goes if another one is nowhere worse, or if even the least that the rest may add takes
Lat above ``latest`` or E above ``most``. The rest's least S, E, M and E + rate · S come from a program over its cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.multimodel.tables.kernel import NONE, Costs, FloatArray
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.heuristics.multimodel.tables.ranges import criteria
from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table, floats, integer_table, integers
from chipmap.kernels.sorting import argsort, position

#: Labels of one signature, at most.
MOST_LABELS = 400_000


class Segmentation(NamedTuple):
    """Segments from layer ``starts[i]`` on, with their latency in ns and energy in pJ."""

    latency: int
    energy: int
    starts: tuple[int, ...]


class Chain:
    """One range of layers of a model, ``part``: model, first and last layer; ``rates`` in pJ per ns prune labels."""

    def __init__(
        self, problem: MultiProblem, part: tuple[int, int, int], paths: Paths, rates: Sequence[float] = ()
    ) -> None:
        m, self.first, last = part
        model = part_of(problem.models[m], self.first, last)
        self.paths, self.rates = paths, np.array([max(1, round(rate)) for rate in rates], dtype=np.float64)
        self.costs = criteria(problem, model, paths, list(self.rates))
        self.weights, self.more = float(model.weight_time.sum()), float(model.q - 1)
        self.layers = model.layers

    def front(self, signature: int, latest: int, most: float) -> list[Segmentation] | None:
        """All best pairs with Lat <= ``latest`` and energy <= ``most``, by latency; None where there are too many
        labels on the way."""
        kinds = np.array(self.paths.types_of(signature), dtype=np.int64)
        if len(kinds) > self.layers:
            return []
        latest_sum = latest - self.weights
        rest, slowest = completions(self.costs, kinds, latest_sum / (self.more + 1))
        limits = Limits(float(latest_sum), float(most), self.more, self.rates)
        count, amounts, origin, ends = labels(self.costs, kinds, rest, slowest, limits, MOST_LABELS)
        if count < 0:
            return None
        found: list[Segmentation] = []
        lat = amounts[:, 0] + self.more * amounts[:, 1] + self.weights
        for x in np.lexsort((amounts[:, 2], lat)):
            if x >= ends and (not found or amounts[x, 2] < found[-1].energy):
                starts, at = [], int(x)
                while at >= 0:
                    starts.append(self.first + int(origin[at, 1]))
                    at = int(origin[at, 0])
                found.append(Segmentation(int(lat[x]), int(amounts[x, 2]), tuple(reversed(starts))))
        return found

    def best(self, signature: int, latest: int, hoped: float) -> Segmentation | None:
        """The segmentation of least energy with Lat <= ``latest``, None if there is none (or none is found in time).

        ``hoped``: a lower bound on its energy; the search looks a bit above it first, then farther.
        """
        for above in (1.001, 1.01, 1.1, np.inf):
            found = self.front(signature, latest, max(1.0, hoped) * above)
            if found is None:
                return None
            if found:
                return found[-1]
        return None


def part_of(model: ModelCosts, first: int, last: int) -> ModelCosts:
    """Layers ``first`` to ``last`` alone."""
    arrays = [field.name for field in fields(model) if field.name not in ("name", "q")]
    return replace(model, **{name: getattr(model, name)[first : last + 1] for name in arrays})


class Limits(NamedTuple):
    """Most Lat less the weights' times, most energy, q − 1, and rates of the criteria from 2 on."""

    latest: float
    most: float
    more: float
    rates: FloatArray


@njit(part=True)
def time_of(costs: Costs, kinds: IntArray, d: int, a: int, j: int, r: int) -> float:
    """Time (or criterion r) of segment number d with layers a … j."""
    k = kinds[d]
    amount = costs.run[r, k, j + 1] - costs.run[r, k, a]
    amount += costs.read[r, k, a] if d == 0 else costs.receive[r, a - 1]
    return amount + (costs.write[r, k, j] if d == len(kinds) - 1 else costs.send[r, j])


@njit(cache=True, nogil=True)
def completions(costs: Costs, kinds: IntArray, longest: float) -> tuple[FloatArray, FloatArray]:
    """(least of each criterion, least M) of what follows when segment number d ends with layer j, with segments of at
    most ``longest`` ns: [criteria, segments, L] and [segments, L]."""
    layers, size, count = costs.fits.shape[1], len(costs.run), len(kinds)
    rest, slowest = np.full((size, count, layers), NONE), np.full((count, layers), NONE)
    rest[:, count - 1, layers - 1] = slowest[count - 1, layers - 1] = 0
    for d in range(count - 2, -1, -1):
        for b in range(layers - 1, d, -1):
            if rest[0, d + 1, b] >= NONE:
                continue
            for a in range(b, max(d, costs.fits[kinds[d + 1], b] - 1), -1):
                time = time_of(costs, kinds, d + 1, a, b, 0)
                if time - costs.receive[0, a - 1] > longest:
                    break
                if time > longest:
                    continue
                slowest[d, a - 1] = min(slowest[d, a - 1], max(time, slowest[d + 1, b]))
                for r in range(size):
                    amount = time_of(costs, kinds, d + 1, a, b, r) + rest[r, d + 1, b]
                    rest[r, d, a - 1] = min(rest[r, d, a - 1], amount)
    return rest, slowest


@njit(part=True)
def hopeless(
    d: int, j: int, total: float, slow: float, energy: float, rest: FloatArray, slowest: FloatArray, limits: Limits
) -> bool:
    """Whether no way to go on from a label stays within the limits."""
    if rest[0, d, j] >= NONE or energy + rest[1, d, j] > limits.most:
        return True
    spare = limits.latest - limits.more * max(slow, slowest[d, j])
    if total + rest[0, d, j] > spare:
        return True
    for w in range(len(limits.rates)):
        rate = limits.rates[w]
        if energy + rate * total + rest[2 + w, d, j] > limits.most + rate * spare:
            return True
    return False


@njit(cache=True, nogil=True)
def labels(
    costs: Costs, kinds: IntArray, rest: FloatArray, slowest: FloatArray, limits: Limits, room: int
) -> tuple[int, FloatArray, IntArray, int]:
    """(number of labels, (S, M, E) of each, (label before, first layer of the last segment) of each, where those of
    whole segmentations begin); number −1 where there are more than ``room``."""
    layers, count = costs.fits.shape[1], len(kinds)
    amounts, origin = float_table(1024, 3, 0.0), integer_table(1024, 2, 0)
    new, source = float_table(1024, 3, 0.0), integer_table(1024, 2, 0)
    begin = integer_table(count + 1, layers + 1, 0)
    used = 0
    longest = limits.latest / (limits.more + 1)
    for d in range(count):
        for j in range(layers):
            begin[d, j] = used
            found = 0
            lowest = costs.fits[kinds[d], j]
            if d == 0 and lowest > 0:
                continue
            for a in range(j if d > 0 else 0, max(d, lowest) - 1, -1):
                time, energy = time_of(costs, kinds, d, a, j, 0), time_of(costs, kinds, d, a, j, 1)
                if time - (costs.receive[0, a - 1] if d > 0 else 0.0) > longest:
                    break
                low, high = (-1, 0) if d == 0 else (begin[d - 1, a - 1], begin[d - 1, a])
                for x in range(low, high):
                    total, slow, cost = time, time, energy
                    if x >= 0:
                        total, slow, cost = total + amounts[x, 0], max(slow, amounts[x, 1]), cost + amounts[x, 2]
                    if hopeless(d, j, total, slow, cost, rest, slowest, limits):
                        continue
                    if found >= room:
                        return -1, amounts, origin, 0
                    if found >= len(new):
                        new, source = _longer(new), _longer(source)
                    new[found, 0], new[found, 1], new[found, 2] = total, slow if limits.more > 0 else 0.0, cost
                    source[found, 0], source[found, 1] = x, a
                    found += 1
            keep = best_of(new, found)
            if used + len(keep) > room:
                return -1, amounts, origin, 0
            for x in keep:
                if used >= len(amounts):
                    amounts, origin = _longer(amounts), _longer(origin)
                for y in range(3):
                    amounts[used, y] = new[x, y]
                origin[used, 0], origin[used, 1] = source[x, 0], source[x, 1]
                used += 1
        begin[d, layers] = used
    return used, amounts[:used], origin[:used], begin[count - 1, 0]


@njit(part=True)
def _longer(rows: Any) -> Any:
    """The rows, with room for as many again."""
    found = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    for x in range(len(rows)):
        for y in range(rows.shape[1]):
            found[x, y] = rows[x, y]
    return found


@njit(part=True)
def _behind(amounts: FloatArray, a: int, b: int) -> bool:
    """Whether label a, of the same S, comes behind label b."""
    if amounts[a, 1] != amounts[b, 1]:
        return bool(amounts[a, 1] > amounts[b, 1])
    return bool(amounts[a, 2] > amounts[b, 2] or (amounts[a, 2] == amounts[b, 2] and a > b))


@njit(part=True)
def best_of(amounts: FloatArray, count: int) -> IntArray:
    """Those of the first ``count`` labels (S, M, E) that no other one beats or equals in all three.

    By ascending S; a staircase of the best pairs (M, E) so far, M up and E down, tells what is beaten.
    """
    total = floats(count, 0.0)
    for x in range(count):
        total[x] = amounts[x, 0]
    order = argsort(total, count, 1)
    slow, cost = floats(count + 1, 0.0), floats(count + 1, 0.0)
    keep = integers(count, 0)
    steps = kept = 0
    begin = 0
    while begin < count:
        stop = begin
        while stop < count and amounts[order[stop], 0] == amounts[order[begin], 0]:
            stop += 1
        # of equal S, the smaller M first, then the smaller E, then the first label
        for y in range(begin + 1, stop):
            x, z = order[y], y
            while z > begin and _behind(amounts, order[z - 1], x):
                order[z] = order[z - 1]
                z -= 1
            order[z] = x
        for y in range(begin, stop):
            x = order[y]
            place = position(slow, steps, amounts[x, 1], True)
            if place > 0 and cost[place - 1] <= amounts[x, 2]:
                continue
            keep[kept] = x
            kept += 1
            # it replaces the steps of at least its M with at least its E
            left = place - 1 if place > 0 and slow[place - 1] == amounts[x, 1] else place
            right = left
            while right < steps and cost[right] >= amounts[x, 2]:
                right += 1
            shift = left + 1 - right
            if shift > 0:
                for z in range(steps - 1, right - 1, -1):
                    slow[z + 1], cost[z + 1] = slow[z], cost[z]
            elif shift < 0:
                for z in range(right, steps):
                    slow[z + shift], cost[z + shift] = slow[z], cost[z]
            slow[left], cost[left] = amounts[x, 1], amounts[x, 2]
            steps += shift
        begin = stop
    return keep[:kept]
