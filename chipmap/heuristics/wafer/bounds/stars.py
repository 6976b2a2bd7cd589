"""Kernels with many neighbours: as boxes don't overlap, not all of them are near.

A *star* is a hub and leaves i of the kernel graph, each joined to the hub by an edge. Its wires are Σ d_i, with d_i the
distance of the centres (L1, in tiles) from the hub's, the origin. What boxes need of the space near the origin:

**In the plane.** Let λ(y) >= 0 be a radius for each y > 0, A_i the areas, and m_i box i's mean distance. At each y take
the boxes with A_i <= 1/y. Over these and the hub's box, max(0, λ(y) - |p|) has an integral of at most cap(λ(y)): that
over a fabric with the origin at its middle. Over box i it is at least A_i (λ(y) - m_i). Integrated over y:

    Σ_i (gain(A_i) - m_i) + ∫ inside(λ(y)) dy <= ∫ cap(λ(y)) dy,   gain(A) = A · ∫_0^{1/A} λ(y) dy,

where inside(λ) is the integral over the hub's box. Each term may also count as 0.

**On a line.** The same holds for the boxes that the vertical line through the origin cuts, with heights instead of
areas, distances along the line instead of m_i, intervals instead of boxes, and radii of their own.

**Together.** m_i is d_i if neither line through the origin cuts box i. If the vertical one does, it is d_i + a_i / 4 at
most, and the horizontal one doesn't, as the hub is at the origin. Such a box counts either in the plane or on the line,
as its width and height say. In the plane its a_i / 4 is paid for by a price ν >= 0 of its height: boxes that the line
cuts whose d_i is below the largest radius have heights of at most M - min(M, the hub's) in all, with
M = min(fabric's height, 2 max λ + the tallest of them). A larger d_i is above the gain anyway. So d_i is at least the
least of three costs of the box alone (cut by neither line, by the vertical one, by the horizontal one), minus what
space there is. Where a box is replaced by a smaller one with the same centre, everything holds as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds.clusters import SHAPES, Cluster
from chipmap.heuristics.wafer.bounds.packing import FloatArray
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer.problem import IntArray

#: Leaves at least.
LEAST = 6
#: What is tried for the radii in the plane and on the lines, as parts of those at which all boxes of least size fill
#: them, and for the price of heights; each in turn, so often.
TRIED = ((0.5, 0.7, 0.85, 1.0, 1.15, 1.3), (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0), (0.0, 0.06, 0.12, 0.25, 0.5))
ROUNDS = 2
#: Sides of smaller boxes, at most so many times the other side.
SLIM = (np.inf, 8.0, 4.0, 2.0, 1.0)


class Star(NamedTuple):
    """A hub, its leaves, and the numbers of the clusters that are their edges."""

    hub: int
    leaves: tuple[int, ...]
    clusters: tuple[int, ...]


class StarCosts(NamedTuple):
    """Half tiles of wire: Σ ``leaf[type]`` [states] + ``hub`` [states] - ``constant`` at least."""

    hub: FloatArray
    leaf: dict[int, FloatArray]
    constant: float

    def least(self, count: Counter[int]) -> float:
        """The least value, with so many leaves of each type."""
        leaves = sum(n * float(self.leaf[t].min()) for t, n in count.items())
        return leaves + float(self.hub.min()) - self.constant


@dataclass(frozen=True)
class Shared:
    """Stars with their costs for the states of an elimination: ``share`` of what they cost, at ``tick`` a half tile."""

    stars: tuple[Star, ...]
    costs: list[StarCosts]
    types: list[int]
    share: float
    tick: float

    def boxes(self) -> Iterator[tuple[int, FloatArray]]:
        """Kernels and what their states cost."""
        for star, costs in zip(self.stars, self.costs, strict=True):
            yield star.hub, self.share * self.tick * costs.hub
            for v in star.leaves:
                yield v, self.share * self.tick * costs.leaf[self.types[v]]

    @property
    def constant(self) -> float:
        """What is to be taken from the sum over boxes."""
        return self.share * self.tick * sum(costs.constant for costs in self.costs)

    def wire(self, chosen: IntArray) -> float:
        """Half tiles of all stars, for the states ``chosen`` [kernels]."""
        return sum(
            float(costs.hub[chosen[star.hub]] - costs.constant)
            + sum(float(costs.leaf[self.types[v]][chosen[v]]) for v in star.leaves)
            for star, costs in zip(self.stars, self.costs, strict=True)
        )


def stars(clusters: tuple[Cluster, ...], least: int = LEAST) -> tuple[Star, ...]:
    """Stars of ``least`` leaves or more whose edges are clusters by themselves, from the largest on; each edge once."""
    edges = {n: one.members for n, one in enumerate(clusters) if one.shape is SHAPES[2] and not one.link}
    found = []
    while edges:
        hub, count = Counter(v for pair in edges.values() for v in pair).most_common(1)[0]
        if count < least:
            break
        own = tuple(n for n, pair in edges.items() if hub in pair)
        found.append(Star(hub, tuple(sum(edges.pop(n)) - hub for n in own), own))
    return tuple(found)


def star_costs(star: Star, types: list[int], states: list[States], width: int, height: int) -> StarCosts:
    """The costs of a star's boxes on a fabric, for the radii and the price at which they are largest when summed up.

    ``types`` of kernels, ``states`` of types.
    """
    count = Counter(types[v] for v in star.leaves)
    space = _Space(count, states, states[types[star.hub]], width, height)
    best, chosen = space.costs(1.0, 0.2, 0.12), [1.0, 0.2, 0.12]
    for _ in range(ROUNDS):
        for at, tried in enumerate(TRIED):
            for value in tried:
                asked = [*chosen[:at], value, *chosen[at + 1 :]]
                costs = space.costs(*asked)
                if costs.least(count) > best.least(count):
                    best, chosen = costs, asked
    return best


class _Levels(NamedTuple):
    """Radii between levels y: ``radii[k]`` from ``begins[k]`` to ``ends[k]``."""

    begins: FloatArray
    ends: FloatArray
    radii: FloatArray

    def gain(self, size: FloatArray) -> FloatArray:
        """size · ∫_0^{1/size} of the radius."""
        gain: FloatArray = size * (np.clip(1 / size[:, None] - self.begins, 0, self.ends - self.begins) @ self.radii)
        return gain

    def over(self, part: FloatArray) -> FloatArray:
        """∫ over y of a function of the radius, given for each of the radii [.., radii]."""
        whole: FloatArray = part @ (self.ends - self.begins)
        return whole


class _Space:
    """The leaves and the hub of a star, and a fabric round it."""

    def __init__(self, count: Counter[int], states: list[States], hub: States, width: int, height: int) -> None:
        self.count, self.states = count, states
        self.hub = hub.x.astype(np.float64), hub.y.astype(np.float64)
        self.sides = float(width), float(height)
        self.tallest = max(float(np.maximum(states[t].x, states[t].y).max()) for t in count)
        self.area = self._filled({t: float((states[t].x * states[t].y).min()) for t in count})
        self.thin = self._filled({t: float(np.minimum(states[t].x, states[t].y).min()) for t in count})

    def _filled(self, least: dict[int, float]) -> tuple[FloatArray, FloatArray]:
        """1 / the least size of each type, falling, and the sizes of all leaves of that type and those before."""
        order = sorted(self.count, key=lambda t: least[t])
        sizes = np.array([least[t] for t in order])
        return 1 / sizes, np.cumsum([self.count[t] for t in order] * sizes)

    def costs(self, scale: float, line: float, price: float) -> StarCosts:
        """With these parts of the radii in the plane and on a line, and a price of heights."""
        (width, height), (x, y) = self.sides, self.hub
        ends, filled = self.area
        plane = _levels(ends, scale * _radius(filled + float((x * y).min()), width, height))
        ends, filled = self.thin
        lines = _levels(ends, line * filled / 2)
        reach = 2 * float(plane.radii.max()) + self.tallest
        across, up = min(width, reach), min(height, reach)
        own = plane.over(_over(plane.radii, x[:, None], y[:, None], 3)) + price * (
            np.minimum(x, across) + np.minimum(y, up)
        )
        constant = float(plane.over(_over(plane.radii, np.array(width), np.array(height), 3))) + price * (across + up)
        for side, most in ((x, width), (y, height)):
            own += lines.over(_along(lines.radii, side[:, None]))
            constant += float(lines.over(_along(lines.radii, np.array(most))))
        leaf = {t: _leaf(self.states[t].x, self.states[t].y, plane, lines, price) for t in self.count}
        return StarCosts(2 * own, {t: 2 * cost for t, cost in leaf.items()}, 2 * constant)


def _leaf(x: IntArray, y: IntArray, plane: _Levels, lines: _Levels, price: float) -> FloatArray:
    """[states] the least of what a box costs that is cut by neither line, by the vertical, by the horizontal one."""
    free = np.zeros(len(x))
    vertical, horizontal = lines.gain(y.astype(np.float64)), lines.gain(x.astype(np.float64))
    for slim in SLIM:
        a, b = np.minimum(x, slim * y), np.minimum(y, slim * x)
        gain = plane.gain(a * b)
        free = np.maximum(free, gain)
        vertical = np.maximum(vertical, gain - a / 4 + price * b)
        horizontal = np.maximum(horizontal, gain - b / 4 + price * a)
    return np.minimum(free, np.minimum(vertical, horizontal))


def _levels(ends: FloatArray, radii: FloatArray) -> _Levels:
    return _Levels(np.append(ends[1:], 0.0), ends, radii)


def _along(radius: FloatArray, length: FloatArray) -> FloatArray:
    """∫ max(0, radius - |t|) over an interval round 0."""
    along: FloatArray = radius**2 - np.maximum(0.0, radius - length / 2) ** 2
    return along


def _over(radius: FloatArray, width: FloatArray, height: FloatArray, power: int) -> FloatArray:
    """Over a box round the origin: its tiles within the radius (power 2), or ∫ max(0, radius - |p|) (power 3)."""

    def corner(at: FloatArray) -> FloatArray:
        part: FloatArray = np.maximum(0.0, at) ** power / (2.0 if power == 2 else 6.0)
        return part

    a, b = width / 2, height / 2
    return 4 * (corner(radius) - corner(radius - a) - corner(radius - b) + corner(radius - a - b))


def _radius(area: FloatArray, width: float, height: float) -> FloatArray:
    """Of the ball that has so many tiles on the fabric (all of it where it has fewer)."""
    low, high = np.zeros_like(area), np.full_like(area, (width + height) / 2)
    for _ in range(40):
        middle = (low + high) / 2
        less = _over(middle, np.array(width), np.array(height), 2) < area
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return high
