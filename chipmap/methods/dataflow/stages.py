"""One choice of degrees where the stages of a pipeline share out kernels: the exact program, and the need of DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem, steps
from chipmap.methods.dataflow.cases import mapping_of
from chipmap.methods.dataflow.shortages import AMPLE, dram_shortage
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.dataflow.stages.program import Division, StageProgram

SOURCE, SOURCE_RESTRICTED = "program over ideals", "program over some ideals"
#: Places that a kernel may be ahead of another, in turn, and ideals of such a program.
WINDOWS, IDEALS = (1, 2, 4), 4000
#: Ideals from which on such programs come first, as the whole one may take long.
MANY = 5000
#: Mappings that are tried where tensors that wait don't fit the DRAM.
TRIES = 4


class UnfitError(Exception):
    """The mapping of the shortest step doesn't fit DRAM: its ticks are only a ``bound``."""

    def __init__(self, bound: int, what: str) -> None:
        super().__init__(what)
        self.bound = bound


def solve_stages(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before.

    Returns a lower bound on the ticks of the whole batch at these degrees, None where no mapping is known and none
    fits. Raises :class:`UnfitError`; and :class:`TooWideError` for a graph with too many ideals, after restricted
    programs have looked for a mapping.
    """

    if not with_enough_dram(problem.instance, [problem]):
        return run.upper
    try:
        program = _program(problem)
        if len(program.lattice.sets) > MANY:
            _restricted(problem, run)
        found = _divided(program, run.deadline, run.upper)
    except TooWideError:
        _restricted(problem, run)
        raise
    if found is None:
        return run.upper
    ticks, most = steps(problem) * found.step, _dram(problem, found)
    fit = _fitting(program, found, run)
    if fit is not None:
        _report(problem, fit, run, SOURCE)
    if fit is None or fit.step > found.step:
        capacity = problem.instance.system.memory.capacity_bytes
        what = f"the mapping of the shortest step needs {most:,} bytes of DRAM, a chip has {capacity:,}"
        raise UnfitError(ticks, what)
    return ticks


def _fitting(program: StageProgram, found: Division, run: Run) -> Division | None:
    """``found`` if it fits the DRAM, else another mapping that does (None: a few of these don't fit either).

    Each leaves as much more DRAM to tensors that wait as the one before was short of.
    """
    capacity, one = program.problem.instance.system.memory.capacity_bytes, found
    for _ in range(TRIES):
        most = _dram(program.problem, one)
        if capacity is None or most <= capacity:
            return one
        program.spare += most - capacity
        other = _divided(program, run.deadline, run.upper)
        if other is None:
            break
        one = other
    return None


def _program(problem: DataflowProblem, window: int | None = None) -> StageProgram:
    """The program on all ideals, or on those where a kernel is less than ``window`` places ahead of another in one
    linear order."""
    from chipmap.heuristics.dataflow.stages.program import StageProgram, linear_order

    layers = problem.instance.mapped_layers
    if window is None:
        return StageProgram(problem, layers)
    return StageProgram(problem, layers, limit=IDEALS, after=linear_order(problem, layers, window))


def _divided(program: StageProgram, deadline: Deadline, upper: int | None = None) -> Division | None:
    """The mapping of the shortest step, whatever DRAM it takes, whose batch takes less than ``upper`` ticks (None:
    there is none)."""
    from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT

    below = NO_LIMIT if upper is None else -(-upper // steps(program.problem))
    return program.divide(*program.problem.instance.asked, below, deadline)


def _restricted(problem: DataflowProblem, run: Run) -> None:
    """Report the best mappings whose partitions are, or nearly are, pieces of a linear order.

    If need be, each kernel has the scheme that is cheapest whatever is around it.
    """
    cheapest = [
        min(choice, key=lambda option: option.compute + option.stream + option.collective) for choice in problem.options
    ]
    pinned = replace(problem, options=tuple((option,) for option in cheapest))
    for one in (problem, pinned):
        for window in WINDOWS:
            try:
                found = _divided(_program(one, window), run.deadline, run.upper)
            except TooWideError:
                break
            capacity = problem.instance.system.memory.capacity_bytes
            if found is not None and (capacity is None or _dram(one, found) <= capacity):
                _report(one, found, run, SOURCE_RESTRICTED)


def _report(problem: DataflowProblem, found: Division, run: Run, source: str) -> None:
    mapping = mapping_of(problem, found.chosen, found.partitions, found.stages)
    run.solution(mapping, source, claimed=steps(problem) * found.step)


def _dram(problem: DataflowProblem, found: Division) -> int:
    return max(dram_bytes(problem, found.chosen, found.partitions, found.stages))


def dram_need(problem: DataflowProblem) -> int:
    """Bytes of DRAM that the fullest stage has at rest at least: its share of all, or the kernel that keeps most."""
    kept = [min(option.kept for option in options) for options in problem.options]
    return max(*kept, -(-problem.instance.mapped_layers * sum(kept) // problem.degrees.pipeline), 0)


def with_enough_dram(instance: DataflowInstance, problems: Sequence[DataflowProblem]) -> list[DataflowProblem]:
    """Those whose stages' DRAM can hold what rests there."""
    limit = instance.system.memory.capacity_bytes
    return [problem for problem in problems if limit is None or dram_need(problem) <= limit]


def short_of_dram(
    instance: DataflowInstance, problems: Sequence[DataflowProblem], deadline: Deadline
) -> Infeasibility | None:
    """C6, where at all degrees some stage has more at rest than a chip's DRAM, or where there are mappings but none is
    known to fit (None: neither)."""
    limit = instance.system.memory.capacity_bytes
    if limit is None or not problems:
        return None
    if not with_enough_dram(instance, problems):
        need = min(dram_need(problem) for problem in problems)
        what = f"what rests in DRAM, shared out over all stages, takes {need:,} bytes of some chip; it has {limit:,}"
        return dram_shortage(limit, need, what, found=False)
    memory = instance.system.memory.replace(capacity_bytes=AMPLE)
    roomy = instance.replace(system=instance.system.replace(memory=memory))
    free = [dataflow_problem(roomy, problem.degrees, *problem.plan) for problem in problems]
    found = [(one, mapping) for one in free if (mapping := _divided(_program(one), deadline)) is not None]
    if not found:
        return None
    need = min(_dram(*pair) for pair in found)
    what = f"every mapping has a stage with more than the {limit:,} bytes of a chip's DRAM in it; {need:,} would do"
    return dram_shortage(limit, need, what)
