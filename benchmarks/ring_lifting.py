"""Many mappings of a contracted instance, mapped back to the original operations at once (numpy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.contraction import Contraction
from chipmap.instances.ring.problem import IntArray, ring_problem


class BatchLift:
    """:meth:`Contraction.lift_computing` on arrays: views and dead operations follow their latest producer, the others
    (inputs, constants, views of them) sit with their first reader. The steps are listed once; each is one array
    operation.
    """

    def __init__(self, contraction: Contraction) -> None:
        problem = ring_problem(contraction.original)
        self.n = problem.n
        pairs = [(u, v) for v, group in enumerate(contraction.groups) for u in group]
        self._placed, self._from = (
            np.array(column, dtype=np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), ()))
        )
        readers: list[list[int]] = [[] for _ in range(self.n)]
        producers: list[list[int]] = [[] for _ in range(self.n)]
        for u, v in problem.edges.tolist():
            readers[u].append(v)
            producers[v].append(u)
        known = set(self._placed.tolist())
        self._follow: list[tuple[int, IntArray]] = []
        for v in problem.order:
            before = [u for u in producers[v] if u in known]
            if v not in known and before:
                self._follow.append((v, np.array(before, dtype=np.int64)))
                known.add(v)
        self._precede: list[tuple[int, IntArray]] = []
        for v in reversed(problem.order):
            if v not in known:
                self._precede.append((v, np.array(readers[v], dtype=np.int64)))

    def __call__(self, chips: NDArray[np.integer]) -> IntArray:
        """[k, N] chips of the original operations for ``chips`` [k, n] of the contracted ones that compute."""
        lifted = np.zeros((self.n, len(chips)), dtype=np.int64)
        lifted[self._placed] = np.asarray(chips, dtype=np.int64).T[self._from]
        for v, before in self._follow:
            lifted[v] = lifted[before[0]] if len(before) == 1 else lifted[before].max(axis=0)
        for v, after in self._precede:
            if len(after):
                lifted[v] = lifted[after[0]] if len(after) == 1 else lifted[after].min(axis=0)
        return np.ascontiguousarray(lifted.T)
