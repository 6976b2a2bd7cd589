"""What a partition holds and how long it takes, for the MIP: C2 and T1 to T4."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.formulations.dataflow.mip_assignment import several, weighted
from chipmap.formulations.dataflow.mip_tensors import paired
from chipmap.formulations.dataflow.tables import Tables


def moved(block: pyo.Block, tables: Tables, field: str, c: int, unit: int) -> Any:
    """Σ of an output's column over all that is written or read at the border of c, in units."""
    parts = []
    for way, i, m, at in block.moves:
        if at == c:
            amount = tables.amount(i, m, field)
            parts.append(amount / unit * block.moves[way, i, m, at])
    return pyo.quicksum(parts)


def c2_sram(block: pyo.Block, tables: Tables, unit: int) -> None:
    """C2: weights, a buffer for each level that a tensor inside waits, and two for what crosses, within a chip's SRAM.

    ``sram[c]``: the left side in bytes.
    """

    def held(c: int, scale: int) -> Any:
        parts = [weighted(block, tables, "weights", c, scale), 2 * moved(block, tables, "buffer", c, scale)]
        for e, m, at in block.inside:
            if at == c:
                t = tables.tensors[e]
                parts.append(t.waits * tables.amount(t.u, m, "buffer") / scale * block.inside[e, m, c])
        return pyo.quicksum(parts)

    slots = range(tables.count)
    block.sram = pyo.Expression(slots, rule=lambda _, c: held(c, 1))
    block.c2_sram = pyo.Constraint(slots, rule=lambda _, c: held(c, unit) <= tables.problem.sram / unit)


def t1_compute(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T1: the sum of its kernels' compute <= the time of a partition."""
    slots = range(tables.count)
    block.compute = pyo.Expression(slots, rule=lambda _, c: weighted(block, tables, "compute", c, unit))
    block.t1_compute = pyo.Constraint(slots, rule=lambda b, c: b.time[c] >= b.compute[c])


def t2_memory(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T2: what crosses its border, its weights and what it fetches, through DRAM <= the time of a partition.

    ``spared``: the weights' time, where one partition is all that a chip runs.
    """
    slots = range(tables.count)
    streams = {c: weighted(block, tables, "stream", c, unit) for c in slots}
    if tables.spares:
        block.spared = pyo.Var(bounds=(0, tables.spares / unit))
        block.def_spared = pyo.Constraint(expr=block.spared <= weighted(block, tables, "spared", 0, unit))
        block.def_resident = pyo.Constraint(expr=block.spared <= tables.spares / unit * (1 - several(block, tables)))
        streams[0] -= block.spared
    block.memory = pyo.Expression(slots, rule=lambda _, c: moved(block, tables, "dram", c, unit) + streams[c])
    block.t2_memory = pyo.Constraint(slots, rule=lambda b, c: b.time[c] >= b.memory[c])


def t3_network(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T3: collectives of its kernels and layout changes of what they read (equations 5, 6) <= a partition's time."""

    def network(c: int) -> Any:
        parts = [weighted(block, tables, "collective", c, unit)]
        parts += [change / unit * paired(block, tables, e, g, h, c) for e, g, h, change in tables.changes(c)]
        return pyo.quicksum(parts)

    slots = range(tables.count)
    block.network = pyo.Expression(slots, rule=lambda _, c: network(c))
    block.t3_network = pyo.Constraint(slots, rule=lambda b, c: b.time[c] >= b.network[c])


def t4_no_overlap(block: pyo.Block, tables: Tables) -> None:
    """T4 without overlap: compute, memory and network together <= the time of a partition."""
    if not tables.overlap:
        block.t4_no_overlap = pyo.Constraint(
            range(tables.count), rule=lambda b, c: b.time[c] >= b.compute[c] + b.memory[c] + b.network[c]
        )


def t4_layer(block: pyo.Block, tables: Tables, unit: int, most: int | None) -> None:
    """T4: partitions run one after the other; ``layer`` = Σ time[c] in picoseconds, at most ``most``."""
    total = pyo.quicksum(block.time[c] for c in range(tables.count))
    block.layer = pyo.Expression(expr=unit * total)
    if most is not None:
        block.t4_layer = pyo.Constraint(expr=total <= most / unit)
