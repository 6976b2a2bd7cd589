"""Order ideals of the flow graph: the sets of operations closed under producers.

With C1 and C2 a mapping onto chips 0, 1, … is a chain of ideals ∅ = I_0 ⊂ I_1 ⊂ … ⊂ I_K = V, where chip k runs
I_{k+1} \\ I_k. Real networks have few ideals (BERT-large's encoder: 704 for 487 operations).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.problem import RingProblem

Words = NDArray[np.uint64]


class TooManyIdealsError(Exception):
    """The lattice has more ideals than were asked for."""


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """The flows among the computing operations, renumbered 0 … n-1 in topological order.

    ``operation[i]`` is the position of i in the problem; ``producers``/``readers``/``ancestors``/``descendants`` are
    Python integers used as bit sets (bit j: operation j), strict.
    """

    operation: tuple[int, ...]
    producers: tuple[int, ...]
    readers: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of computing operations."""
        return len(self.operation)


def flow_graph(problem: RingProblem) -> FlowGraph:
    """The flow graph of ``problem`` as bit sets."""
    operation = tuple(v for v in problem.order if problem.computing[v])
    index = {v: i for i, v in enumerate(operation)}
    n = len(operation)
    producers, readers, ancestors, descendants = [0] * n, [0] * n, [0] * n, [0] * n
    for u, v in problem.flows.tolist():
        producers[index[v]] |= 1 << index[u]
        readers[index[u]] |= 1 << index[v]
    for i in range(n):
        for j in bits(producers[i]):
            ancestors[i] |= ancestors[j] | 1 << j
    for i in reversed(range(n)):
        for j in bits(readers[i]):
            descendants[i] |= descendants[j] | 1 << j
    return FlowGraph(operation, tuple(producers), tuple(readers), tuple(ancestors), tuple(descendants))


def bits(mask: int) -> Iterable[int]:
    """The positions of the ones of ``mask``, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def to_words(masks: Sequence[int], n: int) -> Words:
    """Bit sets as rows of 64-bit words, [len(masks), max(1, ⌈n/64⌉)]."""
    size = 8 * max(1, (n + 63) // 64)
    data = bytearray(size * len(masks))  # rows are written in place: those of a large graph take most of the memory
    for i, mask in enumerate(masks):
        data[size * i : size * (i + 1)] = mask.to_bytes(size, "little")
    return np.frombuffer(data, dtype="<u8").reshape(len(masks), size // 8).astype(np.uint64, copy=False)


@dataclass(frozen=True, eq=False)
class IdealFamily:
    """Ideals in order of size, from ∅ (first) to V (last), with the steps between them.

    ``words`` [m, w] are the bit sets. Step s leads from ideal i (``first[i] <= s < first[i + 1]``) to ``target[s]`` by
    adding operation ``added[s]``. ``complete`` says that all ideals and all steps are there: only then is a program
    over the family exact.
    """

    words: Words
    masks: tuple[int, ...]
    first: NDArray[np.int64]
    added: NDArray[np.int32]
    target: NDArray[np.int32]
    complete: bool

    def __len__(self) -> int:
        return len(self.masks)


def all_ideals(graph: FlowGraph, limit: int = 200_000) -> IdealFamily:
    """All ideals of ``graph``, level by level. Raises :class:`TooManyIdealsError` beyond ``limit``."""
    producers, readers = graph.producers, graph.readers
    free = sum(1 << i for i in range(graph.n) if not producers[i])
    level = {0: free}
    masks: list[int] = []
    steps: list[list[tuple[int, int]]] = []  # per ideal: (operation, mask of the target)
    while level:
        following: dict[int, int] = {}
        for mask, available in level.items():
            out = []
            for v in bits(available):
                target = mask | 1 << v
                out.append((v, target))
                if target not in following:
                    opened = 0
                    for w in bits(readers[v] & ~target):
                        if not producers[w] & ~target:
                            opened |= 1 << w
                    following[target] = (available ^ 1 << v) | opened
            masks.append(mask)
            steps.append(out)
        if len(masks) + len(following) > limit:
            raise TooManyIdealsError(f"more than {limit} ideals")
        level = following
    return _family(masks, steps, graph.n, complete=True)


def order_ideals(graph: FlowGraph, orders: Iterable[Sequence[int]]) -> IdealFamily:
    """The prefixes of topological orders (of 0 … n-1): a sub-family, and so a restriction."""
    following: dict[int, dict[int, int]] = {}
    for order in orders:
        mask = 0
        for v in order:
            target = mask | 1 << v
            following.setdefault(mask, {})[v] = target
            mask = target
        following.setdefault(mask, {})
    masks = sorted(following, key=lambda mask: (mask.bit_count(), mask))
    steps = [sorted(following[mask].items()) for mask in masks]
    return _family(masks, steps, graph.n, complete=False)


def _family(masks: list[int], steps: list[list[tuple[int, int]]], n: int, complete: bool) -> IdealFamily:
    position = {mask: i for i, mask in enumerate(masks)}
    flat = [(v, position[target]) for out in steps for v, target in out]
    return IdealFamily(
        words=to_words(masks, n),
        masks=tuple(masks),
        first=np.cumsum([0, *(len(out) for out in steps)]).astype(np.int64),
        added=np.array([v for v, _ in flat], dtype=np.int32),
        target=np.array([target for _, target in flat], dtype=np.int32),
        complete=complete,
    )
