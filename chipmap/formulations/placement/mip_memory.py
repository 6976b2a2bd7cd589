"""Memory in the MIP of family ``placement`` (C6), for a sum and over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.built import unit
from chipmap.formulations.placement.choices import edges, send_time, waits
from chipmap.instances.placement.problem import PlacementProblem


class Item(NamedTuple):
    """Bytes on a device from ``start`` up to ``end``, where ``here`` is 1."""

    key: tuple[str, int, int]
    bytes: int
    here: Any
    start: Any
    end: Any


def c6_memory(block: pyo.Block, problem: PlacementProblem) -> None:
    """C6: Σ bytes held for the whole step, and with rule ``live`` those held when something else is allocated, fit.

    A device's memory is fullest right after an allocation. So for each item e that a device may hold there is a row
    over all items i: held[i, e] = 1 unless i is allocated later (start(i) >= start(e) + 1 ns) or freed by then
    (end(i) <= start(e)), with a binary each. ``buffer[d]``: the largest weights fetched to d, with rule ``static``.
    """
    rows = block.c6_memory = pyo.Constraint(pyo.Any)
    live = problem.instance.task.memory == "live"
    block.copy = pyo.Var(range(len(problem.copies)), range(problem.devices), bounds=(0, 1))
    copied = block.def_copy = pyo.Constraint(pyo.Any)
    block.buffer = pyo.Var(range(problem.devices), domain=pyo.NonNegativeReals)
    ends = def_ends(block, problem) if live else {}
    again = def_under_way(block, problem)
    listed = [item for d in range(problem.devices) for item in _items(block, problem, d, ends)]
    block.held = pyo.Var(pyo.Any, bounds=(0, 1), dense=False)
    block.later = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
    block.freed = pyo.Var(pyo.Any, domain=pyo.Binary, dense=False)
    for d in range(problem.devices):
        memory = int(problem.memory[d])
        if memory < 0:
            continue
        scale = unit(memory + int(problem.weights.sum()) + int(problem.storages.bytes.sum()))
        resident = [
            int(problem.weights[v]) / scale * (block.x[v, e] - block.fetches.get((v, e), 0))
            for v, e in block.x
            if e == d
        ]
        if not live and len(block.fetch):
            resident.append(block.buffer[d])
            for v in (v for v, e in block.fetch if e == d):
                copied["buffer", v, d] = block.buffer[d] >= int(problem.weights[v]) / scale * block.fetch[v, d]
        for k, (size, readers) in enumerate(problem.copies):
            look()
            for w in readers:
                if (w, d) in block.x:
                    copied[k, d, w] = block.copy[k, d] >= block.x[w, d]
            resident.append(size / scale * block.copy[k, d])
        for s in range(len(problem.storages)):
            look()
            u, size = int(problem.storages.producer[s]), int(problem.storages.bytes[s])
            if (u, d) in block.x and (not live or problem.storages.resident[s]):
                resident.append(size / scale * block.x[u, d])
            if (s, d) in block.sent and not live:
                resident.append(size / scale * block.sent[s, d])
        resident += [int(problem.storages.bytes[s]) / scale * block.again[s, e, k] for s, e, k in again if e == d]
        whole = pyo.quicksum(resident)
        items = [item for item in listed if item.key[2] == d] if live else []
        if resident:
            rows[d] = whole <= memory / scale
        for e in items:
            look()
            there = pyo.quicksum(one.bytes / scale * _held(block, one, e) for one in items)
            rows[d, e.key] = whole + there <= memory / scale


def def_under_way(block: pyo.Block, problem: PlacementProblem) -> list[tuple[int, int, int]]:
    """``again[s, d, k]``: device d holds storage s, which a backward operation there reads, for a k-th micro-batch.

    under_way[d, k] = 1 where k devices stand on a way from d to the end: under_way[d, k] >= before[d, e] +
    under_way[e, k - 1] - 1; kept[s, d] >= x[w, d] for backward readers w; again >= kept + under_way - 1.
    """
    most = min(problem.instance.task.micro_batches, problem.devices)
    waiting = waits(problem) if most > 1 else {}
    keys = [(s, d, k) for s in waiting for d in range(problem.devices) for k in range(2, most + 1)]
    block.under_way = pyo.Var(range(problem.devices), range(2, most + 1), bounds=(0, 1))
    block.kept = pyo.Var(list(waiting), range(problem.devices), bounds=(0, 1))
    block.again = pyo.Var(keys, bounds=(0, 1))
    rows = block.def_again = pyo.Constraint(pyo.Any)
    for d, e in block.before if most > 1 else ():
        for k in range(2, most + 1):
            behind = block.under_way[e, k - 1] if k > 2 else 1
            rows["way", d, e, k] = block.under_way[d, k] >= block.before[d, e] + behind - 1
    for s, readers in waiting.items():
        look()
        for d in range(problem.devices):
            for w in readers:
                if (w, d) in block.x:
                    rows["kept", s, d, w] = block.kept[s, d] >= block.x[w, d]
    for s, d, k in keys:
        rows["again", s, d, k] = block.again[s, d, k] >= block.kept[s, d] + block.under_way[d, k] - 1
    return keys


def _items(block: pyo.Block, problem: PlacementProblem, d: int, ends: dict[tuple[str, int, int], Any]) -> list[Item]:
    """What device ``d`` may hold for a part of the step: outputs made there, copies, and fetched weights."""
    found: list[Item] = []
    if problem.memory[d] < 0 or not ends:
        return found
    for v, e in block.fetch:
        if e == d:
            size, here = int(problem.weights[v]), block.fetch[v, d]
            found.append(Item(("fetched", v, d), size, here, block.start[v], block.end[v]))
    for s, u in enumerate(problem.storages.producer.tolist()):
        size = int(problem.storages.bytes[s])
        if size and (u, d) in block.x and not problem.storages.resident[s]:
            found.append(Item(("made", s, d), size, block.x[u, d], block.start[u], ends["made", s, -1]))
        if size and (s, d) in block.sent:
            found.append(Item(("copy", s, d), size, block.sent[s, d], block.at[s, d], ends["copy", s, d]))
    return found


def _held(block: pyo.Block, i: Item, e: Item) -> Any:
    """held[i, e] >= [both are there] - later[i, e] - freed[i, e]."""
    key, most, tick = (*i.key, *e.key), block.most, 1 / block.time_unit
    held, freed = block.held[key], block.freed[key]
    away = freed
    block.def_held[(*key, "freed")] = i.end <= e.start + 2 * most * (1 - freed)
    if i.key != e.key:
        later = block.later[key]
        away = away + later
        block.def_held[(*key, "later")] = i.start >= e.start + tick - (most + tick) * (1 - later)
    block.def_held[key] = held >= i.here + e.here - 1 - away
    return held


def def_ends(block: pyo.Block, problem: PlacementProblem) -> dict[tuple[str, int, int], Any]:
    """When storages and their copies are freed, at least: behind readers and transfers; ``def_held`` for more rows."""
    storages, most = problem.storages, block.most
    block.def_held = pyo.Constraint(pyo.Any)
    block.made_end = pyo.Var(range(len(storages)), bounds=(0, most))
    block.copy_end = pyo.Var(list(block.sent), bounds=(0, most))
    rows = block.def_ends = pyo.Constraint(pyo.Any)
    for s, u in enumerate(storages.producer.tolist()):
        look()
        rows[s] = block.made_end[s] >= block.end[u]
        if storages.output[s]:
            rows[s, "output"] = block.made_end[s] >= block.step
    for s, u, w in edges(problem):
        for d in range(problem.devices):
            look()
            if (w, d) not in block.x:
                continue
            if (u, d) in block.x:
                rows[s, w, d] = block.made_end[s] >= block.end[w] - most * (2 - block.x[u, d] - block.x[w, d])
            if (s, d) in block.sent:
                slack = 2 - block.sent[s, d] - block.x[w, d]
                rows[s, w, d, "copy"] = block.copy_end[s, d] >= block.end[w] - most * slack
    for s, a, d in block.route:
        look()
        if (time := send_time(problem, s, a, d)) is not None:
            length = time / block.time_unit
            arrived = block.at[s, d] + length - (most + length) * (1 - block.route[s, a, d])
            rows[s, a, d, "sent"] = block.made_end[s] >= arrived
    made = {("made", s, -1): block.made_end[s] for s in range(len(storages))}
    return made | {("copy", s, d): block.copy_end[s, d] for s, d in block.sent}
