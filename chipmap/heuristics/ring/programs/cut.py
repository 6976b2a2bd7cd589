"""What each ideal of a family cuts: the ticks of the storages that are made inside it and read outside it. Compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.heuristics.ring.programs.kernel import Storages, has
from chipmap.kernels import njit


@njit(part=True)
def read_outside(readers: Any, inside: Any) -> bool:
    """Whether some reader isn't in the ideal."""
    outside = False
    for w in range(len(inside)):
        outside |= readers[w] & ~inside[w] != 0
    return outside


@njit(cache=True)
def cut_ticks(words: Any, first: Any, added: Any, target: Any, storages: Storages) -> Any:
    """[m] ticks of the storages made inside each ideal and read outside it.

    A step that adds operation v adds what v makes and takes off what v is the last to read; only an ideal that no step
    leads to (the first) is counted from nothing. All storages for every ideal would take m · s · w.
    """
    _, readers, ticks, _, read_first, reads, made_first, made = storages
    cut = np.full(len(words), -1, dtype=np.int64)
    for i in range(len(words)):
        if cut[i] < 0:
            cut[i] = 0
            for s in range(len(storages.producer)):
                if has(words[i], storages.producer[s]) and read_outside(readers[s], words[i]):
                    cut[i] += ticks[s]
        for step in range(first[i], first[i + 1]):
            j, v = target[step], added[step]
            if cut[j] < 0:
                cut[j] = cut[i]
                for m in range(made_first[v], made_first[v + 1]):
                    if read_outside(readers[made[m]], words[j]):
                        cut[j] += ticks[made[m]]
                for r in range(read_first[v], read_first[v + 1]):
                    if not read_outside(readers[reads[r]], words[j]):
                        cut[j] -= ticks[reads[r]]
    return cut
