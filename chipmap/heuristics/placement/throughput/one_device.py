"""All sets of units that one device can hold below a target load, and the most that such a set is worth.

Units are met one after the other (:mod:`sweep`). What a set costs later depends on a *pattern* alone: for each open
net, whether the device has a unit of it, and whether another device has one. A row is a pattern at a position. A row
has *labels* (load, value): some set of the units from there on loads the device with so much, and is worth so much.
Labels of a larger load and no larger value are left out. Where a row has too many, those of about the same load become
one, with the least load and the largest value: then the value is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.throughput.columns_kernel import Labels, Steps, label_back
from chipmap.heuristics.placement.throughput.sweep import Sweep, TooWideError
from chipmap.instances.placement.problem import IntArray

#: Rows in all, labels in all (20 bytes each) and of a row at most.
MOST_ROWS, MOST_LABELS, FINEST = 400_000, 12_000_000, 16_384
#: More than any cost, and twice that is a number still.
NEVER = np.int64(2**61)
#: Rows from the rows of a position without and with its unit (-1: not possible), and what either costs.
Part = tuple[IntArray, IntArray, IntArray, IntArray]
#: Labels between two looks at the clock (some 0.05 s).
CHUNK = 4_000_000


@dataclass(frozen=True, eq=False)
class OneDevice:
    """The rows of a device of ``kind``: at position i ``mine[i]`` and ``others[i]`` are the bits of open nets with a
    unit on it, and on another device. ``steps``: from row to row. ``behind[i]``: the least that sets pay for cut nets
    from each of these rows on.
    """

    sweep: Sweep
    kind: int
    mine: list[IntArray]
    others: list[IntArray]
    steps: Steps
    behind: list[IntArray]

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.steps.first[-1])

    def row_of(self, position: int, mine: IntArray, others: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """The number of each pattern among the rows of a position; whether it is one."""
        if not self.sweep.graph.paying[self.kind]:
            return np.zeros(len(mine), dtype=np.int64), np.ones(len(mine), dtype=bool)
        known = self.mine[position] << 31 | self.others[position]
        asked = mine << 31 | others
        row: IntArray = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return row, known[row] == asked


def one_device(sweep: Sweep, kind: int, most: int, deadline: Deadline) -> OneDevice:
    """The rows that sets reach which pay ``most`` for cut nets, or less. Raises :class:`TooWideError`."""
    graph, pays = sweep.graph, bool(sweep.graph.paying[kind])
    mine, others = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    paid, total = [np.zeros(1, dtype=np.int64)], 1
    parts: list[Part] = []
    for u, nets, closed in zip(sweep.order, sweep.nets, sweep.closed, strict=True):
        deadline.check()
        here, there = mine[-1], others[-1]
        off, on, bits = np.zeros_like(here), np.zeros_like(here), 0
        for bit, cost in nets if pays else ():
            bits |= bit
            off += cost * ((here & bit != 0) & (there & bit == 0))
            on += cost * ((here & bit == 0) & (there & bit != 0))
        after = np.concatenate([(here & ~closed) << 31 | (there | bits) & ~closed, (here | bits) & ~closed])
        after[len(here) :] <<= 31
        after[len(here) :] |= there & ~closed
        spent = np.concatenate([paid[-1] + off, paid[-1] + on])
        fits = spent <= most
        fits[len(here) :] &= graph.allowed[u, kind]
        patterns, number = np.unique(after[fits], return_inverse=True)
        to = np.full(len(after), -1, dtype=np.int64)
        to[fits] = number.ravel()
        least = np.full(len(patterns), NEVER)
        np.minimum.at(least, to[fits], spent[fits])
        parts.append((to[: len(here)], to[len(here) :], off, on))
        paid.append(least)
        mine.append(patterns >> 31)
        others.append(patterns & (2**31 - 1))
        total += len(patterns)
        if total > MOST_ROWS:
            raise TooWideError("too many patterns of open nets")
    behind = _behind(parts, len(mine[-1]))
    keep = [
        np.flatnonzero((rest <= most) & (before + np.minimum(rest, most) <= most))
        for before, rest in zip(paid, behind, strict=True)
    ]
    if not all(map(len, keep)):  # a device pays more than that even without units: no placement
        keep = [np.arange(len(row)) for row in mine]
    time = np.where(graph.allowed[:, kind], graph.time[:, kind], 0)[list(sweep.order)].tolist()
    kept = [_kept(part, keep[i], keep[i + 1], len(mine[i + 1]), time[i]) for i, part in enumerate(parts)]
    first = np.cumsum([0, *map(len, keep)]).astype(np.int64)
    steps = Steps(first, *(np.concatenate([part[j] for part in kept]) for j in range(4)))
    left = [[row[rows] for row, rows in zip(table, keep, strict=True)] for table in (mine, others, behind)]
    return OneDevice(sweep, kind, left[0], left[1], steps, left[2])


def _behind(parts: list[Part], last: int) -> list[IntArray]:
    """Per position the least that is paid from each row on (:data:`NEVER`: no set goes on from there)."""
    found = [np.zeros(last, dtype=np.int64)]
    for off, on, off_cost, on_cost in reversed(parts):
        rest = np.append(found[-1], NEVER)  # row -1
        found.append(np.minimum(NEVER, np.minimum(off_cost + rest[off], on_cost + rest[on])))
    return found[::-1]


def _kept(part: Part, here: IntArray, after: IntArray, rows: int, time: int) -> Part:
    """The steps of the rows ``here``, to those of the ``rows`` of the next position that are kept (``after``)."""
    number = np.full(rows + 1, -1, dtype=np.int64)
    number[after] = np.arange(len(after))
    off, on, off_cost, on_cost = part
    return number[off[here]], number[on[here]], off_cost[here], on_cost[here] + time


class Pricing:
    """The most that a set of one device is worth, for prices of units (whole numbers)."""

    def __init__(self, device: OneDevice) -> None:
        self.device, self.finest = device, FINEST
        room = min(MOST_LABELS, device.rows * (FINEST + 1))
        row, label, some = (np.empty(size, dtype=np.int64) for size in (device.rows, room, 4 * FINEST))
        behind = np.empty(room, dtype=np.int32)
        self.labels = Labels(row, row.copy(), label, np.empty_like(label), behind, some, some.copy(), some.copy())

    def label(self, prices: IntArray, deadline: Deadline, most: int = FINEST) -> None:
        """Label all rows for ``prices`` [U], with about ``most`` labels each. Raises ``Stop`` at the deadline."""
        device, target, labels = self.device, self.device.sweep.target, self.labels
        first, positions = device.steps.first, len(device.sweep.order)
        worth, most = prices[list(device.sweep.order)], min(most, self.finest)
        while True:
            last = np.arange(first[positions], first[positions + 1])  # one row: all nets are closed
            labels.begin[last], labels.count[last], made, position = 0, 1, 1, positions - 1
            labels.load[0] = labels.value[0] = 0
            labels.next[0] = -1
            while position >= 0:
                deadline.check()
                position, made = label_back(device.steps, labels, worth, target, most, position, made, CHUNK)
            if position == -1:
                return
            most = self.finest = most // 2

    def best(self) -> tuple[IntArray, IntArray]:
        """(loads, values) of the labels of all units: what a set of each load or less is worth at most."""
        count = int(self.labels.count[0])
        begin = int(self.labels.begin[0])
        return self.labels.load[begin : begin + count], self.labels.value[begin : begin + count]

    def units(self) -> tuple[int, IntArray]:
        """The load and the units of the set that is worth most; where labels are merged, it may not fit."""
        label, row, load, taken = int(self.labels.begin[0] + self.labels.count[0]) - 1, 0, 0, []
        steps = self.device.steps
        for i, u in enumerate(self.device.sweep.order):
            here, behind = int(steps.first[i]) + row, int(self.labels.next[label])
            if behind & 1:
                taken.append(u)
            to, cost = (steps.on, steps.on_load) if behind & 1 else (steps.off, steps.off_load)
            load, row, label = load + int(cost[here]), int(to[here]), behind >> 1
        return load, np.array(taken, dtype=np.int64)

    def at_most(self, position: int, row: IntArray, room: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """(value, whether there is any) of the units from a position on, of sets that load the device by ``room`` or
        less, from rows of the position."""
        begin, end = self.device.steps.first[position], self.device.steps.first[position + 1]
        count, low = self.labels.count[begin:end], int(self.labels.begin[begin:end].min())
        number = np.repeat(np.arange(end - begin), count)
        high = low + len(number)
        span = self.device.sweep.target
        known = number * span + self.labels.load[low:high]
        label = np.searchsorted(known, row * span + np.maximum(room, -1), side="right") - 1
        some = (label >= 0) & (room >= 0)
        label = np.maximum(label, 0)
        some &= number[label] == row
        value: IntArray = np.where(some, self.labels.value[low:high][label], 0)
        return value, some
