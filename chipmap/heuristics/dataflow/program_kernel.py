"""The compiled part of the program over ideals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipmap.heuristics.dataflow.lattice import Words
from chipmap.instances.dataflow.costs import IntArray


class Arcs(NamedTuple):
    """Sums over the kernels of each ideal [ideals], its open tensors (CSR), kernels pinned together, the tensors.

    ``inside`` sums the buffers of tensors that have a reader in the ideal; ``grouped`` [ideals, groups] counts members.
    """

    compute: IntArray
    network: IntArray
    memory: IntArray
    held: IntArray
    inside: IntArray
    grouped: IntArray
    sizes: IntArray
    first: IntArray
    open: IntArray
    makers: IntArray
    readers: Words
    dram: IntArray
    buffer: IntArray
    waits: IntArray
    sram: int


@njit(cache=True, nogil=True)
def _subset(a: Words, b: Words) -> bool:
    """Whether a ⊆ b."""
    for w in range(len(a)):  # noqa: SIM110 - numba knows no generators
        if a[w] & ~b[w]:
            return False
    return True


@njit(cache=True, nogil=True)
def _meets(a: Words, b: Words) -> bool:
    """Whether a ∩ b ≠ ∅."""
    for w in range(len(a)):  # noqa: SIM110 - numba knows no generators
        if a[w] & b[w]:
            return True
    return False


@njit(cache=True, nogil=True)
def _together(arcs: Arcs, i: int, j: int) -> bool:
    """Whether the partition J \\ I holds all of one group and nothing of another, or nothing of any."""
    held = 0
    for g in range(len(arcs.sizes)):
        count = arcs.grouped[j, g] - arcs.grouped[i, g]
        if count == 0:
            continue
        held += 1
        if count != arcs.sizes[g] or held > 1:
            return False
    return True


@njit(cache=True, nogil=True)
def _cost(words: Words, arcs: Arcs, i: int, j: int) -> int:
    """max(compute, memory, network) of partition J \\ I in picoseconds; -1 where it doesn't fit its SRAM.

    A tensor that enters is read once, one that leaves is written once; it takes two buffers then, and as many as it
    waits where it has a reader inside.
    """
    memory = arcs.memory[j] - arcs.memory[i]
    held = arcs.held[j] - arcs.held[i] + arcs.inside[j] - arcs.inside[i]
    for e in range(arcs.first[j], arcs.first[j + 1]):
        t = arcs.open[e]
        memory += arcs.dram[t]
        held += 2 * arcs.buffer[t]
    for e in range(arcs.first[i], arcs.first[i + 1]):
        t = arcs.open[e]
        if not _subset(arcs.readers[t], words[j]):  # open at J, but made before
            memory -= arcs.dram[t]
            held -= 2 * arcs.buffer[t]
        read_before = _meets(arcs.readers[t], words[i])
        enters = False
        for w in range(words.shape[1]):
            if arcs.readers[t, w] & words[j, w] & ~words[i, w]:
                enters = True
                break
        if enters:
            memory += arcs.dram[t]
            held += 2 * arcs.buffer[t]
            if not read_before:  # counted in inside[j] though it was made before
                held -= arcs.buffer[t] * arcs.waits[t]
    if held > arcs.sram:
        return -1
    return max(memory, arcs.compute[j] - arcs.compute[i], arcs.network[j] - arcs.network[i])


@njit(cache=True, nogil=True)
def shortest(words: Words, arcs: Arcs, most: int) -> tuple[IntArray, IntArray]:
    """For each ideal and number of partitions k ≤ ``most`` the fewest picoseconds (-1: impossible), and from where.

    ``words`` [ideals, words] must be sorted by size, the empty ideal first.
    """
    count = len(words)
    value = np.full((count, most + 1), -1, np.int64)
    parent = np.zeros((count, most + 1), np.int64)
    value[0, 0] = 0
    for j in range(1, count):
        for i in range(j):
            if not _subset(words[i], words[j]):
                continue
            if arcs.held[j] - arcs.held[i] > arcs.sram or not _together(arcs, i, j):
                continue
            cost = -2
            for k in range(most):
                if value[i, k] < 0:
                    continue
                if cost == -2:
                    cost = _cost(words, arcs, i, j)
                if cost == -1:
                    break
                total = value[i, k] + cost
                if value[j, k + 1] < 0 or total < value[j, k + 1]:
                    value[j, k + 1] = total
                    parent[j, k + 1] = i
    return value, parent
