"""Screens and charges: further conditions on the pairs (I, J) of ideals, and further costs of the block J \\ I.

A program with screens (:attr:`chipmap.heuristics.ring.programs.program.Programs.screens`) is exact for a condition that
depends on the pair alone: rejected chip sets (C5, scopes ``chip`` and ``chip-monotone``), and memory in grade ``full``.
So it is with charges, for costs of a chip that depend on the pair alone: weights beyond a threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.engines.ideals import IdealFamily, to_words
from chipmap.heuristics.ring.programs.cut import read_outside
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.heuristics.ring.programs.kernel import INFINITE, ONE, Operations, Storages, has, in_block
from chipmap.kernels import njit

#: (ideals, source of each pair, target of each pair) -> which pairs stay.
Screen = Callable[[IdealFamily, NDArray[np.int64], NDArray[np.int32]], NDArray[np.bool_]]
#: (ideals, source of each pair, target of each pair) -> ticks >= 0 that the chip takes longer.
Charge = Callable[[IdealFamily, NDArray[np.int64], NDArray[np.int32]], NDArray[np.int64]]
#: A set of operations of the problem, and whether its supersets are rejected as well.
Block = tuple[frozenset[int], bool]


class RejectedBlocks:
    """A screen of chip sets that are not admissible; :meth:`add` more at any time."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._index = {v: i for i, v in enumerate(graph.operation)}
        self._known: set[Block] = set()
        self._exact: list[NDArray[np.uint64]] = []
        self._within: list[NDArray[np.uint64]] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, block: Block) -> None:
        """Reject these operations on one chip (with whatever others, if monotone)."""
        if block not in self._known:
            self._known.add(block)
            operations, monotone = block
            mask = sum(1 << self._index[v] for v in operations)
            (self._within if monotone else self._exact).append(to_words([mask], self._graph.n)[0])

    def __call__(self, ideals: IdealFamily, source: NDArray[np.int64], target: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each block, of a pair of ideals (source, target), is kept."""
        blocks = ideals.words[target] & ~ideals.words[source]
        keep = np.ones(len(target), dtype=np.bool_)
        for words in self._exact:
            keep &= (blocks != words).any(axis=1)
        for words in self._within:
            keep &= ((blocks & words) != words).any(axis=1)
        return keep


class JudgedBlocks:
    """A screen that asks ``accepts`` (operations of the problem) -> bool about each block, once."""

    def __init__(self, graph: FlowGraph, accepts: Callable[[tuple[int, ...]], bool]) -> None:
        self._graph, self._accepts = graph, accepts
        self._known: dict[bytes, bool] = {}

    def __call__(self, ideals: IdealFamily, source: NDArray[np.int64], target: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each block, of a pair of ideals (source, target), is kept."""
        blocks = ideals.words[target] & ~ideals.words[source]
        return np.array([self._judge(row) for row in blocks], dtype=np.bool_)

    def _judge(self, words: NDArray[np.uint64]) -> bool:
        key = words.tobytes()
        if key not in self._known:
            places = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
            self._known[key] = self._accepts(tuple(sorted(self._graph.operation[i] for i in places)))
        return self._known[key]


def full_memory(operations: Operations, storages: Storages, sram: int) -> Screen:
    """The pairs whose block fits ``sram`` bytes in grade ``full``; ``operations`` in the order of execution.

    Weights + 2 · bytes made in I and read outside I (received or relayed) + 2 · bytes made in the block and read
    outside J (sent) + the peak of the bytes made in the block and read inside it only.
    """
    masks = [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in storages.readers]
    last = np.array([mask.bit_length() - 1 for mask in masks], dtype=np.int64)

    def screen(ideals: IdealFamily, source: NDArray[np.int64], target: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which blocks fit."""
        return np.asarray(block_bytes(ideals.words, source, target, operations, storages, last) <= sram)

    return screen


def screened(
    screens: list[Screen], ideals: IdealFamily, start: int, part: tuple[Any, Any, Any, Any]
) -> tuple[Any, Any, Any, Any]:
    """What the screens leave of the pairs of ideals ``start``, … (pairs per ideal, target, cost, chips)."""
    count, target, cost, chips = part
    source = start + np.repeat(np.arange(len(count)), count)
    for screen in screens:
        keep = screen(ideals, source, target)
        source, target, cost, chips = source[keep], target[keep], cost[keep], chips[keep]
    return np.bincount(source - start, minlength=len(count)).astype(np.int64), target, cost, chips


class HeldWeights:
    """Bytes of weights, constants once per chip, of the blocks J \\ I of one family of ideals."""

    def __init__(self, operations: Operations, ideals: IdealFamily) -> None:
        readers = _members(operations.constants.readers, len(operations.weights)).astype(np.int64)
        parts = [slice(at, at + 4096) for at in range(0, len(ideals), 4096)]
        inside = (_members(ideals.words[part], len(operations.weights)).astype(np.int64) for part in parts)
        held = [(here @ operations.weights, here @ readers.T) for here in inside]
        self._bytes = operations.constants.bytes
        #: [m] bytes that only one operation reads, and [m, s] how many readers of each constant an ideal holds.
        self._own, self._read = (np.concatenate(one) for one in zip(*held, strict=True))

    def beyond(self, threshold: float, ticks_per_byte: float) -> Charge:
        """⌈ticks_per_byte · max(0, held - threshold)⌉ ticks."""

        def charge(ideals: IdealFamily, source: NDArray[np.int64], target: NDArray[np.int32]) -> NDArray[np.int64]:
            """The ticks of each pair."""
            held = self._own[target] - self._own[source]
            for s, size in enumerate(self._bytes.tolist()):
                held = held + size * (self._read[target, s] > self._read[source, s])
            ticks: NDArray[np.int64] = np.ceil(ticks_per_byte * np.maximum(0.0, held - threshold)).astype(np.int64)
            return ticks

        return charge


def _members(words: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """[m, n]: the bit sets as rows of true and false."""
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :n].astype(np.bool_)


def charged(
    charges: list[Charge], ideals: IdealFamily, start: int, part: tuple[Any, Any, Any, Any], upper: int | None
) -> tuple[Any, Any, Any, Any]:
    """The pairs of ideals ``start``, … (pairs per ideal, target, cost, chips) at their full costs, up to ``upper``."""
    count, target, cost, chips = part
    source = start + np.repeat(np.arange(len(count)), count)
    cost = cost + sum(charge(ideals, source, target) for charge in charges)
    if upper is not None:
        keep = cost <= upper
        source, target, cost, chips = source[keep], target[keep], cost[keep], chips[keep]
    return np.bincount(source - start, minlength=len(count)).astype(np.int64), target, cost, chips


@njit(cache=True)
def relax_pairs(start: int, count: Any, target: Any, cost: Any, chips: Any, best: Any, parent: Any) -> None:
    """best[J, k + 1] = min over pairs (I, J) of max(best[I, k], cost), with its parent I."""
    p = 0
    for x in range(len(count)):
        i = start + x
        for _ in range(count[x]):
            for k in range(best.shape[1] - 1):
                if best[i, k] < INFINITE:
                    value = max(best[i, k], cost[p])
                    if value < best[target[p], k + 1] and (chips[p] >> np.uint64(k & 63)) & ONE != 0:
                        best[target[p], k + 1] = value
                        parent[target[p], k + 1] = i
            p += 1


@njit(cache=True)
def block_bytes(words: Any, source: Any, target: Any, operations: Operations, storages: Storages, last: Any) -> Any:
    """[p] bytes of SRAM that the block of each pair needs; ``last`` [s] is the last reader of each storage."""
    weights, constants = operations.weights, operations.constants
    n = len(weights)
    producer, readers, size = storages.producer, storages.readers, storages.bytes
    found = np.zeros(len(source), dtype=np.int64)
    steps = np.zeros(n + 1, dtype=np.int64)  # by how much the bytes of inner storages change at each operation
    for p in range(len(source)):
        inside, end = words[source[p]], words[target[p]]
        total = 0
        for v in range(n):
            if has(end, v) and not has(inside, v):
                total += weights[v]
        for s in range(len(constants.bytes)):
            if in_block(constants.readers, s, inside, end):
                total += constants.bytes[s]
        steps[:] = 0
        for s in range(len(producer)):
            if has(inside, producer[s]):
                if read_outside(readers[s], inside):
                    total += 2 * size[s]
            elif has(end, producer[s]):
                if read_outside(readers[s], end):
                    total += 2 * size[s]
                else:
                    steps[producer[s]] += size[s]
                    steps[last[s] + 1] -= size[s]
        alive, peak = 0, 0
        for v in range(n):
            alive += steps[v]
            peak = max(peak, alive)
        found[p] = total + peak
    return found
