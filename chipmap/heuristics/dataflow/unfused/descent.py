"""The compiled part of the descent: better options of single kernels, as long as there are any."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit

IntArray = NDArray[np.int64]
#: What an option that doesn't fit costs: a sum of two of these still fits 64 bits.
NEVER = 2**61


class Flat(NamedTuple):
    """Kernels by themselves in rows: option o of kernel v is row ``first[v]`` + o of ``compute``, ``memory``,
    ``network``, ``held``, and of ``dram`` and ``buffer``, what each reader of its output takes.

    Tensor k goes from ``maker[k]`` to ``reader[k]``; its changes of layout are ``converts[change[k] + s · t + o]`` for
    option s of the maker and o of the t ones of the reader. Tensors into v are ``enter[v]`` … ``enter[v+1]-1``, those
    out of it ``out[leave[v]]`` …. ``runs`` is how often a kernel runs.
    """

    first: IntArray
    compute: IntArray
    memory: IntArray
    network: IntArray
    held: IntArray
    dram: IntArray
    buffer: IntArray
    maker: IntArray
    reader: IntArray
    change: IntArray
    converts: IntArray
    enter: IntArray
    leave: IntArray
    out: IntArray
    runs: IntArray


@njit(cache=True, nogil=True)
def totals(flat: Flat, at: IntArray, taken: IntArray) -> None:
    """``taken`` [n, 3]: memory, network and SRAM that each kernel takes for what it reads, at the options ``at``."""
    taken[:] = 0
    for v in range(len(at)):
        for k in range(flat.enter[v], flat.enter[v + 1]):
            u = flat.maker[k]
            row = flat.first[u] + at[u]
            taken[v, 0] += flat.dram[row]
            taken[v, 1] += flat.converts[flat.change[k] + at[u] * (flat.first[v + 1] - flat.first[v]) + at[v]]
            taken[v, 2] += flat.buffer[row]


@njit(cache=True, nogil=True)
def cost(flat: Flat, v: int, row: int, memory: int, network: int, held: int, rules: IntArray) -> int:
    """Picoseconds of kernel v with the option in that row, if what it reads takes so much; ``rules``: SRAM, whether
    compute, memory and network overlap, picoseconds of a launch."""
    if flat.held[row] + held > rules[0]:
        return NEVER
    compute, memory, network = flat.compute[row], flat.memory[row] + memory, flat.network[row] + network
    longest = max(compute, memory, network) if rules[1] else compute + memory + network
    return min(NEVER, flat.runs[v] * (rules[2] + longest))


@njit(cache=True, nogil=True)
def sweep(flat: Flat, at: IntArray, taken: IntArray, rules: IntArray) -> bool:
    """Give each kernel in turn its best option beside those of all others; whether any changed. ``taken`` is as
    :func:`totals` makes it."""
    changed = False
    for v in range(len(at)):
        begin, size = flat.first[v], flat.first[v + 1] - flat.first[v]
        if size == 1:
            continue
        before = at[v]
        best, least = before, -1
        for turn in range(size):
            # the present option first: another must be better
            option = before if turn == 0 else (turn - 1 if turn <= before else turn)
            network = 0
            for k in range(flat.enter[v], flat.enter[v + 1]):
                network += flat.converts[flat.change[k] + at[flat.maker[k]] * size + option]
            total = cost(flat, v, begin + option, taken[v, 0], network, taken[v, 2], rules)
            for j in range(flat.leave[v], flat.leave[v + 1]):
                k = flat.out[j]
                w = flat.reader[k]
                width = flat.first[w + 1] - flat.first[w]
                then = flat.converts[flat.change[k] + option * width + at[w]]
                now = flat.converts[flat.change[k] + before * width + at[w]]
                total += cost(
                    flat,
                    w,
                    flat.first[w] + at[w],
                    taken[w, 0] + flat.dram[begin + option] - flat.dram[begin + before],
                    taken[w, 1] + then - now,
                    taken[w, 2] + flat.buffer[begin + option] - flat.buffer[begin + before],
                    rules,
                )
                total = min(total, NEVER)
            if least < 0 or total < least:
                best, least = option, total
        if best == before:
            continue
        changed = True
        taken[v, 1] = 0
        for k in range(flat.enter[v], flat.enter[v + 1]):
            taken[v, 1] += flat.converts[flat.change[k] + at[flat.maker[k]] * size + best]
        for j in range(flat.leave[v], flat.leave[v + 1]):
            k = flat.out[j]
            w = flat.reader[k]
            width = flat.first[w + 1] - flat.first[w]
            taken[w, 0] += flat.dram[begin + best] - flat.dram[begin + before]
            taken[w, 1] += flat.converts[flat.change[k] + best * width + at[w]]
            taken[w, 1] -= flat.converts[flat.change[k] + before * width + at[w]]
            taken[w, 2] += flat.buffer[begin + best] - flat.buffer[begin + before]
        at[v] = best
    return changed
