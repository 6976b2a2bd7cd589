"""What a partition holds and how long it takes, for CP-SAT, in bytes and picoseconds: C2, C6, T1 to T4; T5, T6, T8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chipmap.formulations.dataflow.cpsat_assignment import Builder, Parts, def_several, total
from chipmap.formulations.dataflow.cpsat_tensors import Tensors
from chipmap.formulations.dataflow.tables_slots import forward_slots
from chipmap.formulations.dataflow.tables_uneven import kept_by, stages_held
from chipmap.instances.dataflow.batch import layers_per_stage, micro_batches, waited_hops
from chipmap.instances.dataflow.pairs import shares


def weighted(builder: Builder, field: str, c: int) -> Parts:
    """A column of options, over the copies in partition c."""
    parts: Parts = []
    for i in builder.tables.inside(c):
        amounts = builder.tables.amounts(i, field)
        if len(amounts) == 1:
            parts.append((amounts[0], builder.A[i, c]))
        else:
            parts += [(amount, builder.placed[i, o, c]) for o, amount in enumerate(amounts)]
    return [part for part in parts if part[0]]


def amounts(parts: Iterable[tuple[int, Any]]) -> Any:
    """Σ amount · expression."""
    return sum(amount * one for amount, one in parts)


def moved(tensors: Tensors, field: str, c: int) -> Parts:
    """An output's column, over all that is written or read at the border of c."""
    tables, parts = tensors.tables, list[tuple[int, Any]]()
    for i, m, literals in tensors.crossing.get(c, ()):
        amount = tables.amount(i, m, field)
        parts += [(sign * amount, literal) for sign, literal in literals if amount]
    return parts


def c2_sram(tensors: Tensors) -> list[Any]:
    """C2: weights, a buffer for each level that a tensor inside waits, and two for what crosses, within a chip's SRAM.

    The left sides in bytes, by partition.
    """
    builder, tables = tensors.builder, tensors.tables
    sums, within = [], dict[int, list[tuple[int, int, Any]]]()
    for (e, m, c), inside in tensors.inside.items():
        within.setdefault(c, []).append((e, m, inside))
    for c in range(tables.count):
        parts = weighted(builder, "weights", c)
        parts += [(2 * amount, literal) for amount, literal in moved(tensors, "buffer", c)]
        for e, m, inside in within.get(c, ()):
            t = tables.tensors[e]
            parts.append((t.waits * tables.amount(t.u, m, "buffer"), inside))
        sums.append(total(parts) + amounts(tensors.exchanged.buffer.get(c, ())))
        builder.enforce("c2_sram", builder.model.add(sums[-1] <= tables.problem.sram))
    return sums


def outside(builder: Builder, field: str, stage: int = 0) -> Any:
    """Σ of a column of options over all copies; of ``kept`` of the k-th of stages or moments that differ."""
    least, more = kept_by(builder.tables, stage) if stage else builder.tables.outside(field)
    return least + total([(amount, builder.s[i, o]) for i, o, amount in more])


def c6_dram(tensors: Tensors) -> list[Any]:
    """C6: what rests in DRAM and the tensors alive there (the matrix L) while c runs, within its capacity.

    Once per tensor; in mode ``physical`` ``alive``, at least as often as for each tensor of a kernel by itself. The
    left sides in bytes, exact or above, by partition (none without a capacity).
    """
    builder, tables = tensors.builder, tensors.tables
    capacity = tables.problem.instance.system.memory.capacity_bytes
    sums: list[Any] = []
    for c in range(tables.count) if capacity is not None else ():
        held = outside(builder, "kept") + amounts(tensors.exchanged.rest) + amounts(tensors.exchanged.held.get(c, ()))
        for i in tables.copies:
            for m in range(len(tables.stored(i))):
                amount = tables.amount(i, m, "waits")
                lives = [_lives(tensors, e, m, c) for e in tables.leaving[i]] if amount else []
                if tables.multicast and len(lives) > 1:
                    alive = builder.literal(f"alive[{i},{m},{c}]")
                    for life in lives:
                        builder.model.add(life <= alive)
                    lives = [alive]
                held += amount * sum(lives)
        sums.append(held)
        builder.enforce("c6_dram", builder.model.add(held <= capacity))
        for stage in range(1, stages_held(tables)):
            other = held - outside(builder, "kept") + outside(builder, "kept", stage)
            builder.enforce("c6_dram", builder.model.add(other <= capacity))
    return sums


def _lives(tensors: Tensors, e: int, m: int, c: int) -> Any:
    """L[e, c] where u of tensor e is sharded as in its class m: made up to c, not read before c, not inside c, and not
    read in a layout for which another one paid."""
    builder, tables = tensors.builder, tensors.tables
    t, options = tables.tensors[e], tables.stored(tables.tensors[e].u)[m]
    made = [literal for at in tables.slots[t.u] if at <= c for literal in builder.lies(t.u, options, at)]
    before = [literal for at in tables.slots[t.v] if at < c for literal in tensors.read(e, options, at)]
    inside = [tensors.inside[e, m, c]] if (e, m, c) in tensors.inside else []
    return sum(made) - sum(before) - sum(inside) - sum(tensors.exchanged.elsewhere(e, m))


def def_launched(builder: Builder, time: list[Any]) -> list[Any]:
    """The picoseconds of each partition without its launch, which is spent where any copy lies in it."""
    tables, launch = builder.tables, builder.tables.problem.launch
    if not launch:
        return time
    left = []
    for c, one in enumerate(time):
        launched = builder.literal(f"launched[{c}]")
        for i in tables.inside(c):
            builder.clause("def_launched", [~builder.A[i, c], launched])
        left.append(one - launch * launched)
    return left


def t1_compute(builder: Builder, time: list[Any]) -> list[Any]:
    """T1: the sum of its kernels' compute <= the time of a partition (a cut where they share tiles)."""
    sums = [total(weighted(builder, "compute", c)) for c in range(len(time))]
    for c, compute in enumerate(sums):
        builder.model.add(compute <= time[c])
    return sums


def t4_layer_no_overlap(builder: Builder, time: list[Any], *terms: list[Any]) -> None:
    """T4 without overlap: compute, memory and network together <= the time of a partition."""
    if not builder.tables.problem.instance.task.overlap:
        for c, one in enumerate(time):
            builder.model.add(sum(term[c] for term in terms) <= one)


def _unread(builder: Builder, held: Any) -> Any:
    """Picoseconds of KV caches that stay in SRAM: where one partition is all that a chip runs and they fit beside what
    it ``held``."""
    tables, fetch = builder.tables, weighted(builder, "fetch", 0)
    most = sum(max(option.fetch for option in tables.options(i)) for i in tables.copies)
    cached, unread = builder.literal("cached"), builder.integer(0, most, "unread")
    builder.model.add(unread <= total(fetch))
    builder.model.add(unread == 0).only_enforce_if(~cached)
    builder.model.add(held + total(weighted(builder, "cache", 0)) <= tables.problem.sram).only_enforce_if(cached)
    if tables.count > 1:
        builder.clause("def_cached", [~cached, ~builder.used[1]] if 1 in builder.used else [~cached])
    return unread


def t2_memory(tensors: Tensors, time: list[Any], sram: list[Any]) -> list[Any]:
    """T2: what crosses its border, its weights and what it fetches, through DRAM <= the time of a partition.

    ``spared[c]``: the weights' time, where one partition is all that a chip runs. ``sram``: the left sides of C2.
    """
    builder, tables = tensors.builder, tensors.tables
    sums, several = [], {b: def_several(builder, b) for b in sorted(set(tables.single.values()))}
    for c in range(len(time)):
        streams = weighted(builder, "stream", c)
        memory = total(moved(tensors, "dram", c) + streams) + amounts(tensors.exchanged.dram.get(c, ()))
        if c == 0 and tables.caching:
            memory = memory - _unread(builder, sram[0])
        if c in tables.single:
            spared = builder.integer(0, tables.spares, f"spared[{c}]")
            builder.model.add(spared <= total(weighted(builder, "spared", c)))
            if (others := several[tables.single[c]]) is not None:
                builder.model.add(spared == 0).only_enforce_if(others)
            memory = memory - spared
        builder.model.add(memory <= time[c])
        sums.append(memory)
    return sums


def t3_network(tensors: Tensors, time: list[Any]) -> list[Any]:
    """T3: collectives of its kernels and layout changes of what they read (equations 5, 6) <= a partition's time."""
    builder = tensors.builder
    sums = []
    for c in range(len(time)):
        parts = weighted(builder, "collective", c)
        for e, g, h, change in builder.tables.changes(c):
            parts += [(change, literal) for literal in tensors.paired(e, g, h, c)]
        sums.append(total(parts) + amounts(tensors.exchanged.network.get(c, ())))
        builder.model.add(sums[-1] <= time[c])
    return sums


def t4_layer(builder: Builder, time: list[Any], most: int | None) -> Any:
    """T4: partitions run one after the other, recomputed ones twice; the layer's time, at least its compute and at most
    ``most``, in parts of a picosecond (:attr:`Tables.paces`); in pairs of passes by :func:`t4_layer_pairs`."""
    tables, floor = builder.tables, builder.tables.shortest * builder.tables.paces
    top = tables.longest * tables.paces if most is None else most
    layer = builder.integer(min(floor, top), max(floor, top), "layer")
    parts = [tables.runs(c) * one for c, one in enumerate(time)]
    for c, twice in builder.twice.items():
        parts.append(builder.integer(0, tables.longest, f"again[{c}]"))
        builder.model.add(parts[-1] >= time[c]).only_enforce_if(twice)
    if tables.paces == 1:
        builder.model.add(sum(parts) <= layer)
    if top < floor:
        builder.model.add_bool_or([])
    return layer


def t4_layer_pairs(builder: Builder, layer: Any, launched: list[Any], *terms: list[Any]) -> None:
    """T4 where passes run in pairs: ``layer`` is at least the four weighted sums of own time (``launched``, compute,
    memory), network, and phases (:func:`~chipmap.instances.dataflow.pairs.arms`)."""
    tables, (compute, memory, network) = builder.tables, terms
    some, slots = shares(tables.problem.instance, tables.problem.degrees), range(tables.count)
    each = {"own": [launched[c] + compute[c] + memory[c] for c in slots], "network": network}
    sums = {kind: sum(tables.runs(c) * parts[c] for c in slots) for kind, parts in each.items()}
    for c, twice in builder.twice.items():
        for kind, parts in each.items():
            again = builder.integer(0, tables.longest, f"again[{kind},{c}]")
            builder.model.add(again >= parts[c]).only_enforce_if(twice)
            sums[kind] += again
    sums["forward"] = sum(each["own"][c] + network[c] for c in forward_slots(tables.problem, tables.phases))
    whole = sums["own"] + sums["network"]
    sums["backward"] = whole - sums["forward"]
    for longest in sums.values():
        builder.model.add(some.pairs * longest + some.alone * whole <= layer)


def def_longest(builder: Builder, layer: Any) -> Any:
    """Picoseconds of the chunk that takes longest, at least those of each that may (T7, stages with unequal numbers of
    layers); None where all are alike."""
    longest, most = builder.tables.problem.longest, builder.tables.longest
    if longest is None:
        return None
    top = max(count * most + more for count, more in longest.pairs)
    chunk = builder.integer(0, max(top, longest.ticks(builder.tables.shortest)), "longest")
    for count, more in longest.pairs:
        builder.model.add(chunk >= count * layer + more)
    return chunk


def t5_transfers(builder: Builder, layer: Any, longest: Any = None) -> Any:
    """T5: waits · hop + m · ``slower`` picoseconds, slower >= v · hop - a stage's layers (equation 7); waits are PP·v-1
    for v chunks per stage. Where stages wait in turn there are more, and no ``slower``."""
    tables = builder.tables
    instance, degrees = tables.problem.instance, tables.problem.degrees
    hop = outside(builder, "hop")
    transfers = waited_hops(instance, degrees) * hop
    if tables.slower:
        least, more = tables.outside("hop")
        parts = instance.task.parts
        slower = builder.integer(0, parts * (least + sum(amount for *_, amount in more)), "slower")
        stage = layers_per_stage(instance, degrees) * layer if longest is None else parts * longest
        builder.model.add(slower >= parts * hop - stage)
        transfers = transfers + int(micro_batches(instance, degrees)) * slower
    return transfers


def t6_gradients(tensors: Tensors) -> Any:
    """T6: picoseconds of the batch's sums over replicas; behind the backward pass summed + (L-1) · ``exposed``, exposed
    >= what a layer's sums take longer than its pass."""
    builder, tables, (least, more) = tensors.builder, tensors.tables, tensors.tables.outside("summed")
    instance, summed = tables.problem.instance, outside(builder, "summed")
    layers = layers_per_stage(instance, tables.problem.degrees)
    after = outside(builder, "gradient") + amounts(tensors.exchanged.after)
    if layers == 1 or not instance.task.overlap_gradients:
        return after + summed
    exposed = builder.integer(0, least + sum(amount for *_, amount in more), "exposed")
    builder.model.add(exposed >= summed - tables.problem.behind)
    return after + summed + (layers - 1) * exposed


def t8_step(builder: Builder) -> Any:
    """T8: picoseconds of the batch's optimiser step and the fixed costs of its micro-batches."""
    return outside(builder, "step") + builder.tables.problem.passes
