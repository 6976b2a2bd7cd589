"""What chips and links carry, in the MIP: C4, T1 and T2."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.instances.ring.precedence import last_readers, steps_alive
from chipmap.instances.ring.problem import RingProblem


def def_link(block: pyo.Block, problem: RingProblem) -> None:
    """``link[t, c]`` >= step[u, c] - step[v, c] for producer u and every reader v: storage t crosses link c -> c + 1.

    Continuous. ``link_load[c]``: ticks on link c. With C1, the readers that no other reader follows suffice.
    """
    step = block.step
    paid = [t for t, storage in enumerate(problem.storages) if storage.ticks]
    links = range(problem.chips - 1)
    link = block.link = pyo.Var(paid, links, bounds=(0, 1))
    rows = block.def_link = pyo.Constraint(pyo.Any)
    for t in paid:
        u = problem.storages[t].producer
        for v in last_readers(problem, problem.storages[t].readers):
            look()
            for c in links:
                rows[t, v, c] = link[t, c] >= step[u, c] - step[v, c]
    block.link_load = pyo.Expression(
        links, rule=lambda _, c: pyo.quicksum(problem.storages[t].ticks * link[t, c] for t in paid)
    )


def def_cross(block: pyo.Block, problem: RingProblem) -> None:
    """``cross[t, c]`` >= |on[u, c] - on[v, c]| for producer u and every reader v: storage t crosses c's boundary."""
    on = block.on
    moved = [t for t, storage in enumerate(problem.storages) if storage.ticks or storage.bytes]
    cross = block.cross = pyo.Var(moved, range(problem.chips), bounds=(0, 1))
    rows = block.def_cross = pyo.Constraint(pyo.Any)
    for t in moved:
        u = problem.storages[t].producer
        for v in problem.storages[t].readers:
            look()
            for c in range(problem.chips):
                rows[t, u, v, c] = cross[t, c] >= on[u, c] - on[v, c]
                rows[t, v, u, c] = cross[t, c] >= on[v, c] - on[u, c]


def def_rest(block: pyo.Block, problem: RingProblem) -> None:
    """``rest[s, c]`` >= on[v, c] for every reader v: shared constant s rests on chip c. Continuous."""
    rest = block.rest = pyo.Var(range(len(problem.shared)), range(problem.chips), bounds=(0, 1))
    rows = block.def_rest = pyo.Constraint(pyo.Any)
    for s, constant in enumerate(problem.shared):
        for v in constant.readers:
            look()
            for c in range(problem.chips):
                rows[s, v, c] = rest[s, c] >= block.on[v, c]


def c4_memory(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """C4: weights on c + 2 · (bytes of the storages that cross its boundary) <= S for every chip c.

    Grade ``full``: + 2 · (bytes of the storages that pass through) + the peak of those made and read on c only.

    ``chip_memory[c]``: the left side, in bytes.
    """
    weights = [(int(problem.weight_bytes[v]), v) for v in np.flatnonzero(problem.weight_bytes).tolist()]
    buffers = [(2 * storage.bytes, t) for t, storage in enumerate(problem.storages) if storage.bytes]
    def_rest(block, problem)
    held = block.cross
    if problem.full_memory:
        def_hold(block, problem)
        def_peak(block, problem, scale)
        held = block.hold

    def memory(c: int, unit: int) -> pyo.Expression:
        parts = [(size, block.on[v, c]) for size, v in weights] + [(size, held[t, c]) for size, t in buffers]
        parts += [(constant.bytes, block.rest[s, c]) for s, constant in enumerate(problem.shared)]
        parts += [(scale, block.peak[c])] if problem.full_memory and buffers else []
        return pyo.quicksum(size / unit * variable for size, variable in parts)

    block.chip_memory = pyo.Expression(range(problem.chips), rule=lambda _, c: memory(c, 1))
    rows = block.c4_memory = pyo.Constraint(pyo.Any)
    for c in range(problem.chips) if weights or problem.shared or buffers else ():
        look()
        rows[c] = memory(c, scale) <= problem.sram_bytes / scale


def def_hold(block: pyo.Block, problem: RingProblem) -> None:
    """``hold[t, c]`` >= cross[t, c], and >= step[u, c - 1] - step[v, c]: storage t crosses c or passes through it."""
    moved = [t for t, storage in enumerate(problem.storages) if storage.bytes]
    hold = block.hold = pyo.Var(moved, range(problem.chips), bounds=(0, 1))
    rows = block.def_hold = pyo.Constraint(pyo.Any)
    for t in moved:
        u = problem.storages[t].producer
        for c in range(problem.chips):
            look()
            rows[t, "cross", c] = hold[t, c] >= block.cross[t, c]
            for v in last_readers(problem, problem.storages[t].readers) if c else ():
                rows[t, v, c] = hold[t, c] >= block.step[u, c - 1] - block.step[v, c]


def def_peak(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """``peak[c]`` (in ``scale`` bytes) >= Σ bytes(t) · inner[t, c] over the storages alive at one step.

    ``inner[t, c]`` >= on[u, c] - cross[t, c]: storage t is made on c and read nowhere else.
    """
    moved = [t for t, storage in enumerate(problem.storages) if storage.bytes]
    chips = range(problem.chips)
    inner = block.inner = pyo.Var(moved, chips, bounds=(0, 1))
    peak = block.peak = pyo.Var(chips, bounds=(0, None))
    block.def_inner = pyo.Constraint(
        moved, chips, rule=lambda b, t, c: inner[t, c] >= b.on[problem.storages[t].producer, c] - b.cross[t, c]
    )
    rows = block.def_peak = pyo.Constraint(pyo.Any)
    for number, alive in enumerate(steps_alive(problem)):
        for c in chips:
            look()
            rows[number, c] = peak[c] >= pyo.quicksum(problem.storages[t].bytes / scale * inner[t, c] for t in alive)


def def_work(block: pyo.Block, problem: RingProblem) -> None:
    """``chip_work[c]`` = Σ_v time(v) · on[v, c], in ticks."""
    busy = [(v, int(problem.ticks[v])) for v in np.flatnonzero(problem.ticks).tolist()]
    block.chip_work = pyo.Expression(
        range(problem.chips), rule=lambda _, c: pyo.quicksum(ticks * block.on[v, c] for v, ticks in busy)
    )


def t1_chip(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """T1 >= what each chip takes: its work, and in modes ``sum`` and ``sum_forward`` the transfers that it pays."""
    rows = block.t1_chip = pyo.Constraint(pyo.Any)
    for c in range(problem.chips):
        look()
        parts = [(int(problem.ticks[v]), block.on[v, c]) for v in np.flatnonzero(problem.ticks).tolist()]
        if problem.cost_mode == "sum":
            parts += [(s.ticks, block.cross[t, c]) for t, s in enumerate(problem.storages) if s.ticks]
        if problem.cost_mode == "sum_forward":
            ends = [link for link in (c - 1, c) if 0 <= link < problem.chips - 1]
            parts += [(s.ticks, block.link[t, e]) for t, s in enumerate(problem.storages) if s.ticks for e in ends]
        rows[c] = pyo.quicksum(ticks / scale * variable for ticks, variable in parts) <= block.slowest["T1"]


def t2_link(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """T2 >= the load of each link in mode ``period``; T2 = 0 in the others."""
    if problem.cost_mode != "period":
        block.slowest["T2"].fix(0)
        return
    rows = block.t2_link = pyo.Constraint(pyo.Any)
    paid = [(t, storage.ticks) for t, storage in enumerate(problem.storages) if storage.ticks]
    for c in range(problem.chips - 1) if paid else ():
        look()
        load = pyo.quicksum(ticks / scale * block.link[t, c] for t, ticks in paid)
        rows[c] = load <= block.slowest["T2"]
