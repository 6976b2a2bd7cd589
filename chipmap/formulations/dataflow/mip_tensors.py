"""Which tensors stay, leave and arrive, for the MIP: the matrices B, D, L and H, and pairs of sharding schemes."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.formulations.dataflow.mip_assignment import picked, placed, upto
from chipmap.formulations.dataflow.tables import Tables
from chipmap.formulations.dataflow.tables_tensors import Alike


def def_pair(block: pyo.Block, tables: Tables) -> None:
    """``pair[e, g, h, c]``: v of tensor e lies in c under its schemes h, and u is sharded as in g (anywhere).

    The pair variables of the two ends' one-hots, by their sums over g and over (h, c): exact for binaries. Where g has
    no choice they are v's own.
    """
    cells = [
        (e, g, h, c)
        for e, t in enumerate(tables.linked)
        if len(t.made) > 1
        for g in range(len(t.made))
        for h in range(len(t.taken))
        for c in tables.slots[t.v]
    ]
    pair = block.pair = pyo.Var(cells, bounds=(0, 1))
    rows = block.def_pair = pyo.Constraint(pyo.Any)
    for e, t in enumerate(tables.linked):
        if len(t.made) == 1:
            continue
        for h, options in enumerate(t.taken):
            for c in tables.slots[t.v]:
                parts = pyo.quicksum(pair[e, g, h, c] for g in range(len(t.made)))
                rows[e, "taken", h, c] = parts == placed(block, tables, t.v, options, c)
        for g, options in enumerate(t.made):
            whole = pyo.quicksum(pair[e, g, h, c] for h in range(len(t.taken)) for c in tables.slots[t.v])
            rows[e, "made", g] = whole <= picked(block, tables, t.u, options)


def paired(block: pyo.Block, tables: Tables, e: int, g: int, h: int, c: int) -> Any:
    """pair[e, g, h, c], or what it is without a choice."""
    t = tables.linked[e]
    return placed(block, tables, t.v, t.taken[h], c) if len(t.made) == 1 else block.pair[e, g, h, c]


def read(block: pyo.Block, tables: Tables, e: int, options: Alike, c: int) -> Any:
    """[v of tensor e lies in c, and u is sharded as in one of ``options``]."""
    t = tables.tensors[e]
    if len(options) == len(tables.options(t.u)):
        return block.A[t.v, c]
    groups = [g for g, made in enumerate(t.made) if made[0] in options]
    return pyo.quicksum(paired(block, tables, e, g, h, c) for g in groups for h in range(len(t.taken)))


def def_inside(block: pyo.Block, tables: Tables) -> None:
    """``inside[e, m, c]``: both ends of tensor e lie in c, u sharded as in its class m; B[e, c] is their sum over m.

    Since u is never later than v (C1, which these rows imply in turn), B[e, c] = max(0, y[v, c] - y[u, c - 1]): no AND
    is needed. D (crosses the border of c), L (lives in DRAM while c runs) and H (made in c) are then linear in A and y,
    equations 1 to 4 of the paper.
    """
    shared = {e: [c for c in tables.slots[t.u] if c in tables.slots[t.v]] for e, t in enumerate(tables.tensors)}
    classes = {e: tables.stored(t.u) for e, t in enumerate(tables.tensors)}
    cells = [(e, m, c) for e in shared for m in range(len(classes[e])) for c in shared[e]]
    inside = block.inside = pyo.Var(cells, bounds=(0, 1))
    rows = block.def_inside = pyo.Constraint(pyo.Any)
    for e, m, c in cells:
        t, options = tables.tensors[e], classes[e][m]
        rows["made", e, m, c] = inside[e, m, c] <= placed(block, tables, t.u, options, c)
        rows["read", e, m, c] = inside[e, m, c] <= read(block, tables, e, options, c)
    ends = [(e, c) for e in shared for c in range(tables.count)]
    block.B = pyo.Expression(
        ends, rule=lambda b, e, c: pyo.quicksum(inside[e, m, c] for m in range(len(classes[e])) if c in shared[e])
    )
    both = block.c1_order_inside = pyo.Constraint(pyo.Any)
    for e in shared:
        for c in shared[e]:
            t = tables.tensors[e]
            both[e, c] = block.B[e, c] >= upto(block, tables, t.v, c) - upto(block, tables, t.u, c - 1)
    block.H = pyo.Expression(ends, rule=lambda b, e, c: _lies(b, tables, tables.tensors[e].u, c))
    block.D = pyo.Expression(
        ends, rule=lambda b, e, c: b.H[e, c] + _lies(b, tables, tables.tensors[e].v, c) - 2 * b.B[e, c]
    )
    block.L = pyo.Expression(
        ends,
        rule=lambda b, e, c: (
            upto(b, tables, tables.tensors[e].u, c) - upto(b, tables, tables.tensors[e].v, c - 1) - b.B[e, c]
        ),
    )


def _lies(block: pyo.Block, tables: Tables, i: int, c: int) -> Any:
    return block.A[i, c] if c in tables.slots[i] else 0


def _inside(block: pyo.Block, cell: tuple[int, int, int]) -> Any:
    if cell in block.inside:
        return block.inside[cell]
    return 0  # the ends are of different phases


def def_moves(block: pyo.Block, tables: Tables) -> None:
    """``leaves[i, m, c]`` and ``arrives[i, m, c]``: how often the output of copy i, under its class m, is written and
    read at the border of c.

    Once per tensor in mode ``dfmodel``. In mode ``physical`` once however many readers there are beyond c, or in c:
    at least as often as for each of its tensors alone (exact or above).
    """
    moves: dict[tuple[str, int, int, int], list[Any]] = {}
    for i in tables.copies:
        for e in tables.leaving[i]:
            for m, options in enumerate(tables.stored(i)):
                for c in tables.slots[i]:
                    out = placed(block, tables, i, options, c) - _inside(block, (e, m, c))
                    moves.setdefault(("leaves", i, m, c), []).append(out)
                for c in tables.slots[tables.tensors[e].v]:
                    into = read(block, tables, e, options, c) - _inside(block, (e, m, c))
                    moves.setdefault(("arrives", i, m, c), []).append(into)
    block.moves = pyo.Expression(list(moves))
    several = [key for key, parts in moves.items() if tables.multicast and len(parts) > 1]
    once = block.once = pyo.Var(several, bounds=(0, 1))
    rows = block.def_moves = pyo.Constraint(pyo.Any)
    for key, parts in moves.items():
        if key not in once:
            block.moves[key] = pyo.quicksum(parts)
            continue
        block.moves[key] = once[key]
        for number, part in enumerate(parts):
            rows[(*key, number)] = once[key] >= part
