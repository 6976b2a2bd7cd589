"""Order ideals of a graph: the sets of its members closed under producers, with the steps from one to the next.

Parts that follow each other (chips of a ring, blocks, partitions), each reading from earlier ones alone, are a chain of
ideals ∅ = I_0 ⊂ I_1 ⊂ … ⊂ I_K: part k holds the members of I_{k+1} \\ I_k. Real networks have few ideals: BERT-large's
encoder 704 (487 operations), GNMT 17,914 (96).

A set of members 0 … n-1 is a Python integer (bit v: member v) while ideals are listed, and a row of 64-bit words for
compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline, look

Words = NDArray[np.uint64]
#: Ideals between two looks at the clock (some 10 ms).
LOOK = 1_000


class TooManyIdealsError(Exception):
    """There are more ideals than were asked for."""


@dataclass(frozen=True, eq=False)
class IdealFamily:
    """Ideals in order of size, from none (first) to all members (last), with the steps between them.

    ``masks`` and ``words`` [m, w] are the bit sets. Step s leads from ideal i (``first[i] <= s < first[i + 1]``) to
    ideal ``target[s]`` by adding member ``added[s]``. ``complete`` says that all ideals and all steps are there: only
    then is a program over the family exact.
    """

    masks: tuple[int, ...]
    words: Words
    first: NDArray[np.int64]
    added: NDArray[np.int32]
    target: NDArray[np.int32]
    complete: bool

    def __len__(self) -> int:
        return len(self.masks)


def all_ideals(
    producers: Sequence[int], limit: int = 200_000, deadline: Deadline | None = None, without: int = 0
) -> IdealFamily:
    """All ideals of members with these direct producers (bit sets), size by size.

    Members of the set ``without`` that have no producers are in no ideal. Raises :class:`TooManyIdealsError` beyond
    ``limit`` ideals, and ``Stop`` at the deadline (without one: at that of the work around this).
    """
    check = look if deadline is None else deadline.check
    readers: list[list[tuple[int, int]]] = [[] for _ in producers]  # per member: (bit of a reader, its producers)
    for v, mask in enumerate(producers):
        for u in bits(mask):
            readers[u].append((1 << v, mask))
    masks, ready = [0], [sum(1 << v for v, mask in enumerate(producers) if not mask) & ~without]
    at, first, added, target = {0: 0}, [0], list[int](), list[int]()
    for i, ideal in enumerate(masks):  # grows meanwhile; smaller ideals come first
        if i % LOOK == 0:
            check()
        left = now = ready[i]  # members whose producers are all inside
        ready[i] = 0
        while left:
            bit = left & -left
            left ^= bit
            v = bit.bit_length() - 1
            larger = ideal | bit
            j = at.get(larger)
            if j is None:
                at[larger] = j = len(masks)
                masks.append(larger)
                then = now ^ bit
                for reader, needs in readers[v]:
                    if not needs & ~larger:
                        then |= reader
                ready.append(then)
            added.append(v)
            target.append(j)
        first.append(len(added))
        if len(masks) > limit:
            raise TooManyIdealsError(f"more than {limit} ideals")
    return _family(masks, len(producers), first, added, target, complete=True)


def prefixes(orders: Iterable[Sequence[int]], n: int) -> IdealFamily:
    """The prefixes of topological orders of 0 … n-1: some of the ideals and steps, and so a restriction."""
    steps: dict[int, dict[int, int]] = {}
    for order in orders:
        mask = 0
        for v in order:
            steps.setdefault(mask, {})[v] = mask | 1 << v
            mask |= 1 << v
        steps.setdefault(mask, {})
    masks = sorted(steps, key=lambda mask: (mask.bit_count(), mask))
    at = {mask: i for i, mask in enumerate(masks)}
    taken = [(v, at[larger]) for mask in masks for v, larger in sorted(steps[mask].items())]
    first = np.cumsum([0, *(len(steps[mask]) for mask in masks)]).tolist()
    return _family(masks, n, first, [v for v, _ in taken], [j for _, j in taken], complete=False)


def without_steps(larger: Callable[[int], Iterable[int]], n: int, limit: int) -> IdealFamily:
    """The sets that follow from the empty one by ``larger`` (set -> sets with one more member), without their steps.

    Raises :class:`TooManyIdealsError` beyond ``limit`` sets, and ``Stop`` at the deadline of the work around this.
    """
    masks, known = [0], {0}
    for i, mask in enumerate(masks):
        if i % LOOK == 0:
            look()
        for one in larger(mask):
            if one not in known:
                known.add(one)
                masks.append(one)
        if len(masks) > limit:
            raise TooManyIdealsError(f"more than {limit} ideals")
    return _family(masks, n, [0] * (len(masks) + 1), [], [], complete=False)


def bits(mask: int) -> list[int]:
    """The positions of the ones of ``mask``, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def to_words(masks: Sequence[int], n: int) -> Words:
    """Bit sets of 0 … n-1 as rows of words [len(masks), max(1, ⌈n/64⌉)]: bit v % 64 of word v // 64 is member v."""
    size = 8 * max(1, (n + 63) // 64)
    data = bytearray(size * len(masks))  # rows are written in place: those of a large graph take most of the memory
    for i, mask in enumerate(masks):
        data[size * i : size * (i + 1)] = mask.to_bytes(size, "little")
    return np.frombuffer(data, dtype="<u8").reshape(len(masks), size // 8).astype(np.uint64, copy=False)


def _family(
    masks: list[int], n: int, first: list[int], added: list[int], target: list[int], complete: bool
) -> IdealFamily:
    one, other = (np.array(found, dtype=np.int32) for found in (added, target))
    return IdealFamily(tuple(masks), to_words(masks, n), np.array(first, dtype=np.int64), one, other, complete)
