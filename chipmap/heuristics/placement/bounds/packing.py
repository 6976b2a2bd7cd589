"""What memory says of the step time: parts that must share a device have to fit on it. A bound for ``placement``.

If T1 <= T, what can't be cut at T (:func:`~chipmap.heuristics.placement.bounds.simple.parts`) shares a device and takes
up its bytes for the whole step: weights, storages that rest there, with rule ``static`` all that it makes, and
replicated weights, whose copy parts on one device share. Let M be the largest memory. T is refuted if these parts need
more than D bins of M bytes: each part above M / 2 needs a bin, and for any k, parts from k to M / 2 fill what those up
to M - k leave, and more bins (after Martello and Toth, 1990). What is refuted at T is so at each smaller T: the
greatest is found by bisection.
"""

from __future__ import annotations

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import HeadsAndTails, parts
from chipmap.heuristics.placement.shared import part_bytes
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: More bins than there are devices, and so many thresholds k.
NONE, THRESHOLDS = 2**31, 64


def packing(problem: PlacementProblem, w: HeadsAndTails, low: int, high: int, deadline: Deadline) -> int:
    """The least T in low … high at which the parts may fit; a bound, as all T below are refuted."""
    memory = int(problem.memory.max(initial=0))
    if problem.instance.task.memory == "none" or problem.memory.min(initial=0) < 0:
        return low
    while low < high and deadline.keep_going():
        middle = (low + high) // 2
        if needed(problem, parts(problem, w, middle), memory) > problem.devices:
            low = middle + 1
        else:
            high = middle
    return low


def needed(problem: PlacementProblem, part: IntArray, memory: int) -> int:
    """A lower bound on the devices of ``memory`` bytes that hold parts (numbers [N]); :data:`NONE` if one is larger.

    Parts on a device share its copy of a replicated weight: one of the parts that read it holds it, the largest one.
    """
    whole = part_bytes(problem, part)
    if whole.max(initial=0) > memory:
        return NONE
    once = whole.copy()
    for size, readers in problem.copies:
        reading = np.unique(part[list(readers)])
        once[np.delete(reading, whole[reading].argmax())] -= size
    return bins(once, memory)


def bins(sizes: IntArray, room: int) -> int:
    """A lower bound on the bins of ``room`` bytes that hold all ``sizes``; :data:`NONE` if one is larger."""
    sizes = np.sort(sizes[sizes > 0])[::-1]
    if not sizes.size:
        return 0
    if sizes[0] > room:
        return NONE
    best = -(-int(sizes.sum()) // room)
    small = np.unique(sizes[2 * sizes <= room])
    large, middle = sizes[2 * sizes > room], sizes[2 * sizes <= room]
    for k in [1, *small[:: max(1, len(small) // THRESHOLDS)].tolist()]:
        half = large[large <= room - k]
        left = len(half) * room - int(half.sum())
        best = max(best, len(large) + max(0, -((left - int(middle[middle >= k].sum())) // room)))
    return best
