"""Pipelines on groups of unequal chips, as the checker reads the page: ``docs/families/dataflow-unequal.md``.

Each stage is judged as a network of its own layers on its own chips; what is between them is judged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import prod

from chipmap.certificate import Certificate
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, GroupStage
from chipmap.instances.dataflow.system import Group
from chipmap.records import counted
from chipmap.validation.certify import Finding, certify
from chipmap.validation.dataflow import facts
from chipmap.validation.dataflow.figures import headline
from chipmap.validation.decimals import written

Check = Callable[[DataflowInstance, DataflowSolution], Certificate]


def check(instance: DataflowInstance, solution: DataflowSolution, alone: Check) -> Certificate:
    """The certificate of a mapping to groups; ``alone`` judges a stage."""
    broken = {"C0": [*_domain(instance, solution)], "C8": [*_asked(instance, solution)]}
    if broken["C0"]:
        return certify(instance, solution, broken, grade=instance.mode)
    judged = [alone(*stage_of(instance, solution, s)) for s in range(len(solution.stage_groups))]
    for s, certificate in enumerate(judged):
        for one in certificate.violations:
            finding = (f"stage {s}: {one.where}", one.amount, one.unit, f"in stage {s}, {one.message}")
            broken.setdefault(one.label, []).append(finding)
    if any(certificate.objective is None for certificate in judged):
        return certify(instance, solution, broken, grade=instance.mode)
    terms = _terms(instance, solution, judged)
    rounds = _rounds(instance, solution)
    objective = terms["T4"] + (rounds - 1) * terms["T7"] + terms["T5"] + terms["T8"]
    latency = terms["T4"] + sum(hops(instance, solution)) + terms["T8"] // rounds
    dram = max(certificate.figures["dram_bytes"] for certificate in judged)
    figures = {"dram_bytes": dram, "stages": float(len(judged))}
    if objective:
        seconds = objective / (facts.PS * 1e9)
        figures["samples_per_s"] = instance.task.batch / seconds
        tokens = instance.workload.counted == "tokens"
        prefill = "ttft_us" if tokens else "latency_us"
        if instance.task.purpose != "training":
            figures[prefill if instance.task.purpose == "prefill" else "tpot_us"] = latency / 1e6
        if tokens:
            figures["tokens_per_s"] = figures["samples_per_s"] * instance.workload.tokens
    said = {"figures": figures, "headline": headline(instance, figures) if objective else ""}
    return certify(instance, solution, broken, objective=objective, terms=terms, grade=instance.mode, **said)


def stage_of(
    instance: DataflowInstance, solution: DataflowSolution, place: int
) -> tuple[DataflowInstance, DataflowSolution]:
    """The stage in a place as a network of its layers on its chips, without a pipeline, and its mapping."""
    return _alone(instance, solution, solution.stage_groups[place], len(solution.stage_groups) - place)


def _alone(
    instance: DataflowInstance, solution: DataflowSolution, stage: GroupStage, left: int
) -> tuple[DataflowInstance, DataflowSolution]:
    """A stage by itself; in training it holds what is saved of as many micro-batches as stages are ``left``, with it
    and after it."""
    group = next(one for one in instance.system.groups if one.name == stage.group)
    chips = group.network.replace(size=stage.tensor)
    own = instance.system.replace(
        name=group.name, chip=group.chip, memory=group.memory, network=(chips,), others=(), between=None, step_ns=0.0
    )
    degrees = Degrees(tensor=stage.tensor, dimensions=("tensor",))
    each = solution.micro_batch or instance.task.micro_batch
    held = left if instance.task.purpose == "training" else None
    own_degrees = None if held is None else degrees
    task = instance.task.replace(stage_groups=(), degrees=own_degrees, micro_batch=each, in_flight=held)
    mapping = DataflowSolution(
        degrees=degrees,
        schemes=stage.schemes,
        partitions=stage.partitions,
        micro_batch=each,
        keep=stage.keep,
        recompute=stage.recompute,
    )
    layers = instance.workload.replace(layers=stage.layers)
    return instance.replace(system=own, workload=layers, task=task), mapping


def _rounds(instance: DataflowInstance, solution: DataflowSolution) -> int:
    return instance.task.batch // (solution.micro_batch or instance.task.samples)


def _domain(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """C0: known groups, no more chips of them than there are, degrees that suit the heads, all layers."""
    stages, task = solution.stage_groups, instance.task
    chips = {group.name: group.network.size for group in instance.system.groups}
    each = solution.micro_batch or task.micro_batch
    if each is None or each < 1 or task.batch % each or task.micro_batch not in (None, each):
        yield "micro_batch", 1, "samples", f"micro-batches of {each} samples are none of a batch of {task.batch}"
    if not stages:
        yield "stage_groups", 1, "stages", "a mapping to groups of unequal chips must say its stages"
    if solution.degrees != Degrees(pipeline=max(1, len(stages))):
        yield "degrees", 1, "degrees", "degrees are those of each stage here: only pipeline is given, as their number"
    if solution.schemes or solution.partitions or solution.stages or solution.stage_layers:
        yield "schemes", 1, "schemes", "schemes and partitions are those of each stage here"
    heads = sorted({kernel.outer for kernel in instance.workload.kernels if kernel.outer > 1})
    for s, stage in enumerate(stages):
        if stage.group not in chips:
            yield f"stage {s}", 1, "groups", f"stage {s} runs on group {stage.group!r}, which isn't there"
        if stage.tensor < 1 or stage.layers < 1:
            yield f"stage {s}", 1, "chips", f"stage {s} has {stage.tensor} chips and {stage.layers} layers"
            continue
        for count in heads:
            if count % stage.tensor and stage.tensor % count:
                yield f"stage {s}", 1, "chips", f"{stage.tensor} chips of stage {s} don't divide {count} heads"
    used = Counter[str]()
    for stage in stages:
        used[stage.group] += stage.tensor
    for name, count in used.items():
        if count > (held := chips.get(name, count)):
            yield f"group {name!r}", count - held, "chips", f"stages take {count} chips of {name!r}, which has {held}"
    total = sum(stage.layers for stage in stages)
    if stages and total != instance.workload.layers:
        message = f"the stages have {counted(total, 'layer')}, the network has {instance.workload.layers}"
        yield "stage_groups", abs(total - instance.workload.layers), "layers", message


def _asked(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """C8: the stages are those that the task asks for, in their order."""
    asked, stages = instance.task.stage_groups, solution.stage_groups
    if asked and len(asked) != len(stages):
        yield "stage_groups", abs(len(asked) - len(stages)), "stages", f"{len(stages)} stages, {len(asked)} are asked"
    for s, (one, stage) in enumerate(zip(asked, stages, strict=False)):
        for field in ("group", "tensor", "layers"):
            wanted, own = getattr(one, field), getattr(stage, field)
            if wanted not in (None, own):
                yield f"stage {s}", 1, "stages", f"{field} of stage {s} is {own}, the task asks for {wanted}"


def hops(instance: DataflowInstance, solution: DataflowSolution) -> list[int]:
    """Picoseconds of the transfers between each two stages, for a micro-batch: of what forward kernels carry to the
    later one, of what backward ones carry to the earlier one. Where these carry nothing, gradients come back alike."""
    groups = {group.name: group for group in instance.system.groups}
    each = solution.micro_batch or instance.task.samples
    carried = dict.fromkeys(u for u, _ in instance.workload.carries)
    kernels = {kernel.name: kernel for kernel in instance.workload.kernels}
    back = [name for name in carried if kernels[name].phase == "backward"]
    trained = any(kernel.phase == "backward" for kernel in kernels.values())
    ahead = [name for name in carried if name not in back]
    returning = back if back or not trained else ahead
    found = []
    for one, other in pairwise(solution.stage_groups):
        rate, wait = _link(instance, groups[one.group], groups[other.group])
        parts, ticks = min(one.tensor, other.tensor), 0
        for names, to in ((ahead, other), (returning, one)):
            network = groups[to.group].network.replace(size=to.tensor)
            for name in names:
                if size := each * facts.whole_output(kernels[name], instance):
                    gather = facts.reduce_scatter(size, network) if to.tensor > 1 else 0
                    ticks += facts.up(size / (parts * rate) + wait + gather)
        found.append(ticks)
    return found


def _link(instance: DataflowInstance, one: Group, other: Group) -> tuple[Fraction, Fraction]:
    """Bytes per nanosecond and latency from a chip of a group to one of another, or of the same."""
    between, network = instance.system.between, one.network
    if one.name == other.name:
        rate = written(network.bytes_per_ns) * written(network.efficiency)
        return rate, written(network.latency_ns) + written(network.start_ns)
    assert between is not None
    return written(between.bytes_per_ns), written(between.latency_ns)


def _terms(instance: DataflowInstance, solution: DataflowSolution, judged: list[Certificate]) -> dict[str, int]:
    """T1 to T8 of the batch: what a micro-batch takes through all stages, and what the slowest one takes."""
    layers = [stage.layers for stage in solution.stage_groups]
    terms = {
        label: sum(count * one.terms[label] for count, one in zip(layers, judged, strict=True))
        for label in ("T1", "T2", "T3", "T4")
    }
    stages = [count * one.terms["T4"] for count, one in zip(layers, judged, strict=True)]
    sent, rounds, slowest = hops(instance, solution), _rounds(instance, solution), max(stages)
    if instance.task.purpose == "training":
        longest = max(own + hop for own, hop in zip(stages, [*sent, 0], strict=True))
    else:
        longest = max(stages + sent)
    late = (rounds - 1) * (longest - slowest)
    fixed = rounds * facts.up(written(instance.system.step_ns))
    return terms | {"T5": sum(sent) + late, "T6": 0, "T7": slowest, "T8": fixed}


def pipelines(instance: DataflowInstance) -> Iterator[tuple[int, tuple[tuple[str, int, int], ...]]]:
    """Every micro-batch with every row of stages (group, chips, layers) that C0 and C8 allow."""
    task, layers = instance.task, instance.workload.layers
    chips = {group.name: group.network.size for group in instance.system.groups}
    heads = {kernel.outer for kernel in instance.workload.kernels if kernel.outer > 1}
    suits = [n for n in range(1, max(chips.values()) + 1) if all(h % n == 0 or n % h == 0 for h in heads)]

    def rows(left: int, free: dict[str, int], place: int) -> Iterator[tuple[tuple[str, int, int], ...]]:
        if not left:
            yield ()
        for name, tensor, count in product(free, suits, range(1, left + 1)):
            if tensor <= free[name] and _suits(instance, place, name, tensor, count):
                for rest in rows(left - count, {**free, name: free[name] - tensor}, place + 1):
                    yield ((name, tensor, count), *rest)

    for each in range(1, task.batch + 1):
        if task.batch % each == 0 and task.micro_batch in (None, each):
            for row in rows(layers, chips, 0):
                if len(row) == (len(task.stage_groups) or len(row)):
                    yield each, row


def _suits(instance: DataflowInstance, place: int, name: str, tensor: int, layers: int) -> bool:
    asked = instance.task.stage_groups
    if not asked:
        return True
    if place >= len(asked):
        return False
    one = asked[place]
    return one.group == name and one.tensor in (None, tensor) and one.layers in (None, layers)


Alone = Callable[[DataflowInstance], Iterator[DataflowSolution]]


def candidates(instance: DataflowInstance, alone: Alone) -> Iterator[DataflowSolution]:
    """Every mapping of every row of stages; ``alone`` gives those of a stage by itself."""
    for each, row in pipelines(instance):
        ways = [[*_ways(instance, each, one, len(row) - s, alone)] for s, one in enumerate(row)]
        for stages in product(*ways):
            yield DataflowSolution(
                instance=instance.name,
                degrees=Degrees(pipeline=len(row)),
                schemes=(),
                partitions=(),
                micro_batch=each,
                stage_groups=stages,
            )


def _ways(
    instance: DataflowInstance, each: int, row: tuple[str, int, int], left: int, alone: Alone
) -> Iterator[GroupStage]:
    by_itself, blank = _by_itself(instance, each, row, left)
    for one in alone(by_itself):
        own = {"schemes": one.schemes, "partitions": one.partitions, "keep": one.keep, "recompute": one.recompute}
        yield blank.replace(**own)


def _by_itself(
    instance: DataflowInstance, each: int, row: tuple[str, int, int], left: int
) -> tuple[DataflowInstance, GroupStage]:
    """A stage as a network of its own at its one degree, and the stage without a mapping."""
    name, tensor, layers = row
    blank = GroupStage(group=name, tensor=tensor, layers=layers, schemes=(), partitions=())
    some = DataflowSolution(degrees=Degrees(), schemes=(), partitions=(), micro_batch=each)
    own, _ = _alone(instance, some, blank, left)
    return own.replace(task=own.task.replace(degrees=Degrees(tensor=tensor, dimensions=("tensor",)))), blank


def count(instance: DataflowInstance, alone: Callable[[DataflowInstance], int]) -> int:
    """How many mappings :func:`candidates` has; ``alone`` counts those of a stage."""
    total = 0
    known: dict[tuple[int, tuple[str, int, int]], int] = {}
    for each, row in pipelines(instance):
        for one in row:
            if (each, one) not in known:
                known[each, one] = alone(_by_itself(instance, each, one, 1)[0])
        total += prod(known[each, one] for one in row)
        if total > 10**9:
            return total
    return total
