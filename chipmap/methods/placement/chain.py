"""The methods of family ``placement``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from collections.abc import Callable

from chipmap.heuristics.placement.bounds import price_bound
from chipmap.heuristics.placement.bounds import simple as lower
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts.partition import HALF, LARGE_GRAPH, MOST
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.offload import loosest
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.model_solve import solve_whole
from chipmap.methods.placement import offload
from chipmap.methods.placement.bounding import bound_by_windows, narrowing
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.columns import by_columns
from chipmap.methods.placement.first import begun_only, first
from chipmap.methods.placement.reasons import against_limit, clash, impossible
from chipmap.methods.placement.rounds import SMALL
from chipmap.methods.placement.search import improve, search
from chipmap.methods.placement.siblings import SOON, large_and_without_start, siblings, siblings_if_large
from chipmap.methods.placement.styles import LARGE as GOES_ON
from chipmap.methods.placement.styles import STYLES, Effort, Styles
from chipmap.methods.placement.subsets import alternate_device_subsets
from chipmap.methods.placement.throughput import blocks, refute, search_loads
from chipmap.result import Termination
from chipmap.run import Run

Method = Callable[[PlacementInstance, Run], Termination]
#: Operations · devices up to which those that must share a device count as one, there.
LARGE = 2_400
#: Partitions within a time limit at most, and without one; before siblings at most, as these need time as well.
PARTITIONS, FEW_PARTITIONS, BEFORE_SIBLINGS = 40, 8, 2
#: Partitions end after so many in a row that gain nothing: once half of their time is over, and where all of them go on
#: from the best placement. The seeds of these begin here.
FEW, IDLE, AGAIN_SEED = 3, 5, 2**29
#: Where siblings don't come first, the shares of the link's time in which partitions are made: where some go on from
#: the best placement (:data:`.styles.LARGE`), and on smaller graphs.
GOING_ON, ALL_NEW = 0.6, 0.3


def bound_at_once(state: ChainState, turn: Turn) -> None:
    """The work bound; proofs that no placement fits: an operation or all weights too large for the memories."""
    reasons = list(impossible(loosest(state.problem)))
    if reasons:
        turn.run.infeasible(*reasons)
        turn.run.checkpoint()
    turn.bound(max(lower.group(state.problem), price_bound.work(state.problem)), "work")


def look_at_limit(state: ChainState, turn: Turn) -> None:
    """Whether the bounds so far are above the limit on the step."""
    if reasons := against_limit(state.problem, turn.run):
        turn.infeasible(*reasons)
        turn.deadline.check()


def start(state: ChainState, turn: Turn) -> None:
    """The incumbent (a warm start) and all starts: the first that there is at once, then the best, as checks take
    time."""
    best, given = "", turn.run.best
    try:
        if given is not None and state.problem.timed:
            assert isinstance(given.solution, PlacementSolution)
            state.evaluate_and_keep(state.problem.devices_of(given.solution))
            if state.best is not None and state.best[:2] < (0, given.objective):
                best = given.source
        for name, devices in state.starts(turn.deadline):
            if not state.problem.timed or turn.run.best is None:
                state.tell(turn, devices, name)
            elif state.evaluate_and_keep(devices):
                best = name
            turn.deadline.check()
    finally:
        if best:
            state.tell_best(turn, best)


def start_if_none(state: ChainState, turn: Turn) -> None:
    """All starts, where nothing was found but what there was at once."""
    if turn.run.best is None or begun_only(turn.run):
        start(state, turn)


def start_unless_carried(state: ChainState, turn: Turn) -> None:
    """All starts, where no plan of a smaller graph is one; only those that end soon where a partition fits."""
    if state.phased and state.best is not None and state.best[0] == 0:
        turn = turn.share(SOON)
    if not state.carried:
        start(state, turn)


def best_of_partitions(state: ChainState, turn: Turn, at_most: int = PARTITIONS) -> None:
    """Partitions, the best of several by simulation: as many as there is time for.

    Every other one is on fewer devices, where these have time enough. On large graphs each style first has a turn with
    half the moves. What is better than all before is told at once, but for a while after a check. After half of the
    time it goes on only as long as not too many in a row gain nothing.
    """
    problem, run = state.problem, turn.run
    if not problem.timed or problem.devices == 1:
        return
    made, styles = units(problem), Styles(state, run.deadline)
    told = state.best[:2] if state.best is not None else None
    begins = state.initial_partitions()
    most = HALF if len(begins) == 1 else MOST
    trials = alternate_device_subsets(problem, begins, lambda: state.heads_and_tails(run.deadline))
    early, idle = turn.deadline.share(0.5), 0
    try:
        for number in range(min(at_most, PARTITIONS if run.clocked else FEW_PARTITIONS)):
            (left, begin), seed = next(trials), run.options.seed * PARTITIONS + number
            moves = most // 2 if problem.operations >= LARGE_GRAPH and number < len(STYLES) else most
            idle = 0 if styles.keep(left, made, Effort(begin, seed, turn.deadline, moves)) else idle + 1
            told = state.tell_better(turn, "partition", told)
            turn.deadline.check()
            if idle >= FEW and problem.operations >= GOES_ON and run.clocked and not early.keep_going():
                return
    finally:
        state.tell_better(turn, "partition", told, wait=False)


def partitions_before_siblings(state: ChainState, turn: Turn) -> None:
    """Partitions where the graph is so large that siblings are made: these must be better then."""
    if large_and_without_start(state, turn):
        state.phased = True
        best_of_partitions(state, turn, BEFORE_SIBLINGS)


def partitions_again(state: ChainState, turn: Turn) -> None:
    """Partitions that go on from the best placement, until several in a row gain nothing."""
    problem, run = state.problem, turn.run
    if state.best is None or problem.devices == 1:
        return
    told: tuple[int, int] | None = state.best[:2]
    made, styles, idle = units(problem), Styles(state, turn.deadline), 0
    try:
        for number in range(PARTITIONS if run.clocked else FEW_PARTITIONS):
            effort = Effort(state.best[2], AGAIN_SEED + run.options.seed * PARTITIONS + number, turn.deadline, HALF)
            idle = 0 if styles.keep(problem, made, effort, styles.again()) else idle + 1
            told = state.tell_better(turn, "partition", told)
            turn.deadline.check()
            if idle >= IDLE:
                return
    finally:
        state.tell_better(turn, "partition", told, wait=False)


def best_of_partitions_if_large(state: ChainState, turn: Turn) -> None:
    """Partitions, but not where CP-SAT takes over; from the best placement alone where siblings come first."""
    if state.size > SMALL and (state.carried or state.phased):
        partitions_again(state, turn)
    elif state.size > SMALL:
        best_of_partitions(state, turn.share(GOING_ON if state.problem.operations >= GOES_ON else ALL_NEW))


def improved_if_large(state: ChainState, turn: Turn) -> None:
    """Partitions, bounds and annealing over devices and keys, from the best start."""
    if state.problem.timed and state.size > SMALL:
        improve(state, turn, PARTITION, WINDOWS)


def bound_by_windows_if_small(state: ChainState, turn: Turn) -> None:
    """Bounds where no partitions are made beside them."""
    if state.problem.timed and state.size <= SMALL:
        bound_by_windows(state, turn)


def search_if_small(state: ChainState, turn: Turn) -> None:
    """Annealing by itself: a link of its own, so that CP-SAT has its turn while the search is being compiled."""
    if state.problem.timed and state.size <= SMALL:
        search(state, turn)


def model_if_small(state: ChainState, turn: Turn) -> None:
    """The CP-SAT model, where it is small enough to be of use."""
    problem, small = state.problem, turn.run.best is None or state.size <= SMALL
    if problem.timed and not small and state.size <= LARGE:
        small = narrowing(state, turn).parts * problem.devices <= SMALL
    if small and problem.timed:
        model_by_cpsat(state, turn)


def model_by_cpsat(state: ChainState, turn: Turn) -> None:
    """The CP-SAT model, from the incumbent on."""
    from chipmap.formulations.placement.cpsat import build
    from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices

    known = narrowing(state, turn) if state.problem.timed else None
    choices = PlacementCpChoices(narrowing=known, symmetry=True)
    solve_whole(turn.run, build(state.problem.instance, choices), "cpsat", lambda: clash(state.problem, turn.run))


def model_by_mip(state: ChainState, turn: Turn) -> None:
    """The MIP, from the incumbent on."""
    from chipmap.formulations.placement.mip import build

    solve_whole(turn.run, build(state.problem.instance), "mip", lambda: clash(state.problem, turn.run))


BOUND, START = Link("bound", 1.0, bound_at_once), Link("start", 0.5, start)
PARTITION = Link("partition", 0.5, best_of_partitions_if_large)
WINDOWS, SEARCH = Link("windows", 0.3, bound_by_windows), Link("search", 1.0, search)
MODEL = Link("cpsat", 1.0, model_if_small)
BLOCKS, REFUTE = Link("blocks", 0.5, blocks), Link("refutation", 1.0, refute)
THROUGHPUT = (
    BOUND,
    BLOCKS,
    Link("start", 0.2, start_if_none),
    Link("first loads", 0.02, search_loads),
    Link("columns", 0.6, by_columns),
    Link("first refutation", 0.5, refute),
    Link("loads", 0.75, search_loads),
    REFUTE,
)
#: The same, but links that always run compiled come after a refutation: it ends most small instances.
THROUGHPUT_PLAIN = (*sorted(THROUGHPUT[:-1], key=lambda link: link.work is search_loads), REFUTE)
IMPROVED = (
    Link("windows", 0.3, bound_by_windows_if_small),
    Link("search", 1.0, search_if_small),
    Link("improvement", 1.0, improved_if_large),
)
LIMIT = Link("limit", 1.0, look_at_limit)
PHASES, SIBLINGS = Link("phases", 0.9, partitions_before_siblings), Link("siblings", 0.8, siblings_if_large)
#: With several micro-batches: programs that leave out what these hold give bounds, the model what fits.
MICRO_BATCHES = (BOUND, BLOCKS, Link("start", 0.2, start_if_none), Link("cpsat", 1.0, model_by_cpsat))
STEP_TIME = (BOUND, LIMIT, PHASES, SIBLINGS, Link("start", 0.5, start_unless_carried), *IMPROVED, LIMIT, MODEL)


def auto(instance: PlacementInstance, run: Run) -> Termination:
    """The best chain."""
    if instance.task.fetch_bytes_per_ns is not None:
        return offload.auto(instance, run, first, auto, model_by_cpsat)
    return follow_chain(instance, run, links_of(instance))


def links_of(instance: PlacementInstance, plain: bool = False) -> tuple[Link, ...]:
    """The best chain of an instance that fetches no weights; ``plain``: with what needs no compiled function first."""
    if instance.task.objective == "step_time":
        return STEP_TIME
    return MICRO_BATCHES if instance.task.micro_batches > 1 else THROUGHPUT_PLAIN if plain else THROUGHPUT


def follow_chain(instance: PlacementInstance, run: Run, links: tuple[Link, ...]) -> Termination:
    """Do the links one after the other."""
    state = ChainState(placement_problem(instance))
    return run.attempt(lambda: follow(links, state, Turn(run, run.deadline)))


def _following(*links: Link) -> Method:
    """The method that is a chain of these links for either objective."""
    return offload.keeping(lambda instance, run: follow_chain(instance, run, links))


def _choosing(*links: Link) -> Method:
    """The same for links that choose what is fetched."""
    return lambda instance, run: follow_chain(instance, run, links)


def bounds(instance: PlacementInstance, run: Run) -> Termination:
    """Every lower bound, no placement."""
    if instance.task.fetch_bytes_per_ns is not None:
        return offload.bounds(instance, run, bounds)
    return follow_chain(instance, run, (BOUND, WINDOWS, LIMIT))


starts = _following(BOUND, START)
partitions = _following(BOUND, Link("partition", 1.0, best_of_partitions))
annealed = _following(BOUND, START, *IMPROVED)
#: Plans carried over from a smaller graph of the same structure alone.
by_siblings = _following(BOUND, Link("siblings", 1.0, siblings))
cpsat = _choosing(BOUND, Link("cpsat", 1.0, model_by_cpsat))
#: Throughput by blocks one after the other: the program over ideals alone.
in_blocks = _following(BOUND, BLOCKS)
mip = _choosing(BOUND, Link("mip", 1.0, model_by_mip))
