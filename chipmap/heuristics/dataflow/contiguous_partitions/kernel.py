"""The compiled part of cutting an order of kernels into partitions: every piece of the order, from each kernel on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit

IntArray = NDArray[np.int64]
#: No value yet.
NEVER = 2**62


class Line(NamedTuple):
    """Kernels of one phase in their order, by position in the order of all, each under one scheme.

    Picoseconds [n] of ``compute``, of the ``network`` (but for changes of layout), of the ``stream`` that a kernel
    always reads, of one write or read of its output (``dram``); bytes [n] of ``weights`` and of a ``buffer``;
    ``readers`` [n] counts the tensors out of it. Tensors into kernel v are ``enter[v]`` … ``enter[v+1]-1`` of
    ``maker``, ``waits`` (buffers that one takes inside a partition), ``change`` (picoseconds of its change of layout)
    and ``supplier`` (the last kernel before v that may have paid for the same, -1: none; the change is free with it in
    the partition). ``group`` [n] is the number of the kernel's group of pins (-1: none), ``sizes`` how many each has.
    """

    compute: IntArray
    network: IntArray
    stream: IntArray
    dram: IntArray
    weights: IntArray
    buffer: IntArray
    readers: IntArray
    enter: IntArray
    maker: IntArray
    waits: IntArray
    change: IntArray
    supplier: IntArray
    group: IntArray
    sizes: IntArray


class Bounds(NamedTuple):
    """What pieces obey: positions from ``begin`` to ``end`` - 1, ``sram`` bytes, so many kernels at the ``longest``.

    ``multicast``: a tensor is written once and read once per partition. ``overlap``: the longest of compute, memory and
    network counts, else their sum. ``capped``: pieces are counted. ``launch``: picoseconds before each.
    """

    begin: int
    end: int
    sram: int
    longest: int
    multicast: bool
    overlap: bool
    capped: bool
    launch: int


class Table(NamedTuple):
    """The fewest picoseconds up to each position (``value`` [n + 1, counts]), by the number of pieces where it counts,
    and the position where the last of them begins (``origin``)."""

    value: IntArray
    origin: IntArray


@njit(cache=True, nogil=True)
def cut(line: Line, bounds: Bounds, table: Table, left: IntArray, seen: IntArray, state: IntArray) -> bool:
    """Relax the least time up to each position by all pieces; False where ``state`` [2] (next position, work left) says
    to look at the clock first.

    ``left`` and ``seen`` [n] are for counting. A piece takes no less SRAM the longer it is, but for what leaves it.
    """
    value, origin = table.value, table.origin
    counts = value.shape[1]
    while state[0] < bounds.end:
        i = state[0]
        if state[1] <= 0:
            return False
        state[0] += 1
        if value[i].min() >= NEVER:
            continue
        compute = network = memory = held = leaving = kept = pinned = 0
        group = -1
        for v in range(i, min(bounds.end, i + bounds.longest)):
            compute, network, memory = compute + line.compute[v], network + line.network[v], memory + line.stream[v]
            held += line.weights[v]
            if line.group[v] >= 0:
                if pinned > 0 and line.group[v] != group:
                    break
                group, pinned = line.group[v], pinned + 1
            for k in range(line.enter[v], line.enter[v + 1]):
                u = line.maker[k]
                state[1] -= 1
                if line.supplier[k] < i:
                    network += line.change[k]
                if u < i:
                    if not bounds.multicast or seen[u] != i + 1:
                        memory, held, seen[u] = memory + line.dram[u], held + 2 * line.buffer[u], i + 1
                    continue
                held += line.waits[k] * line.buffer[u]
                left[u] -= 1
                if not bounds.multicast or left[u] == 0:
                    leaving, kept = leaving - line.dram[u], kept - 2 * line.buffer[u]
            state[1] -= 1
            left[v] = line.readers[v]
            times = min(left[v], 1) if bounds.multicast else left[v]
            leaving, kept = leaving + times * line.dram[v], kept + 2 * times * line.buffer[v]
            if held > bounds.sram:
                break
            if held + kept > bounds.sram or (pinned > 0 and pinned < line.sizes[group]):
                continue
            memory_time = memory + leaving
            ticks = max(compute, network, memory_time) if bounds.overlap else compute + network + memory_time
            ticks += bounds.launch
            for count in range(counts):
                after = min(count + 1, counts - 1)
                if count == after and bounds.capped:
                    continue
                if value[i, count] < NEVER and value[i, count] + ticks < value[v + 1, after]:
                    value[v + 1, after], origin[v + 1, after] = value[i, count] + ticks, i
    return True
