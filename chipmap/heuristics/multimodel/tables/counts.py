"""What paths hold of each class of chiplets: a relaxation of a module whose paths are too many to list.

Chiplets are put into **groups**: those of one type, of one class, or all. A path needs so many of each group, a vector
of numbers, and costs no less than with each group's least costs. Two segments in a row lie in groups that a link joins.
Which chiplets a path takes is left open: models stand side by side where their vectors add up to no more than the
module has. Every real path, and all real paths side by side, obey this.

A **node** is a vector and the group of the last segment. So a module of 14 chiplets of two classes has 126 nodes, where
its paths are millions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.multimodel.tables.paths import types_of
from chipmap.instances.multimodel.problem import FloatArray, IntArray, ModelCosts, MultiProblem
from chipmap.kernels import njit
from chipmap.kernels.arrays import float_table

#: Nodes up to which types are told apart, and up to which classes are.
MOST_OF_TYPES, MOST_NODES = 300, 2_000


@dataclass(frozen=True, eq=False)
class Counts:
    """The nodes of a module, from few segments to many.

    ``groups``: the chiplets of each; ``vectors`` [nodes, groups], ``kind`` [nodes]: the last segment's group;
    ``parents[s]``: nodes with one segment less. ``group`` [nodes] and ``below``: as of
    :class:`~chipmap.heuristics.multimodel.tables.paths.Paths`, of vectors.
    """

    groups: tuple[IntArray, ...]
    vectors: IntArray
    kind: IntArray
    parents: tuple[tuple[int, ...], ...]
    group: IntArray
    below: IntArray
    #: How many classes have no group of their own.
    joined: int = 0

    @property
    def signatures(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def depth(self) -> IntArray:
        """Segments of each node, less one."""
        return self.vectors.sum(axis=1) - 1

    @property
    def longest(self) -> int:
        """Segments of the longest one."""
        return int(self.depth[-1]) + 1

    def costs(self, model: ModelCosts) -> ModelCosts:
        """The least costs of each group: a column for each."""

        def least(array: IntArray) -> IntArray:
            return np.stack([array[:, group].min(axis=1) for group in self.groups], axis=1)

        return replace(
            model,
            time=least(model.time),
            energy=least(model.run_energy),
            read_time=least(model.read_time),
            read_energy=least(model.read_energy),
            write_time=least(model.write_time),
            write_energy=least(model.write_energy),
            weight_energy=np.zeros((model.layers, len(self.groups)), dtype=np.int64),
        )

    def sram(self, problem: MultiProblem) -> IntArray:
        """The largest SRAM of each group, bytes."""
        return np.array([problem.sram[group].max() for group in self.groups], dtype=np.int64)

    def places(self) -> Vectors:
        """Where nodes lie."""
        sizes = tuple(len(group) + 1 for group in self.groups)
        at = np.ravel_multi_index(tuple(self.vectors.T), sizes).astype(np.int64)
        return Vectors(at, np.arange(self.signatures, dtype=np.int64), sizes)


def module_counts(problem: MultiProblem) -> Counts | None:
    """The first of :func:`all_counts`; None where times are too long for exact sums."""
    return next(all_counts(problem), None)


def all_counts(problem: MultiProblem) -> Iterator[Counts]:
    """The nodes of the module from many to few: by types where these are few, by classes, then with the two groups in
    one that cost most alike, to the end. None where times are too long for exact sums."""
    if problem.most_time >= 2**53:
        return
    kinds = [chiplet.kind for chiplet in problem.instance.module.chiplets]
    names = sorted(set(kinds))
    types, classes = types_of(problem), np.array([names.index(kind) for kind in kinds], dtype=np.int64)
    if _nodes(types) <= MOST_OF_TYPES:
        yield _counts(problem, types)
    while True:
        if _nodes(classes) <= MOST_NODES or classes.max() == 0:
            yield replace(_counts(problem, classes), joined=len(names) - 1 - int(classes.max()))
        if classes.max() == 0:
            return
        classes = _merged(problem, classes)


def _nodes(of: IntArray) -> int:
    """At least the number of nodes of these groups."""
    numbers = np.bincount(of)
    return len(numbers) * prod(int(number) + 1 for number in numbers)


def _merged(problem: MultiProblem, of: IntArray) -> IntArray:
    """The groups with two of them in one: those whose layers' least times and energies differ least."""
    rows = []
    for k in range(int(of.max()) + 1):
        least = [a[:, of == k].min(axis=1) for model in problem.models for a in (model.time, model.run_energy)]
        rows.append(np.log(np.maximum(1.0, np.concatenate(least))))
    a, b = min(combinations(range(len(rows)), 2), key=lambda pair: float(np.abs(rows[pair[0]] - rows[pair[1]]).sum()))
    return np.where(of == b, a, np.where(of > b, of - 1, of))


def _counts(problem: MultiProblem, of: IntArray) -> Counts:
    groups = tuple(np.flatnonzero(of == k) for k in range(int(of.max()) + 1))
    links = {(int(of[a]), int(of[b])) for a, near in enumerate(problem.neighbours) for b in near}
    most = min(problem.chiplets, max(model.layers for model in problem.models))
    reached: dict[tuple[tuple[int, ...], int], int] = {}
    parents, at = list[tuple[int, ...]](), dict[tuple[int, ...], int]()
    vectors = sorted(product(*(range(len(group) + 1) for group in groups)), key=lambda vector: (sum(vector), vector))
    for vector in vectors:
        if not 0 < sum(vector) <= most:
            continue
        for k, number in enumerate(vector):
            less = _less(vector, k)
            own = tuple(reached[less, j] for j in range(len(groups)) if (less, j) in reached and (j, k) in links)
            if number and (own or sum(vector) == 1):
                reached[vector, k] = len(parents)
                parents.append(own)
                at.setdefault(vector, len(at))
    below = [[at[less] for k, n in enumerate(vector) if n and (less := _less(vector, k)) in at] for vector in at]
    width = max(1, *map(len, below))
    return Counts(
        groups=groups,
        vectors=np.array([vector for vector, _ in reached], dtype=np.int64),
        kind=np.array([k for _, k in reached], dtype=np.int64),
        parents=tuple(parents),
        group=np.array([at[vector] for vector, _ in reached], dtype=np.int64),
        below=np.array([[*own, *[-1] * (width - len(own))] for own in below], dtype=np.int64),
    )


def _less(vector: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*vector[:k], vector[k] - 1, *vector[k + 1 :])


class Vectors(NamedTuple):
    """Sets of chiplets by numbers, as :class:`~chipmap.heuristics.multimodel.tables.sets.Places` by bit masks.

    A set's number is that of its vector among all with entries below ``sizes``, the last entry changing fastest. So
    the numbers of two sets that fit beside each other add up to that of both.
    """

    mask: NDArray[np.int64]
    signature: NDArray[np.int64]
    sizes: tuple[int, ...]

    @property
    def signatures(self) -> int:
        """Number of nodes."""
        return len(self.signature)

    @property
    def sets(self) -> int:
        """Number of sets."""
        return prod(self.sizes)

    def fill(self, value: FloatArray, pause: float, sets: FloatArray) -> None:
        """Write to ``sets`` [set, cell] the least ``value`` [node, cell] of nodes within a set, at most ``pause``."""
        sets[:] = pause
        np.minimum.at(sets, self.mask, value[self.signature])
        shaped = sets.reshape(*self.sizes, -1)
        for axis in range(len(self.sizes)):
            np.minimum.accumulate(shaped, axis=axis, out=shaped)

    def least(self, value: FloatArray, pause: float = np.inf) -> FloatArray:
        """:meth:`fill` into new sets."""
        sets = np.empty((self.sets, value.shape[1]))
        self.fill(value, pause, sets)
        return sets

    def within(self, mask: int, value: FloatArray, most: int) -> list[tuple[float, int]]:
        """(value, position of the node) of at most so many least nodes within a set; ``value`` [node]."""
        values = np.where(self._fit(self.mask, mask), value[self.signature], np.inf)
        return [(float(values[at]), int(at)) for at in np.argsort(values, kind="stable")[:most] if values[at] < np.inf]

    def apart(self, one: IntArray, other: IntArray) -> NDArray[np.bool_]:
        """Whether two sets fit beside each other."""
        top = self.sets - 1
        return self._fit(one, top - other)

    def _fit(self, one: IntArray, other: IntArray | int) -> NDArray[np.bool_]:
        """Whether the first is part of the second."""
        step, fit = 1, np.ones(np.broadcast(one, other).shape, dtype=np.bool_)
        for size in reversed(self.sizes):
            fit &= one // step % size <= other // step % size
            step *= size
        return fit

    def inside(self, whole: int) -> IntArray:
        """The sets within the set ``whole``."""
        every = np.arange(whole + 1)
        return every[self._fit(every, whole)]

    def side_by_side(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """[set, cell]: the least left[a] + right[b] over sets a and b that make up each set."""
        vectors = np.stack(np.unravel_index(np.arange(self.sets), self.sizes), axis=1)
        return np.array(numbers_side_by_side(left, right, vectors))


@njit(nogil=True, cache=True)
def numbers_side_by_side(left, right, vectors):  # type: ignore[no-untyped-def]
    """As :meth:`Vectors.side_by_side`; ``vectors`` [set, groups]."""
    found = float_table(left.shape[0], left.shape[1], np.inf)
    for k in range(left.shape[0]):
        for a in range(k + 1):
            fits = True
            for g in range(vectors.shape[1]):
                if vectors[a, g] > vectors[k, g]:
                    fits = False
                    break
            if fits:
                for t in range(left.shape[1]):
                    cost = left[a, t] + right[k - a, t]
                    found[k, t] = cost if cost < found[k, t] else found[k, t]
    return found
