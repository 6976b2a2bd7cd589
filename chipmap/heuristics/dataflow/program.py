"""The exact program over order ideals: fewest picoseconds per layer for given sharding schemes.

What it proves: for the schemes it was given, no assignment of the kernels of a phase to at most P partitions in
sequence, each within its SRAM, has a smaller sum of max(compute, memory, network). It is a shortest path over ideals
(bit sets) and numbers of partitions; the cost of an arc I -> J depends on J \\ I alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.lattice import Words, as_words, ideals
from chipmap.heuristics.dataflow.program_kernel import Arcs, shortest
from chipmap.instances.dataflow.costs import DataflowProblem, IntArray


class Tensor(NamedTuple):
    """Data made by one kernel and read by others: DRAM picoseconds of one write or read, SRAM bytes of a buffer.

    ``waits`` is how many buffers it takes where it stays inside a partition.
    """

    producer: int
    readers: tuple[int, ...]
    dram: int
    buffer: int
    waits: int


@dataclass(frozen=True, eq=False)
class Segments:
    """A kernel graph with fixed schemes, ready for the program: per kernel ticks and bytes, and its tensors.

    ``memory`` [n] is DRAM time that a kernel always takes (tensors from or to another phase, streamed weights), and
    ``held`` [n] its SRAM: weights, and buffers of such tensors.
    """

    edges: tuple[tuple[int, int], ...]
    compute: IntArray
    network: IntArray
    memory: IntArray
    held: IntArray
    tensors: tuple[Tensor, ...]
    groups: tuple[tuple[int, ...], ...]
    sram: int

    @property
    def n(self) -> int:
        """Number of kernels."""
        return len(self.compute)


class Chain(NamedTuple):
    """The best sequence of partitions: its picoseconds and the partition of each kernel (0, 1, …)."""

    ticks: int
    partitions: tuple[int, ...]


def segments(problem: DataflowProblem, chosen: Sequence[int], kernels: Sequence[int]) -> Segments:
    """The part of ``problem`` that ``kernels`` (of one phase) are, with option ``chosen[v]`` for each kernel v."""
    here = {v: i for i, v in enumerate(kernels)}
    options = [problem.options[v][chosen[v]] for v in kernels]
    network = np.array([option.collective for option in options], dtype=np.int64)
    memory = np.zeros(len(kernels), dtype=np.int64)
    held = np.array([option.weights for option in options], dtype=np.int64)
    tensors, edges = [], []
    for e, (u, v) in enumerate(problem.edges.tolist()):
        option = problem.options[u][chosen[u]]
        if v in here:
            network[here[v]] += problem.converts(e, chosen[u], chosen[v])
        if u in here and v in here:
            edges.append((here[u], here[v]))
            waits = int(problem.distance[e]) + 1
            tensors.append(Tensor(here[u], (here[v],), option.dram, option.buffer, waits))
        elif u in here or v in here:
            inner = here[u] if u in here else here[v]
            memory[inner] += option.dram
            held[inner] += 2 * option.buffer
    together = [[here[v] for v in group if v in here] for group in _groups(problem)]
    return Segments(
        edges=tuple(edges),
        compute=np.array([option.compute for option in options], dtype=np.int64),
        network=network,
        memory=memory,
        held=held,
        tensors=tuple(tensors),
        groups=tuple(tuple(group) for group in together if group),
        sram=problem.sram,
    )


def _groups(problem: DataflowProblem) -> list[list[int]]:
    index = {kernel.name: v for v, kernel in enumerate(problem.instance.workload.kernels)}
    return [[index[name] for name in group] for group in problem.instance.task.together]


def best_chain(parts: Segments, most: int, exactly: bool = False, limit: int = 200_000) -> Chain | None:
    """The best sequence of at most (or exactly) ``most`` partitions; None where none fits.

    Raises :class:`chipmap.heuristics.dataflow.lattice.TooManyIdealsError` for graphs that are too wide.
    """
    sets = ideals(parts.n, parts.edges, limit)
    words = as_words(sets, parts.n)
    most = min(most, parts.n)
    value, parent = shortest(words, arcs(parts, sets, words), most)
    last = len(sets) - 1
    counts = [most] if exactly else list(range(1, most + 1))
    best = min((k for k in counts if value[last, k] >= 0), key=lambda k: int(value[last, k]), default=None)
    if best is None:
        return None
    partitions, node = [0] * parts.n, last
    for k in range(best, 0, -1):
        before = int(parent[node, k])
        inside = sets[node] & ~sets[before]
        for v in range(parts.n):
            if inside >> v & 1:
                partitions[v] = k - 1
        node = before
    return Chain(int(value[last, best]), tuple(partitions))


def arcs(parts: Segments, sets: Sequence[int], words: Words) -> Arcs:
    """What the compiled program needs per ideal (sums over its kernels, its open tensors) and per tensor."""
    tensors = parts.tensors
    readers = as_words([sum(1 << v for v in tensor.readers) for tensor in tensors] or [0], parts.n)
    made = [0] * parts.n
    for t, tensor in enumerate(tensors):
        made[tensor.producer] |= 1 << t
    reads = [sum(1 << v for v in tensor.readers) for tensor in tensors]
    open_at: list[list[int]] = []
    for ideal in sets:
        open_at.append([t for t, tensor in enumerate(tensors) if ideal >> tensor.producer & 1 and reads[t] & ~ideal])
    first = np.cumsum([0, *map(len, open_at)])
    members = np.array([[ideal >> v & 1 for v in range(parts.n)] for ideal in sets], dtype=np.int64)
    grouped = np.array([[sum(ideal >> v & 1 for v in g) for g in parts.groups] for ideal in sets], dtype=np.int64)
    makers = np.array([tensor.producer for tensor in tensors], dtype=np.int64)
    sums = [np.array([getattr(t, name) for t in tensors], dtype=np.int64) for name in ("dram", "buffer", "waits")]
    inside = np.array(
        [
            sum(t.buffer * t.waits for i, t in enumerate(tensors) if ideal >> t.producer & 1 and reads[i] & ideal)
            for ideal in sets
        ],
        dtype=np.int64,
    )
    return Arcs(
        compute=members @ parts.compute,
        network=members @ parts.network,
        memory=members @ parts.memory,
        held=members @ parts.held,
        inside=inside,
        grouped=grouped.reshape(len(sets), len(parts.groups)),
        sizes=np.array([len(group) for group in parts.groups], dtype=np.int64),
        first=first.astype(np.int64),
        open=np.array([t for one in open_at for t in one], dtype=np.int64),
        makers=makers,
        readers=readers,
        dram=sums[0],
        buffer=sums[1],
        waits=sums[2],
        sram=parts.sram,
    )
