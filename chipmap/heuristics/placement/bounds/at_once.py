"""What all devices together hold while an operation runs, whatever the schedule (C6 with rule ``live``).

Let operation v take time. All that it depends on has ended when it starts, and all that depends on it starts after it.
So a storage is somewhere while v runs if v or something before v makes it, and v or something after v reads it. A
storage is at its producer's home until the last transfer of it ends, and a copy lasts until its last reader ends. So
there is no moment without it in between. Weights, and what placed constants make, are there for the whole step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.starts.frugal import curves_one_by_one, frugal_order
from chipmap.instances.placement.problem import IntArray, PlacementProblem


def crowded(problem: PlacementProblem, limit: int) -> list[int]:
    """Operations that take time on every device, next to where an order that holds little holds most; none where that
    is ``limit`` bytes or less."""
    order = frugal_order(problem)
    together: IntArray = np.zeros(problem.operations, dtype=np.int64)
    curve = curves_one_by_one(problem, together, order)[0]
    peak = int(curve.argmax())
    if curve[peak] <= limit:
        return []
    runs = np.where(problem.allowed, problem.time, 1).min(axis=1) > 0
    places = np.flatnonzero(runs[np.array(order, dtype=np.int64)])
    at = int(np.searchsorted(places, peak))
    near = [*places[max(0, at - 1) : at + 2].tolist()]
    return [order[place] for place in sorted(near, key=lambda place: -int(curve[place]))]


def at_once(problem: PlacementProblem, v: int) -> tuple[int, int, int]:
    """(bytes that all devices together hold at least while ``v`` runs, operations before it, operations after it).

    ``v`` takes time on each device that may run it.
    """
    before, after = _before(problem, v), _after(problem, v)
    storages = problem.storages
    wanted = np.zeros(len(storages), dtype=bool)
    np.logical_or.at(wanted, storages.read, after[storages.readers])
    wanted |= storages.output
    held = before[storages.producer] & wanted | (storages.producer == v) | storages.resident
    need = int(problem.weights.sum() + storages.bytes[held].sum()) + sum(size for size, _ in problem.copies)
    return need, int(before.sum()) - 1, int(after.sum()) - 1


def _before(problem: PlacementProblem, v: int) -> NDArray[np.bool_]:
    """``v`` and all that it depends on [N]."""
    found, left = np.zeros(problem.operations, dtype=bool), [v]
    producer = problem.storages.producer.tolist()
    found[v] = True
    while left:
        for s in problem.producers[left.pop()]:
            if not found[producer[s]]:
                found[producer[s]] = True
                left.append(producer[s])
    return found


def _after(problem: PlacementProblem, v: int) -> NDArray[np.bool_]:
    """``v`` and all that depends on it [N]."""
    found, left = np.zeros(problem.operations, dtype=bool), [v]
    at, readers = problem.storages.reader_at.tolist(), problem.storages.readers.tolist()
    found[v] = True
    while left:
        for s in problem.made[left.pop()]:
            for w in readers[at[s] : at[s + 1]]:
                if not found[w]:
                    found[w] = True
                    left.append(w)
    return found
