"""The states of a kernel in the lower bounds: box and execution arguments at a target time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from chipmap.heuristics.wafer.bounds.kernel import NEVER, boxes, next_time
from chipmap.instances.wafer.problem import IntArray, WaferProblem
from chipmap.instances.wafer.shapes import shapes
from chipmap.instances.wafer.vectors import triples

#: Beyond so many triples (h, w, c) adapters are left out of the bounds.
MAX_TRIPLES = 200_000
#: Which of (h, w, c) two ends of an edge agree on, one row per mask; the last agrees on nothing.
AGREE = tuple(product((True, False), repeat=3))


@dataclass(frozen=True, eq=False)
class States:
    """All boxes of a kernel type that matter at a time: ``x``, ``y`` [s] tiles and ``groups`` [s, masks].

    Two states are in the same group of a mask where they agree on the arguments that the mask names; the numbers of the
    groups of all masks run through.
    """

    x: IntArray
    y: IntArray
    groups: IntArray


class Tables:
    """Makes the states of every type at a time. ``groups`` is the number of groups of all masks together.

    ``adapters`` says whether states with arguments make sense: adapters weigh something and triples aren't too many.
    """

    def __init__(self, problem: WaferProblem):
        self.problem = problem
        self.limit = max(problem.width, problem.height)
        self.triples = triples(self.limit) if problem.instance.weights.adapter else np.zeros((0, 3), np.int64)
        self.adapters = 0 < len(self.triples) <= MAX_TRIPLES
        self.numbers, self.groups = _groups(self.triples) if self.adapters else (np.zeros((1, 1), np.int64), 1)
        self._steps = [[_steps(conv) for conv in convs] for convs in problem.type_arrays]

    def next_time(self, least: int) -> int:
        """The smallest time >= ``least`` quarters that a kernel can have; NEVER if there is none."""
        best = int(NEVER)
        for convs, steps in zip(self.problem.type_arrays, self._steps, strict=True):
            for conv, step in zip(convs, steps, strict=True):
                best = min(best, int(next_time(conv, step, least)))
        return best

    def fronts(self, tau: int) -> list[States]:
        """The Pareto front of every type at ``tau`` quarters, all in the one group of agreeing on nothing."""
        return [_states(f[:, 0], f[:, 1], np.zeros((len(f), 1), np.int64)) for f in shapes(self.problem, tau)]

    def states(self, tau: int) -> list[States]:
        """Every box of every type at ``tau`` quarters, with its arguments."""
        height = self.triples[:, 0] * self.triples[:, 1] * (self.triples[:, 2] + 1)
        result = []
        for convs in self.problem.type_arrays:
            width = boxes(convs, self.triples, tau, self.problem.memory, self.limit)
            some = width > 0
            x, y, groups = width[some], height[some], self.numbers[some]
            both = np.concatenate([x, y]), np.concatenate([y, x]), np.concatenate([groups, groups])
            fits = self.problem.fits(both[0], both[1])
            result.append(_states(both[0][fits], both[1][fits], both[2][fits]))
        return result


def _states(x: IntArray, y: IntArray, groups: IntArray) -> States:
    return States(np.ascontiguousarray(x), np.ascontiguousarray(y), np.ascontiguousarray(groups))


def _groups(triples: IntArray) -> tuple[IntArray, int]:
    """The group of every triple in every mask, numbered through, and the number of groups."""
    columns, first = [], 0
    for mask in AGREE:
        _, index = np.unique(triples * np.array(mask), axis=0, return_inverse=True)
        columns.append(index.reshape(-1) + first)
        first += int(index.max()) + 1
    return np.column_stack(columns).astype(np.int64), first


def _steps(conv: IntArray) -> IntArray:
    """[4, m] the values of ⌈n/a⌉ for n = H, W, C, K and a = 1, 2, ..., ascending, filled up with zeros."""
    values = [sorted({-(-n // a) for a in range(1, n + 1)}) for n in (int(conv[j]) for j in (0, 1, 4, 5))]
    table = np.zeros((4, max(map(len, values))), np.int64)
    for row, some in zip(table, values, strict=True):
        row[: len(some)] = some
    return table
