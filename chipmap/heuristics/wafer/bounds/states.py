"""The states of a kernel in the lower bounds: box and execution arguments at a target time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.wafer.bounds.kernel import NEVER, boxes, next_time
from chipmap.instances.wafer.problem import IntArray, WaferProblem
from chipmap.instances.wafer.shapes import shapes
from chipmap.instances.wafer.vectors import triples

#: Beyond so many triples (h, w, c) adapters are left out of the bounds.
MAX_TRIPLES = 200_000
#: Which of (h, w, c) two ends of an edge agree on, one row per mask; the last agrees on nothing.
AGREE = tuple(product((True, False), repeat=3))


#: Masks and ones with an argument less, whose groups hold theirs: minima go from the first mask to all others.
MERGES = ((0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 6), (3, 7))


@dataclass(frozen=True, eq=False)
class Lattice:
    """Groups of states by mask: two states are in the same group of a mask where they agree on the arguments it names.

    ``numbers`` [finest, masks]: a group of the first mask, which names all arguments, has the same number as its row;
    the numbers of all masks run through, and ``counts`` [masks] says how many each has. ``merges`` [k, 2]: the least
    values of groups become those of all others if each row's first goes into its second, in this order.
    """

    numbers: IntArray
    counts: IntArray
    merges: IntArray


#: One group, where arguments don't count.
ALONE = Lattice(np.zeros((1, 1), np.int64), np.ones(1, np.int64), np.zeros((0, 2), np.int64))


@dataclass(frozen=True, eq=False)
class States:
    """All boxes of a kernel type that matter at a time: ``x``, ``y`` [s] tiles and ``groups`` [s] of the first mask."""

    x: IntArray
    y: IntArray
    groups: IntArray
    lattice: Lattice = ALONE


class Tables:
    """Makes the states of every type at a time.

    ``adapters`` says whether states with arguments make sense: adapters weigh something and triples aren't too many.
    ``compares`` [types]: whether any adapter counts the c of such a kernel.
    """

    def __init__(self, problem: WaferProblem):
        self.problem = problem
        self.limit = max(problem.width, problem.height)
        self.triples = triples(self.limit) if problem.instance.weights.adapter else np.zeros((0, 3), np.int64)
        self.adapters = 0 < len(self.triples) <= MAX_TRIPLES
        self.compares = [compares_c(problem, (t,)) for t in range(len(problem.type_arrays))]
        self._before = _predecessors(self.triples) if self.adapters else None
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
        return [_states(f[:, 0], f[:, 1], np.zeros(len(f), np.int64)) for f in shapes(self.problem, tau)]

    def states(self, tau: int) -> list[States]:
        """The boxes of every type at ``tau`` quarters, with the arguments that a floorplan of least cost can need.

        A value of h is left out where all types have the same width with the value before it, whatever w and c are: all
        kernels with that value may take the one before. They agree as before, and no box is wider or higher. The same
        holds for w and for c. A type whose c no adapter counts has c = 1 and keeps its Pareto-minimal boxes of h and w.
        """
        memory, limit = self.problem.memory, self.limit
        widths = np.array([boxes(convs, self.triples, tau, memory, limit) for convs in self.problem.type_arrays])
        kept = np.flatnonzero(self._needed(widths))
        labels, widths = self.triples[kept], widths[:, kept]
        lattice = lattice_of(labels)
        result = []
        for width, compares in zip(widths, self.compares, strict=True):
            some, own = width > 0, np.arange(len(labels))
            if not compares:
                same = (labels[1:, :2] == labels[:-1, :2]).all(axis=1)
                some[1:] &= ~same | (width[1:] < width[:-1]) | (width[:-1] == 0)
                first = np.flatnonzero(np.append(True, ~same))
                own = np.repeat(first, np.diff(np.append(first, len(labels))))
            x, y, groups = width[some], labels[some, 0] * labels[some, 1] * (labels[some, 2] + 1), own[some]
            both = np.concatenate([x, y]), np.concatenate([y, x]), np.concatenate([groups, groups])
            fits = self.problem.fits(both[0], both[1])
            result.append(_states(both[0][fits], both[1][fits], both[2][fits], lattice))
        return result

    def _needed(self, widths: IntArray) -> NDArray[np.bool_]:
        """[triples] whether each of the three values is one at which some type's width changes; ``widths`` by type."""
        assert self._before is not None
        needed = np.ones(len(self.triples), dtype=bool)
        for column, before in zip(self.triples.T, self._before, strict=True):
            changes = (before < 0) | (widths != widths[:, before]).any(axis=0)
            at = np.zeros(int(column.max()) + 1, dtype=bool)
            at[column[changes]] = True
            needed &= at[column]
        return needed


def compares_c(problem: WaferProblem, types: Iterable[int]) -> bool:
    """Whether adapters between kernels of these types count c: all have one convolution, so that c_1 = c_n = c."""
    return problem.instance.protocol == "c_n" and all(len(problem.type_arrays[t]) == 1 for t in types)


def _states(x: IntArray, y: IntArray, groups: IntArray, lattice: Lattice = ALONE) -> States:
    return States(np.ascontiguousarray(x), np.ascontiguousarray(y), np.ascontiguousarray(groups), lattice)


def _predecessors(every: IntArray) -> list[IntArray]:
    """For h, w and c the place of the triple that has one less of it and is the same otherwise; -1 for none."""
    scale = int(every.max()) + 1
    codes = (every[:, 0] * scale + every[:, 1]) * scale + every[:, 2]  # ascending, as the triples are
    found = []
    for column, step in zip(every.T, (scale * scale, scale, 1), strict=True):
        place = np.searchsorted(codes, codes - step)
        found.append(np.where(column > 1, np.minimum(place, len(codes) - 1), -1))
    return found


def lattice_of(labels: IntArray) -> Lattice:
    """The groups of different triples in ascending order: each is a group of the first mask."""
    columns, counts, scale = [], list[int](), int(labels.max()) + 1
    for mask in AGREE:
        h, w, c = (labels * np.array(mask)).T
        _, index = np.unique((h * scale + w) * scale + c, return_inverse=True)
        columns.append(index.reshape(-1) + sum(counts))
        counts.append(int(index.max()) + 1)
    numbers = np.column_stack(columns).astype(np.int64)
    merges = [np.unique(numbers[:, list(pair)], axis=0) for pair in MERGES]
    return Lattice(numbers, np.array(counts), np.concatenate(merges))


def _steps(conv: IntArray) -> IntArray:
    """[4, m] the values of ⌈n/a⌉ for n = H, W, C, K and a = 1, 2, ..., ascending, filled up with zeros."""
    values = [sorted({-(-n // a) for a in range(1, n + 1)}) for n in (int(conv[j]) for j in (0, 1, 4, 5))]
    table = np.zeros((4, max(map(len, values))), np.int64)
    for row, some in zip(table, values, strict=True):
        row[: len(some)] = some
    return table
