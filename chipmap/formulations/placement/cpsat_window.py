"""A window of a schedule placed anew by CP-SAT: operations one after the other by their starts, the rest as it is.

The window's operations may go to any device, in any order. What began before them stays, operations and transfers. Of
what comes behind them, readers of their outputs and the next operation of each device are in the model: these stay on
their devices, and behind each operation there is its tail (:mod:`chipmap.instances.placement.fixed_order`). So T1 here
is at least what the devices and orders that are left lead to. Memory is left out, and later transfers make way: the
model is auxiliary, and the decoder judges what it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement
from chipmap.formulations.placement.cpsat import (
    c0_domain,
    c1_together,
    c2_order,
    c3_transfer,
    c4_device,
    c5_channel,
    def_sent,
    def_starts,
    t1_step,
)
from chipmap.formulations.placement.cpsat_builder import Builder, PlacementCpChoices
from chipmap.formulations.placement.narrowing import Narrowing
from chipmap.instances.placement.fixed_order import Schedule
from chipmap.instances.placement.problem import IntArray, PlacementProblem, Storages


class Placed(NamedTuple):
    """``devices`` and ``starts`` of the window's operations [inside], in their order."""

    devices: IntArray
    starts: IntArray


@dataclass(frozen=True, eq=False)
class ScheduleWindow:
    """``inside``: the operations to be placed anew, consecutive in the order of the schedule ``now``."""

    now: Schedule
    inside: IntArray

    def begin(self) -> int:
        """The first start."""
        return int(self.now.start[self.inside].min())

    def before(self) -> set[int]:
        """What stays as it is and matters: producers of what is read inside, and what runs when the window begins."""
        now, inside = self.now, set(self.inside.tolist())
        producer = now.problem.storages.producer.tolist()
        found = {producer[s] for v in inside for s in now.problem.producers[v]}
        over = now.start + now.time + now.problem.gap[now.device]
        running = (now.start < self.begin()) & (over > self.begin()) & (now.time > 0)
        return (found | set(np.flatnonzero(running).tolist())) - inside

    def readers(self) -> set[int]:
        """Who reads what is made inside, outside."""
        inside, storages = set(self.inside.tolist()), self.now.problem.storages
        made = np.flatnonzero(np.isin(storages.producer, self.inside)).tolist()
        return {w for s in made for w in storages.read_by(s)} - inside

    def next(self) -> dict[int, int]:
        """The next operation that takes time on each device behind the window."""
        order, found = self.now.order, dict[int, int]()
        last = int(np.flatnonzero(np.isin(order, self.inside)).max(initial=-1))
        for v in order[last + 1 :][self.now.time[order[last + 1 :]] > 0].tolist():
            found.setdefault(int(self.now.device[v]), v)
            if len(found) == self.now.problem.devices:
                break
        return found


def build(window: ScheduleWindow, upper: int) -> Built:
    """The placements of a window with which T1 would be at most ``upper``, by what the model sees; hints say what is
    there now. It decodes to :class:`Placed`."""
    now, before, after = window.now, window.before(), window.next()
    later = (window.readers() | set(after.values())) - before
    kept = np.array(sorted({*window.inside.tolist(), *before, *later}), dtype=np.int64)
    sub = _part(window, kept, later)
    number = {v: i for i, v in enumerate(kept.tolist())}
    free = [number[v] for v in window.inside.tolist()]
    head, tail = np.full(len(kept), window.begin()), now.tail[kept].copy()
    fixed = [number[v] for v in before]
    head[fixed] = now.start[kept[fixed]]
    tail[[*free, *fixed]] = 0
    known = Narrowing(upper, tuple(head.tolist()), tuple(tail.tolist()), tuple(sub.group.tolist()))
    model = cp_model.CpModel()
    builder = Builder(model, sub, "", PlacementCpChoices(narrowing=known, cuts=("path",)))
    state = Statement()
    for part in (c0_domain, def_sent, c1_together, def_starts, c2_order, c3_transfer, c4_device, c5_channel, t1_step):
        state(part, builder)
    for v in fixed:
        model.add(builder.start[v] == int(head[v]))
    _def_begun(builder, window, kept)
    for d, v in after.items():
        _def_behind(builder, free, d, number[v])
    for v in range(len(kept)):
        model.add_hint(builder.start[v], int(now.start[kept[v]]))
    hints = {builder.x[v, d].index: (builder.x[v, d], d == now.device[kept[v]]) for v, d in builder.x}
    for variable, value in hints.values():  # those that share a device share a variable, which takes one hint
        model.add_hint(variable, int(value))
    model.minimize(builder.cost)

    def decode(value: Callable[[Any], float]) -> Placed:
        devices = [
            max(range(sub.devices), key=lambda d: value(builder.x[v, d]) if (v, d) in builder.x else -1.0) for v in free
        ]
        starts = [round(value(builder.start[v])) for v in free]
        return Placed(np.array(devices, dtype=np.int64), np.array(starts, dtype=np.int64))

    return Built("cpsat", sub.instance, model, state, Scope.WINDOW, lambda _: None, decode, builder)


def _def_begun(builder: Builder, window: ScheduleWindow, kept: IntArray) -> None:
    """Transfers that began before the window stay; the others begin in it or behind it."""
    tensors = {t: s for s, t in enumerate(window.now.problem.storages.tensor.tolist())}
    for (s, d), at in builder.at.items():
        begun = window.now.sent.get((tensors[int(builder.problem.storages.tensor[s])], d))
        if begun is not None and begun < window.begin():
            builder.model.add(at == begun)
        else:
            builder.model.add(at >= window.begin())


def _def_behind(builder: Builder, free: list[int], d: int, v: int) -> None:
    """On device ``d`` operation ``v`` starts behind all of the window that is there."""
    for w in free:
        if (w, d) in builder.x and int(builder.problem.time[w, d]) > 0:
            row = builder.model.add(builder.start[v] >= builder.end[w] + int(builder.problem.gap[d]))
            builder.implied("def_behind", [builder.x[w, d]], row)


def _part(window: ScheduleWindow, kept: IntArray, later: set[int]) -> PlacementProblem:
    """The problem of the operations ``kept``: those outside the window on their devices, as are groups that reach
    outside; what is made inside, and what is read inside, is moved."""
    problem, now = window.now.problem, window.now
    inside, number = set(window.inside.tolist()), {v: i for i, v in enumerate(kept.tolist())}
    outside = np.ones(problem.operations, dtype=bool)
    outside[window.inside] = False
    pinned = np.isin(problem.group[kept], problem.group[outside]) | outside[kept]
    here = np.arange(problem.devices) == now.device[kept][:, None]
    allowed = np.where(pinned[:, None], here, problem.allowed[kept])
    for some in problem.apart:  # those that aren't here keep their devices
        for v in (number[v] for v in some if v in inside):
            allowed[v, [int(now.device[w]) for w in some if w not in number]] = False
    _, first, group = np.unique(problem.group[kept], return_index=True, return_inverse=True)
    storages, listed, rows = problem.storages, list[int](), list[list[int]]()
    for s, u in enumerate(storages.producer.tolist()):
        if u in number and u not in later:
            readers = [number[w] for w in storages.read_by(s) if w in inside or (u in inside and w in number)]
            if readers:
                listed.append(s)
                rows.append(readers)
    moved = Storages(
        tensor=storages.tensor[listed],
        producer=np.array([number[int(storages.producer[s])] for s in listed], dtype=np.int64),
        bytes=storages.bytes[listed],
        reader_at=np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64),
        readers=np.array([w for row in rows for w in row], dtype=np.int64),
        output=storages.output[listed],
        resident=storages.resident[listed],
        time=storages.time[listed],
    )
    return replace(
        problem,
        position=problem.position[kept],
        time=problem.time[kept],
        allowed=allowed,
        weights=problem.weights[kept],
        order=np.argsort(np.argsort(now.order)[kept]).astype(np.int64),
        storages=moved,
        copies=(),
        group=first[group].astype(np.int64),
        apart=tuple(tuple(number[v] for v in some if v in number) for some in problem.apart),
    )
