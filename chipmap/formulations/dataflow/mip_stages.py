"""Stages of kernels for the MIP: what goes from a stage to the next, the step that all of them keep, DRAM by stage.

A stage has slots of its own (C8 by domain); y[i, last slot of s] = [copy i lies in a stage <= s].
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.formulations.dataflow.mip_assignment import placed, upto, weighted
from chipmap.formulations.dataflow.mip_exchanges import amounts
from chipmap.formulations.dataflow.mip_tensors import Cell, at_least, counted, made_upto, read_upto
from chipmap.formulations.dataflow.tables import Tables


def t5_transfers_stages(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T5: ``link[s]``, what goes from stage s to s + 1 (of kernels in a stage <= s with a reader in a later one), at
    most a step. In units; in mode ``physical`` exact or above."""
    crossings: dict[Cell, list[Any]] = {}
    for i, e, m in tables.crossings("link") if tables.stages else ():
        for s, slots in enumerate(tables.stages[:-1]):
            last = slots.stop - 1
            crosses = made_upto(block, tables, i, m, last) - read_upto(block, tables, e, m, last)
            crossings.setdefault((i, m, s), []).append(crosses)
    sent = counted(block, "sent", tables, crossings)
    links = range(len(tables.stages[1:]))
    block.link = pyo.Expression(
        links,
        rule=lambda _, s: pyo.quicksum(
            tables.amount(i, m, "link") / unit * sent[i, m, at] for i, m, at in sent if at == s
        ),
    )
    block.t5_transfers_stages = pyo.Constraint(links, rule=lambda b, s: b.step >= b.link[s])


def t7_stage(block: pyo.Block, tables: Tables, unit: int, most: int | None) -> None:
    """T7: ``step``, at least the time of each stage, whose partitions run one after the other (equation 7); in units,
    at most ``most`` picoseconds."""
    block.step = pyo.Var(bounds=(tables.shortest_step / unit, None))
    stages = range(len(tables.stages))
    block.stage = pyo.Expression(stages, rule=lambda b, s: pyo.quicksum(b.time[c] for c in tables.stages[s]))
    block.t7_stage = pyo.Constraint(stages, rule=lambda b, s: b.step >= b.stage[s])
    if most is not None:
        block.t7_stage_most = pyo.Constraint(expr=block.step <= most / unit)


def c6_dram_stages(block: pyo.Block, tables: Tables, unit: int) -> None:
    """C6 by stage: what rests there and the tensors that wait while c runs, within the capacity of DRAM.

    A tensor from u to v, not both in c, waits if u is in c, or if u is not later than c and v not before it, in the
    same stage: y[u, c] - y[v, c - 1] + y[v, last slot of the stage] - 1, a positive part. ``alive`` counts it once per
    tensor, in mode ``physical`` once per kernel. ``dram[c]``: the left side in bytes, exact or above.
    """
    capacity = tables.problem.instance.system.memory.capacity_bytes
    if capacity is None:
        return
    waiting: dict[Cell, list[Any]] = {}
    for i, e, m in tables.crossings("waits"):
        for slots in tables.stages:
            for c in slots:
                key = (i, m, c) if tables.multicast else (e, m, c)
                waiting.setdefault(key, []).extend(_waits(block, tables, e, m, c, slots.stop - 1))
    alive = at_least(block, "alive", waiting)
    maker = {(a, m): a if tables.multicast else tables.tensors[a].u for a, m, _ in waiting}

    def held(c: int) -> Any:
        stage = next(slots for slots in tables.stages if c in slots)
        parts = [weighted(block, tables, "kept", at, 1) for at in stage] + amounts(block.exchanged.held.get(c, ()))
        parts += [tables.amount(maker[a, m], m, "waits") * alive[a, m, at] for a, m, at in waiting if at == c]
        return pyo.quicksum(parts)

    block.dram = pyo.Expression(range(tables.count), rule=lambda _, c: held(c))
    block.c6_dram = pyo.Constraint(range(tables.count), rule=lambda b, c: b.dram[c] / unit <= capacity / unit)


def _waits(block: pyo.Block, tables: Tables, e: int, m: int, c: int, last: int) -> list[Any]:
    t = tables.tensors[e]
    mine = c in tables.slots[t.u]
    inside = block.inside[e, m, c] if mine and c in tables.slots[t.v] else 0
    here = placed(block, tables, t.u, tables.stored(t.u)[m], c) - inside if mine else 0
    before = read_upto(block, tables, e, m, c - 1) if c else 0
    return [here, made_upto(block, tables, t.u, m, c) - before - inside + upto(block, tables, t.v, last) - 1]
