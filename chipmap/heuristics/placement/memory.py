"""How far a placement is beyond the devices' memories, compiled: what the search asks of each candidate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit


class Bytes(NamedTuple):
    """``limit`` [D]: bytes, -1 without a limit; ``rule``: 0 none, 1 static, 2 live.

    ``weights`` [N]; ``size``, ``output``, ``resident`` [S]; weights that are copied: ``copy`` [K] bytes, the readers of
    copy k are ``copy_readers[copy_at[k]:copy_at[k + 1]]``.
    """

    rule: int
    limit: IntArray
    weights: IntArray
    size: IntArray
    output: NDArray[np.bool_]
    resident: NDArray[np.bool_]
    copy: IntArray
    copy_at: IntArray
    copy_readers: IntArray


def bytes_of(problem: PlacementProblem) -> Bytes:
    """The sizes of ``problem``."""
    rule = {"none": 0, "static": 1, "live": 2}[problem.instance.task.memory]
    if not (problem.memory >= 0).any():
        rule = 0
    readers = [readers for _, readers in problem.copies]
    return Bytes(
        rule=rule,
        limit=problem.memory,
        weights=problem.weights,
        size=problem.storages.bytes,
        output=problem.storages.output,
        resident=problem.storages.resident,
        copy=np.array([size for size, _ in problem.copies], dtype=np.int64),
        copy_at=np.cumsum([0, *(len(one) for one in readers)], dtype=np.int64),
        copy_readers=np.array([v for one in readers for v in one], dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def excess(t: Tables, b: Bytes, device: IntArray, w: Work) -> int:
    """Bytes above the limits, summed over the devices; with rule ``live`` of the schedule that ``w`` holds."""
    if b.rule == 0:
        return 0
    devices = len(t.gap)
    held = np.zeros(devices, np.int64)
    for v in range(len(device)):
        held[device[v]] += b.weights[v]
    for k in range(len(b.copy)):
        mask = np.uint64(0)
        for i in range(b.copy_at[k], b.copy_at[k + 1]):
            mask |= np.uint64(1) << np.uint64(device[b.copy_readers[i]])
        for d in range(devices):
            if (mask >> np.uint64(d)) & np.uint64(1):
                held[d] += b.copy[k]
    step = 0
    for v in range(len(device)):
        step = max(step, w.start[v] + t.time[v, device[v]])
    entries = 0
    most = 2 * (len(b.size) + len(t.readers)) if b.rule == 2 else 0
    when, change, where = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    until, there = np.zeros(devices, np.int64), np.zeros(devices, np.bool_)
    for s in range(len(b.size)):
        u = t.producer[s]
        home = device[u]
        there[:] = False
        if b.rule == 2:
            until[home] = w.start[u] + t.time[u, home]
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            v = t.readers[i]
            d = device[v]
            if not there[d] and d != home:
                until[d] = 0
            there[d] = True
            if b.rule == 2:
                until[d] = max(until[d], w.start[v] + t.time[v, d])
        for d in range(devices):
            if d == home or not there[d]:
                continue
            if b.rule == 1:
                held[d] += b.size[s]
                continue
            sent = w.sent[s * devices + d]
            until[home] = max(until[home], sent + t.send[s, t.kind[home * devices + d]])
            if until[d] > sent:
                when[entries], change[entries], where[entries] = sent, b.size[s], d
                when[entries + 1], change[entries + 1], where[entries + 1] = until[d], -b.size[s], d
                entries += 2
        if b.rule == 1 or b.resident[s]:
            held[home] += b.size[s]
            continue
        end = step if b.output[s] else until[home]
        if end > w.start[u]:
            when[entries], change[entries], where[entries] = w.start[u], b.size[s], home
            when[entries + 1], change[entries + 1], where[entries + 1] = end, -b.size[s], home
            entries += 2
    peak = held.copy()
    if b.rule == 2:
        order = np.argsort(2 * when[:entries] + (change[:entries] > 0))
        for i in order:
            held[where[i]] += change[i]
            peak[where[i]] = max(peak[where[i]], held[where[i]])
    over = 0
    for d in range(devices):
        if b.limit[d] >= 0 and peak[d] > b.limit[d]:
            over += peak[d] - b.limit[d]
    return over
