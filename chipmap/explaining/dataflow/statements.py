"""What is said of a dataflow mapping: where its time goes, what its chips hold, what each resource would gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chipmap.certificate import Certificate
from chipmap.explaining.dataflow import unequal
from chipmap.explaining.dataflow.changes import DataflowTrial
from chipmap.explaining.dataflow.spent import BatchTimeSpent, Piece, paced_by, spent
from chipmap.explaining.driver import statement
from chipmap.explanation import Change, Statement
from chipmap.instances.dataflow.dram import resting_bytes
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.loads import chosen_options, often, sram_bytes, times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.pairs import Pace
from chipmap.instances.dataflow.plans import settled
from chipmap.records import counted, listed
from chipmap.records.quantities import at_most, duration, share, size

#: Partitions that are told one by one, the longest first; kernels of one that are named.
TOLD, NAMED = 6, 3
#: What the batch is called, by its purpose.
BATCH = {"training": "iteration", "prefill": "prefill", "decode": "decode step"}
#: The parts of the time, in words, each with its label.
PARTS = {
    "compute": "compute", "memory": "DRAM", "network": "network", "launch": "launches",
    "ends": "the network's ends", "bubble": "the bubble",
    "late updates": "late updates in the bubble", "transfers": "transfers between stages (T5)",
    "gradients": "sums of gradients and gathers of weights (T6)", "step": "fixed costs and the optimiser's step (T8)",
}  # fmt: skip
#: Picoseconds of a nanosecond.
PS = 1000


def time_of(ticks: float) -> str:
    """Picoseconds in the unit that suits them."""
    return duration(ticks / PS)


def mapping(instance: DataflowInstance, solution: DataflowSolution, certificate: Certificate) -> Iterator[Statement]:
    """A valid mapping taken apart: its plan, its time by what binds and by kernels, what its chips hold."""
    if instance.system.others:
        yield from unequal.mapping(solution, certificate)
        return
    parts = spent(instance, solution, certificate.terms)
    yield _plan(instance, solution)
    paced = paced_by(dataflow_problem(instance, solution.degrees, *solution.plan), solution)
    yield _time(instance, parts, certificate.objective or 0, paced is not None)
    yield from _terms(instance, solution, certificate)
    if paced is not None:
        yield _pairs(paced)
    yield from _pieces(instance, parts, certificate.objective or 0)
    yield from _memories(instance, solution, certificate)


def _plan(instance: DataflowInstance, solution: DataflowSolution) -> Statement:
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    task, used = problem.instance.task, len(set(solution.partitions))
    rounds = task.batch // (solution.degrees.data * task.samples)
    text = f"{counted(instance.system.chips, 'chip')} as {solution.degrees.text}; {problem.plan.text}, "
    text += f"{counted(rounds, 'micro-batch', 'micro-batches')} per replica; "
    text += f"{counted(used, 'partition')} of {counted(len(solution.partitions), 'kernel')}"
    return statement("plan", text, "C0", **plan_of(solution), micro_batches=rounds, partitions=used)


def plan_of(solution: DataflowSolution) -> dict[str, object]:
    """Degrees and plan by name, what isn't said left out."""
    degrees, plan = solution.degrees, solution.plan._asdict()
    found: dict[str, object] = {"tensor": degrees.tensor, "pipeline": degrees.pipeline, "data": degrees.data}
    if degrees.expert > 1:
        found["expert"] = degrees.expert
    return found | {name: value for name, value in plan.items() if value is not None}


def otherwise(before: DataflowSolution, after: DataflowSolution) -> str:
    """In which choices one mapping differs from another: ``tensor 8 instead of 4, micro-batch 2 instead of 1``."""
    words = {"micro_batch": "micro-batch", "recompute": "recomputation", "shard": "shared out"}
    unsaid = dict.fromkeys(("recompute", "shard", "keep"), "none")
    old, new = plan_of(before), plan_of(after)
    pairs = {name: [one.get(name, unsaid.get(name, 1)) for one in (new, old)] for name in {**old, **new}}
    return ", ".join(
        f"{words.get(name, name)} {here} instead of {there}" for name, (here, there) in pairs.items() if here != there
    )


def _time(instance: DataflowInstance, parts: BatchTimeSpent, objective: int, paced: bool) -> Statement:
    """The objective as a sum of its parts."""
    each = [f"{PARTS[name]} {share(ticks, objective)}" for name, ticks in parts.parts.items()]
    how = "each partition waits for the longest of its three" if instance.task.overlap else "one after the other"
    how += "; of pairs what sets their pace" if paced else ""
    how += "; those of the slowest stage" if instance.task.stages == "kernels" else ""
    text = f"Of the {time_of(objective)}: {', '.join(each)} (compute, DRAM and network: {how})"
    return statement("time", text, "T4", **{f"{name.replace(' ', '_')}_ps": t for name, t in parts.parts.items()})


def _terms(instance: DataflowInstance, solution: DataflowSolution, certificate: Certificate) -> Iterator[Statement]:
    """T1 to T4 of a layer and micro-batch, and what DRAM and network move."""
    problem, terms = dataflow_problem(instance, solution.degrees, *solution.plan), certificate.terms
    again = often(problem, solution)
    sums = dict.fromkeys(("weights", "fetched", "tensors", "collectives", "changes"), 0)
    for p, one in times(problem, solution).items():
        for name in sums:
            sums[name] += again[p] * getattr(one, name)
    of = "all layers" if instance.task.across_layers or instance.task.stages == "kernels" else "a layer"
    moved = {"weights": "weights", "fetched": "caches and rows fetched", "tensors": "tensors"}
    sent = {"collectives": "collectives and exchanges of kernels", "changes": "changes of layout between kernels"}
    text = f"A micro-batch in {of}: compute {time_of(terms['T1'])} (T1), "
    text += f"DRAM {time_of(terms['T2'])} (T2{_split(moved, sums, terms['T2'])}), "
    text += (
        f"network {time_of(terms['T3'])} (T3{_split(sent, sums, terms['T3'])}), together {time_of(terms['T4'])} (T4)"
    )
    figures = {f"{name}_ps": ticks for name, ticks in sums.items()}
    yield statement("terms", text, "T4", **{name: terms[name] for name in ("T1", "T2", "T3", "T4")}, **figures)


def _pairs(paced: Pace) -> Statement:
    """What two passes at once take, and what sets their pace."""
    text = f"A forward and a backward pass at once take {time_of(paced.pair)} for a layer, one after the other "
    text += f"{time_of(paced.apart)}: the pace is set by {paced.name}"
    return statement("pairs", text, "T4", pair_ps=paced.pair, apart_ps=paced.apart, pace=paced.name)


def _split(words: dict[str, str], sums: dict[str, int], total: int) -> str:
    found = [f"{text} {share(sums[name], total)}" for name, text in words.items() if sums[name]]
    return f": {', '.join(found)}" if found else ""


def _pieces(instance: DataflowInstance, parts: BatchTimeSpent, objective: int) -> Iterator[Statement]:
    """The partitions that take most, each with its three times and what binds."""
    for piece in parts.pieces[:TOLD]:
        yield _piece(instance, piece, objective)
    rest = parts.pieces[TOLD:]
    if rest:
        text = f"The other {counted(len(rest), 'partition')} take {share(sum(map(total, rest)), objective)}"
        yield statement("kernel", text, "T4", partitions=len(rest))


def total(piece: Piece) -> int:
    """Picoseconds of the batch."""
    return piece.total


def _piece(instance: DataflowInstance, piece: Piece, objective: int) -> Statement:
    pairs = zip(piece.names, piece.schemes, strict=True)
    named = listed((f"{name!r} ({scheme})" for name, scheme in pairs), NAMED)
    often = f", {piece.partitions} times" if piece.partitions > 1 else ""
    one = piece.times
    three = {"compute": one.compute, "DRAM": one.memory, "network": one.network}
    times_of = ", ".join(f"{name} {time_of(ticks)}" for name, ticks in three.items() if ticks)
    text = f"{named}{often} {share(piece.total, objective)}: {times_of or 'nothing'}"
    text += f"; {PARTS[piece.binds]} {'binds' if instance.task.overlap else 'takes most'}" if piece.total else ""
    return statement("kernel", text, "T4", kernels=list(piece.names), binds=piece.binds, ps=piece.total,
                     compute_ps=one.compute, memory_ps=one.memory, network_ps=one.network)  # fmt: skip


def _memories(instance: DataflowInstance, solution: DataflowSolution, certificate: Certificate) -> Iterator[Statement]:
    """What the fullest chip's DRAM (C6) and the fullest partition's SRAM (C2) hold; C4 where it is met exactly."""
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    held, capacity = int(certificate.figures["dram_bytes"]), instance.system.memory.capacity_bytes
    if capacity is not None:
        layered = instance.task.stages == "layers"
        rest = resting_bytes(chosen_options(problem, solution)) if layered else None
        more = "" if rest is None else f"; {size(rest)} rest there all the time, {size(held - rest)} wait"
        text = f"DRAM (C6): {size(held)} of {size(capacity)} on a chip ({share(held, capacity)}){more}"
        yield statement("memory", text, "C6", dram_bytes=held, capacity_bytes=capacity)
    else:
        yield statement("memory", f"DRAM (C6): {size(held)} on a chip, without limit", "C6", dram_bytes=held)
    sizes, limit = sram_bytes(problem, solution), instance.system.chip.sram_bytes
    fullest = max(sizes, key=lambda p: sum(sizes[p]))
    weights, buffers = sizes[fullest]
    text = f"SRAM (C2): partition {fullest} holds {size(weights + buffers)} of {size(limit)} "
    text += f"({share(weights + buffers, limit)}), weights {size(weights)}, buffers {size(buffers)}"
    yield statement("memory", text, "C2", sram_bytes=weights + buffers, limit_bytes=limit, partition=fullest)
    most, _, _ = instance.asked
    if most is not None:
        phases = {kernel.name: kernel.phase for kernel in settled(instance, *solution.plan).workload.kernels}
        used = dict[str, set[int]]()
        for i, p in enumerate(solution.partitions):
            used.setdefault(phases[instance.workload.kernels[i % problem.n].name], set()).add(p)
        words = ", ".join(f"{counted(len(ps), 'partition')} {phase}" for phase, ps in sorted(used.items()))
        yield statement("partitions", f"Partitions (C4): {words}, at most {most} asked for", "C4", asked=most)


def resources(tried: Sequence[tuple[DataflowTrial, Change, str]], now: int) -> Iterator[Statement]:
    """For each resource what twice as much of it gains at most, and as much as there may be; ``now`` (picoseconds) is
    the best mapping's time. With each change comes in which choices its best mapping differs."""
    order = list(dict.fromkeys(trial.resource for trial, _, _ in tried))
    for name in order:
        own = [one for one in tried if one[0].resource == name and one[0].kind in ("twice", "free", "without")]
        if own:
            text = "; ".join(_gains(*one, now) for one in own)
            figures = {f"{trial.kind}_{field}": value for trial, change, _ in own
                       for field, value in (("ps", change.objective), ("bound_ps", change.bound))}  # fmt: skip
            text = f"{text[:1].upper()}{text[1:]}"
            yield statement("resource", text, own[0][0].label, resource=name, now_ps=now, **figures)


def _gains(trial: DataflowTrial, change: Change, other: str, now: int) -> str:
    """What a change gains, and what is proved of it."""
    found, least = change.objective, change.bound or 0
    how = f", by {other}" if other and found is not None and found < now else ""
    if least >= now:
        more = found is not None and found > now
        return f"{trial.what}: {'no gain' if not more else f'{time_of(found or 0)}, more than now'} (proved)"
    if found == least:
        return f"{trial.what}: {time_of(least)}, {share(now - least, now)} less{how} (proved)"
    bound = f"at most {at_most(now - least, now)} less (bound {time_of(least)})"
    if found is None or found >= now:
        return f"{trial.what}: {bound}, no gain found"
    return f"{trial.what}: {time_of(found)} found, {share(now - found, now)} less{how}; {bound}"


def halves(tried: Sequence[tuple[DataflowTrial, Change, str]], untried: int, now: int) -> Statement | None:
    """Whether any resource, doubled by itself, makes the time half as long; None where none was tried, as ``untried``
    others are."""
    twice = [(trial, change) for trial, change, _ in tried if trial.kind == "twice"]
    if not twice:
        return None
    done = [trial.what for trial, change in twice if change.objective is not None and 2 * change.objective <= now]
    open_ = [trial.what for trial, change in twice if trial.what not in done and 2 * (change.bound or 0) <= now]
    trial, most = min(twice, key=lambda one: one[1].bound or 0)
    rest = f"; {counted(untried, 'other')} not tried" if untried else ""
    if done:
        text = f"Twice as fast by one change: {'; '.join(done)}"
    elif open_:
        text = f"Twice as fast by one change: no mapping found; not excluded for {'; '.join(open_)}"
    elif (most.bound or 0) >= now:
        text = (
            f"Why not twice as fast: of {counted(len(twice), 'resource')}, doubled one at a time, none gains (proved)"
        )
    else:
        time_ = "takes" if most.bound == most.objective else "may take as little as"
        text = f"Why not twice as fast: of {counted(len(twice), 'resource')}, doubled one at a time, none halves the "
        text += f"time (proved); most is gained by {trial.what}: it {time_} {time_of(most.bound or 0)} then"
    text += rest
    return statement("twice", text, halved=done, open=open_)


def choices(tried: Sequence[tuple[DataflowTrial, Change, str]], now: int) -> Statement | None:
    """What a choice gains that the task makes and the solver could make; None where none was tried."""
    own = [one for one in tried if one[0].kind == "choice"]
    if not own:
        return None
    text = f"Left to the solver: {'; '.join(_gains(*one, now) for one in own)}"
    return statement("choice", text, "C0", choices=[trial.resource for trial, _, _ in own])


def alone(tried: Sequence[tuple[DataflowTrial, Change, str]], now: int) -> Statement | None:
    """What each resource takes if nothing else takes time; None where that wasn't tried."""
    own = [(trial, change) for trial, change, _ in tried if trial.kind == "alone" and change.bound is not None]
    if not own:
        return None
    each = []
    for trial, change in own:
        least = change.bound or 0
        takes = "takes" if least == change.objective else "takes at least"
        each.append(f"{trial.what} {takes} {time_of(least)} ({share(least, now)})")
    text = f"If nothing else took time: {'; '.join(each)} (proved, each with its best mapping and no bubble)"
    figures: dict[str, Any] = {f"{trial.resource}_bound_ps": change.bound for trial, change in own}
    return statement("alone", text, **figures)


def forced(tried: Sequence[tuple[DataflowTrial, Change, str]], now: int) -> Statement | None:
    """What the limit of DRAM forces, from the change that leaves it out; None where that wasn't tried."""
    own = [one for one in tried if one[0].resource == "DRAM capacity" and one[0].kind == "free"]
    for trial, change, other in own:
        if change.bound is not None and change.bound >= now:
            return statement("forced", "The limit of DRAM (C6) costs no time (proved)", "C6")
        if change.objective is not None and change.objective < now:
            proof = "proved" if change.standing == "proved" else "found"
            by = f", by {other}" if other else ", by other schemes or partitions"
            text = f"The limit of DRAM (C6) forces choices: without it {time_of(change.objective)} ({proof}){by}"
            return statement("forced", text, trial.label, ps=change.objective)
    return None
