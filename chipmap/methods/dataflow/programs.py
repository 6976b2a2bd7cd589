"""The exact program over order ideals at one choice of degrees."""

from __future__ import annotations

from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.instances.dataflow.problem import DataflowProblem, caching, first_layer, resident, total_ticks
from chipmap.methods.dataflow.cases import mapping_of
from chipmap.methods.dataflow.effort import FIRST_TRY
from chipmap.methods.dataflow.stages import solve_stages
from chipmap.run import Run


def solve_degrees(problem: DataflowProblem, run: Run) -> int | None:
    """Report the best mapping at these degrees if it is better than all before.

    Returns a lower bound on the ticks of the whole batch at these degrees, None where no mapping is known and none
    fits. Raises :class:`TooWideError` where that takes more than a first try.
    """
    instance, layers = problem.instance, problem.instance.mapped_layers
    if instance.task.stages == "kernels":
        return solve_stages(problem, run)
    most, exactly, fused = instance.asked
    program = Program(problem, layers, most_labels=FIRST_TRY)
    below = NO_LIMIT if run.upper is None else first_layer(problem, run.upper)
    found = [program.best(most, exactly, fused, below=below)]
    if resident(problem) and not (exactly and most != 1):
        for cached in (False, True) if caching(problem) else (False,):
            stays = Program(problem, layers, resident=True, cached=cached, most_labels=FIRST_TRY)
            found.append(stays.best(1, True, fused, below=below))
    chains = [chain for chain in found if chain is not None]
    if not chains:
        return run.upper
    best = min(chains, key=lambda chain: total_ticks(problem, chain.ticks, chain.chosen))
    ticks = total_ticks(problem, best.ticks, best.chosen)
    run.solution(mapping_of(problem, best.chosen, best.partitions), "program over ideals", claimed=ticks)
    return ticks
