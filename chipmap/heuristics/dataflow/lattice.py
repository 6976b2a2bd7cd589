"""The order ideals of a kernel graph, as bit sets in rows of words.

Partitions that run one after the other, each closed under what earlier ones made, are the differences of a chain of
ideals (down-sets): DFModel's partitions without its assignment matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class TooManyIdealsError(Exception):
    """The lattice has more ideals than were asked for: the graph is too wide for the program."""


def ideals(n: int, edges: Sequence[tuple[int, int]], limit: int = 200_000) -> list[int]:
    """All order ideals of kernels 0 … n-1 as Python bit sets, from the empty one to the whole, by size.

    Raises :class:`TooManyIdealsError` beyond ``limit``.
    """
    makers, readers = [0] * n, [0] * n
    for u, v in edges:
        makers[v] |= 1 << u
        readers[u] |= 1 << v
    sources = sum(1 << v for v in range(n) if makers[v] == 0)
    found, layer = [0], {0: sources}
    while layer:
        following: dict[int, int] = {}
        for ideal, ready in layer.items():
            left = ready
            while left:
                bit = left & -left
                left ^= bit
                grown = ideal | bit
                if grown not in following:
                    following[grown] = (ready ^ bit) | _freed(readers[bit.bit_length() - 1], makers, grown)
        found += following
        if len(found) > limit:
            raise TooManyIdealsError(f"the graph has more than {limit:,} order ideals")
        layer = following
    return found


def _freed(readers: int, makers: Sequence[int], ideal: int) -> int:
    """Those of ``readers`` whose makers are all in ``ideal``."""
    freed = 0
    while readers:
        bit = readers & -readers
        readers ^= bit
        if makers[bit.bit_length() - 1] & ~ideal == 0:
            freed |= bit
    return freed


def as_words(sets: Sequence[int], n: int) -> Words:
    """Bit sets over n elements as rows [count, ⌈n/64⌉] of words, element v in bit v % 64 of word v // 64."""
    words = max(1, -(-n // 64))
    data = b"".join(one.to_bytes(8 * words, "little") for one in sets)
    return np.frombuffer(data, dtype="<u8").reshape(len(sets), words).astype(np.uint64)
