"""One choice of degrees where the stages of a pipeline share out kernels: the exact program, and what DRAM says."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.costs import DataflowProblem, steps
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.stages import batch_of_steps, stage_costs
from chipmap.result import Infeasibility
from chipmap.run import Run

SOURCE = "program over ideals"


def solve_stages(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before; a lower bound on the ticks of the whole
    batch at these degrees, None where no mapping is known and none fits.

    A mapping that doesn't fit DRAM isn't reported: its ticks are still a bound.
    """
    from chipmap.heuristics.dataflow.labels import NO_LIMIT
    from chipmap.heuristics.dataflow.stages import StageProgram

    instance, task = problem.instance, problem.instance.task
    capacity = instance.system.memory.capacity_bytes
    if not roomy_enough(instance, [problem]):
        return run.upper
    fused = task.fused and instance.system.chip.fused
    layers = instance.workload.layers if task.across_layers else 1
    below = NO_LIMIT if run.upper is None else -(-run.upper // steps(problem))
    found = StageProgram(problem, layers).divide(
        task.partitions if fused else None, task.exactly and fused, fused, below, run.checkpoint
    )
    if found is None:
        return run.upper
    ticks = batch_of_steps(problem, found.step)
    most = max(stage_costs(problem, found.chosen, found.partitions, found.stages).dram)
    if capacity is not None and most > capacity:
        run.notes.append(
            f"tensor {problem.degrees.tensor}, pipeline {problem.degrees.pipeline}, data {problem.degrees.data}: the "
            f"mapping of the shortest step needs {most:,} bytes of DRAM, a chip has {capacity:,}; it is a bound alone, "
            "dataflow/mip and dataflow/cpsat may find one that fits"
        )
        return ticks
    run.solution(_solution(problem, found.chosen, found.partitions, found.stages), SOURCE, claimed=ticks)
    return ticks


def _solution(
    problem: DataflowProblem, chosen: tuple[int, ...], partitions: tuple[int, ...], stages: tuple[int, ...]
) -> DataflowSolution:
    return DataflowSolution(
        instance=problem.instance.name,
        degrees=problem.degrees,
        schemes=tuple(problem.options[i % problem.n][o].scheme for i, o in enumerate(chosen)),
        partitions=partitions,
        stages=stages,
    )


def dram_need(problem: DataflowProblem) -> int:
    """Bytes of DRAM that the fullest stage has at rest at least: its share of all, or the kernel that keeps most."""
    instance = problem.instance
    layers = instance.workload.layers if instance.task.across_layers else 1
    kept = [min(option.kept for option in options) for options in problem.options]
    return max(*kept, -(-layers * sum(kept) // problem.degrees.pipeline), 0)


def roomy_enough(instance: DataflowInstance, problems: Sequence[DataflowProblem]) -> list[DataflowProblem]:
    """Those whose stages' DRAM can hold what rests there."""
    limit = instance.system.memory.capacity_bytes
    return [problem for problem in problems if limit is None or dram_need(problem) <= limit]


def short_of_dram(instance: DataflowInstance, problems: Sequence[DataflowProblem]) -> Infeasibility | None:
    """C6 where at all degrees some stage has more at rest than a chip's DRAM (None: not so)."""
    limit = instance.system.memory.capacity_bytes
    if limit is None or not problems or roomy_enough(instance, problems):
        return None
    need = min(dram_need(problem) for problem in problems)
    return Infeasibility(
        label="C6",
        resource="DRAM",
        demand=float(need),
        limit=float(limit),
        unit="bytes",
        message=f"what rests in a chip's DRAM, shared out over all stages, takes {need:,} bytes of some stage; there "
        f"are {limit:,}",
        remedies=(
            f"Set system.memory.capacity_bytes to {need} or more.",
            "Use more tensor or pipeline parallelism.",
        ),
    )
