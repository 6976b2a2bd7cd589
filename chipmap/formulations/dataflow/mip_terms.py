"""What a partition holds and how long it takes, for the MIP: C2, C6 and T1 to T4; T5, T6 and T8 of the batch."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.dataflow.mip_assignment import def_several, several, weighted
from chipmap.formulations.dataflow.mip_exchanges import amounts
from chipmap.formulations.dataflow.mip_tensors import Cell, counted, made_upto, paired, read_upto
from chipmap.formulations.dataflow.tables import Tables
from chipmap.formulations.dataflow.tables_slots import forward_slots
from chipmap.formulations.dataflow.tables_uneven import kept_by, stages_held
from chipmap.instances.dataflow.batch import layers_per_stage, micro_batches, waited_hops
from chipmap.instances.dataflow.pairs import shares


def moved(block: pyo.Block, tables: Tables, field: str, c: int, unit: int) -> Any:
    """Σ of an output's column over all that is written or read at the border of c, in units."""
    return pyo.quicksum([tables.amount(i, m, field) / unit * count for i, m, count in block.crossing.get(c, ())])


def c2_sram(block: pyo.Block, tables: Tables, unit: int) -> None:
    """C2: weights, a buffer for each level that a tensor inside waits, and two for what crosses, within a chip's SRAM.

    ``sram[c]``: the left side in bytes.
    """

    within: dict[int, list[tuple[int, int]]] = {}
    for e, m, c in block.inside:
        within.setdefault(c, []).append((e, m))

    def held(c: int, scale: int) -> Any:
        """Bytes in DRAM in slot c: what rests there, what is used of parameters, and tensors that wait."""
        parts = [weighted(block, tables, "weights", c, scale), 2 * moved(block, tables, "buffer", c, scale)]
        for e, m in within.get(c, ()):
            t = tables.tensors[e]
            parts.append(t.waits * tables.amount(t.u, m, "buffer") / scale * block.inside[e, m, c])
        return pyo.quicksum([*parts, *amounts(block.exchanged.buffer.get(c, ()), scale)])

    slots = range(tables.count)
    def_several(block, tables)
    if tables.caching:
        def_cached(block, tables, held(0, unit), unit)
    block.sram = pyo.Expression(slots, rule=lambda _, c: held(c, 1))
    block.c2_sram = pyo.Constraint(slots, rule=lambda _, c: held(c, unit) <= tables.problem.sram / unit)


def def_cached(block: pyo.Block, tables: Tables, held: Any, unit: int) -> None:
    """Binary ``cached`` = [KV caches stay in SRAM]: where one partition is all that a chip runs, and ``held`` (in
    units) leaves room for ``stored``, the caches' bytes then."""
    most = sum(max(option.cache for option in tables.options(i)) for i in tables.copies) / unit
    block.cached, block.stored = pyo.Var(domain=pyo.Binary), pyo.Var(bounds=(0, most))
    block.def_cached = pyo.Constraint(expr=block.cached <= 1 - several(block, tables, 0))
    block.def_stored = pyo.Constraint(
        expr=block.stored >= weighted(block, tables, "cache", 0, unit) - most * (1 - block.cached)
    )
    block.def_room = pyo.Constraint(expr=held + block.stored <= tables.problem.sram / unit)


def outside(block: pyo.Block, tables: Tables, field: str, unit: int = 1, stage: int = 0) -> Any:
    """Σ of a column of options over all copies, in units; of ``kept`` of the k-th of stages or moments that differ."""
    least, more = tables.outside(field) if not stage else kept_by(tables, stage)
    return least / unit + pyo.quicksum(amount / unit * block.s[i, o] for i, o, amount in more)


def c6_dram(block: pyo.Block, tables: Tables, unit: int) -> None:
    """C6: what rests in DRAM and the tensors alive there (the matrix L) while c runs, within its capacity.

    ``alive[i, m, c]``: how often the output of copy i under its class m lies in DRAM: once per tensor, in mode
    ``physical`` at least as often as for each of them by itself. ``dram[c]``: the left side in bytes, exact or above.
    """
    capacity = tables.problem.instance.system.memory.capacity_bytes
    if capacity is None:
        return
    alive: dict[Cell, list[Any]] = {}
    for i in tables.copies:
        for e in tables.leaving[i]:
            for m in range(len(tables.stored(i))) if max(tables.amounts(i, "waits")) else ():
                for c in range(tables.slots[i].start, tables.slots[tables.tensors[e].v].stop):
                    alive.setdefault((i, m, c), []).append(_lives(block, tables, e, m, c))
    counts = counted(block, "alive", tables, alive)

    def held(c: int, stage: int = 0) -> Any:
        parts = [
            outside(block, tables, "kept", stage=stage),
            *amounts(block.exchanged.rest),
            *amounts(block.exchanged.held.get(c, ())),
        ]
        parts += [tables.amount(i, m, "waits") * count for (i, m, at), count in counts.items() if at == c]
        return pyo.quicksum(parts)

    slots = range(tables.count)
    block.dram = pyo.Expression(slots, rule=lambda _, c: held(c))
    block.c6_dram = pyo.Constraint(slots, rule=lambda _, c: block.dram[c] / unit <= capacity / unit)
    others = range(1, stages_held(tables))
    block.dram_uneven = pyo.Expression(slots, others, rule=lambda _, c, k: held(c, k))
    block.c6_dram_uneven = pyo.Constraint(
        slots, others, rule=lambda b, c, k: b.dram_uneven[c, k] / unit <= capacity / unit
    )


def _lives(block: pyo.Block, tables: Tables, e: int, m: int, c: int) -> Any:
    """L[e, c] where u of tensor e is sharded as in its class m: made up to c, not read before c, not inside c, and not
    read in a layout for which another one paid."""
    t = tables.tensors[e]
    inside = pyo.quicksum([block.inside[e, m, c]] if (e, m, c) in block.inside else [])
    inside += pyo.quicksum(block.exchanged.elsewhere(e, m))
    return made_upto(block, tables, t.u, m, c) - read_upto(block, tables, e, m, c - 1) - inside


def def_launched(block: pyo.Block, tables: Tables, unit: int) -> None:
    """``launched[c]``: the launch of partition c if it has any kernel, in units, at least that of each of its copies;
    ``left[c]``: the time of c without it."""
    slots, launch = range(tables.count), tables.problem.launch / unit
    launched = block.launched = pyo.Var(slots if launch else [], bounds=(0, launch))
    rows = block.def_launched = pyo.Constraint(pyo.Any)
    for c in launched:
        look()
        for i in tables.inside(c):
            if not tables.shut(i, c):
                rows[i, c] = launched[c] >= launch * block.A[i, c]
    block.left = pyo.Expression(slots, rule=lambda b, c: b.time[c] - (launched[c] if launch else 0))


def t1_compute(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T1: the sum of its kernels' compute <= the time of a partition (a cut where they share tiles)."""
    slots = range(tables.count)
    block.compute = pyo.Expression(slots, rule=lambda _, c: weighted(block, tables, "compute", c, unit))
    block.t1_compute = pyo.Constraint(slots, rule=lambda b, c: b.left[c] >= b.compute[c])


def t2_memory(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T2: what crosses its border, its weights and what it fetches, through DRAM <= the time of a partition.

    ``spared[c]``: the weights' time, where one partition is all that a chip runs; ``unread``: that of KV caches there.
    """
    slots = range(tables.count)
    streams = {c: weighted(block, tables, "stream", c, unit) for c in slots}
    spared = block.spared = pyo.Var(list(tables.single), bounds=(0, tables.spares / unit))
    rows = block.def_spared = pyo.Constraint(pyo.Any)
    for c, b in tables.single.items():
        look()
        rows["weights", c] = spared[c] <= weighted(block, tables, "spared", c, unit)
        rows["single", c] = spared[c] <= tables.spares / unit * (1 - several(block, tables, b))
        streams[c] -= spared[c]
    if tables.caching:
        most = sum(max(option.fetch for option in tables.options(i)) for i in tables.copies) / unit
        block.unread = pyo.Var(bounds=(0, most))
        block.def_unread = pyo.Constraint(expr=block.unread <= weighted(block, tables, "fetch", 0, unit))
        block.def_unread_cached = pyo.Constraint(expr=block.unread <= most * block.cached)
        streams[0] -= block.unread
    for c, parts in block.exchanged.dram.items():
        streams[c] += pyo.quicksum(amounts(parts, unit))
    block.memory = pyo.Expression(slots, rule=lambda _, c: moved(block, tables, "dram", c, unit) + streams[c])
    block.t2_memory = pyo.Constraint(slots, rule=lambda b, c: b.left[c] >= b.memory[c])


def t3_network(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T3: collectives of its kernels and layout changes of what they read (equations 5, 6) <= a partition's time."""

    def network(c: int) -> Any:
        parts = [weighted(block, tables, "collective", c, unit)]
        parts += [change / unit * paired(block, tables, e, g, h, c) for e, g, h, change in tables.changes(c)]
        return pyo.quicksum([*parts, *amounts(block.exchanged.network.get(c, ()), unit)])

    slots = range(tables.count)
    block.network = pyo.Expression(slots, rule=lambda _, c: network(c))
    block.t3_network = pyo.Constraint(slots, rule=lambda b, c: b.left[c] >= b.network[c])


def t4_layer_no_overlap(block: pyo.Block, tables: Tables) -> None:
    """T4 without overlap: compute, memory and network together <= the time of a partition."""
    if not tables.problem.instance.task.overlap:
        block.t4_layer_no_overlap = pyo.Constraint(
            range(tables.count), rule=lambda b, c: b.left[c] >= b.compute[c] + b.memory[c] + b.network[c]
        )


def t4_layer(block: pyo.Block, tables: Tables, unit: int, most: int | None) -> None:
    """T4: partitions run one after the other; ``layer`` = Σ time[c] in picoseconds, at most ``most``; recomputed ones
    count twice: ``again[c]`` >= time[c] where twice[c] = 1."""
    again, longest = pyo.Var(list(tables.split), bounds=(0, None)), tables.longest / unit
    block.again = again
    block.def_again = pyo.Constraint(
        list(tables.split), rule=lambda b, c: again[c] >= b.time[c] - longest * (1 - b.twice[c])
    )
    total = pyo.quicksum(tables.runs(c) * block.time[c] for c in range(tables.count)) + pyo.quicksum(again.values())
    if tables.paces > 1:
        total = block.pace
    block.layer = pyo.Expression(expr=unit * total)
    if most is not None:
        block.t4_layer = pyo.Constraint(expr=total <= most / tables.paces / unit)


def t4_layer_pairs(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T4 where passes run in pairs: ``pace``, in units, is at least the four weighted sums of own time, network, and
    phases (:func:`~chipmap.instances.dataflow.pairs.arms`).

    ``more[kind, c]`` >= the second run of slot c where twice[c] = 1, of its own time and of its network.
    """
    slots, longest = range(tables.count), tables.longest / unit
    some = shares(tables.problem.instance, tables.problem.degrees)
    launched = [block.time[c] - block.left[c] for c in slots]
    each = {"own": [launched[c] + block.compute[c] + block.memory[c] for c in slots]}
    each["network"] = [block.network[c] for c in slots]
    more = block.more = pyo.Var(list(each), list(tables.split), bounds=(0, None))
    block.def_more = pyo.Constraint(
        list(more), rule=lambda b, kind, c: more[kind, c] >= each[kind][c] - longest * (1 - b.twice[c])
    )
    sums = {kind: pyo.quicksum(tables.runs(c) * parts[c] for c in slots) for kind, parts in each.items()}
    for kind, c in more:
        sums[kind] += more[kind, c]
    sums["forward"] = pyo.quicksum(
        each["own"][c] + each["network"][c] for c in forward_slots(tables.problem, tables.phases)
    )
    whole = sums["own"] + sums["network"]
    sums["backward"] = whole - sums["forward"]
    pace = block.pace = pyo.Var(bounds=(0, None))
    block.t4_layer_pairs = pyo.Constraint(
        list(sums), rule=lambda _, kind: pace >= (some.pairs * sums[kind] + some.alone * whole) / some.all
    )


def def_longest(block: pyo.Block, tables: Tables, unit: int) -> None:
    """``longest``: picoseconds of the chunk that takes longest, at least those of each that may (T7, where
    stages have unequal numbers of layers)."""
    longest = tables.problem.longest
    if longest is None:
        return
    chunk = block.chunk = pyo.Var(bounds=(0, None))
    block.longest = pyo.Expression(expr=unit * chunk)
    rows = block.def_longest = pyo.Constraint(pyo.Any)
    for count, more in longest.pairs:
        rows[count, more] = chunk >= count / unit * block.layer + more / unit


def t5_transfers(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T5: ``transfers`` = waits · hop + m · ``slower``, picoseconds; slower >= v · hop - a stage's layers (equation 7);
    waits are PP·v-1 for v chunks per stage. Where stages wait in turn there are more, and no ``slower``."""
    instance, degrees = tables.problem.instance, tables.problem.degrees
    block.hop = pyo.Expression(expr=outside(block, tables, "hop"))
    block.transfers = pyo.Expression(expr=waited_hops(instance, degrees) * block.hop)
    if tables.slower:
        stage = layers_per_stage(instance, degrees) / unit * block.layer
        if tables.problem.longest is not None:
            stage = instance.task.parts / unit * block.longest
        block.slower = pyo.Var(bounds=(0, None))
        sent = instance.task.parts * outside(block, tables, "hop", unit)
        block.t5_transfers = pyo.Constraint(expr=block.slower >= sent - stage)
        block.transfers += float(micro_batches(instance, degrees)) * unit * block.slower


def t6_gradients(block: pyo.Block, tables: Tables, unit: int) -> None:
    """T6: ``gradients``, the picoseconds of the batch's sums over replicas. Behind the backward pass they are summed +
    (L-1) · ``exposed``, exposed >= what a layer's sums take longer than its pass."""
    summed = outside(block, tables, "summed")
    handed = pyo.quicksum(amounts(block.exchanged.after))
    block.gradients = pyo.Expression(expr=outside(block, tables, "gradient") + summed + handed)
    layers = layers_per_stage(tables.problem.instance, tables.problem.degrees)
    if layers > 1 and tables.problem.instance.task.overlap_gradients:
        block.exposed = pyo.Var(bounds=(0, None))
        longer = outside(block, tables, "summed", unit) - tables.problem.behind / unit
        block.t6_gradients = pyo.Constraint(expr=block.exposed >= longer)
        block.gradients += (layers - 1) * unit * block.exposed


def t8_step(block: pyo.Block, tables: Tables) -> None:
    """T8: ``optimizer``, the picoseconds of the batch's optimiser step and the fixed costs of its micro-batches."""
    block.optimizer = pyo.Expression(expr=outside(block, tables, "step") + tables.problem.passes)
