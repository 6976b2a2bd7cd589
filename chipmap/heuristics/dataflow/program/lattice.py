"""The order ideals of a kernel graph, and how one grows into the next by a kernel.

Partitions that run one after the other, each closed under what earlier ones made, are the differences of a chain of
ideals (down-sets): DFModel's partitions without its assignment matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import look

Words = NDArray[np.uint64]
Item = TypeVar("Item")
#: Ideals between two looks at the clock.
LOOK = 1000


class TooWideError(Exception):
    """The graph has more order ideals, or more labels of them, than the program takes."""


class Lattice(NamedTuple):
    """All ideals as Python bit sets by size, and for each the (kernel, position of the ideal with it) that it may grow
    to."""

    sets: list[int]
    grows: list[list[tuple[int, int]]]


def ideals(n: int, edges: Sequence[tuple[int, int]], limit: int = 200_000) -> Lattice:
    """The lattice of kernels 0 … n-1 with these edges. Raises :class:`TooWideError` beyond ``limit`` ideals."""
    makers, readers = [0] * n, [0] * n
    for u, v in edges:
        makers[v] |= 1 << u
        readers[u] |= 1 << v
    ready_at = {0: sum(1 << v for v in range(n) if makers[v] == 0)}
    sets, grows, done = [0], list[list[tuple[int, int]]](), 0
    index = {0: 0}
    while done < len(sets):
        ideal = sets[done]
        ready, steps = ready_at.pop(ideal), list[tuple[int, int]]()
        for v in members(ready):
            grown = ideal | 1 << v
            if grown not in index:
                index[grown] = len(sets)
                sets.append(grown)
                freed = sum(1 << w for w in members(readers[v]) if makers[w] & ~grown == 0)
                ready_at[grown] = (ready ^ 1 << v) | freed
            steps.append((v, index[grown]))
        grows.append(steps)
        done += 1
        if done % LOOK == 0:
            look()
        if len(sets) > limit:
            raise TooWideError(f"the graph has more than {limit:,} order ideals")
    return Lattice(sets, grows)


def looking(items: Iterable[Item]) -> Iterator[Item]:
    """The items one by one, with a look at the clock now and then."""
    for number, item in enumerate(items):
        if number % LOOK == 0:
            look()
        yield item


def members(bits: int) -> list[int]:
    """The elements of a bit set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def as_words(sets: Sequence[int], n: int) -> Words:
    """Bit sets over n elements as rows [count, ⌈n/64⌉] of words, element v in bit v % 64 of word v // 64."""
    words = max(1, -(-n // 64))
    data = b"".join(one.to_bytes(8 * words, "little") for one in sets)
    return np.frombuffer(data, dtype="<u8").reshape(len(sets), words).astype(np.uint64)
