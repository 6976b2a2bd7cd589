"""How kernels share a chip's tiles, for the MIP: one share of its list for each kernel (C7, and T1 without a
utilisation)."""

from __future__ import annotations

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.dataflow.mip_assignment import placed
from chipmap.formulations.dataflow.tables import Tables


def c7_tiles(block: pyo.Block, tables: Tables) -> None:
    """C7: binary ``share[i, g, p, c]`` = [copy i lies in c under its options g, on share p of their list]; what the
    shares of a partition take is within a chip's tiles.

    One p for each copy, option and partition where it is: the product of tiles and partition, without bilinear terms.
    """
    total = tables.problem.instance.system.chip.tiles
    listed = {(i, g): each for i in tables.copies for g, each in enumerate(tables.shares(i))}
    cells = [(i, g, p, c) for i, g in listed for p in range(len(listed[i, g][1])) for c in tables.slots[i]]
    share = block.share = pyo.Var(cells, domain=pyo.Binary)
    one = block.def_share = pyo.Constraint(pyo.Any)
    for (i, g), (options, points) in listed.items():
        for c in tables.slots[i]:
            look()
            picked = pyo.quicksum(share[i, g, p, c] for p in range(len(points)))
            one[i, g, c] = picked == placed(block, tables, i, options, c)
    rows = block.c7_tiles = pyo.Constraint(pyo.Any)
    for c in range(tables.count) if listed else ():
        look()
        parts = [
            size / total * share[i, g, p, c]
            for i in tables.inside(c)
            for g, (_, points) in enumerate(tables.shares(i))
            for p, (size, _) in enumerate(points)
        ]
        rows[c] = pyo.quicksum(parts) <= 1


def t1_compute_shared(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T1 where tiles are shared: ``slowest[c]``, at least the time of each share in c, <= the time of a partition."""
    slowest = block.slowest = pyo.Var(range(tables.count), bounds=(0, None))
    rows = block.t1_compute_shared = pyo.Constraint(pyo.Any)
    for c in range(tables.count):
        rows[c] = block.left[c] >= slowest[c]
        for i in tables.inside(c):
            look()
            parts = [
                time / unit * block.share[i, g, p, c]
                for g, (_, points) in enumerate(tables.shares(i))
                for p, (_, time) in enumerate(points)
            ]
            rows[i, c] = slowest[c] >= pyo.quicksum(parts)
