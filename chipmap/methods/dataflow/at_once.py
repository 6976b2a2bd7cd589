"""What is known of a dataflow instance at once, by plain code: a bound by all FLOP, and a first mapping.

The mapping is a simple one at the degrees that promise most: each kernel has the scheme that costs least where its
producers have theirs, and partitions are pieces of one order, each as long as SRAM and the task allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from chipmap.instances.dataflow.instance import BatchPlan, DataflowInstance, Degrees
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow import unequal
from chipmap.methods.dataflow.cases import has_no_room, mapping_of
from chipmap.methods.dataflow.first import floor, frugal, plan_of, promising
from chipmap.methods.dataflow.infeasibility import no_degrees
from chipmap.methods.dataflow.plain_pieces import Pieces
from chipmap.records import InputError
from chipmap.run import Run

SOURCE = "pieces at once"
#: Kernels, over all choices of degrees and plan, that are looked at for a first mapping; and for better ones then.
WORK, MORE = 40_000, 300


def at_once(instance: DataflowInstance, run: Run) -> None:
    """Report the bound by all FLOP, or that no degrees are allowed."""
    if instance.system.others:
        unequal.at_once(instance, run)
        return
    todo = [degrees for degrees in allowed_degrees(instance) if allowed_plans(instance, degrees)]
    if not todo:
        run.infeasible(no_degrees(instance))
        return
    run.bound(min(floor(instance, degrees) for degrees in todo), "all FLOP")


def first(instance: DataflowInstance, run: Run) -> None:
    """Report plain mappings at the degrees and plans that promise most, until there is one and enough was looked at;
    refused ones are forgotten. There are none on unequal chips."""
    if instance.system.others:
        return
    work, each = 0, len(instance.workload.kernels) * instance.mapped_layers
    for degrees, plan in choices(instance):
        if work > (WORK if run.best is None else MORE):
            return
        with suppress(InputError):
            problem = dataflow_problem(instance, degrees, *plan)
            work += each
            if has_no_room(problem):
                continue
            for chosen in dict.fromkeys((cheapest(problem), least_kept(problem))):
                pieces = Pieces(problem, chosen)
                for partitions, stages in pieces.mappings():
                    mapping = mapping_of(problem, chosen, partitions, stages)
                    if run.solution(mapping, SOURCE).feasible:
                        break
                    run.rejected.pop()


def choices(instance: DataflowInstance) -> Iterator[tuple[Degrees, BatchPlan]]:
    """Degrees with two plans each, those first that promise most."""
    for degrees in promising(instance):
        if allowed_plans(instance, degrees):
            for plan in dict.fromkeys((plan_of(instance, degrees), frugal(instance, degrees))):
                yield degrees, plan


def cheapest(problem: DataflowProblem) -> tuple[int, ...]:
    """The number of each kernel's option that costs least by itself and with the layouts of its producers, kernel by
    kernel in their order; all layers alike."""
    makers: list[list[int]] = [[] for _ in range(problem.n)]
    for u, v in problem.edges.tolist():
        makers[v].append(u)
    chosen = [0] * problem.n
    for v in (v for unit in Pieces.order_of_layer(problem) for v in unit):
        options = problem.options[v]

        def cost(o: int, v: int = v) -> int:
            one = problem.options[v][o]
            change = sum(problem.converts(u, v, chosen[u], o) for u in makers[v])
            return max(one.compute, one.stream, one.collective) + one.collective + one.dram + change

        chosen[v] = min(range(len(options)), key=cost) if len(options) > 1 else 0
    return tuple(chosen * problem.instance.mapped_layers)


def least_kept(problem: DataflowProblem) -> tuple[int, ...]:
    """The options that keep least in DRAM and SRAM, all layers alike."""

    def held(options: Sequence[int], v: int) -> int:
        return min(options, key=lambda o: (problem.options[v][o].kept, problem.options[v][o].weights, o))

    chosen = [held(range(len(options)), v) for v, options in enumerate(problem.options)]
    return tuple(chosen * problem.instance.mapped_layers)
