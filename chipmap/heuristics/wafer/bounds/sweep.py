"""What one sweep of the elimination keeps, and which cases of a cluster go with which tables of its members.

Tables are kept by the kinds of parts that the clusters so far have: in x, in y, in both or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.bounds.clusters import Cases, Cluster, Shape
from chipmap.heuristics.wafer.bounds.packing import FloatArray
from chipmap.heuristics.wafer.bounds.stars import Shared
from chipmap.heuristics.wafer.bounds.states import States
from chipmap.instances.wafer.problem import IntArray

#: Kinds of parts that a table counts with, as bits, and sets of kinds.
UP, ACROSS, BOTH = 1, 2, 3
ONLY_UP, ONLY_ACROSS, SOME_UP, SOME_ACROSS = (0, UP), (0, ACROSS), (UP, BOTH), (ACROSS, BOTH)
ANY = (0, UP, ACROSS, BOTH)

#: Cases of a cluster and, for each member but the root, the kinds of its tables that go with them.
Option = tuple[Cases, list[tuple[int, ...]]]


class Sent(NamedTuple):
    """What a cluster adds to its root's states, and the option and its case that give it."""

    options: list[Option]
    added: FloatArray
    option: IntArray
    case: IntArray


@dataclass(frozen=True, eq=False)
class Scale:
    """What a half tile of parts costs: ``bridge`` [2] ticks in x and in y on a bridge, ``cycle`` [2] elsewhere."""

    bridge: FloatArray
    cycle: FloatArray

    def parts(self, coefficients: IntArray, looped: bool) -> FloatArray:
        """[.., 2] ticks of coefficients [.., 4]."""
        plain = self.cycle if looped else self.bridge
        scaled: FloatArray = coefficients[..., :2] * plain + coefficients[..., 2:] * self.bridge
        return scaled


@dataclass(eq=False)
class Sweep:
    """One elimination: each kernel's states, ticks of its boxes' least side and its tables by kind; what each cluster
    sent by kind, its root's before."""

    own: list[States]
    scale: Scale
    stars: Shared
    thin: FloatArray
    values: list[dict[int, FloatArray]]
    sent: list[dict[int, Sent]] = field(default_factory=list)
    before: list[dict[int, FloatArray]] = field(default_factory=list)

    def boxes(self, cluster: Cluster) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """x, y and group of the states of a cluster's members but the root, one member after the other, and where each
        member's begin, with the end."""
        own = [self.own[v] for v in cluster.members[:-1]]
        x, y, groups = (np.concatenate([getattr(s, name) for s in own]) for name in ("x", "y", "groups"))
        return x, y, groups, np.cumsum([0] + [len(s.x) for s in own])

    def sides(self, kernels: Sequence[int], chosen: IntArray) -> IntArray:
        """[kernels, 2] width and height of their chosen states."""
        return np.array([(self.own[v].x[chosen[v]], self.own[v].y[chosen[v]]) for v in kernels])

    def least(self, cluster: Cluster, kinds: list[tuple[int, ...]]) -> FloatArray | None:
        """The least value of each of these states over the member's tables of some kinds; None if one has no table."""
        tables = [
            [self.values[v][kind] for kind in allowed if kind in self.values[v]]
            for v, allowed in zip(cluster.members[:-1], kinds, strict=True)
        ]
        return np.concatenate([np.minimum.reduce(some) for some in tables]) if all(tables) else None


def better(best: Sent | None, sent: Sent) -> Sent:
    """The cheaper of both for every state of the root."""
    if best is None:
        return sent
    better = sent.added < best.added
    for ours, new in ((best.added, sent.added), (best.case, sent.case), (best.option, sent.option)):
        ours[better] = new[better]
    return best


def options_of(shape: Shape, strips: bool, mixed_parts: bool) -> dict[int, list[Option]]:
    """By the kind of what is sent: the cases and the kinds of the members' tables; ``mixed_parts``: with parts in both
    directions, whatever the case."""
    count = shape.every.chosen.shape[1]
    if not strips:
        return {0: [(shape.every, [(0,)] * count)]}
    if mixed_parts:
        return {BOTH: [(shape.every, [ANY] * count)]}
    mixed: list[Option] = [(shape.both, [ANY] * count)] if shape.both else []
    for j in range(count):
        for cases, some in ((shape.across, SOME_UP), (shape.up, SOME_ACROSS)):
            mixed.append((cases, [some if i == j else ANY for i in range(count)]))
    return {UP: [(shape.up, [ONLY_UP] * count)], ACROSS: [(shape.across, [ONLY_ACROSS] * count)], BOTH: mixed}
