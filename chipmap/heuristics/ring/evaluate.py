"""The objective of many mappings at once (numba): what a search by samples asks for most.

The formulas are those of :mod:`chipmap.instances.ring.costs`, with which tests compare them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipmap.instances.ring.costs import IntArray, RingProblem

#: The value of a mapping that breaks C4, where C4 is in force.
INVALID = 2**62
MODES = {"period": 0, "sum": 1, "sum_forward": 2}


class Evaluator:
    """Objectives in ticks of mappings of ``problem`` (one with C1), made ready once."""

    def __init__(self, problem: RingProblem) -> None:
        storages = problem.storages
        self.problem = problem
        self._costs = np.array([(s.producer, s.ticks, s.bytes) for s in storages], dtype=np.int64).reshape(-1, 3)
        self._at = np.concatenate(([0], np.cumsum([len(s.readers) for s in storages]))).astype(np.int64)
        self._readers = np.array([v for s in storages for v in s.readers], dtype=np.int64)
        self._sram = problem.sram_bytes if problem.has("C4") else -1

    def __call__(self, chips: NDArray[np.integer]) -> IntArray:
        """[k] objectives of the mappings ``chips`` [k, n]; :data:`INVALID` for those that break C4."""
        problem = self.problem
        values: IntArray = _evaluate(
            np.ascontiguousarray(chips, dtype=np.int64),
            problem.chips,
            MODES[problem.cost_mode],
            self._sram,
            problem.ticks,
            problem.weight_bytes,
            self._costs,
            self._at,
            self._readers,
        )
        return values


@njit(cache=True)
def _evaluate(
    mappings: Any, chips: int, mode: int, sram: int, ticks: Any, weights: Any, costs: Any, at: Any, readers: Any
) -> Any:
    values = np.zeros(len(mappings), dtype=np.int64)
    work = np.zeros(chips, dtype=np.int64)
    load = np.zeros(chips + 1, dtype=np.int64)
    memory = np.zeros(chips, dtype=np.int64)
    seen = np.full(chips, -1, dtype=np.int64)
    stamp = 0
    for i in range(len(mappings)):
        f = mappings[i]
        work[:] = 0
        load[:] = 0
        memory[:] = 0
        for v in range(len(f)):
            work[f[v]] += ticks[v]
            memory[f[v]] += weights[v]
        for s in range(len(costs)):
            home, time, size = f[costs[s, 0]], costs[s, 1], costs[s, 2]
            far = home
            seen[home] = stamp
            for r in range(at[s], at[s + 1]):
                c = f[readers[r]]
                if seen[c] != stamp:
                    seen[c] = stamp
                    memory[c] += 2 * size
                    far = max(far, c)
                    if mode == 1:
                        work[c] += time
            if far != home:
                memory[home] += 2 * size
                load[home] += time
                load[far] -= time
                if mode == 1:
                    work[home] += time
            stamp += 1
        values[i] = _worst(work, load, memory, mode, sram)
    return values


@njit(cache=True)
def _worst(work: Any, load: Any, memory: Any, mode: int, sram: int) -> int:
    """The objective; ``load`` holds differences between links on entry."""
    worst, before = 0, 0
    for c in range(len(work)):
        if sram >= 0 and memory[c] > sram:
            return INVALID
        here = before + load[c]
        worst = max(worst, work[c] + before + here if mode == 2 else work[c])
        if mode == 0:
            worst = max(worst, here)
        before = here
    return worst
