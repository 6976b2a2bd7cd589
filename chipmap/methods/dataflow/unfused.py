"""Chips that don't fuse: kernels are eliminated one after the other, exactly where their graph is narrow enough."""

from __future__ import annotations

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused.elimination import CELLS
from chipmap.heuristics.dataflow.unfused.paired import PairedProgram
from chipmap.heuristics.dataflow.unfused.program import Found, UnfusedProgram
from chipmap.heuristics.dataflow.unfused.relaxed import descend, relaxed
from chipmap.instances.dataflow.batch import paired
from chipmap.instances.dataflow.batch_time import total_ticks
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.cases import mapping_of, report
from chipmap.run import Run

SOURCE = "elimination of kernels"
#: Cells of a table of the relaxation, in turn.
MINI_CELLS = (1 << 8, 1 << 12, 1 << 16)


def one_by_one(problem: DataflowProblem) -> bool:
    """Whether every kernel is a partition of its own, and there are several in a stage of whole layers: then no weights
    stay in SRAM, and the order of partitions decides about nothing but what waits in DRAM."""
    instance = problem.instance
    several = problem.n * instance.mapped_layers > 1 and all(len(group) == 1 for group in instance.task.together)
    return several and instance.task.stages == "layers" and not instance.asked[2]


def solve_one_by_one(problem: DataflowProblem, run: Run, deadline: Deadline | None = None) -> Found:
    """Report the best mapping of a problem of which :func:`one_by_one` is true, and return what is known of it, by the
    ``deadline`` (None: the run's own).

    A bound stands alone where no better mapping than the incumbent can be, or none was found that fits DRAM. Raises
    :class:`TooWideError` where relaxations don't find a mapping.
    """
    if paired(problem.instance, problem.degrees):
        found = PairedProgram(problem, run.deadline if deadline is None else deadline).best(run.upper)
        _report(problem, found, run)
        return found
    program = UnfusedProgram(problem, run.deadline if deadline is None else deadline)
    if run.upper is not None and program.large:  # their labels take longest
        quick = relaxed(program.singles, program.order, MINI_CELLS[0], program.deadline)
        bound = None if quick.bound is None else total_ticks(problem, quick.bound)
        if bound is None or bound >= run.upper:
            return Found(bound)
    try:
        found = program.best(run.upper)
    except TooWideError:
        return _approached(program, run)
    _report(problem, found, run)
    return found


def _approached(program: UnfusedProgram, run: Run) -> Found:
    """The best bound and mapping of relaxations of growing size."""
    best = Found(0)
    for cells in MINI_CELLS:
        found = _relaxed(program, cells, program.deadline)
        if found.bound is None:
            return found
        best = best._replace(bound=max(best.bound or 0, found.bound))
        if found.ticks is not None and (best.ticks is None or found.ticks < best.ticks):
            best = found._replace(bound=best.bound)
            _report(program.problem, best, run)
        if best.proved or (run.upper is not None and best.bound is not None and best.bound >= run.upper):
            break
    if best.ticks is None:
        raise TooWideError(f"the schemes of kernels that hang together make more than {CELLS:,} choices")
    return best


def _relaxed(program: UnfusedProgram, cells: int, deadline: Deadline) -> Found:
    bounded = relaxed(program.singles, program.order, cells, deadline)
    if bounded.bound is None:
        return Found(None)
    bound = total_ticks(program.problem, bounded.bound)
    better = descend(program.singles, bounded.chosen[: program.singles.kernels], deadline)
    found = None if better is None else program.mapping(better[0], tuple(better[1]))
    return Found(bound) if found is None else found._replace(bound=bound)


def _report(problem: DataflowProblem, found: Found, run: Run) -> None:
    if found.ticks is not None and (run.upper is None or found.ticks < run.upper):
        report(problem, run, mapping_of(problem, found.chosen, found.partitions), SOURCE, found.ticks)
