"""Placements unit by unit: all that can still have loads below a target, or the most promising of them.

A *state* is what a placement of the units met so far means for the others: for each device its load, and the open nets
that it has a unit of. States are left out

- where the prices of the units to come (:mod:`columns`) show that no completion has loads below the target: the rest
  of the units is worth more than the devices can hold of it;
- where loads, the least work to come and the least costs of nets that will be cut exceed what devices have
  (:mod:`cut_budget`);
- where another state has the same open nets on each device, and no larger load on any (on two devices all of these, on
  more devices those that are found quickly);
- where they differ from another state by the names of equal devices.

If no state is left, no placement has loads below the target. With ``merge``, states of the same open nets and about the
same loads are replaced by one with the least loads of each device, where there are too many: then states that are left
say nothing. Else only the most promising states are kept, where there are too many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.throughput.columns import Devices
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import IntArray

#: States with as many of the least loads, and as far back in order, that each is compared with.
FIRST, BACK = 8, (1, 2, 3, 5, 8, 13, 21)
#: Loads of merged states differ by at most this part of the target.
MERGED = 1 << 9
#: States of all positions of which it is kept how they came about (7 bytes each for two devices, 9 for four).
TRAIL = 16_000_000


@dataclass(frozen=True, eq=False)
class Found:
    """``load``: the least of the states left at the end, None without any; ``of_unit`` [U]: its devices (if asked).
    ``whole``: no state was left out that may have been better. ``peak``: most states.
    """

    load: int | None
    of_unit: IntArray | None
    whole: bool
    peak: int


@dataclass(eq=False)
class _Trail:
    """How each state came about: per position its parent, the place of the unit's device, and how places were put in
    order."""

    parents: list[IntArray] = field(default_factory=list)
    places: list[NDArray[np.int8]] = field(default_factory=list)
    orders: list[NDArray[np.int8]] = field(default_factory=list)

    def made(self) -> int:
        """States in all."""
        return sum(map(len, self.parents))

    def devices(self, order: tuple[int, ...], state: int, devices: int) -> IntArray:
        """The device of each unit [U] in a state of the last position."""
        way, name, found = [], np.arange(devices), np.zeros(len(order), dtype=np.int64)
        for parents, places, orders in zip(self.parents[::-1], self.places[::-1], self.orders[::-1], strict=True):
            way.append((int(places[state]), orders[state]))
            state = int(parents[state])
        for u, (place, moved) in zip(order, way[::-1], strict=True):
            found[u] = name[place]
            name = name[moved]
        return found


def placed(
    devices: Devices, prices: IntArray | None, width: int, merge: bool, trail: bool, deadline: Deadline
) -> Found:
    """Place the units of ``devices``, labelled for ``prices``, with about ``width`` states at a time.

    Without prices nothing is labelled, and only the budget refutes states. Raises ``Stop`` at the deadline.
    """
    swept, graph = devices.sweep, devices.sweep.graph
    way, whole, peak, target = _Trail() if trail else None, True, 0, swept.target
    left = None if prices is None else np.append(np.cumsum(prices[list(swept.order)][::-1])[::-1], 0)
    nets = np.zeros((1, graph.problem.devices), dtype=np.int64)
    loads = nets.copy()
    for i in range(len(swept.order)):
        deadline.check()
        nets, loads, parent, place = _stepped(devices, i, nets, loads)
        order = _in_order(graph, nets, loads)
        good = _may_be_good(devices, i + 1, nets, loads, None if left is None else int(left[i + 1]))
        keep = np.flatnonzero(good >= 0)
        keep = keep[_undominated(nets[keep], loads[keep])]
        peak = max(peak, len(keep))
        if len(keep) > width and left is None:
            return Found(0, None, False, peak)
        if len(keep) > width and not merge:
            keep, whole = keep[np.sort(np.argpartition(-good[keep], width)[:width])], False
        if way is not None:
            way.parents.append(parent[keep].astype(np.int32))
            way.places.append(place[keep])
            way.orders.append(order[keep])
            way = way if way.made() <= TRAIL else None
        nets, loads = nets[keep], loads[keep]
        if len(nets) > width:
            nets, loads = _merged(nets, loads, width, target)
            whole = False
            if len(nets) > width:
                return Found(0, None, False, peak)
        if not len(nets):
            return Found(None, None, whole, peak)
    best = int(loads.max(axis=1).argmin())
    of_unit = way.devices(swept.order, best, graph.problem.devices) if way is not None else None
    return Found(int(loads[best].max()), of_unit, whole, peak)


def _stepped(
    devices: Devices, i: int, nets: IntArray, loads: IntArray
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.int8]]:
    """(open nets, loads, parents, devices) of all states with the unit of position i on any device."""
    swept, graph = devices.sweep, devices.sweep.graph
    u, made = swept.order[i], []
    for d, k in enumerate(graph.kind_of):
        if not graph.allowed[u, k]:
            continue
        has, load = nets.copy(), loads.copy()
        load[:, d] += graph.time[u, k]
        for bit, cost in swept.nets[i]:
            there = has & bit != 0
            touched = there.sum(axis=1)
            new = ~there[:, d]
            if graph.paying[k]:
                load[:, d] += cost * (new & (touched >= 1))
            for e, other in enumerate(graph.kind_of):  # a device that was alone with the net begins to pay
                if e != d and graph.paying[other]:
                    load[:, e] += cost * (new & (touched == 1) & there[:, e])
            has[:, d] |= bit
        fits = np.flatnonzero((load < swept.target).all(axis=1))
        made.append((has[fits] & ~swept.closed[i], load[fits], fits, np.full(len(fits), d, dtype=np.int8)))
    if not made:
        nothing = np.zeros(0, dtype=np.int64)
        return nets[:0], loads[:0], nothing, nothing.astype(np.int8)
    some, all_loads, parents, places = (np.concatenate([part[j] for part in made]) for j in range(4))
    return some, all_loads, parents, places


def _in_order(graph: LoadGraph, nets: IntArray, loads: IntArray) -> NDArray[np.int8]:
    """Put equal devices in the order of their open nets and loads, in place; where each place was before."""
    order = np.tile(np.arange(nets.shape[1], dtype=np.int8), (len(nets), 1))
    for same in graph.kinds:
        if len(same) > 1:
            of = list(same)
            by = np.lexsort((loads[:, of], nets[:, of]), axis=1)
            for table in (nets, loads, order):
                table[:, of] = np.take_along_axis(table[:, of], by, axis=1)
    return order


def _may_be_good(devices: Devices, i: int, nets: IntArray, loads: IntArray, left: int | None) -> IntArray:
    """By how much what the devices can hold of the units from position i on is worth more than these, which are worth
    ``left`` (None: it isn't known, and 0 is said); below 0 where they can't hold them."""
    graph = devices.sweep.graph
    worth, possible = np.zeros(len(nets), dtype=np.int64), np.ones(len(nets), dtype=bool)
    spent = loads @ devices.budget.price
    for d, k in enumerate(graph.kind_of):
        others = np.bitwise_or.reduce(np.delete(nets, d, axis=1), axis=1)
        row, known = devices.kinds[k].device.row_of(i, nets[:, d], others)
        possible &= known
        if left is not None:
            value, some = devices.kinds[k].at_most(i, row, devices.sweep.target - 1 - loads[:, d])
            worth += value
            possible &= some
        spent += devices.budget.price[d] * devices.kinds[k].device.behind[i][row]
    found: IntArray = np.where(possible & (spent <= devices.left[i]), worth - (left or 0), -1)
    return found


def _undominated(nets: IntArray, loads: IntArray) -> IntArray:
    """The states that are left, in the order of their nets, then of their loads: exactly these for two devices."""
    if loads.shape[1] == 2 and len(loads):
        return _of_two(nets, loads)
    by = np.lexsort((loads.sum(axis=1), *nets.T))
    nets, loads = nets[by], loads[by]
    begins = np.ones(len(by), dtype=bool)
    begins[1:] = (nets[1:] != nets[:-1]).any(axis=1)
    group, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    dead, rank = np.zeros(len(by), dtype=bool), np.arange(len(by)) - first[group] if len(by) else by
    for j in range(FIRST):
        other = np.minimum(first[group] + j, len(by) - 1) if len(by) else by
        dead |= (rank > j) & (group[other] == group) & (loads[other] <= loads).all(axis=1)
    for j in BACK:
        if len(by) > j:
            dead[j:] |= (group[j:] == group[:-j]) & (loads[:-j] <= loads[j:]).all(axis=1)
    found: IntArray = by[~dead]
    return found


def _of_two(nets: IntArray, loads: IntArray) -> IntArray:
    """For two devices: by rising loads of the first, those with a smaller load of the second than all before."""
    by = np.lexsort((loads[:, 1], loads[:, 0], *nets.T))
    nets = nets[by]
    begins = np.ones(len(by), dtype=bool)
    begins[1:] = (nets[1:] != nets[:-1]).any(axis=1)
    second = loads[by, 1] - np.cumsum(begins) * (loads[:, 1].max() + 1)  # below all of the nets before
    begins[1:] = second[1:] < np.minimum.accumulate(second)[:-1]
    found: IntArray = by[begins]
    return found


def _merged(nets: IntArray, loads: IntArray, width: int, target: int) -> tuple[IntArray, IntArray]:
    """Fewer states: those of the same open nets whose loads are in the same grain, with the least loads of each."""
    grain = max(1, target >> 20)
    while len(nets) > width and grain * MERGED <= target:
        parts = loads // grain
        by = np.lexsort((*parts.T, *nets.T))
        nets, loads, parts = nets[by], loads[by], parts[by]
        begins = np.ones(len(by), dtype=bool)
        begins[1:] = (nets[1:] != nets[:-1]).any(axis=1) | (parts[1:] != parts[:-1]).any(axis=1)
        first = np.flatnonzero(begins)
        nets, loads = nets[first], np.minimum.reduceat(loads, first, axis=0)
        grain *= 2
    return nets, loads
