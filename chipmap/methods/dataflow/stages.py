"""One choice of degrees where the stages of a pipeline share out kernels: the exact program, and the need of DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.batch_time import steps
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.pins import names_partitions
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.cases import mapping_of
from chipmap.methods.dataflow.shortages import AMPLE, dram_shortage
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.dataflow.stages.program import Division, StageProgram
    from chipmap.heuristics.dataflow.stages.within_dram import WithinDram

SOURCE, SOURCE_RESTRICTED = "program over ideals", "program over some ideals"
#: Places that a kernel may be ahead of another, in turn, and ideals of such a program.
WINDOWS, IDEALS = (1, 2, 4), 4000
#: Ideals from which on such programs come first, as the whole one may take long.
MANY = 5000


class UnfitError(Exception):
    """The mapping of the shortest step doesn't fit DRAM: its ticks are only a ``bound``."""

    def __init__(self, bound: int, what: str) -> None:
        super().__init__(what)
        self.bound = bound


def solve_stages(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before.

    Returns a lower bound on the ticks of the whole batch at these degrees, None where no mapping is known and none
    fits. Raises :class:`UnfitError`; and :class:`TooWideError` for a graph with too many ideals, after restricted
    programs have looked for a mapping, and where pins name partitions.
    """

    if not with_enough_dram(problem.instance, [problem]):
        return run.upper
    if names_partitions(problem.instance):
        raise TooWideError("pins count the partitions of all stages")
    try:
        program = _program(problem)
        if len(program.lattice.masks) > MANY:
            _restricted(problem, run)
        found = _divided(program, run.deadline, run.upper)
    except TooWideError:
        _restricted(problem, run)
        raise
    if found is None:
        return run.upper
    ticks, capacity = steps(problem) * found.step, problem.instance.system.memory.capacity_bytes
    if capacity is None or _dram(problem, found) <= capacity:
        _report(problem, found, run, SOURCE)
        return ticks
    run.checkpoint()
    try:
        fit = _divided(_within_dram(problem), run.deadline, run.upper, found.step)
    except TooWideError as error:
        _restricted(problem, run)
        raise UnfitError(ticks, str(error)) from error
    if fit is None:
        return run.upper
    _report(problem, fit, run, SOURCE)
    return steps(problem) * fit.step


def _program(problem: DataflowProblem, window: int | None = None, within: bool = False) -> StageProgram:
    """The program on all ideals, or on those where a kernel is less than ``window`` places ahead of another in one
    linear order; the one that counts all that stages hold in DRAM if its mapping is to be ``within`` that."""
    from chipmap.heuristics.dataflow.stages.program import StageProgram, linear_order
    from chipmap.heuristics.dataflow.stages.within_dram import WithinDram

    layers, kind = problem.instance.mapped_layers, WithinDram if within else StageProgram
    if window is None:
        return kind(problem, layers)
    return kind(problem, layers, limit=IDEALS, after=linear_order(problem, layers, window))


def _divided(program: StageProgram, deadline: Deadline, upper: int | None = None, least: int = 0) -> Division | None:
    """The mapping of the shortest step whose batch takes less than ``upper`` ticks (None: there is none). No step takes
    less than ``least``."""
    from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT

    below = NO_LIMIT if upper is None else -(-upper // steps(program.problem))
    return program.divide(*program.problem.instance.asked, below, deadline, least)


def _restricted(problem: DataflowProblem, run: Run) -> None:
    """Report the best mappings whose partitions are, or nearly are, pieces of a linear order.

    If need be, each kernel has the scheme that is cheapest whatever is around it.
    """
    cheapest = [
        min(choice, key=lambda option: option.compute + option.stream + option.collective) for choice in problem.options
    ]
    within = problem.instance.system.memory.capacity_bytes is not None
    pinned = replace(problem, options=tuple((option,) for option in cheapest))
    for one in (problem, pinned):
        for window in WINDOWS:
            try:
                found = _divided(_program(one, window, within), run.deadline, run.upper)
            except TooWideError:
                break
            if found is not None:
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
    need, asked = AMPLE, instance.asked
    for problem in problems:
        try:
            found = _within_dram(problem).least_dram(*asked, limit, need, deadline)
        except Stop:
            if need == AMPLE:
                raise
            break
        need = need if found is None else found
    if need == AMPLE:
        return None
    room = counted(limit, "byte")
    what = f"every mapping has a stage with more than the {room} of a chip's DRAM in it; {need:,} would do"
    return dram_shortage(limit, need, what)


def _within_dram(problem: DataflowProblem) -> WithinDram:
    from chipmap.heuristics.dataflow.stages.within_dram import WithinDram

    return WithinDram(problem, problem.instance.mapped_layers)
