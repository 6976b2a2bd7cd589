"""How far a placement is beyond the devices' memories, compiled: what the search asks of each candidate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.simulation.heaps import part
from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.sorting import argsort

#: Parts of a step.
CELLS = 512


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


@njit(part=True)
def _lasting(b: Bytes, device: IntArray, held: IntArray) -> None:
    """Add weights and copies to ``held`` [D]: they are there for the whole step."""
    for v in range(len(device)):
        held[device[v]] += b.weights[v]
    for k in range(len(b.copy)):
        there = np.uint64(0)
        for i in range(b.copy_at[k], b.copy_at[k + 1]):
            d = device[b.copy_readers[i]]
            if not (there >> np.uint64(d)) & np.uint64(1):
                there |= np.uint64(1) << np.uint64(d)
                held[d] += b.copy[k]


@njit(part=True)
def _storages(t: Tables, b: Bytes, device: IntArray, held: IntArray) -> None:
    """Add all storages to ``held`` [D], where they are made and where they are sent: a sum no peak exceeds."""
    for s in range(len(b.size)):
        home = device[t.producer[s]]
        there = np.uint64(1) << np.uint64(home)
        held[home] += b.size[s]
        for i in range(t.reader_at[s], t.reader_at[s + 1]):
            d = device[t.readers[i]]
            if not (there >> np.uint64(d)) & np.uint64(1):
                there |= np.uint64(1) << np.uint64(d)
                held[d] += b.size[s]


@part
def _until(t: Tables, device: IntArray, w: Work, s: int, until: IntArray) -> np.uint64:
    """Fill ``until`` [D]: when the last reader of storage ``s`` ends, and at home the last transfer.

    Only at home and on the devices that are returned as bits, to which it is sent, does it hold anything.
    """
    u, devices, there = t.producer[s], len(t.gap), np.uint64(0)
    home = device[u]
    until[home] = w.start[u] + t.time[u, home]
    for i in range(t.reader_at[s], t.reader_at[s + 1]):
        v = t.readers[i]
        d = device[v]
        end = w.start[v] + t.pace[v, t.column[d]]
        if d != home and not (there >> np.uint64(d)) & np.uint64(1):
            there |= np.uint64(1) << np.uint64(d)
            until[d] = end
            until[home] = max(until[home], w.sent[s * devices + d] + t.send[s, t.kind[home * devices + d]])
        until[d] = max(until[d], end)
    return there


@njit(part=True)
def _at_most(t: Tables, b: Bytes, device: IntArray, w: Work, step: int, held: IntArray) -> None:
    """Add the peak of temporary bytes, or a little more, to those that rest, ``held`` [D].

    The step is cut into :data:`CELLS` parts. What ends in one counts up to its end.
    """
    devices, scale = len(t.gap), (CELLS - 1) / max(1, step)
    until, come, gone = (
        np.zeros(devices, np.int64),
        np.zeros((devices, CELLS), np.int64),
        np.zeros((devices, CELLS), np.int64),
    )
    for s in range(len(b.size)):
        u = t.producer[s]
        home, size = device[u], b.size[s]
        there = _until(t, device, w, s, until)
        for d in range(devices if there else 0):
            if (there >> np.uint64(d)) & np.uint64(1):
                come[d, int(w.sent[s * devices + d] * scale)] += size
                gone[d, int(until[d] * scale)] += size
        if b.resident[s]:
            held[home] += size
        else:
            come[home, int(w.start[u] * scale)] += size
            gone[home, int((step if b.output[s] else until[home]) * scale)] += size
    for d in range(devices):
        now, most = held[d], held[d]
        for k in range(CELLS):
            now += come[d, k]
            most = max(most, now)
            now -= gone[d, k]
        held[d] = most


@njit(part=True)
def _add(change: IntArray, rows: int, begin: int, end: int, size: int, d: int) -> int:
    """Add what comes to device ``d`` and goes at ``end`` to the first ``rows`` of ``change``; their number then."""
    change[rows, 0], change[rows, 1], change[rows, 2] = begin, size, d
    change[rows + 1, 0], change[rows + 1, 1], change[rows + 1, 2] = end, -size, d
    return rows + 2


@njit(part=True)
def _changes(
    t: Tables,
    b: Bytes,
    device: IntArray,
    w: Work,
    step: int,
    wanted: NDArray[np.bool_],
    held: IntArray,
    change: IntArray,
) -> int:
    """Fill ``change`` [.., 3] with (ns, bytes, device) of storages that come and go; the number of rows.

    Only devices in ``wanted`` are looked at. What stays for the whole step is added to ``held`` [D].
    """
    devices, rows = len(t.gap), 0
    until = np.zeros(devices, np.int64)
    for s in range(len(b.size)):
        u = t.producer[s]
        home = device[u]
        there = _until(t, device, w, s, until)
        for d in range(devices if there else 0):
            begin = w.sent[s * devices + d]
            if (there >> np.uint64(d)) & np.uint64(1) and wanted[d] and until[d] > begin:
                rows = _add(change, rows, begin, until[d], b.size[s], d)
        end = step if b.output[s] else until[home]
        if b.resident[s]:
            held[home] += b.size[s]
        elif wanted[home] and end > w.start[u]:
            rows = _add(change, rows, w.start[u], end, b.size[s], home)
    return rows


@njit(part=True)
def _above(b: Bytes, held: IntArray, beyond: NDArray[np.bool_]) -> bool:
    """Leave in ``beyond`` [D] the devices that hold more than their limit; whether there are any."""
    some = False
    for d in range(len(held)):
        beyond[d] = beyond[d] and 0 <= b.limit[d] < held[d]
        some = some or beyond[d]
    return some


@njit(part=True)
def _peaks(
    t: Tables, b: Bytes, device: IntArray, w: Work, step: int, beyond: NDArray[np.bool_], now: IntArray, held: IntArray
) -> None:
    """Fill ``held`` [D] with the peaks of the devices in ``beyond``; ``now`` [D]: what rests on each."""
    change = np.zeros((2 * (len(b.size) + len(t.readers)), 3), np.int64)
    rows = _changes(t, b, device, w, step, beyond, now, change)
    when = np.zeros(rows, np.int64)
    for i in range(rows):
        when[i] = 2 * change[i, 0] + (change[i, 1] > 0)
    for d in range(len(held)):
        held[d] = now[d]
    for i in argsort(when, rows, 1):
        d = change[i, 2]
        now[d] += change[i, 1]
        held[d] = max(held[d], now[d])


@njit(part=True)
def excess_of(t: Tables, b: Bytes, device: IntArray, w: Work) -> int:
    """:func:`excess` for compiled searches."""
    if b.rule == 0:
        return 0
    devices, step, over = len(t.gap), 0, 0
    lasting, held, beyond = np.zeros(devices, np.int64), np.zeros(devices, np.int64), np.ones(devices, np.bool_)
    _lasting(b, device, lasting)
    for d in range(devices):
        held[d] = lasting[d]
    _storages(t, b, device, held)
    if _above(b, held, beyond) and b.rule == 2:
        for v in range(len(device)):
            step = max(step, w.start[v] + t.pace[v, t.column[device[v]]])
        for d in range(devices):
            held[d] = lasting[d]
        _at_most(t, b, device, w, step, held)
        if _above(b, held, beyond):
            _peaks(t, b, device, w, step, beyond, lasting, held)
    for d in range(devices):
        if beyond[d]:
            over += max(0, held[d] - b.limit[d])
    return over


@njit(cache=True, nogil=True)
def excess(t: Tables, b: Bytes, device: IntArray, w: Work) -> int:
    """Bytes above the limits, summed over the devices; with rule ``live`` of the schedule that ``w`` holds.

    Cheap sums that no peak exceeds come first: that of everything, then that of parts of the step.
    """
    return excess_of(t, b, device, w)
