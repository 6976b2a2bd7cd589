"""Schemes and partitions for the MIP, in cumulative variables: C0, C1, C4, C5 and the matrix A."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.dataflow.tables import Tables
from chipmap.formulations.dataflow.tables_pins import apart, numbered, ruled
from chipmap.formulations.dataflow.tables_slots import fused
from chipmap.instances.dataflow import DataflowSolution
from chipmap.instances.dataflow.alike import Alike


def def_upto(block: pyo.Block, tables: Tables) -> None:
    """Binary ``y[i, c]`` = [copy i lies in a partition <= c], for the slots of its phase (C3 by domain), of all
    stages (C8 by domain).

    Kernels that can't be fused have a partition each, in a topological order: all fixed, but for the stage.
    """
    cells = [(i, c) for i in tables.copies for c in tables.slots[i]]
    y = block.y = pyo.Var(cells, domain=pyo.Binary)
    rows = block.def_upto = pyo.Constraint(pyo.Any)
    for i, c in cells:
        look()
        if tables.fixed_places:
            y[i, c].fix(int(tables.place[i] <= c))
            continue
        if tables.shut(i, c):
            rows[i, "shut", c] = y[i, c] == (y[i, c - 1] if c > tables.slots[i].start else 0)
        if c + 1 < tables.slots[i].stop:
            rows[i, c] = y[i, c] <= y[i, c + 1]
    block.A = pyo.Expression(cells, rule=lambda b, i, c: upto(b, tables, i, c) - upto(b, tables, i, c - 1))


def upto(block: pyo.Block, tables: Tables, i: int, c: int) -> Any:
    """[copy i lies in a partition <= c], for any c."""
    look()
    slots = tables.slots[i]
    return int(c >= slots.stop) if c not in slots else block.y[i, c]


def c0_domain_degrees(block: pyo.Block, fit: bool) -> None:
    """C0: degrees that divide layers and batch; a contradiction where none ``fit``."""
    if not fit:
        block.c0_domain_degrees = pyo.Constraint(expr=block.time[0] <= -1)


def c0_domain_schemes(block: pyo.Block, tables: Tables) -> None:
    """C0: one-hot ``s[i, o]`` = [copy i is sharded as in its option o] (the paper's s_i), where there is a choice.

    ``placed[i, o, c]`` = s[i, o] · A[i, c], by its two sums (a transport, exact for binaries: with C4 the second holds
    with equality).
    """
    numbers = {i: range(len(tables.options(i))) for i in tables.several}
    s = block.s = pyo.Var([(i, o) for i in numbers for o in numbers[i]], domain=pyo.Binary)
    block.c0_domain_schemes = pyo.Constraint(
        list(numbers), rule=lambda _, i: pyo.quicksum(s[i, o] for o in numbers[i]) == 1
    )
    cells = [(i, o, c) for i in numbers for o in numbers[i] for c in tables.slots[i]]
    placed = block.placed = pyo.Var(cells, bounds=(0, 1))
    rows = block.def_placed = pyo.Constraint(pyo.Any)
    for i in numbers:
        for c in tables.slots[i]:
            look()
            rows[i, "slot", c] = pyo.quicksum(placed[i, o, c] for o in numbers[i]) == block.A[i, c]
        for o in numbers[i]:
            look()
            rows[i, "scheme", o] = pyo.quicksum(placed[i, o, c] for c in tables.slots[i]) <= s[i, o]


def picked(block: pyo.Block, tables: Tables, i: int, options: Alike) -> Any:
    """[copy i is sharded as in one of ``options``]."""
    return 1 if len(options) == len(tables.options(i)) else pyo.quicksum(block.s[i, o] for o in options)


def placed(block: pyo.Block, tables: Tables, i: int, options: Alike, c: int) -> Any:
    """[copy i lies in partition c, sharded as in one of ``options``]."""
    look()
    if len(options) == len(tables.options(i)):
        return block.A[i, c]
    return pyo.quicksum(block.placed[i, o, c] for o in options)


def weighted(block: pyo.Block, tables: Tables, field: str, c: int, unit: int) -> Any:
    """Σ of a column of options over the copies in partition c, in units."""
    parts = []
    for i in tables.inside(c):
        amounts = tables.amounts(i, field)
        if len(amounts) == 1:
            parts.append(amounts[0] / unit * block.A[i, c])
        else:
            parts += [amount / unit * block.placed[i, o, c] for o, amount in enumerate(amounts)]
    return pyo.quicksum(parts)


def c1_order(block: pyo.Block, tables: Tables) -> None:
    """C1: y[v, c] <= y[u, c] on every tensor from u to v; forward partitions run before backward ones."""
    rows = block.c1_order = pyo.Constraint(pyo.Any)
    for e, t in enumerate(tables.tensors):
        look()
        if tables.slots[t.u] == tables.slots[t.v]:
            for c in tables.slots[t.u][:-1]:
                rows[e, c] = block.y[t.v, c] <= block.y[t.u, c]
        elif tables.slots[t.u].start > tables.slots[t.v].start:
            rows[e, "back"] = block.A[t.v, tables.slots[t.v].start] <= -1


def c3_phases(block: pyo.Block, tables: Tables) -> None:
    """C3: slots of y are those of a phase, by domain; a row, y[i, last] = 1, for copies pinned to the other phase.

    ``twice[c]`` = [the copies in c run twice]: no slot has both some that do and some that don't. It is whole wherever
    A is, but in an empty slot.
    """
    twice = block.twice = pyo.Var(list(tables.split), bounds=(0, 1))
    rows = block.c3_phases = pyo.Constraint(pyo.Any)
    for i in sorted(tables.strays):
        look()
        rows[i] = block.y[i, tables.slots[i].stop - 1] >= 1
    for c in tables.split:
        for i in tables.inside(c):
            rows[i, c] = block.A[i, c] <= (twice[c] if tables.often[i] > 1 else 1 - twice[c])


def c4_partitions(block: pyo.Block, tables: Tables, order: str) -> None:
    """C4: y[i, last] = 1, so that every kernel is in one of the slots; ``exactly``: none of them is empty.

    ``used[c]``: partition c has kernels; they are numbered without a gap, which loses nothing: used[c] <= used[c - 1],
    used[c] <= Σ_i A[i, c] and y[i, c - 1] + used[c] >= 1 (only for copies that nobody of their phase reads). Stages of
    kernels: within each of them, and A[i, c] <= used[c]; empty stages come last.
    """
    rows = block.c4_partitions = pyo.Constraint(pyo.Any)
    if tables.fixed_places:
        return
    for i in sorted(set(tables.copies) - tables.strays):
        look()
        rows["last", i] = block.y[i, tables.slots[i].stop - 1] >= 1
    if tables.place:
        return
    count = {c: pyo.quicksum(block.A[i, c] for i in tables.inside(c)) for c in range(tables.count)}
    if not fused(tables.problem.instance):
        for c, kernels in count.items():
            look()
            rows["single", c] = kernels <= 1
    if tables.exactly:
        for c, kernels in count.items():
            look()
            rows[c] = kernels >= 1
    elif order == "prefix" or tables.spares or tables.caching or numbered(tables):
        if tables.stages:
            _sym_stages(block, tables, count)
            return
        used = block.used = pyo.Var([c for phase in tables.phases for c in phase[1:]], bounds=(0, 1))
        for phase in tables.phases:
            look()
            if numbered(tables):
                rows["kernels", phase.start] = count[phase.start] >= 1
            for c in phase[1:]:
                rows["kernels", c] = used[c] <= count[c]
                if c - 1 in phase[1:]:
                    rows["order", c] = used[c] <= used[c - 1]
                for i in tables.last:
                    if c in tables.slots[i]:
                        rows[i, c] = block.y[i, c - 1] + used[c] >= 1


def _sym_stages(block: pyo.Block, tables: Tables, count: dict[int, Any]) -> None:
    rows = block.c4_partitions
    used = block.used = pyo.Var(range(1, tables.count), bounds=(0, 1))
    starts = [slots.start for slots in tables.stages]
    rows["kernels", 0] = count[0] >= 1
    for c in used:
        before = c - 1 if c not in starts else starts[starts.index(c) - 1]
        rows["kernels", c] = used[c] <= count[c]
        if before:
            rows["order", c] = used[c] <= used[before]
        for i in tables.inside(c):
            rows[i, c] = block.A[i, c] <= used[c]


def def_several(block: pyo.Block, tables: Tables) -> None:
    """``several[b]`` = [block b of slots has more than one partition], where weights could stay in SRAM with one."""
    open_places = sorted(set(tables.single.values())) if tables.place and not tables.fixed_places else []
    block.several = pyo.Var(open_places, domain=pyo.Binary)
    rows = block.def_several = pyo.Constraint(pyo.Any)
    most = len(tables.copies) - 1
    for b in open_places:
        look()
        kernels = pyo.quicksum(block.A[i, c] for c in tables.blocks[b] for i in tables.inside(c))
        rows[b] = most * block.several[b] >= kernels - 1


def several(block: pyo.Block, tables: Tables, b: int) -> Any:
    """[block b of slots has more than one partition]; with ``def_several`` in force."""
    slots = tables.blocks[b]
    if len(slots) == 1:
        return 0
    if b in block.several:
        return block.several[b]
    return 1 if tables.place or tables.exactly else block.used[slots.start + 1]


def c5_together(block: pyo.Block, tables: Tables) -> None:
    """C5: a group's copies have the same partition, which holds no copy of another group."""
    rows = block.c5_together = pyo.Constraint(pyo.Any)
    for g, group in enumerate(tables.groups):
        first = group[0]
        for i in group[1:]:
            look()
            if i not in tables.strays:
                for c in tables.slots[i][:-1]:
                    rows[g, i, c] = block.y[i, c] == block.y[first, c]
            else:
                rows[g, i] = block.y[i, tables.slots[i].stop - 1] <= 0
    for c in range(tables.count):
        look()
        leaders = tables.leaders(c)
        if len(leaders) > 1:
            rows["single", c] = pyo.quicksum(block.A[i, c] for i in leaders) <= 1


def c5_together_apart(block: pyo.Block, tables: Tables) -> None:
    """C5: a partition holds at most one kernel of a group that lies apart: Σ A[i, c] <= 1."""
    rows = block.c5_together_apart = pyo.Constraint(pyo.Any)
    for g, group in enumerate(apart(tables)):
        for c in range(tables.count):
            look()
            inside = [block.A[i, c] for i in group if c in tables.slots[i]]
            if len(inside) > 1:
                rows[g, c] = pyo.quicksum(inside) <= 1


def c5_together_pins(block: pyo.Block, tables: Tables) -> None:
    """C5: no copy lies in a partition whose index is ruled out: A[i, c] <= 0. Where the index of slot c is Σ used
    before it, it isn't k if A[i, c] = 1: binary ``above[i, c, k]`` says on which side of k it is."""
    rows = block.c5_together_pins = pyo.Constraint(pyo.Any)
    listed = list(ruled(tables))
    sides = [(one.copy, one.slot, k) for one in listed if one.place is None for k in one.barred]
    above = block.above = pyo.Var(sides, domain=pyo.Binary)
    for one in listed:
        look()
        i, c, most = one.copy, one.slot, tables.count
        if one.place is not None:
            if one.out:
                rows[i, c] = block.A[i, c] <= 0
            continue
        index = pyo.quicksum(block.used[before] if before else 1 for before in range(c))
        for k in one.barred:
            rows[i, c, k, "below"] = index <= k - 1 + most * (1 - block.A[i, c]) + most * above[i, c, k]
            rows[i, c, k, "above"] = index >= k + 1 - 2 * most * (1 - block.A[i, c]) - 2 * most * (1 - above[i, c, k])
        if one.largest is not None:
            rows[i, c, "largest"] = index <= one.largest + most * (1 - block.A[i, c])


def def_given(block: pyo.Block, tables: Tables, given: DataflowSolution) -> None:
    """The schemes of a ``given`` mapping, and where stages share out kernels its stages."""
    options, stages = tables.given(given)
    rows = block.def_given = pyo.Constraint(pyo.Any)
    for i in tables.several:
        look()
        rows["scheme", i] = block.s[i, options[i]] == 1
    for i, stage in enumerate(stages):
        look()
        slots = tables.stages[stage]
        if tables.slots[i] != slots:
            rows["stage", i] = upto(block, tables, i, slots.stop - 1) - upto(block, tables, i, slots.start - 1) == 1
