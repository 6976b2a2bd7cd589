"""Stages of kernels for CP-SAT: what goes from a stage to the next, the step that all of them keep, DRAM by stage.

A stage has slots of its own (C8 by domain); y[i, last slot of s] = [copy i lies in a stage <= s].
"""

from __future__ import annotations

from typing import Any

from chipmap.formulations.dataflow.cpsat_assignment import Parts, total
from chipmap.formulations.dataflow.cpsat_tensors import Tensors
from chipmap.formulations.dataflow.cpsat_terms import amounts, weighted


def made_upto(tensors: Tensors, i: int, m: int, c: int) -> Parts:
    """[copy i lies in a partition <= c under its class m], as a sum."""
    builder, tables = tensors.builder, tensors.tables
    classes = tables.stored(i)
    if len(classes) == 1:
        return [(1, builder.upto(i, c))]
    return [(1, one) for at in tables.slots[i] if at <= c for one in builder.lies(i, classes[m], at)]


def read_upto(tensors: Tensors, e: int, m: int, c: int) -> Parts:
    """[v of tensor e lies in a partition <= c, u anywhere under its class m], as a sum."""
    builder, t = tensors.builder, tensors.tables.tensors[e]
    classes = tensors.tables.stored(t.u)
    if len(classes) == 1:
        return [(1, builder.upto(t.v, c))]
    return [(1, one) for at in tensors.tables.slots[t.v] if at <= c for one in tensors.read(e, classes[m], at)]


def t5_transfers_stages(tensors: Tensors, step: Any) -> list[Any]:
    """T5: what goes from stage s to s + 1 (of kernels in a stage <= s with a reader in a later one), at most a step.

    In mode ``physical`` ``sent[i, m, s]``, at least as often as for each tensor of a kernel by itself. Picoseconds,
    exact or above, by stage.
    """
    builder, tables = tensors.builder, tensors.tables
    sums = []
    for s, slots in enumerate(tables.stages[:-1]):
        readers: dict[tuple[int, int], list[Parts]] = {}
        for i, e, m in tables.crossings("link"):
            before = [(-1, literal) for _, literal in read_upto(tensors, e, m, slots.stop - 1)]
            readers.setdefault((i, m), []).append([*made_upto(tensors, i, m, slots.stop - 1), *before])
        parts: Parts = []
        for (i, m), crosses in readers.items():
            if tables.multicast and len(crosses) > 1:
                sent = builder.literal(f"sent[{i},{m},{s}]")
                for one in crosses:
                    builder.model.add(total(one) <= sent)
                crosses = [[(1, sent)]]
            amount = tables.amount(i, m, "link")
            parts += [(sign * amount, literal) for one in crosses for sign, literal in one]
        sums.append(total(parts))
        builder.model.add(sums[-1] <= step)
    return sums


def t7_stage(builder: Any, time: list[Any], most: int | None) -> Any:
    """T7: the step, at least the picoseconds of each stage, whose partitions run one after the other (equation 7); at
    most ``most``."""
    tables = builder.tables
    longest = max(tables.longest, tables.longest_link)
    top = longest if most is None else min(most, longest)
    step = builder.integer(min(tables.shortest_step, top), top, "step")
    if top < tables.shortest_step:
        builder.model.add_bool_or([])
    for slots in tables.stages:
        builder.model.add(sum(time[c] for c in slots) <= step)
    return step


def c6_dram_stages(tensors: Tensors) -> list[Any]:
    """C6 by stage: what rests there and the tensors that wait while c runs, within the capacity of DRAM.

    A tensor from u to v, not both in c, waits if u is in c, or if u is not later than c and v not before it, in the
    same stage: y[u, c] - y[v, c - 1] + y[v, last slot of the stage] - 1, a positive part. ``alive`` counts it once per
    tensor, in mode ``physical`` once per kernel. The left sides in bytes, exact or above, by partition (none without a
    capacity).
    """
    builder, tables = tensors.builder, tensors.tables
    capacity = tables.problem.instance.system.memory.capacity_bytes
    sums = []
    for slots in tables.stages if capacity is not None else ():
        kept = [part for at in slots for part in weighted(builder, "kept", at)]
        for c in slots:
            parts, alive = list(kept), dict[tuple[int, int], Any]()
            for i, e, m in tables.crossings("waits"):
                key = (i, m) if tables.multicast else (e, m)
                if key not in alive:
                    alive[key] = builder.literal(f"alive[{key[0]},{m},{c}]")
                    parts.append((tables.amount(i, m, "waits"), alive[key]))
                for waits in _waits(tensors, e, m, c, slots[-1]):
                    builder.model.add(waits <= alive[key])
            sums.append(total(parts) + amounts(tensors.exchanged.held.get(c, ())))
            builder.enforce("c6_dram_stages", builder.model.add(sums[-1] <= capacity))
    return sums


def _waits(tensors: Tensors, e: int, m: int, c: int, last: int) -> list[Any]:
    builder, t = tensors.builder, tensors.tables.tensors[e]
    both = [(-1, tensors.inside[e, m, c])] if (e, m, c) in tensors.inside else []
    options, mine = tensors.tables.stored(t.u)[m], c in tensors.tables.slots[t.u]
    here = [(1, one) for one in builder.lies(t.u, options, c)] if mine else []
    before = [(-1, one) for _, one in read_upto(tensors, e, m, c - 1)] if c else []
    still = [*made_upto(tensors, t.u, m, c), *before, *both, (1, builder.upto(t.v, last))]
    return [total([*here, *both]), total(still) - 1]
