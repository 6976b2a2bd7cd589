"""Which tensors stay, leave and arrive, for the MIP: the matrices B, D, L and H, and pairs of sharding schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.dataflow.mip_assignment import picked, placed, upto
from chipmap.formulations.dataflow.tables import Tables
from chipmap.instances.dataflow.alike import Alike

#: Where something is counted: a tensor or the output of a copy, the class of the output, a slot or stage.
Cell = tuple[Any, ...]


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
            look()
            for c in tables.slots[t.v]:
                parts = pyo.quicksum(pair[e, g, h, c] for g in range(len(t.made)))
                rows[e, "taken", h, c] = parts == placed(block, tables, t.v, options, c)
        for g, options in enumerate(t.made):
            look()
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


def made_upto(block: pyo.Block, tables: Tables, i: int, m: int, c: int) -> Any:
    """[copy i lies in a partition <= c under its class m]."""
    classes = tables.stored(i)
    if len(classes) == 1:
        return upto(block, tables, i, c)
    return pyo.quicksum(placed(block, tables, i, classes[m], at) for at in tables.slots[i] if at <= c)


def read_upto(block: pyo.Block, tables: Tables, e: int, m: int, c: int) -> Any:
    """[v of tensor e lies in a partition <= c, u anywhere under its class m]."""
    t = tables.tensors[e]
    classes = tables.stored(t.u)
    if len(classes) == 1:
        return upto(block, tables, t.v, c)
    return pyo.quicksum(read(block, tables, e, classes[m], at) for at in tables.slots[t.v] if at <= c)


def at_least(block: pyo.Block, name: str, counts: Mapping[Cell, Sequence[Any]]) -> pyo.Var:
    """A variable ``name`` in [0, 1] for each cell, at least each of its counts (rows ``def_<name>``)."""
    once, rows = pyo.Var(list(counts), bounds=(0, 1)), pyo.Constraint(pyo.Any)
    setattr(block, name, once)
    setattr(block, f"def_{name}", rows)
    for cell, parts in counts.items():
        for number, part in enumerate(parts):
            look()
            rows[(*cell, number)] = once[cell] >= part
    return once


def counted(block: pyo.Block, name: str, tables: Tables, counts: Mapping[Cell, Sequence[Any]]) -> dict[Cell, Any]:
    """How often each output counts, from what it does for each of its tensors by itself: Σ of these, or in mode
    ``physical`` a variable ``name``, at least each of them."""
    shared = {cell: parts for cell, parts in counts.items() if tables.multicast and len(parts) > 1}
    once = at_least(block, name, shared)
    return {cell: once[cell] if cell in shared else pyo.quicksum(parts) for cell, parts in counts.items()}


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
        look()
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
            look()
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
    at least as often as for each of its tensors by itself (exact or above). A reader that has it in a layout for which
    another one paid doesn't count.
    """
    moves: dict[Cell, list[Any]] = {}
    for i in tables.copies:
        for e in tables.leaving[i]:
            for m, options in enumerate(tables.stored(i)):
                for c in tables.slots[i]:
                    out = placed(block, tables, i, options, c) - _inside(block, (e, m, c))
                    moves.setdefault(("leaves", i, m, c), []).append(out)
                for c in tables.slots[tables.tensors[e].v]:
                    into = read(block, tables, e, options, c) - _inside(block, (e, m, c))
                    into -= sum(block.exchanged.free.get((e, m, c), ()))
                    moves.setdefault(("arrives", i, m, c), []).append(into)
    block.moves = counted(block, "once", tables, moves)
    block.crossing = by_slot(block.moves)


def by_slot(moves: Mapping[Cell, Any]) -> dict[int, list[tuple[int, int, Any]]]:
    """(i, m, what counts) of every cell (kind, i, m, c), by slot c."""
    found: dict[int, list[tuple[int, int, Any]]] = {}
    for (_, i, m, c), count in moves.items():
        found.setdefault(c, []).append((i, m, count))
    return found
