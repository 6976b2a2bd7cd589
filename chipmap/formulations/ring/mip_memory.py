"""C4: memory, in both grades."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from chipmap.instances.ring.precedence import last_readers, steps_alive
from chipmap.instances.ring.problem import RingProblem


def c4_memory(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """C4: weights on c + 2 · (bytes of the storages that cross its boundary) <= S for every chip c.

    Grade ``full``: + 2 · (bytes of the storages that pass through) + the peak of those made and read on c only.

    ``chip_memory[c]``: the left side, in bytes.
    """
    weights = [(int(problem.weight_bytes[v]), v) for v in np.flatnonzero(problem.weight_bytes).tolist()]
    buffers = [(2 * storage.bytes, t) for t, storage in enumerate(problem.storages) if storage.bytes]

    held = block.cross
    if problem.full_memory:
        def_hold(block, problem)
        def_peak(block, problem, scale)
        held = block.hold

    def memory(c: int, unit: int) -> pyo.Expression:
        parts = [(size, block.on[v, c]) for size, v in weights] + [(size, held[t, c]) for size, t in buffers]
        parts += [(scale, block.peak[c])] if problem.full_memory and buffers else []
        return pyo.quicksum(size / unit * variable for size, variable in parts)

    block.chip_memory = pyo.Expression(range(problem.chips), rule=lambda _, c: memory(c, 1))
    rows = block.c4_memory = pyo.Constraint(pyo.Any)
    for c in range(problem.chips) if weights or buffers else ():
        rows[c] = memory(c, scale) <= problem.sram_bytes / scale


def def_hold(block: pyo.Block, problem: RingProblem) -> None:
    """``hold[t, c]`` >= cross[t, c], and >= step[u, c - 1] - step[v, c]: storage t crosses c or passes through it."""
    moved = [t for t, storage in enumerate(problem.storages) if storage.bytes]
    hold = block.hold = pyo.Var(moved, range(problem.chips), bounds=(0, 1))
    rows = block.def_hold = pyo.Constraint(pyo.Any)
    for t in moved:
        u = problem.storages[t].producer
        for c in range(problem.chips):
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
            rows[number, c] = peak[c] >= pyo.quicksum(problem.storages[t].bytes / scale * inner[t, c] for t in alive)
