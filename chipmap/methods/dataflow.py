"""The methods of family ``dataflow``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``. The exact program solves one choice
of degrees; the method tries all of them, the most promising first, and drops those whose bound is no better.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from chipmap.instances.dataflow.costs import DataflowProblem, dataflow_problem, total_ticks
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, check_degrees
from chipmap.records import InputError
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run


@dataclass(frozen=True)
class Case:
    """A choice of degrees with its bound in ticks."""

    problem: DataflowProblem
    bound: int


def choices(instance: DataflowInstance) -> list[Degrees]:
    """The degrees that the task asks for, or all that the network holds: every network dimension carries another
    parallelism, stages divide the layers, replicas the batch."""
    if instance.task.degrees is not None:
        return [instance.task.degrees]
    network, found = instance.system.network, []
    for uses in product(("tensor", "pipeline", "data"), repeat=len(network)):
        if len(set(uses)) < len(uses):
            continue
        sizes = {use: prod(d.size for d, u in zip(network, uses, strict=True) if u == use) for use in uses}
        degrees = Degrees(**sizes, dimensions=uses)
        try:
            check_degrees(instance, degrees)
        except InputError:
            continue
        found.append(degrees)
    return found


def cases(instance: DataflowInstance) -> list[Case]:
    """Every choice of degrees with the bound that compute alone gives, the least first."""
    found = []
    for degrees in choices(instance):
        problem = dataflow_problem(instance, degrees)
        layers = instance.workload.layers if instance.task.across_layers else 1
        compute = layers * sum(min(option.compute for option in options) for options in problem.options)
        found.append(Case(problem, total_ticks(problem, compute)))
    return sorted(found, key=lambda case: case.bound)


def auto(instance: DataflowInstance, run: Run) -> Termination:
    """The exact program for every choice of degrees: the optimum over all of them, with its proof."""

    def work() -> None:
        todo = cases(instance)
        if not todo:
            run.infeasible(_no_degrees(instance))
            return
        run.bound(todo[0].bound, "compute")
        proved: list[int] = []
        for number, case in enumerate(todo):
            run.checkpoint()
            if run.upper is not None and case.bound >= run.upper:
                proved.append(case.bound)
                continue
            ticks = solve_degrees(case.problem, run)
            if ticks is not None:
                proved.append(ticks)
            rest = [*proved, *(later.bound for later in todo[number + 1 :])]
            if rest:
                run.bound(min(rest), "program over ideals")
        if run.best is None:
            run.infeasible(*short_of_sram(instance, [case.problem for case in todo]))

    from chipmap.heuristics.dataflow.lattice import TooWideError

    return run.attempt(work, TooWideError)


def solve_degrees(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees; its ticks for the whole batch, None where none fits."""
    from chipmap.heuristics.dataflow.program import Program

    instance, task = problem.instance, problem.instance.task
    fused = task.fused and instance.system.chip.fused
    layers = instance.workload.layers if task.across_layers else 1
    program = Program(problem, layers)
    found = [program.best(task.partitions if fused else None, task.exactly and fused, fused)]
    if resident(problem) and not (task.exactly and task.partitions != 1):
        found.append(Program(problem, layers, resident=True).best(1, True, fused))
    chains = [chain for chain in found if chain is not None]
    if not chains:
        return None
    best = min(chains, key=lambda chain: chain.ticks)
    options = zip(problem.options, best.chosen[: problem.n], strict=True)
    solution = DataflowSolution(
        instance=instance.name,
        degrees=problem.degrees,
        schemes=tuple(one[number].scheme for one, number in options),
        partitions=best.partitions,
    )
    ticks = total_ticks(problem, best.ticks)
    run.solution(solution, "program over ideals", claimed=ticks)
    return ticks


def resident(problem: DataflowProblem) -> bool:
    """Whether a chip could run nothing but one partition, so that weights might stay in SRAM (mode ``physical``)."""
    instance = problem.instance
    layers = 1 if instance.task.across_layers else instance.workload.layers // problem.degrees.pipeline
    phases = {kernel.phase for kernel in instance.workload.kernels}
    return instance.mode == "physical" and layers == 1 and len(phases) == 1


def _no_degrees(instance: DataflowInstance) -> Infeasibility:
    layers, batch = instance.workload.layers, instance.task.batch
    network = " x ".join(str(dimension.size) for dimension in instance.system.network)
    return Infeasibility(
        label="C0",
        resource="network",
        demand=float(instance.system.chips),
        limit=float(layers * batch),
        unit="chips",
        message=f"no assignment of the network {network} to tensor, pipeline and data parallelism divides {layers} "
        f"layers into stages and a batch of {batch} into replicas of {instance.task.micro_batch}",
        remedies=("Change workload.layers, task.batch or task.micro_batch.", "Change the network's sizes."),
    )


def short_of_sram(instance: DataflowInstance, problems: list[DataflowProblem]) -> list[Infeasibility]:
    """Which kernel is too large for a chip's SRAM, or how many partitions the weights need at least."""
    limit, kernels = instance.system.chip.sram_bytes, instance.workload.kernels
    least = [min(min(o.weights for o in p.options[v]) for p in problems) for v in range(len(kernels))]
    largest = max(range(len(kernels)), key=least.__getitem__)
    if least[largest] > limit:
        return [
            Infeasibility(
                label="C2",
                resource="SRAM",
                demand=float(least[largest]),
                limit=float(limit),
                unit="bytes",
                message=f"the weights of kernel {kernels[largest].name!r} take {least[largest]:,} bytes on each chip "
                f"at the largest tensor parallelism; a chip's SRAM has {limit:,}",
                remedies=(f"Split kernel {kernels[largest].name!r}.", "Use more tensor parallelism, or more SRAM."),
            )
        ]
    total = sum(least) * (instance.workload.layers if instance.task.across_layers else 1)
    needed = -(-total // limit)
    allowed = instance.task.partitions or len(kernels)
    return [
        Infeasibility(
            label="C2",
            resource="SRAM",
            demand=float(total),
            limit=float(limit * allowed),
            unit="bytes",
            message=f"the weights take {total:,} bytes on each chip, so at least {needed} partitions of {limit:,}, and "
            f"buffers come on top; {allowed} are allowed",
            remedies=("Raise task.partitions.", "Use more tensor parallelism, or more SRAM."),
        )
    ]


def bounds(instance: DataflowInstance, run: Run) -> Termination:
    """The bound that compute alone gives, over all choices of degrees; no mapping is looked for."""

    def work() -> None:
        todo = cases(instance)
        if todo:
            run.bound(todo[0].bound, "compute")
        else:
            run.infeasible(_no_degrees(instance))

    return run.attempt(work)
