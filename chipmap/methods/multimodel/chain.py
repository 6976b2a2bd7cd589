"""The methods of family ``multimodel``: what ``--method`` names.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.heuristics.multimodel.starts import packed
from chipmap.heuristics.multimodel.tables.paths import MOST_CHIPLETS
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, small
from chipmap.instances.multimodel.pinned import narrowed
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, placed, schedule, unshared
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import side_by_side
from chipmap.methods.model_solve import Finds, Limits, solve_whole, solve_within
from chipmap.methods.multimodel.baselines import scar_start
from chipmap.methods.multimodel.energies import model_by_energies
from chipmap.methods.multimodel.frames import chain as chain_of_frames
from chipmap.methods.multimodel.frames import rated, refuse
from chipmap.methods.multimodel.latest import Latest
from chipmap.methods.multimodel.pins import Obeying, grouped, search_groups, start_pinned
from chipmap.methods.multimodel.programs import column_bounds, columns, numbers_alone
from chipmap.methods.multimodel.reasons import clash
from chipmap.methods.multimodel.refutation import SingleModels, above_limits, limited
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.multimodel.annealing.search import Windows

#: EDP's weights for the MIP around the incumbent's T2 / T1, and the share of the time that is left for each.
RATES, SLICE = (1.0, 0.5, 2.0, 0.25, 4.0), 0.4
#: Weights of the linear program after these, each where the bound on EDP is smallest.
CORNERS = 4
#: Rounds of annealing without a time limit.
ROUNDS = 8
#: Places (layers · windows · chiplets) up to which CP-SAT has a turn, and up to which it comes before the columns.
SMALL, TINY = 2_000, 300
#: Shares of the time: for the best single window, where more are allowed; for the first rounds of annealing; for the
#: columns; for CP-SAT on a small module.
ONE_WINDOW, FIRST, COLUMNS, MODEL = 0.1, 0.1, 0.6, 0.5
#: Rounds of annealing before the columns, which leave out what is worse than the best schedule.
EARLY = 2


def start(problem: MultiProblem, turn: Turn) -> None:
    """Whole models, or where these don't fit, as many layers on each chiplet as do."""
    windows = whole_models(problem)
    if grouped(problem):
        start_pinned(problem, turn)
    elif windows is not None:
        turn.solution(schedule(problem, windows), "whole models")
    elif (windows := packed(problem)) is not None:
        turn.solution(schedule(problem, windows), "full chiplets")


def least_of_energy(problem: MultiProblem, turn: Turn) -> None:
    """The least energy alone, which ends with a proof wherever models find windows or chiplets of their own."""
    from chipmap.heuristics.multimodel.energy import Energy

    if problem.instance.task.objective == "energy":
        program = Energy(problem)
        turn.bound(problem.powered(least_time(problem), program.bound), "least energy")
        windows = program.schedule()
        if windows is not None:
            turn.solution(schedule(problem, windows), "least energy")


def bound_by_weights(problem: MultiProblem, turn: Turn) -> None:
    """The linear program over any number of windows, for weights around T2 / T1 of the incumbent."""
    from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, Line, bound, corner

    program, lines = AnyWindows(problem), list[Line]()
    time, energy = program.least
    if turn.run.best is not None:
        found = turn.run.best.certificate.terms
        time, energy = found["T1"], found["T2"]
    for factor in RATES if problem.instance.task.objective == "edp" else RATES[:1]:
        turn.deadline.check()
        turn.bound(bound(program, lines, factor * energy / max(1, time)), "any number of windows")
        if reasons := above_limits(problem, lines):
            turn.infeasible(*reasons)
            turn.deadline.check()
    for _ in range(CORNERS if problem.instance.task.objective == "edp" else 0):
        turn.deadline.check()
        t, e = corner(lines, *program.least)
        turn.bound(bound(program, lines, e / max(1.0, t)), "any number of windows")


def single_models(problem: MultiProblem, turn: Turn) -> None:
    """Where nothing is found yet: whether a model alone breaks its deadline or a limit (C4)."""
    if turn.run.best is not None or not limited(problem.instance) or small(problem.instance):
        return
    if reasons := SingleModels(problem).refute(turn, ALONE):
        turn.infeasible(*reasons)
        turn.deadline.check()


def one_window(problem: MultiProblem, turn: Turn) -> None:
    """The best schedule of a single window; where no more are asked for, with its proof.

    Where chiplets share, it is a schedule in which they don't, and so is the bound."""
    from chipmap.heuristics.multimodel.tables.counts import module_counts
    from chipmap.heuristics.multimodel.tables.paths import module_paths
    from chipmap.heuristics.multimodel.windows.one_window import OneWindow

    run, single = turn.run, problem.instance.task.windows == 1
    if len(problem.models) > problem.chiplets:
        return
    paths = module_paths(problem) or (module_counts(problem) if single else None)
    if paths is None:
        return
    best = run.best.certificate.objective if run.best is not None else None
    for find in OneWindow(unshared(problem), paths).run(best, turn.deadline):
        if find.segments is not None:
            turn.solution(schedule(problem, [find.segments]), "one window")
        if single and find.bound == inf:
            turn.infeasible(*clash(problem, run))
            turn.deadline.check()
        elif single and find.bound is not None:
            turn.bound(int(find.bound), "one window")


def search(problem: MultiProblem, turn: Turn, most: int | None = None, tables: Latest | None = None) -> None:
    """Annealing, again and again or ``most`` rounds: from the first schedule, or from the best one so far, in turns.

    After each round the boundaries between windows move by ``tables`` for as long as it took, if there are any."""
    from chipmap.heuristics.multimodel.annealing.rounds import rounds

    if most is None and not turn.run.clocked:
        most = ROUNDS
    if grouped(problem):
        return search_groups(problem, turn, 2 if _places(problem) <= SMALL else most)
    run, first = turn.run, whole_models(problem) or packed(problem)
    if run.best is not None:
        assert isinstance(run.best.solution, MultiSolution)
        first = placed(problem, run.best.solution)
    if first is None:
        return
    known = search_one_window(problem, turn) if problem.windows > 1 else None
    began = time.monotonic()

    def between() -> Windows | None:
        nonlocal began
        if tables is not None:
            tables.boundaries(problem, turn, time.monotonic() - began)
        began = time.monotonic()
        return placed(problem, run.best.solution) if run.best is not None else None  # type: ignore[arg-type]

    for windows in rounds(problem, first, run.options.seed, turn.deadline, most, known, between):
        turn.solution(schedule(problem, windows), "annealing")


def search_alone(problem: MultiProblem, turn: Turn) -> None:
    """Annealing without proofs beside it."""
    search(problem, turn, EARLY if _places(problem) <= SMALL else None)


def first_search(problem: MultiProblem, turn: Turn) -> None:
    """A few rounds of annealing, so that the proofs may leave more out."""
    search(problem, turn, EARLY)


def search_one_window(problem: MultiProblem, turn: Turn) -> Windows | None:
    """The best of one round of annealing with a single window, where there are fewer places to look at."""
    from chipmap.heuristics.multimodel.annealing.rounds import rounds

    instance, best = problem.instance, None
    single = replace(problem, instance=instance.replace(task=instance.task.replace(windows=1)))
    first = whole_models(single) or packed(single)
    for best in rounds(single, first, turn.run.options.seed, turn.deadline, 1) if first is not None else ():
        turn.solution(schedule(problem, best), "annealing, one window")
    return best


def search_and_proof(problem: MultiProblem, turn: Turn) -> None:
    """Annealing, and the exact programs: side by side where there are two threads and a time limit, else in turns.

    On a small module the CP-SAT model takes part, which has both threads: before all others where it is tiny.
    """
    windows, last = Link("one window", ONE_WINDOW, one_window), Link("search", 1.0, search)
    few, tiny = _places(problem) <= SMALL, _places(problem) <= TINY
    model = (Link("cpsat", MODEL, model_by_cpsat),) if few else ()
    early, prove = Link("first search", FIRST, first_search), Link("columns", COLUMNS, columns)
    # a tiny module is mostly proved before the annealing is compiled
    links = (*model, early, windows, prove, last) if tiny else (early, windows, prove, *model, last)
    if small(problem.instance):  # the model proves it before the annealing is compiled
        follow((windows._replace(share=1.0),), problem, turn)
    elif problem.instance.task.windows == 1 and problem.chiplets > MOST_CHIPLETS:
        follow((early, windows._replace(share=0.5), *model, last), problem, turn)
    elif problem.instance.task.windows == 1:
        follow((windows._replace(share=1.0), *model, last), problem, turn)
    elif few or not turn.run.clocked or turn.run.options.threads == 1 or problem.allowed is not None:
        follow(links, problem, turn)
    else:
        tables = Latest()
        beside = Link("search", 1.0, partial(search, tables=tables))
        side_by_side(turn.run, problem, ((beside,), (windows, Link("columns", 1.0, partial(columns, tables=tables)))))


def _places(problem: MultiProblem) -> int:
    return sum(model.layers for model in problem.models) * problem.windows * problem.chiplets


def model_if_needed(problem: MultiProblem, turn: Turn) -> None:
    """The CP-SAT model, where kernels aren't worth loading, or where nothing is found yet."""
    if small(problem.instance) or turn.run.best is None:
        model_by_cpsat(problem, turn)


def model_by_cpsat(problem: MultiProblem, turn: Turn) -> None:
    """The CP-SAT model, from the incumbent on."""
    from chipmap.formulations.multimodel.cpsat import build

    run = turn.run
    try:
        model = build(problem.instance)
    except InputError as error:  # products beyond 64 bits
        run.note("solver", f"cpsat: {error.what}")
        return (model_by_energies if problem.instance.task.objective == "edp" else model_by_mip)(problem, turn)
    solve_whole(run, model, "cpsat", lambda: clash(problem, run), Limits(deadline=turn.deadline))


def model_by_mip(problem: MultiProblem, turn: Turn) -> None:
    """The MIP, of an EDP instance by one weight after the other."""
    from chipmap.formulations.multimodel.mip import build
    from chipmap.heuristics.multimodel.windows.any_windows import SAFE, Line, product_ticks

    run = turn.run
    if problem.instance.task.objective != "edp":
        run.checkpoint()
        return solve_whole(run, build(problem.instance), "mip", lambda: clash(problem, run))
    least, lines = (least_time(problem), least_energy(problem)), list[Line]()
    for factor in RATES:
        run.checkpoint()
        found = run.best.certificate.terms if run.best is not None else {"T1": least[0], "T2": least[1]}
        rate = max(1, round(1000 * factor * found["T2"] / max(1, found["T1"])))
        left = run.options.time_limit if run.options.deterministic else run.remaining
        seconds = None if left in (None, float("inf")) else SLICE * left
        start = run.best.solution if run.best is not None else None
        model = build(problem.instance, {"rate": rate})
        outcome = solve_within(run, model, Finds("mip"), start, Limits(seconds=seconds))
        if outcome.termination.reason == "infeasible":  # whatever is minimised: the rows are those of the instance
            run.infeasible(*clash(problem, run))
            return
        # the weighted sum's minimum is no bound on EDP; what follows from it is
        if outcome.bound is not None:
            lines.append(Line(rate / 1000, outcome.bound * (1 - SAFE)))
            run.bound(product_ticks(lines, least, problem.edp_tick), "mip weights")


def bounds(instance: MultiInstance, run: Run) -> Termination:
    """Every lower bound, no schedule."""
    return _chain(instance, run, (*CHAIN[1:3], SINGLE, Link("columns", 1.0, column_bounds)), "bounds")


def by_columns(instance: MultiInstance, run: Run) -> Termination:
    """Whole models, then columns over windows with the search over boundaries, on any module."""
    return _chain(instance, run, (CHAIN[0], Link("columns", 1.0, columns)), "columns")


def by_numbers(instance: MultiInstance, run: Run) -> Termination:
    """Bounds by numbers of chiplets alone, on any module."""
    return _chain(instance, run, (CHAIN[0], Link("numbers", 1.0, numbers_alone)), "numbers")


#: What bounds a model alone.
ALONE = (
    Link("start", 1.0, start),
    Link("weights", 0.5, bound_by_weights),
    Link("one window", 0.5, one_window),
    Link("columns", 1.0, columns),
)
SINGLE = Link("single models", 0.4, single_models)
CHAIN = (
    Link("start", 1.0, start),
    Link("energy", 1.0, least_of_energy),
    Link("weights", 0.5, bound_by_weights),
    Link("scar", 0.1, scar_start),
    SINGLE,
    Link("search and proof", 1.0, search_and_proof),
    Link("cpsat", 1.0, model_if_needed),
)


def auto(instance: MultiInstance, run: Run) -> Termination:
    """The best chain."""
    return _chain(instance, run, CHAIN, "auto")


def whole(instance: MultiInstance, run: Run) -> Termination:
    """Whole models only."""
    return _chain(instance, run, CHAIN[:1], "whole")


def annealed(instance: MultiInstance, run: Run) -> Termination:
    """Annealing from whole models; a few rounds on a small module, which they have gone through."""
    return _chain(instance, run, (CHAIN[0], Link("search", 1.0, search_alone)), "search")


def single(instance: MultiInstance, run: Run) -> Termination:
    """The best single window alone; of many chiplets by annealing."""
    refuse(instance, "one-window")
    few = len(instance.module.chiplets) <= MOST_CHIPLETS
    return _chain(instance, run, (CHAIN[0], Link("one window", 1.0, one_window if few else search_one_window)), "")


def cpsat(instance: MultiInstance, run: Run) -> Termination:
    """The CP-SAT model alone."""
    return _chain(instance, run, (Link("cpsat", 1.0, model_by_cpsat),), "cpsat")


def mip(instance: MultiInstance, run: Run) -> Termination:
    """The MIP alone."""
    return _chain(instance, run, (Link("mip", 1.0, model_by_mip),), "mip")


def _chain(instance: MultiInstance, run: Run, links: tuple[Link, ...], method: str) -> Termination:
    """Follow these links; with objective ``frames`` those that the method has there."""
    if rated(instance):
        return chain_of_frames(instance, run, method)
    problem = narrowed(multi_problem(instance))
    turn = Turn(run, run.deadline) if problem.allowed is None else Obeying(run, run.deadline, problem)
    return run.attempt(lambda: follow(links, problem, turn))
