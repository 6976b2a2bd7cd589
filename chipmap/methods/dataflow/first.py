"""The first mappings and a bound, before anything else is looked at: whatever the graph, they stand at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.contiguous_partitions.program import Pieces
from chipmap.heuristics.dataflow.contiguous_partitions.stages import staged
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Chain
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import elimination_order
from chipmap.heuristics.dataflow.unfused.relaxed import descend, relaxed
from chipmap.heuristics.dataflow.unfused.running_order import running_order
from chipmap.heuristics.dataflow.unfused.tables import edges_of, scopes
from chipmap.instances.dataflow.batch_time import resident, total_ticks
from chipmap.instances.dataflow.dram import fits_dram
from chipmap.instances.dataflow.floors import first_ticks, plain_floor
from chipmap.instances.dataflow.instance import SHARDS, BatchPlan, DataflowInstance, Degrees
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.pins import names_partitions, restricted
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans, useful_plans
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray
from chipmap.instances.dataflow.sizes import chip_weights
from chipmap.methods.dataflow.cases import has_no_room, mapping_of
from chipmap.methods.dataflow.unfused import one_by_one, solve_one_by_one
from chipmap.records import InputError
from chipmap.run import Run

SOURCE = "pieces of one order"
#: Kernels up to which nothing is done: the exact program is through before.
FEW = 20
#: Seconds after which no further choice of degrees is tried once there is a mapping; choices that are tried at most, of
#: those that have room for what rests in DRAM, and for each kernel in SRAM.
ENOUGH, CHOICES = 0.2, 8
#: Choices of degrees and plan from which on each choice of degrees gets a mapping before the program begins; and where
#: chips don't fuse, which makes that mapping the best one.
MANY, SEVERAL = 200, 24
#: Micro-batches per stage of a pipeline that a first mapping has if it can: bubbles are a quarter then.
ROUNDS = 4
#: Cells of the tables that schemes come from; cases of the hand-over that are looked at.
CELLS, HANDOVERS = 64, 4


def first_mappings(instance: DataflowInstance, run: Run, deadline: Deadline) -> None:
    """A bound by all FLOP, and mappings at the degrees that promise most, until there is one and some time has passed.

    Schemes are those of an elimination of kernels with small tables, once with the cost of each kernel by itself and
    once without DRAM; partitions are the best pieces of one order, or every kernel is one; stages that share out
    kernels are longer pieces of that order.
    """
    few = len(instance.workload.kernels) * instance.mapped_layers <= FEW
    todo = [] if few else promising(instance)
    if not todo:
        return
    run.bound(min(floor(instance, one) for one in todo), "all FLOP")
    if instance.task.schedule == "dualpipe-v":  # pieces of an order don't know which passes hide others
        return
    before, tried, found = run.seconds, 0, False  # what was known before doesn't count: these are better as a rule
    attempt = _try if instance.task.stages == "layers" else _try_stages
    for degrees in todo:
        if tried >= CHOICES or (found and (run.options.deterministic or run.seconds - before > ENOUGH)):
            return
        for plan in dict.fromkeys((plan_of(instance, degrees), frugal(instance, degrees))):
            if not found or plan == plan_of(instance, degrees):
                deadline.check()
                with suppress(InputError, TooWideError):
                    problem = dataflow_problem(instance, degrees, *plan)
                    if not has_no_room(problem):
                        tried += 1
                        found = attempt(problem, run, deadline) or found


def each_degrees(instance: DataflowInstance, run: Run, deadline: Deadline) -> None:
    """Where there are many choices of degrees and plan, a mapping at each choice of degrees that can be better than the
    incumbent: the program below states choices by their bound, and good mappings may come late."""
    choices = sum(len(useful_plans(instance, one)) for one in allowed_degrees(instance))
    if instance.task.stages != "layers" or choices <= (MANY if instance.asked[2] else SEVERAL):
        return
    for degrees in promising(instance):
        for plan in dict.fromkeys((plan_of(instance, degrees), *_smallest(instance, degrees))):
            deadline.check()
            with suppress(InputError, TooWideError):
                problem = dataflow_problem(instance, degrees, *_keeping(instance, degrees, plan))
                if has_no_room(problem) or (run.upper is not None and first_ticks(problem) >= run.upper):
                    continue
                if one_by_one(problem):
                    solve_one_by_one(problem, run, deadline)
                else:
                    _try(problem, run, deadline)


def _keeping(instance: DataflowInstance, degrees: Degrees, plan: BatchPlan) -> BatchPlan:
    """The same plan with layouts kept as long as they may be, which spares most changes of layout."""
    return [one for one in allowed_plans(instance, degrees) if one._replace(keep=plan.keep) == plan][-1]


def _smallest(instance: DataflowInstance, degrees: Degrees) -> list[BatchPlan]:
    """The plans of the smallest micro-batch with one chunk per stage, one for each kind of recomputation: that which
    shares out most."""
    allowed = allowed_plans(instance, degrees)
    some = [plan for plan in allowed if plan.micro_batch == allowed[0].micro_batch and plan.chunks in (None, 1)]
    return list({plan.recompute: plan for plan in some}.values())


def promising(instance: DataflowInstance) -> list[Degrees]:
    """The allowed degrees, first those at which each kernel's weights fit SRAM, by the FLOP of a chip."""
    workload, sram = instance.workload, instance.system.chip.sram_bytes
    largest = max((chip_weights(kernel, instance, Fraction(1)) for kernel in workload.kernels), default=Fraction(0))

    def worth(degrees: Degrees) -> tuple[bool, int, int]:
        floor = plain_floor(instance, degrees, plan_of(instance, degrees))
        return largest > sram * degrees.tensor, floor, degrees.tensor

    return sorted(allowed_degrees(instance), key=worth)


def floor(instance: DataflowInstance, degrees: Degrees) -> int:
    """All FLOP, at the plan whose bubble is least: one with the smallest micro-batch."""
    allowed = allowed_plans(instance, degrees)
    smallest = [plan for plan in allowed if plan.micro_batch == allowed[0].micro_batch]
    return min(plain_floor(instance, degrees, plan) for plan in smallest)


def plan_of(instance: DataflowInstance, degrees: Degrees) -> BatchPlan:
    """The largest micro-batch of which a pipeline has :data:`ROUNDS` per stage, or the smallest; with the fewest chunks
    per stage where DRAM is limited, else the most."""
    allowed, each = allowed_plans(instance, degrees), instance.task.batch // degrees.data
    sizes = sorted({plan.micro_batch or 1 for plan in allowed})
    few = [one for one in sizes if degrees.pipeline == 1 or each // one >= ROUNDS * degrees.pipeline]
    size = few[-1] if few else sizes[0]
    plans = [plan for plan in allowed if plan.micro_batch == size]
    return plans[-1 if instance.system.memory.capacity_bytes is None else 0]


def frugal(instance: DataflowInstance, degrees: Degrees) -> BatchPlan:
    """The plan that takes least DRAM, or nearly: the smallest micro-batch, all recomputed and shared out that can."""

    def demands(plan: BatchPlan) -> tuple[int, bool, int, int]:
        shared = SHARDS.index(plan.shard or "none")
        return plan.micro_batch or 1, plan.recompute != "full", plan.chunks or 1, -shared

    return min(allowed_plans(instance, degrees), key=demands)


def _try(problem: DataflowProblem, run: Run, deadline: Deadline) -> bool:
    """Report the best of a few mappings of a problem; whether there is one."""
    best: tuple[int, DataflowProblem, Chain] | None = None
    for number, case in enumerate(handover_cases(problem)):
        if number >= HANDOVERS:
            break
        for some in (_schemes(case, singles := SingleKernelCosts(case, exact=False), deadline), _least_kept(case)):
            for chain in _mappings(case, singles, some, deadline):
                ticks = total_ticks(case, chain.ticks, chain.chosen)
                if not fits_dram(case, chain.chosen, chain.partitions):
                    continue
                if _stays(case, chain):  # better than its pieces say: the checker tells
                    run.solution(mapping_of(case, chain.chosen, chain.partitions), SOURCE)
                if best is None or ticks < best[0]:
                    best = ticks, case, chain
                    if run.best is None:  # something stands, whatever the others take
                        _report(*best, run)
            if best is not None:
                break
    if best is not None:
        _report(*best, run)
    return best is not None


def _least_kept(problem: DataflowProblem) -> Iterator[tuple[int, ...]]:
    """The options that keep least in DRAM, of those the fastest: what fits where the cheapest schemes don't."""
    if problem.instance.system.memory.capacity_bytes is not None:
        least = [
            min(range(len(some)), key=lambda o: (some[o].kept, some[o].compute + some[o].stream + some[o].collective))
            for some in problem.options
        ]
        yield tuple(least * problem.instance.mapped_layers)


def _report(ticks: int, case: DataflowProblem, chain: Chain, run: Run) -> None:
    if run.upper is None or ticks < run.upper:
        claimed = None if _stays(case, chain) or case.layers_free else ticks
        run.solution(mapping_of(case, chain.chosen, chain.partitions), SOURCE, claimed=claimed)


def _stays(case: DataflowProblem, chain: Chain) -> bool:
    """Whether it is a single partition whose weights stay in SRAM: shorter than its pieces say."""
    return resident(case) and not any(chain.partitions)


def _try_stages(problem: DataflowProblem, run: Run, deadline: Deadline) -> bool:
    """Report mappings of a problem whose stages share out kernels; whether one is valid."""
    if problem.instance.task.utilisation is None or restricted(problem.instance):
        return False  # compute of kernels that share tiles doesn't add up; pieces don't know pins to partitions
    pieces, valid = Pieces(problem, deadline), False
    for chosen in dict.fromkeys(_schemes(problem, SingleKernelCosts(problem, exact=False), deadline)):
        for stays in (False, True) if resident(problem) else (False,):
            found = staged(pieces, chosen, stays)
            if found is not None and fits_dram(problem, chosen, *found):
                valid = run.solution(mapping_of(problem, chosen, *found), SOURCE).feasible or valid
    return valid


def _schemes(problem: DataflowProblem, singles: SingleKernelCosts, deadline: Deadline) -> Iterator[tuple[int, ...]]:
    """Choices of all kernels' options: by the cost of each kernel alone, and where they are fused without DRAM."""
    found, large = scopes(singles)
    order, _ = elimination_order(singles.sizes, edges_of(singles, found, large))
    for one in (singles, _without_dram(singles)) if problem.instance.asked[2] else (singles,):
        some = relaxed(one, order, CELLS, deadline)
        if some.bound is None:
            return
        better = descend(one, some.chosen, deadline)
        if better is not None:
            yield tuple(better[1])


def _mappings(
    problem: DataflowProblem, singles: SingleKernelCosts, some: Iterator[tuple[int, ...]], deadline: Deadline
) -> Iterator[Chain]:
    """Mappings of one case of the hand-over, under each of these choices of options."""
    task = problem.instance.task
    by_pieces = task.utilisation is not None and task.recomputed != "selective" and task.keep in (None, "none")
    by_pieces = by_pieces and not restricted(problem.instance)  # plain pieces heed these
    pieces = Pieces(problem, deadline) if by_pieces else None
    for chosen in some:
        if pieces is not None:
            chain = pieces.best(chosen)
            if chain is not None:
                yield chain
        elif _by_itself(problem):
            for partitions in running_order(problem, chosen):
                each = singles.ticks(chosen, partitions)
                if each is not None:
                    yield Chain(sum(each), partitions, chosen, ())


def _by_itself(problem: DataflowProblem) -> bool:
    """Whether every kernel may be a partition."""
    most, exactly, _ = problem.instance.asked
    alone = all(len(group) == 1 for group in problem.instance.task.together)
    return alone and most is None and not exactly and not names_partitions(problem.instance)


def _without_dram(singles: SingleKernelCosts) -> SingleKernelCosts:
    """The same kernels as if DRAM took no time: what they may be inside a partition."""
    other = object.__new__(SingleKernelCosts)
    other.__dict__.update(singles.__dict__)
    other.known = {}
    shapes: dict[tuple[int, ...], IntArray] = {}

    def nothing(values: IntArray) -> IntArray:
        """As many zeros: the same ones for each shape."""
        if values.shape not in shapes:
            shapes[values.shape] = np.zeros_like(values)
        return shapes[values.shape]

    other.singles = [
        one._replace(
            memory=nothing(one.memory),
            reads=tuple(read._replace(dram=nothing(read.dram)) for read in one.reads),
            parts=tuple(part._replace(memory=nothing(part.memory)) for part in one.parts),
        )
        for one in singles.singles
    ]
    return other
