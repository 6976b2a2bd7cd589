"""C4: memory, grade ``boundary``."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from chipmap.instances.ring.costs import RingProblem


def c4_memory(block: pyo.Block, problem: RingProblem, scale: int) -> None:
    """C4: weights on c + 2 · (bytes of the storages that cross its boundary) <= S for every chip c.

    ``chip_memory[c]``: the left side, in bytes.
    """
    weights = [(int(problem.weight_bytes[v]), v) for v in np.flatnonzero(problem.weight_bytes).tolist()]
    buffers = [(2 * storage.bytes, t) for t, storage in enumerate(problem.storages) if storage.bytes]

    def memory(c: int, unit: int) -> pyo.Expression:
        parts = [(size, block.on[v, c]) for size, v in weights] + [(size, block.cross[t, c]) for size, t in buffers]
        return pyo.quicksum(size / unit * variable for size, variable in parts)

    block.chip_memory = pyo.Expression(range(problem.chips), rule=lambda _, c: memory(c, 1))
    rows = block.c4_memory = pyo.Constraint(pyo.Any)
    for c in range(problem.chips) if weights or buffers else ():
        rows[c] = memory(c, scale) <= problem.sram_bytes / scale
