"""Memory in grade ``full`` as a screen of the programs: it depends on the pair (I, J) of ideals alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipmap.heuristics.ring.programs.ideals import IdealFamily
from chipmap.heuristics.ring.programs.kernel import Storages, has
from chipmap.heuristics.ring.programs.screens import Screen


def full_memory(weights: NDArray[np.int64], storages: Storages, sram: int) -> Screen:
    """The pairs whose block fits ``sram`` bytes in grade ``full``; ``weights`` [n] in the order of execution.

    Weights + 2 · bytes made in I and read outside I (received or relayed) + 2 · bytes made in the block and read
    outside J (sent) + the peak of the bytes made in the block and read inside it only.
    """
    masks = [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in storages.readers]
    last = np.array([mask.bit_length() - 1 for mask in masks], dtype=np.int64)

    def screen(ideals: IdealFamily, source: NDArray[np.int64], target: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which blocks fit."""
        return np.asarray(block_bytes(ideals.words, source, target, weights, storages, last) <= sram)

    return screen


@njit(cache=True)
def _read_outside(readers: Any, words: Any) -> bool:
    outside = False
    for w in range(len(words)):
        outside = outside or readers[w] & ~words[w] != 0
    return outside


@njit(cache=True)
def block_bytes(words: Any, source: Any, target: Any, weights: Any, storages: Storages, last: Any) -> Any:
    """[p] bytes of SRAM that the block of each pair needs; ``last`` [s] is the last reader of each storage."""
    n = len(weights)
    producer, readers, size = storages.producer, storages.readers, storages.bytes
    found = np.zeros(len(source), dtype=np.int64)
    steps = np.zeros(n + 1, dtype=np.int64)  # by how much the bytes of inner storages change at each operation
    for p in range(len(source)):
        inside, end = words[source[p]], words[target[p]]
        total = 0
        for v in range(n):
            if has(end, v) and not has(inside, v):
                total += weights[v]
        steps[:] = 0
        for s in range(len(producer)):
            if has(inside, producer[s]):
                if _read_outside(readers[s], inside):
                    total += 2 * size[s]
            elif has(end, producer[s]):
                if _read_outside(readers[s], end):
                    total += 2 * size[s]
                else:
                    steps[producer[s]] += size[s]
                    steps[last[s] + 1] -= size[s]
        alive, peak = 0, 0
        for v in range(n):
            alive += steps[v]
            peak = max(peak, alive)
        found[p] = total + peak
    return found
