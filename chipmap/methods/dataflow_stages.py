"""One choice of degrees where the stages of a pipeline share out kernels: the exact program, and what DRAM says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chipmap.instances.dataflow.costs import DataflowProblem, steps
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.stages import batch_of_steps, stage_costs
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.dataflow.stages import Division

SOURCE, SOURCE_PIECES = "program over ideals", "program over some ideals"
#: Places that a kernel may be ahead of another, in turn, and ideals of such a program.
WINDOWS, IDEALS = (1, 2, 4), 4000


class UnfitError(Exception):
    """The mapping of the shortest step doesn't fit DRAM: its ticks are a ``bound`` alone."""

    def __init__(self, bound: int, what: str) -> None:
        super().__init__(what)
        self.bound = bound


def solve_stages(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before; a lower bound on the ticks of the whole
    batch at these degrees, None where no mapping is known and none fits.

    Raises :class:`UnfitError`, and ``TooWideError`` for a graph with too many ideals, after the search for a mapping in
    pieces of a linear order.
    """
    from chipmap.heuristics.dataflow.lattice import TooWideError

    if not roomy_enough(problem.instance, [problem]):
        return run.upper
    try:
        found = divide(problem, _below(problem, run), run.checkpoint)
    except TooWideError:
        _in_pieces(problem, run)
        raise
    if found is None:
        return run.upper
    ticks = batch_of_steps(problem, found.step)
    capacity, most = problem.instance.system.memory.capacity_bytes, _dram(problem, found)
    if capacity is not None and most > capacity:
        what = f"the mapping of the shortest step needs {most:,} bytes of DRAM, a chip has {capacity:,}"
        raise UnfitError(ticks, what)
    run.solution(_solution(problem, found), SOURCE, claimed=ticks)
    return ticks


def _below(problem: DataflowProblem, run: Run) -> int | None:
    """The picoseconds from which on a step is no better than the best mapping so far."""
    return None if run.upper is None else -(-run.upper // steps(problem))


def divide(
    problem: DataflowProblem,
    below: int | None = None,
    checkpoint: Callable[[], None] = lambda: None,
    window: int | None = None,
) -> Division | None:
    """The mapping of the shortest step ``below`` so many picoseconds, whatever DRAM it takes (None: there is none).

    ``window``: a kernel may be less than so many places ahead of another in one linear order (None: no such rule).
    """
    from chipmap.heuristics.dataflow.labels import NO_LIMIT
    from chipmap.heuristics.dataflow.stages import StageProgram, in_order

    instance, task = problem.instance, problem.instance.task
    fused = task.fused and instance.system.chip.fused
    layers = instance.workload.layers if task.across_layers else 1
    if window is None:
        program = StageProgram(problem, layers)
    else:
        program = StageProgram(problem, layers, limit=IDEALS, after=in_order(problem, layers, window))
    limit = NO_LIMIT if below is None else below
    return program.divide(task.partitions if fused else None, task.exactly and fused, fused, limit, checkpoint)


def _in_pieces(problem: DataflowProblem, run: Run) -> None:
    """Report the best mappings whose partitions are pieces of a linear order, or nearly so; if need be, each kernel
    under the scheme that is cheapest alone."""
    from chipmap.heuristics.dataflow.lattice import TooWideError

    cheapest = [
        min(choice, key=lambda option: option.compute + option.stream + option.collective) for choice in problem.options
    ]
    pinned = replace(problem, options=tuple((option,) for option in cheapest))
    for one in (problem, pinned):
        for window in WINDOWS:
            try:
                found = divide(one, _below(one, run), run.checkpoint, window)
            except TooWideError:
                break
            capacity = problem.instance.system.memory.capacity_bytes
            if found is not None and (capacity is None or _dram(one, found) <= capacity):
                run.solution(_solution(one, found), SOURCE_PIECES, claimed=batch_of_steps(one, found.step))


def _dram(problem: DataflowProblem, found: Division) -> int:
    return max(stage_costs(problem, found.chosen, found.partitions, found.stages).dram)


def _solution(problem: DataflowProblem, found: Division) -> DataflowSolution:
    return DataflowSolution(
        instance=problem.instance.name,
        degrees=problem.degrees,
        schemes=tuple(problem.options[i % problem.n][o].scheme for i, o in enumerate(found.chosen)),
        partitions=found.partitions,
        stages=found.stages,
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
    """C6 where at all degrees some stage has more at rest than a chip's DRAM, or where there are mappings but none is
    said to fit (None: neither)."""
    limit = instance.system.memory.capacity_bytes
    if limit is None or not problems:
        return None
    if not roomy_enough(instance, problems):
        need = min(dram_need(problem) for problem in problems)
        return _short(
            limit, need, f"what rests in DRAM, shared out over all stages, takes {need:,} bytes of some chip; it has "
        )
    found = [(one, mapping) for one in problems if (mapping := divide(one)) is not None]
    if not found:
        return None
    need = min(_dram(*pair) for pair in found)
    return _short(limit, need, f"{need:,} bytes of DRAM would do, every mapping has a stage with more in it than ")


def _short(limit: int, need: int, words: str) -> Infeasibility:
    return Infeasibility(
        label="C6",
        resource="DRAM",
        demand=float(need),
        limit=float(limit),
        unit="bytes",
        message=f"{words}{limit:,}",
        remedies=(
            f"Set system.memory.capacity_bytes to {need} or more.",
            "Use more tensor or pipeline parallelism.",
        ),
    )
