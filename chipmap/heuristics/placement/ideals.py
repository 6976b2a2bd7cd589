"""Order ideals of the units of a throughput instance: the sets of units closed under producers, with the steps between.

Blocks (C7) one after the other are a chain of ideals. Real networks have few: 17,914 for GNMT's 96 operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.instances.placement.load_graph import LoadGraph

#: Ideals between two looks at the clock.
LOOK = 2_000


class TooManyIdealsError(Exception):
    """There are more ideals than were asked for."""


@dataclass(frozen=True, eq=False)
class Ideals:
    """Ideals in order of size, from none (first) to all (last).

    ``words`` [m, w]: bit sets of units. Step i of ideal j (``first[j] <= i < first[j + 1]``) adds unit ``added[i]`` and
    leads to ideal ``target[i]``.
    """

    words: NDArray[np.uint64]
    first: NDArray[np.int64]
    added: NDArray[np.int32]
    target: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.words)


def all_ideals(graph: LoadGraph, limit: int, deadline: Deadline) -> Ideals:
    """All ideals of the units that C7 speaks of, size by size; :class:`TooManyIdealsError` beyond ``limit``."""
    producers, readers = [0] * graph.units, [0] * graph.units
    for u, v in graph.before:
        producers[v] |= 1 << u
        readers[u] |= 1 << v
    ready = sum(1 << v for v in range(graph.units) if not producers[v] and not graph.free[v])
    level, steps = {0: ready}, dict[int, list[tuple[int, int]]]()
    while level:
        following: dict[int, int] = {}
        for mask, open_ in level.items():
            if len(steps) % LOOK == 0:
                deadline.check()
            out = []
            for v in bits(open_):
                target = mask | 1 << v
                out.append((v, target))
                if target not in following:
                    opened = sum(1 << w for w in bits(readers[v] & ~target) if not producers[w] & ~target)
                    following[target] = (open_ ^ 1 << v) | opened
            steps[mask] = out
        if len(steps) + len(following) > limit:
            raise TooManyIdealsError(f"more than {limit} ideals")
        level = following
    return _ideals(steps, graph.units)


def ideals_of_orders(graph: LoadGraph, orders: Iterable[Sequence[int]]) -> Ideals:
    """The prefixes of topological orders of the units alone."""
    steps: dict[int, dict[int, int]] = {}
    for order in orders:
        mask = 0
        for v in order:
            steps.setdefault(mask, {})[v] = mask | 1 << v
            mask |= 1 << v
        steps.setdefault(mask, {})
    ordered = sorted(steps, key=lambda mask: (mask.bit_count(), mask))
    return _ideals({mask: sorted(steps[mask].items()) for mask in ordered}, graph.units)


def bits(mask: int) -> Iterable[int]:
    """The positions of the ones of ``mask``, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def bit_sets(masks: Sequence[int], count: int) -> NDArray[np.uint64]:
    """Bit sets of ``count`` members as rows of 64-bit words."""
    width = max(1, (count + 63) // 64)
    data = b"".join(mask.to_bytes(8 * width, "little") for mask in masks)
    return np.frombuffer(data, dtype="<u8").reshape(len(masks), width).astype(np.uint64)


def _ideals(steps: dict[int, list[tuple[int, int]]], units: int) -> Ideals:
    at = {mask: i for i, mask in enumerate(steps)}
    return Ideals(
        words=bit_sets(list(steps), units),
        first=np.cumsum([0, *(len(out) for out in steps.values())]).astype(np.int64),
        added=np.array([v for out in steps.values() for v, _ in out], dtype=np.int32),
        target=np.array([at[target] for out in steps.values() for _, target in out], dtype=np.int32),
    )
