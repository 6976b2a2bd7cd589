"""Why an instance of family ``dataflow`` has no mapping: the label, the numbers, and what would fit.

What is needed is found by dropping constraints, what would do by the instance as it is, with this one change.

Constraints are dropped in turn. Without the capacity of DRAM: if there is a mapping then, DRAM is short (C6). Without
pins and a number of partitions as well: if there is still none, SRAM is short (C2). With the pins again: if there is
none, the pins can't be kept (C5). Else the number of partitions is the reason (C4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations, permutations
from typing import TYPE_CHECKING

from msgspec import structs

from chipmap.deadline import Stop
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, held_degrees
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.clashes import clashing, labels_of
from chipmap.methods.dataflow.cases import FIRST_TRY
from chipmap.methods.dataflow.shortages import (
    AMPLE,
    PINS,
    Questions,
    at_least,
    does,
    lacking,
    resting,
    short_of_dram,
    smaller_weights,
)
from chipmap.methods.dataflow.stages import short_of_dram as stages_short_of_dram
from chipmap.methods.dataflow.stages import with_enough_dram
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.dataflow.program.program import Program


#: The fields of a task that pin kernels to partitions, or to each other.
_PINS = ("together", "pins", "forbidden", "apart")
#: Share of the time that is left for reasons; looking for what would do can take as long as solving.
REASONS = 0.5
#: Labels that the search may make where sums say already what is short: some seconds.
PATIENCE = 12_000_000
#: Choices of degrees and plan, and kernels, up to which CP-SAT is asked which labels contradict each other.
FEW_CHOICES, FEW_KERNELS = 8, 16


def no_degrees(instance: DataflowInstance) -> Infeasibility:
    """No assignment of the network's dimensions divides layers and batch (C0)."""
    layers, task = instance.workload.layers, instance.task
    pairs = f"{layers} layers into stages and " if task.stages == "layers" else ""
    network = " x ".join(str(dimension.size) for dimension in instance.system.network)
    across = "; partitions reach across layers, which excludes pipelines" if _no_pipeline(instance) else ""
    message = (
        f"no assignment of the network {network} to tensor, pipeline and data parallelism divides {pairs}"
        f"a batch of {task.batch} into replicas of {task.micro_batch or 1} samples at a time{across}"
    )
    other = (
        "another task.micro_batch, or other sizes of the network" if task.micro_batch else "other sizes of the network"
    )
    remedies = *_over_dimensions(instance), _divisible(instance), other
    return lacking("C0", 1, 0, message, *remedies, labels=("C0",))


def _over_dimensions(instance: DataflowInstance) -> Iterator[str]:
    """The fewest dimensions for tensor parallelism with which some degrees divide layers and batch, if any do."""
    now, most = instance.task.tensor_dimensions, len(instance.system.network)
    for count in range(now + 1, most + 1) if instance.mode == "physical" else ():
        task = structs.replace(instance.task, tensor_dimensions=count)
        if allowed_degrees(structs.replace(instance, task=task)):
            yield f"tensor parallelism over {count} dimensions of the network (task.tensor_dimensions={count})"
            return


def _no_pipeline(instance: DataflowInstance) -> bool:
    """Whether there are no pipelines: a stage of layers has whole ones."""
    return instance.task.across_layers and instance.task.stages == "layers"


def _divisible(instance: DataflowInstance) -> str:
    """The least layers and batch from those of the instance on that some degrees divide, one of them kept if that can
    be."""
    layers, task = instance.workload.layers, instance.task
    found = []
    for degrees in held_degrees(instance):
        if not (_no_pipeline(instance) and degrees.pipeline > 1):
            samples, stages = degrees.data * (task.micro_batch or 1), degrees.pipeline if task.stages == "layers" else 1
            if task.chunks is not None and task.chunks > 1:
                samples, stages = samples * stages, stages * task.chunks
            found.append((-(-layers // stages) * stages, -(-task.batch // samples) * samples))
    remedies = {
        "workload.layers": min((count for count, batch in found if batch == task.batch), default=None),
        "task.batch": min((batch for count, batch in found if count == layers), default=None),
    }
    known = [f"{field}={value}" for field, value in remedies.items() if value is not None]
    least = min(found)
    return f"these can be divided: {' or '.join(known) or f'workload.layers={least[0]} and task.batch={least[1]}'}"


def no_mapping(instance: DataflowInstance, problems: Sequence[DataflowProblem], run: Run) -> None:
    """Record the proof that none of ``problems`` has a mapping, with its reasons as far as the limits allow.

    The search for the least change that would do gets a share of the time that is left (with ``--deterministic`` only
    its labels are counted). Then sums say what is short: what rests in DRAM, or what one kernel takes of SRAM. Where
    they do, the search makes :data:`PATIENCE` labels at most.
    """
    from chipmap.methods.dataflow.wide_infeasibility import kernels_too_large

    found = resting(problems) or kernels_too_large(problems)
    deadline = run.deadline if run.options.deterministic else run.deadline.share(REASONS)
    questions = Questions(deadline, PATIENCE) if found else Questions(deadline)
    try:
        with suppress(Stop), deadline.heeded():
            found = reasons(instance, problems, questions) or found
        found = _with_labels(found, problems, run)
        run.checkpoint()
    finally:
        if not found:
            run.note("left out", "no mapping fits; what is short wasn't found")
        run.infeasible(*found)


def _with_labels(found: list[Infeasibility], problems: Sequence[DataflowProblem], run: Run) -> list[Infeasibility]:
    """The reasons with the labels that CP-SAT proves to contradict each other at each choice of degrees and plan.

    Those that name theirs keep them; where choices or kernels are many, or a choice stays open, none are named.
    """
    if all(one.labels for one in found) or len(problems) > FEW_CHOICES or max(p.n for p in problems) > FEW_KERNELS:
        return found
    from chipmap.formulations.dataflow.cpsat import build

    every = set[str]()
    for problem in problems:
        task = problem.instance.task.replace(degrees=problem.degrees)
        plan = {name: value for name, value in problem.plan._asdict().items() if value is not None}
        choices = {"labels": "assume", "degrees": problem.degrees, **plan}
        names = clashing(run, lambda t=task, c=choices, p=problem: build(p.instance.replace(task=t), c))  # type: ignore[misc]
        if not names:
            return found
        every |= set(labels_of(names))
    if "C6" in every:
        every.add("C1")  # the models let a tensor wait between its ends, whichever comes first
    if len({kernel.phase for kernel in problems[0].instance.workload.kernels}) > 1:
        every |= {"C1", "C3"}  # they know no partition of both phases, and put forward ones first
    labels = tuple(sorted(every - {"C0"}))
    return [one if one.labels or one.label not in labels else one.replace(labels=labels) for one in found]


def reasons(
    instance: DataflowInstance, problems: Sequence[DataflowProblem], questions: Questions
) -> list[Infeasibility]:
    """Why none of ``problems`` (those of the instance, all degrees) has a mapping. C5, C2 or C4."""
    from chipmap.methods.dataflow.wide_infeasibility import wide_reasons

    conflict = pins_conflict(instance)
    if conflict:
        return [conflict]
    try:
        return _by_program(instance, problems, questions)
    except TooWideError:  # the bounds for wide graphs know stages of layers only
        return wide_reasons(problems, questions.deadline) if instance.task.stages == "layers" else []


def _by_program(
    instance: DataflowInstance, problems: Sequence[DataflowProblem], questions: Questions
) -> list[Infeasibility]:
    own: list[Program] = []  # what is asked for in all, to try changes of it; not where stages' DRAM is judged apart
    if instance.task.stages == "layers" or instance.system.memory.capacity_bytes is None:
        own = _programs(instance, problems)
        if _fits(own, questions, None, *instance.asked[:2]):
            return []  # the program finds what was said not to exist: it has no reason for that
    if instance.task.stages == "kernels":
        short = stages_short_of_dram(instance, problems, questions.deadline)
        if short is not None:
            return [short]
        problems = with_enough_dram(instance, problems)
        memory = instance.system.memory.replace(capacity_bytes=None)
        instance = instance.replace(system=instance.system.replace(memory=memory))
    if instance.system.memory.capacity_bytes is not None:
        system = instance.system.replace(memory=instance.system.memory.replace(capacity_bytes=AMPLE))
        roomy = instance.replace(system=system)
        programs = _programs(roomy, problems)
        if _fits(programs, questions, None, *instance.asked[:2]):
            return [short_of_dram(instance, programs, questions)]
        instance = roomy
    plain = instance.replace(
        task=instance.task.replace(**dict.fromkeys(_PINS, ()), partitions=None, exactly=False, degrees=None),
        name="without pins",
    )
    programs = _programs(plain, problems)
    if not _fits(programs, questions):
        return [_short_of_sram(plain, programs, own, questions)]
    pinned = plain.replace(task=plain.task.replace(together=instance.task.together))
    if not _fits(_programs(pinned, problems), questions):
        return [_groups_too_large(instance)]
    pinned = pinned.replace(task=pinned.task.replace(**{name: getattr(instance.task, name) for name in _PINS}))
    programs = _programs(pinned, problems)
    if not _fits(programs, questions):
        return [_pins_not_kept(instance)]
    if instance.task.partitions is None or not own:
        return []
    return [_partitions(instance, programs, own, questions)]


def _programs(instance: DataflowInstance, problems: Sequence[DataflowProblem]) -> list[Program]:
    """The program of ``instance`` at the degrees and micro-batch of each of ``problems``."""
    from chipmap.heuristics.dataflow.program.program import Program

    layers = instance.mapped_layers
    again = (dataflow_problem(instance, problem.degrees, *problem.plan) for problem in problems)
    return [Program(problem, layers, most_labels=FIRST_TRY) for problem in again]


def _fits(
    programs: Sequence[Program],
    questions: Questions,
    sram: int | None = None,
    most: int | None = None,
    exactly: bool = False,
) -> bool:
    """Whether one of ``programs`` has a mapping, with ``most`` partitions per phase, or in each stage of kernels."""
    for program in programs:
        instance = program.problem.instance
        stages = program.problem.degrees.pipeline if instance.task.stages == "kernels" else 1
        if questions.best(program, most and most * stages, exactly, instance.asked[2], sram) is not None:
            return True
    return False


def pins_conflict(instance: DataflowInstance) -> Infeasibility | None:
    """C5: a group that can't lie in one partition, whatever the sizes (None where every group can)."""
    task, kernels = instance.task, {kernel.name: kernel for kernel in instance.workload.kernels}
    pinned = {pin.kernel: pin.partition for pin in task.pins}
    several = [group for group in task.together if len(group) > 1]
    if several and not instance.asked[2]:
        message = f"{', '.join(several[0])} are pinned together on chips that run kernel by kernel"
        return _pins(len(several[0]), 1, "kernels", message)
    for group in task.together:
        phases = sorted({kernels[name].phase for name in group})
        if len(phases) > 1:
            message = f"{', '.join(group)} are pinned together but are of {' and '.join(phases)}"
            return _pins(2, 1, "phases", message)
        again = [name for name in group if task.recompute == "selective" and name in task.selective]
        if again and len(again) < len(group):
            message = f"{', '.join(group)} are pinned together, but only {', '.join(again)} recomputed"
            return _pins(2, 1, "phases", message)
    for u, v in _backward(instance):
        message = f"{u} is pinned to partition {pinned[u]}, and must not run after {v}, which is pinned to {pinned[v]}"
        return _pins(pinned[u], pinned[v], "partitions", message, "change task.pins")
    for a, b in _cycles(instance):
        message = f"({', '.join(a)}) must run before ({', '.join(b)}) and after it, so that they can't be partitions"
        return _pins(2, 1, "orders", message)
    return None


def _pins(demand: float, limit: float, unit: str, message: str, remedy: str = PINS) -> Infeasibility:
    return lacking("C5", demand, limit, message, remedy, unit=unit)


def _backward(instance: DataflowInstance) -> Iterator[tuple[str, str]]:
    """Pinned kernels u and v of one phase with a path from u to v, u's partition behind v's."""
    import networkx as nx

    pins, phase = instance.task.pins, {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    graph = nx.DiGraph(instance.workload.edges)
    graph.add_nodes_from(phase)
    for u, v in permutations(pins, 2):
        behind = phase[u.kernel] == phase[v.kernel] and u.partition > v.partition
        if behind and nx.has_path(graph, u.kernel, v.kernel):
            yield u.kernel, v.kernel


def _cycles(instance: DataflowInstance) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Pairs of groups that reach each other (kernels of no group on a cycle can join the partition of its group)."""
    import networkx as nx

    groups = instance.task.together
    node = {name: g for g, group in enumerate(groups) for name in group}
    graph = nx.DiGraph((node.get(u, u), node.get(v, v)) for u, v in instance.workload.edges)
    graph.add_nodes_from(range(len(groups)))
    for a, b in combinations(range(len(groups)), 2):
        if nx.has_path(graph, a, b) and nx.has_path(graph, b, a):
            yield groups[a], groups[b]


def _least_sram(
    programs: Sequence[Program], questions: Questions, limit: int, most: int | None = None, exactly: bool = False
) -> int | None:
    """The least SRAM above ``limit`` with which one of ``programs`` has a mapping; None where no SRAM helps."""
    if not _fits(programs, questions, AMPLE, most, exactly):
        return None
    short, enough = limit, 2 * limit
    while not _fits(programs, questions, enough, most, exactly):
        short, enough = enough, 2 * enough
    while enough - short > 1:
        middle = (short + enough) // 2
        if _fits(programs, questions, middle, most, exactly):
            enough = middle
        else:
            short = middle
    return enough


def _short_of_sram(
    instance: DataflowInstance, programs: Sequence[Program], own: Sequence[Program], questions: Questions
) -> Infeasibility:
    """C2: the least SRAM that any mapping needs, with any number of partitions and without pins; and, of ``own``, the
    programs with all that was asked for, the least with which there is one."""
    limit, kernels = instance.system.chip.sram_bytes, instance.workload.kernels
    needed, enough = _least_sram(programs, questions, limit), None
    assert needed is not None, "without pins there is a mapping on enough SRAM"
    with suppress(Stop):
        enough = _least_sram(own, questions, limit, *own[0].problem.instance.asked[:2]) if own else None
    problems = [program.problem for program in programs]
    weights = [min(min(o.weights for o in problem.options[v]) for problem in problems) for v in range(len(kernels))]
    largest = max(range(len(kernels)), key=weights.__getitem__)
    tensor = max(problem.degrees.tensor for problem in problems)
    options = min((problem.options[largest] for problem in problems), key=lambda some: min(o.weights for o in some))
    message = (
        f"every mapping has a partition that holds more than the {counted(limit, 'byte')} of a chip's SRAM; "
        f"{needed:,} are needed at least (the weights of kernel {kernels[largest].name!r} alone take "
        f"{weights[largest]:,} on each chip; tensor parallelism up to {tensor})"
    )
    path = "system.chip.sram_bytes"
    remedy = at_least(path, needed, "byte") if enough is None else does(path, enough, "byte")
    less = smaller_weights(options, limit, tensor)
    return lacking("C2", needed, limit, message, remedy, less, labels=("C2",))


def _pins_not_kept(instance: DataflowInstance) -> Infeasibility:
    """C5: there are mappings that keep groups together, but none that keeps the other pins, with any number of
    partitions."""
    task = instance.task
    said = {f"task.{name}": getattr(task, name) for name in _PINS if name != "together" and getattr(task, name)}
    message = f"no mapping keeps to {' and '.join(said)}, with any number of partitions"
    remedy = f"change {' or '.join(said)}"
    return lacking("C5", sum(map(len, said.values())), 0, message, remedy, unit="entries")


def _groups_too_large(instance: DataflowInstance) -> Infeasibility:
    limit = instance.system.chip.sram_bytes
    tiles = f" or {instance.system.chip.tiles} tiles" if instance.task.utilisation is None else ""
    groups = "; ".join(", ".join(group) for group in instance.task.together)
    room = counted(limit, "byte")
    message = f"some group of kernels that are pinned together doesn't fit {room} of SRAM{tiles} ({groups})"
    return _pins(len(instance.task.together), 0, "groups", message)


def _partitions(
    instance: DataflowInstance, programs: Sequence[Program], own: Sequence[Program], questions: Questions
) -> Infeasibility:
    """C4: the number of partitions nearest to that asked for with which there would be a mapping; of ``own``, the
    programs with all that was asked for, or else as far as SRAM and pins go."""
    task = instance.task
    asked, most = task.partitions or 0, instance.mapped_layers * len(instance.workload.kernels)
    counts = range(1, most + 1) if task.exactly else range(asked + 1, most + 1)
    near = sorted(counts, key=lambda count: abs(count - asked))
    found = next((count for count in near if _fits(own, questions, None, count, task.exactly)), None)
    fitting = found or next((count for count in near if _fits(programs, questions, None, count, task.exactly)), None)
    tiles = " and the tiles" if task.utilisation is None else ""
    each = "stage" if task.stages == "kernels" else "phase"
    word = "exactly" if task.exactly else "at most"
    would = (
        f"; {word} {fitting} would {'do' if found else 'fit these, but not all that is asked for'}" if fitting else ""
    )
    message = f"no mapping has {word} {counted(asked, 'partition')} per {each} that fit the SRAM{tiles}{would}"
    remedy = "task.exactly=false" if task.exactly else "another number of partitions, and other changes beside"
    if found:
        remedy = does("task.partitions", found, "partition")
    return lacking("C4", max(asked, fitting or 0), min(asked, fitting or 0), message, remedy, "more SRAM")
