"""The chain ``wafer/auto``: rows, search and solver neighbourhoods beside bounds, on one incumbent.

Where two threads are allowed, one lane looks for floorplans while the other proves bounds and then joins the search.
With one thread the same links follow one another. Which of them finds what on the contest's cases stands in
``benchmarks/results/wafer-ablation.md``; what found nothing there is no part of the chain.
"""

from __future__ import annotations

from dataclasses import replace

from chipmap.instances.wafer.instance import WaferInstance, WaferSolution, special
from chipmap.instances.wafer.problem import WaferProblem, evaluate, formulas_only, in_order, wafer_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import side_by_side
from chipmap.methods.wafer import cuts
from chipmap.methods.wafer import special as specials
from chipmap.methods.wafer.answers import answer, whole
from chipmap.methods.wafer.greedy import exhausted, packed, sized
from chipmap.methods.wafer.models import area, small
from chipmap.methods.wafer.neighbourhoods import SOURCE, search_neighbourhoods
from chipmap.methods.wafer.reasons import no_floorplan
from chipmap.methods.wafer.state import COUNTED, FIXED, RINGS, WIRED, WaferChainState
from chipmap.options import cores
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

#: Annealing runs, each 1.8 times as long as the one before, where there is no time limit.
UNLIMITED_RUNS = 3
#: The share of fixed boxes in what is left.
FIXED_SHARE = 0.2
#: Seconds before the end at which no solver runs any more (a process must not end while one does).
MARGIN = 0.5


def auto(instance: WaferInstance, run: Run) -> Termination:
    """The best chain, until the time is used, the gap is closed, or every link has ended.

    Every kernel by itself (or why it can't be placed), the area and greedy rows first; then one of the lists below.
    """

    def work() -> None:
        """The lists' links, in one lane or two."""
        problem = wafer_problem(instance)
        if special(instance):
            return specials.chain(problem, run, _open)
        found = sized(problem, run)
        area(problem, run)
        run.checkpoint()
        packed(problem, found, run)
        state = WaferChainState(problem, run.options.seed)
        if small(problem):
            return follow(SMALL, state, Turn(run, replace(run.deadline, patient=True)))
        if exhausted(problem, run):
            return
        one_lane = (*FIRST, *links_of(state), *LAST)
        if run.options.deterministic:
            follow(one_lane, state, Turn(run, run.deadline))
        elif (run.options.threads or cores()) == 1:
            side_by_side(run, state, [one_lane], patient=True)
        else:
            side_by_side(run, state, [(*floorplans_of(state), *AFTER), PROOFS], patient=True)

    return run.attempt(work)


def rows(instance: WaferInstance, run: Run) -> Termination:
    """The best single row, then folded rows (:mod:`chipmap.heuristics.wafer.rows.single_row`)."""
    return _only(instance, run, Link("rows", 1.0, _rows))


def to_and_fro(instance: WaferInstance, run: Run) -> Termination:
    """Rows to and fro alone (:mod:`chipmap.heuristics.wafer.rows.snakes`)."""
    return _only(instance, run, Link("snakes", 1.0, cuts.to_and_fro))


def by_counts(instance: WaferInstance, run: Run) -> Termination:
    """Counted cuts alone (:mod:`chipmap.heuristics.wafer.slicing.counted`)."""
    return _only(instance, run, Link(COUNTED, 1.0, cuts.by_counting))


def by_wires(instance: WaferInstance, run: Run) -> Termination:
    """Wired cuts alone (:mod:`chipmap.heuristics.wafer.slicing.wired`)."""
    return _only(instance, run, Link(WIRED, 1.0, cuts.by_wiring))


def by_rings(instance: WaferInstance, run: Run) -> Termination:
    """Rings round a hub alone (:mod:`chipmap.heuristics.wafer.slicing.rings`)."""
    return _only(instance, run, Link(RINGS, 1.0, cuts.by_rings))


def by_fixed_boxes(instance: WaferInstance, run: Run) -> Termination:
    """Rows to and fro, then fixed boxes from these (:mod:`chipmap.heuristics.wafer.slicing.fixed`)."""

    def work(state: WaferChainState, turn: Turn) -> None:
        cuts.to_and_fro(state, turn)
        cuts.fixed(state, turn)

    return _only(instance, run, Link(FIXED, 1.0, work))


def exchanges(instance: WaferInstance, run: Run) -> Termination:
    """What searches large instances, on any: annealing of who takes which box."""

    def work(state: WaferChainState, turn: Turn) -> None:
        state.large = True
        _search(state, turn)

    return _only(instance, run, Link("exchanges", 1.0, work))


def search(instance: WaferInstance, run: Run) -> Termination:
    """Annealing of slicing trees with the target time (:mod:`chipmap.heuristics.wafer.slicing.annealing`)."""
    return _only(instance, run, Link("search", 1.0, _search))


def bounds(instance: WaferInstance, run: Run) -> Termination:
    """Every lower bound that applies, each under its own name; no floorplan is looked for."""
    if not special(instance):
        return _only(instance, run, LARGEST, Link("bounds", 1.0, _bounds))

    def work() -> None:
        """Those of every kernel alone on the free tiles, then those of the instance without what is special."""
        problem = wafer_problem(instance)
        sized(problem, run)
        follow([Link("bounds", 1.0, specials.bounds)], problem, Turn(run, run.deadline))

    return run.attempt(work)


def _only(instance: WaferInstance, run: Run, *links: Link) -> Termination:
    def work() -> None:
        problem = formulas_only(instance)
        sized(problem, run)
        follow(links, WaferChainState(problem, run.options.seed), Turn(run, run.deadline))

    return run.attempt(work)


def _cu_poker(state: WaferChainState, turn: Turn) -> None:
    """The baseline's rows: a start from which the search gets further than from its own."""
    from chipmap.heuristics.wafer.published.cu_poker import Placer, TimeSearch

    placer = Placer(state.problem)
    TimeSearch(placer, state.seed, turn.deadline, lambda found: state.in_rows(turn, found.placements, "CU.POKer")).run()


def _rows(state: WaferChainState, turn: Turn) -> None:
    """The best single row, then folded rows."""
    from chipmap.heuristics.wafer.rows.single_row import rows

    rows(state.problem, turn.deadline, lambda _, placements: state.in_rows(turn, placements, "row program"))


def _search(state: WaferChainState, turn: Turn, seed: int = 0, start: WaferSolution | None = None) -> None:
    """Annealing of slicing trees with the target time, from ``start`` or else the slicing program's floorplan.

    Of large instances: annealing of who takes which box.
    """
    from chipmap.heuristics.wafer.slicing.annealing import search
    from chipmap.heuristics.wafer.slicing.exchange import exchange

    runs = None if turn.run.clocked else UNLIMITED_RUNS
    source = "exchanges" if state.large else "slicing search"

    def found(solution: WaferSolution) -> None:
        turn.solution(solution, source)

    if state.large:
        exchange(state.problem, state.seed + seed, turn.deadline, found, runs)
    else:
        search(state.problem, state.seed + seed, turn.deadline, found, runs, start)


def _search_rows(state: WaferChainState, turn: Turn) -> None:
    """The search from the best floorplan in rows."""
    _search(state, turn, 0, state.start())


def _other_seeds(state: WaferChainState, turn: Turn, lane: int = 0) -> None:
    """Searches from other seeds, every second one, and neighbourhoods between them, for the rest of the time."""
    if not turn.run.clocked or state.problem.n == 1:
        return
    seed = lane
    while turn.deadline.keep_going():
        seed += 2
        _search(state, turn, seed, state.start())
        _neighbourhoods(state, turn, seed)
        answer(state.problem, turn, state.seed + seed)


def _exactly(state: WaferChainState, turn: Turn, share: float) -> None:
    """The CP-SAT model of the whole fabric. Where it is too large, a word about it."""
    try:
        whole(state.problem, turn, share)
    except InputError as error:
        turn.run.note("left out", f"cpsat: {error}")


def _adapters(state: WaferChainState, turn: Turn) -> None:
    """The fewest adapters within the best floorplan's boxes."""
    from chipmap.heuristics.wafer.adapters import fewest_adapters

    best = state.best(turn.run)
    if best is not None and state.problem.instance.weights.adapter:
        time = evaluate(state.problem, in_order(state.problem, best)).time
        state.fewest = fewest_adapters(state.problem, best, time)
        turn.solution(state.fewest, "adapters")


def _neighbourhoods(state: WaferChainState, turn: Turn, seed: int = 0) -> None:
    """CP-SAT neighbourhoods of the best floorplan."""
    best = state.best(turn.run)
    if best is not None and not state.large:
        end = replace(turn.deadline, until=turn.deadline.until - MARGIN)
        search_neighbourhoods(turn.run, state.problem, best, end, lambda better: turn.solution(better, SOURCE), seed)


def _path_bound(state: WaferChainState, turn: Turn) -> None:
    """The bound of graphs that are a path, by their row program."""
    from chipmap.heuristics.wafer.rows.single_row import RowProgram, path_bound
    from chipmap.heuristics.wafer.slicing.sizing import Sizing

    program = RowProgram(state.problem)
    if program.exact and not state.path_bound:
        value = path_bound(program, turn.deadline, max(1, Sizing(state.problem).area_time()))
        turn.bound(value, "path program")
        state.path_bound = turn.deadline.keep_going()


def _largest(state: WaferChainState, turn: Turn) -> None:
    """Times that are too short for the largest kernels alone; the search for bounds leaves them out."""
    from chipmap.methods.wafer.large import too_short

    least = state.bounds.begin(turn.deadline)
    if (short := too_short(state.problem, least, turn)) >= least:
        state.bounds.exclude(short)
        if state.bounds.least <= state.problem.longest:  # else there is no floorplan, as the search for bounds will say
            turn.bound(state.problem.instance.weights.time * state.bounds.least, LARGEST.name)


def _bounds(state: WaferChainState, turn: Turn) -> None:
    """Lower bounds, with the incumbent of the moment as the score to beat."""
    from chipmap.heuristics.wafer.bounds.score import FINEST, NoFloorplanError

    _path_bound(state, turn)
    state.bounds.finest = FINEST if turn.run.clocked else 0
    try:
        state.bounds.go_on(turn.run.upper, turn.deadline, turn.bound)
    except NoFloorplanError:
        turn.infeasible(no_floorplan(state.problem, turn.run))
        turn.deadline.check()


def _open(problem: WaferProblem, turn: Turn) -> None:
    """Floorplans of a part of the fabric without obstacles; bounds and the run's best floorplan are of the whole."""
    follow(OPEN, WaferChainState(problem, turn.run.options.seed), turn)


#: Before bounds have their long turn.
LARGEST = Link("large kernels", 0.15, _largest)
#: Bounds before the links that take longest.
EARLY, LATER = Link("bounds", 0.1, _bounds), Link("bounds", 0.2, _bounds)
#: A floorplan at any time, where greedy rows have found none.
ANSWER = Link("any floorplan", 0.3, lambda state, turn: answer(state.problem, turn, state.seed))
#: What takes little time, whatever is left.
QUICK: tuple[Link, ...] = (
    ANSWER,
    Link("snakes", 0.15, cuts.to_and_fro),
    Link(WIRED, 0.25, cuts.by_wiring),
    Link(RINGS, 0.15, cuts.by_rings),
)
#: Floorplans where adapters cost nothing. The search goes on from the best rows, and it is the better the better they
#: are.
WIRES: tuple[Link, ...] = (
    *QUICK,
    Link(COUNTED, 0.2, cuts.by_counting),
    Link("CU.POKer", 0.15, _cu_poker),
    Link("rows", 0.2, _rows),
    LARGEST,
    LATER,
    Link(FIXED, FIXED_SHARE, cuts.fixed),
    Link("search", 0.7, _search_rows),
)
#: Where adapters cost, rows find what no search does. Folded rows may take half of the time, so that short rows and
#: bounds come before.
ADAPTERS: tuple[Link, ...] = (
    *QUICK,
    Link("rows", 0.05, _rows),
    EARLY,
    Link(COUNTED, 0.2, cuts.by_counting),
    Link("rows", 0.5, _rows),
    LARGEST,
    LATER,
    Link(FIXED, FIXED_SHARE, cuts.fixed),
    Link("search", 0.7, _search_rows),
    Link("adapters", 1.0, _adapters),
)
#: On the largest free rectangle of a fabric with obstacles (:mod:`chipmap.methods.wafer.special`).
OPEN: tuple[Link, ...] = (
    Link("snakes", 0.15, cuts.to_and_fro),
    Link(COUNTED, 0.2, cuts.by_counting),
    Link("rows", 0.3, _rows),
    Link("search", 1.0, _search_rows),
)
#: Of large instances.
LARGE: tuple[Link, ...] = (
    ANSWER,
    Link("exchanges", 0.1, _search),
    LARGEST,
    LATER,
    Link("exchanges", 0.9, lambda state, turn: _search(state, turn, 1)),
    Link("adapters", 1.0, _adapters),
)
#: What follows one of these in a lane that others prove bounds beside.
AFTER: tuple[Link, ...] = (Link("neighbourhoods", 1.0, _neighbourhoods), Link("other seeds", 1.0, _other_seeds))
#: The lane beside it: bounds, then a search from the slicing program's floorplan.
PROOFS: tuple[Link, ...] = (
    LARGEST,
    Link("bounds", 0.6, _bounds),
    Link("search", 1.0, lambda state, turn: _search(state, turn, 1)),
    Link("other seeds", 1.0, lambda state, turn: _other_seeds(state, turn, 1)),
)
#: With one lane only: what comes before and after one of these.
FIRST: tuple[Link, ...] = (Link("first bounds", 0.02, _bounds), Link("path bound", 0.05, _path_bound))
LAST: tuple[Link, ...] = (
    Link("neighbourhoods", 0.4, _neighbourhoods),
    Link("bounds", 1.0, _bounds),
    Link("other seeds", 1.0, _other_seeds),
)


def links_of(state: WaferChainState) -> tuple[Link, ...]:
    """The list of links that look for floorplans, with bounds between them."""
    return LARGE if state.large else ADAPTERS if state.problem.instance.weights.adapter else WIRES


def floorplans_of(state: WaferChainState) -> tuple[Link, ...]:
    """The same without bounds."""
    return tuple(link for link in links_of(state) if link not in (EARLY, LARGEST, LATER))


#: Small fabrics: the model first, from a better floorplan once more, and what is left for bounds and the others. The
#: second solve begins anew. Its share is large and what comes before it short, so that what `wafer/cpsat` proves is
#: proved here in at most twice the time.
SMALL: tuple[Link, ...] = (
    Link("cpsat", 0.1, lambda state, turn: _exactly(state, turn, 0.1)),
    Link("floorplans", 0.12, lambda state, turn: follow(floorplans_of(state), state, turn)),
    Link("cpsat", 0.95, lambda state, turn: _exactly(state, turn, 0.75)),
    Link("bounds", 0.5, _bounds),
    Link("neighbourhoods", 1.0, _neighbourhoods),
    Link("other seeds", 1.0, _other_seeds),
)
