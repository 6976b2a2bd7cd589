"""Units: sets of operations that the search moves as one, on several levels.

Groups of C1 are the finest. On each coarser level the ends of the largest tensors are joined first, as long as a unit's
work stays below a share of all work (Kruskal's algorithm with a cap).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit

#: The most work of a unit on each level, as a share of all work.
SHARES = (0.0, 1 / 4096, 1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4)


class Units(NamedTuple):
    """On level k operation v is in unit i = ``unit[k, v]``, whose members are ``members[k, at[k, i]:at[k, i + 1]]``."""

    unit: IntArray
    at: IntArray
    members: IntArray


def units(problem: PlacementProblem) -> Units:
    """The units of ``problem`` on all levels."""
    count, storages = problem.operations, problem.storages
    work = problem.time.min(axis=1)
    lengths = np.diff(storages.reader_at)
    producer, size = np.repeat(storages.producer, lengths), np.repeat(storages.bytes, lengths)
    order = np.argsort(-size, kind="stable")
    levels = [
        join(problem.group, producer[order], storages.readers[order], work, int(share * int(work.sum())))
        for share in SHARES
    ]
    unit, at = np.zeros((len(levels), count), np.int64), np.zeros((len(levels), count + 1), np.int64)
    members = np.zeros((len(levels), count), np.int64)
    for k, root in enumerate(levels):
        _, unit[k] = np.unique(root, return_inverse=True)
        members[k] = np.argsort(unit[k], kind="stable")
        at[k] = np.searchsorted(unit[k][members[k]], np.arange(count + 1))
    return Units(unit, at, members)


@njit(cache=True, nogil=True)
def join(group: IntArray, u: IntArray, v: IntArray, work: IntArray, cap: int) -> IntArray:
    """The unit of each operation: groups, then the ends of edges (u, v) in their order, up to ``cap`` work."""
    count = len(group)
    part, total = np.arange(count), work.copy()
    for i in range(count + len(u)):
        a, b = (i, group[i]) if i < count else (u[i - count], v[i - count])
        while part[a] != a:
            part[a] = part[part[a]]
            a = part[a]
        while part[b] != b:
            part[b] = part[part[b]]
            b = part[b]
        if a != b and (i < count or total[a] + total[b] <= cap):
            low = min(a, b)
            part[max(a, b)] = low
            total[low] = total[a] + total[b]
    for a in range(count):
        b = a
        while part[b] != b:
            b = part[b]
        part[a] = b
    return part
