"""The methods of family ``placement``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from chipmap.heuristics.placement import bounds as lower
from chipmap.heuristics.placement import unequal
from chipmap.heuristics.placement.partition import partition
from chipmap.heuristics.placement.units import units
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.model_solve import solve_whole
from chipmap.methods.placement.bounding import bound_by_windows, narrowing
from chipmap.methods.placement.first import begun_only
from chipmap.methods.placement.reasons import against_limit, clash, impossible
from chipmap.methods.placement.search import SMALL, improve, search
from chipmap.methods.placement.stages import Stages
from chipmap.methods.placement.subsets import by_turns
from chipmap.methods.placement.throughput import blocks, refute, search_loads
from chipmap.result import Termination
from chipmap.run import Run

#: Operations · devices up to which those that must share a device count as one, there.
LARGE = 2_400
#: Partitions within a time limit at most, and without one.
PARTITIONS, FEW_PARTITIONS = 40, 3


def bound_at_once(stages: Stages, turn: Turn) -> None:
    """Σ p over D, groups; what no placement can do: an operation too large for any memory, weights for all of them."""
    reasons = list(impossible(stages.problem))
    if reasons:
        turn.run.infeasible(*reasons)
        turn.run.checkpoint()
    turn.bound(max(lower.load(stages.problem), unequal.work(stages.problem)), "work")


def look_at_limit(stages: Stages, turn: Turn) -> None:
    """Whether the bounds so far are above the limit on the step."""
    if reasons := against_limit(stages.problem, turn.run):
        turn.infeasible(*reasons)
        turn.deadline.check()


def start(stages: Stages, turn: Turn) -> None:
    """The incumbent (a warm start) and all starts: the first that there is at once, then the best, as checks take
    time."""
    best, given = "", turn.run.best
    try:
        if given is not None and stages.problem.timed:
            assert isinstance(given.solution, PlacementSolution)
            stages.weigh(stages.problem.devices_of(given.solution))
            if stages.best is not None and stages.best[:2] < (0, given.objective):
                best = given.source
        for name, devices in stages.starts(turn.deadline):
            if not stages.problem.timed or turn.run.best is None:
                stages.tell(turn, devices, name)
            elif stages.weigh(devices):
                best = name
            turn.deadline.check()
    finally:
        if best:
            stages.tell_best(turn, best)


def start_if_none(stages: Stages, turn: Turn) -> None:
    """All starts, where nothing was found but what there was at once."""
    if turn.run.best is None or begun_only(turn.run):
        start(stages, turn)


def spread(stages: Stages, turn: Turn) -> None:
    """Partitions, the best of several by simulation: as many as there is time for.

    Every other one is on fewer devices, where these have time enough.
    """
    problem, run = stages.problem, turn.run
    if not problem.timed or problem.devices == 1:
        return
    made, told = units(problem), stages.best[:2] if stages.best is not None else None
    trials = by_turns(problem, stages.begins(), lambda: stages.windows(run.deadline))
    try:
        for number in range(PARTITIONS if run.clocked else FEW_PARTITIONS):
            (left, begin), seed = next(trials), run.options.seed * PARTITIONS + number
            stages.weigh(partition(left, made, begin, seed, turn.deadline))
            turn.deadline.check()
    finally:
        if stages.best is not None and stages.best[:2] != told:
            stages.tell_best(turn, "partition")


def spread_if_large(stages: Stages, turn: Turn) -> None:
    """Partitions, but not where CP-SAT takes over."""
    if stages.size > SMALL:
        spread(stages, turn)


def improved(stages: Stages, turn: Turn) -> None:
    """Partitions, bounds and annealing over devices and keys, from the best start."""
    improve(stages, turn, SPREAD, WINDOWS)


def model_if_small(stages: Stages, turn: Turn) -> None:
    """The CP-SAT model, where it is small enough to be of use."""
    problem, small = stages.problem, turn.run.best is None or stages.size <= SMALL
    if problem.timed and not small and stages.size <= LARGE:
        small = narrowing(stages, turn).parts * problem.devices <= SMALL
    if small and problem.timed:
        model_by_cpsat(stages, turn)


def model_by_cpsat(stages: Stages, turn: Turn) -> None:
    """The CP-SAT model, from the incumbent on."""
    from chipmap.formulations.placement.cpsat import build
    from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices

    known = narrowing(stages, turn) if stages.problem.timed else None
    choices = PlacementCpChoices(narrowing=known, symmetry=True)
    solve_whole(turn.run, build(stages.problem.instance, choices), "cpsat", lambda: clash(stages.problem, turn.run))


def model_by_mip(stages: Stages, turn: Turn) -> None:
    """The MIP, from the incumbent on."""
    from chipmap.formulations.placement.mip import build

    solve_whole(turn.run, build(stages.problem.instance), "mip", lambda: clash(stages.problem, turn.run))


BOUND, START = Link("bound", 1.0, bound_at_once), Link("start", 0.5, start)
SPREAD = Link("partition", 0.15, spread_if_large)
WINDOWS, SEARCH = Link("windows", 0.3, bound_by_windows), Link("search", 1.0, search)
MODEL = Link("cpsat", 1.0, model_if_small)
BLOCKS, REFUTE = Link("blocks", 0.5, blocks), Link("refutation", 1.0, refute)
THROUGHPUT = (
    BOUND,
    BLOCKS,
    Link("start", 0.2, start_if_none),
    Link("first loads", 0.02, search_loads),
    Link("first refutation", 0.5, refute),
    Link("loads", 0.75, search_loads),
    REFUTE,
)
IMPROVED = Link("improvement", 1.0, improved)
LIMIT = Link("limit", 1.0, look_at_limit)
STEP_TIME = (BOUND, LIMIT, START, IMPROVED, LIMIT, MODEL)


def auto(instance: PlacementInstance, run: Run) -> Termination:
    """The best chain."""
    return follow_chain(instance, run, THROUGHPUT if instance.task.objective == "throughput" else STEP_TIME)


def starts(instance: PlacementInstance, run: Run) -> Termination:
    """The best of all starts."""
    return follow_chain(instance, run, (BOUND, START))


def partitions(instance: PlacementInstance, run: Run) -> Termination:
    """Annealed partitions alone."""
    return follow_chain(instance, run, (BOUND, Link("partition", 1.0, spread)))


def annealed(instance: PlacementInstance, run: Run) -> Termination:
    """The search alone, from the best start."""
    return follow_chain(instance, run, (BOUND, START, IMPROVED))


def cpsat(instance: PlacementInstance, run: Run) -> Termination:
    """The CP-SAT model alone."""
    return follow_chain(instance, run, (BOUND, Link("cpsat", 1.0, model_by_cpsat)))


def in_blocks(instance: PlacementInstance, run: Run) -> Termination:
    """Throughput by blocks one after the other: the program over ideals alone."""
    return follow_chain(instance, run, (BOUND, BLOCKS))


def mip(instance: PlacementInstance, run: Run) -> Termination:
    """The MIP alone."""
    return follow_chain(instance, run, (BOUND, Link("mip", 1.0, model_by_mip)))


def bounds(instance: PlacementInstance, run: Run) -> Termination:
    """Every lower bound, no placement."""
    return follow_chain(instance, run, (BOUND, WINDOWS, LIMIT))


def follow_chain(instance: PlacementInstance, run: Run, links: tuple[Link, ...]) -> Termination:
    """Do the links one after the other."""
    stages = Stages(placement_problem(instance))
    return run.attempt(lambda: follow(links, stages, Turn(run, run.deadline)))
