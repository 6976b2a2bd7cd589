"""All sets of units that one device can hold below a target load, and the most that such a set is worth.

Units are met one after the other (:mod:`sweep`). What a set costs later depends on a *pattern* alone: for each open
net, whether the device has a unit of it, and whether another device has one. A row is a pattern at a position. For
each row a table says what the units from there on are worth at most, by what they load the device with. Where there
are too many loads, times and costs are rounded down to a grain: then the value is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.throughput.sweep import Sweep, TooWideError
from chipmap.instances.placement.problem import IntArray

#: Rows in all, loads of a row at most, and entries in all (4 bytes each).
MOST_ROWS, FINEST, MOST_CELLS = 400_000, 2**16, 60_000_000
#: More than any cost, and twice that is a number still.
NEVER = np.int64(2**61)
#: Rows from the rows of a position without and with its unit (-1: not possible), and what either costs.
Part = tuple[IntArray, IntArray, IntArray, IntArray]
#: Worth less than nothing: no set fits, whatever it is worth beside that.
NONE = np.int32(-(2**31))
#: Rows of a position, those of the next one that they lead to, and what that loads the device by.
_Group = tuple[IntArray, IntArray, int]


@dataclass(frozen=True, eq=False)
class Steps:
    """The rows of position i are ``first[i]`` to ``first[i + 1]``. From row r the unit leaves for row ``off[r]`` of the
    next position, or is taken for ``on[r]`` (-1: not possible), which loads the device by ``off_load``, ``on_load``.
    """

    first: IntArray
    off: IntArray
    on: IntArray
    off_load: IntArray
    on_load: IntArray


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
    """The most that a set of one device is worth, for prices of units (whole numbers, below 2**30 together).

    ``worth`` [rows, loads]: in column l what the units from a row on are worth at most where they load the device by
    less than (l + 1) · ``grain``; below 0 where they load it by more in any case. Each load is rounded down to grains,
    so no set is left out, and with a grain of 1 no set is there that doesn't fit.
    """

    def __init__(self, device: OneDevice) -> None:
        self.device, self.grain = device, 1
        self._room = np.empty(min(MOST_CELLS, device.rows * min(FINEST, device.sweep.target)), dtype=np.int32)
        self.worth = self._room[:0].reshape(device.rows, 0)
        steps, self._groups = device.steps, list[tuple[list[_Group], list[_Group]]]()
        for begin, end in pairwise(steps.first[:-1].tolist()):
            span = slice(begin, end)
            off = _grouped(steps.off[span], steps.off_load[span])
            self._groups.append((off, _grouped(steps.on[span], steps.on_load[span])))
        graph, kind = device.sweep.graph, device.kind
        self._common = int(np.gcd.reduce(graph.time[graph.allowed[:, kind], kind]))

    def label(self, prices: IntArray, deadline: Deadline, most: int = FINEST) -> None:
        """Fill ``worth`` for ``prices`` [U], with ``most`` loads at the most. Raises ``Stop`` at the deadline."""
        device, target = self.device, self.device.sweep.target
        first, positions = device.steps.first, len(device.sweep.order)
        most = max(1, min(most, target, len(self._room) // device.rows))
        self.grain = _grain(-(-target // most), self._common)
        loads = (target - 1) // self.grain + 1
        self.worth = self._room[: device.rows * loads].reshape(device.rows, loads)
        self.worth[first[positions] :] = 0
        for i in reversed(range(positions)):
            deadline.check()
            here, after = self.worth[first[i] : first[i + 1]], self.worth[first[i + 1] : first[i + 2]]
            here[:] = NONE
            off, on = self._groups[i]
            for rows, to, load in off:
                shift = min(load // self.grain, loads)
                here[rows, shift:] = after[to, : loads - shift]
            for rows, to, load in on:
                shift = min(load // self.grain, loads)
                taken = after[to, : loads - shift] + np.int32(prices[device.sweep.order[i]])
                here[rows, shift:] = np.maximum(here[rows, shift:], taken)

    def best(self) -> tuple[IntArray, IntArray]:
        """(loads, values) of all units, by rising load: what a set of each load or less is worth at most."""
        worth = self.worth[0].astype(np.int64)
        risen = np.flatnonzero(np.diff(worth, prepend=-1) > 0)
        return risen * self.grain, worth[risen]

    def units(self) -> tuple[int, IntArray]:
        """The load and the units of the set that is worth most; where loads are rounded, it may not fit."""
        steps, row, taken, load = self.device.steps, 0, [], 0
        at = int(self.best()[0][-1]) // self.grain
        for i, u in enumerate(self.device.sweep.order):
            here = int(steps.first[i]) + row
            without = at - int(steps.off_load[here]) // self.grain
            row, after = int(steps.off[here]), int(steps.first[i + 1])
            if row >= 0 and without >= 0 and self.worth[after + row, without] == self.worth[here, at]:
                load, at = load + int(steps.off_load[here]), without
                continue
            taken.append(u)
            row, at = int(steps.on[here]), at - int(steps.on_load[here]) // self.grain
            load += int(steps.on_load[here])
        return load, np.array(taken, dtype=np.int64)

    def at_most(self, position: int, row: IntArray, room: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """(value, whether there is any) of the units from a position on, of sets that load the device by ``room`` or
        less, from rows of the position."""
        value = self.worth[self.device.steps.first[position] + row, np.maximum(room, 0) // self.grain].astype(np.int64)
        some = (value >= 0) & (room >= 0)
        return np.where(some, value, 0), some


def _grouped(to: IntArray, load: IntArray) -> list[_Group]:
    """The possible steps (``to`` isn't -1) of the rows of a position, by what they load the device by."""
    possible = np.flatnonzero(to >= 0)
    loads = np.unique(load[possible]).tolist()
    of_load = [possible[load[possible] == one] for one in loads]
    return [(rows, to[rows], one) for rows, one in zip(of_load, loads, strict=True)]


def _grain(least: int, common: int) -> int:
    """``least``, or a grain up to four times as large by which all times can be divided, as ``common`` can."""
    parts = range(common // least, common // (4 * least), -1)
    return next((common // part for part in parts if common % part == 0), least)
