"""The methods of family ``multimodel`` for objective ``frames``: what the names of methods mean there."""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.heuristics.multimodel.frames.bounds import dropped_at_once, dropped_by_utilisation, most_met
from chipmap.heuristics.multimodel.frames.packing import Packing
from chipmap.heuristics.multimodel.frames.search import MOVES, FrameSearch, State
from chipmap.heuristics.multimodel.frames.timetable import solution, timetable
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.pinned import narrowed
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.model_solve import Limits, solve_whole
from chipmap.methods.multimodel.reasons import clash
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

#: Layers times chiplets, and frames times chiplets, up to which CP-SAT has a turn.
PLACES, RUNS = 120, 120
#: Of packing: shares of the chiplets' time that frames are counted for, and that they may use; moves of each; how often
#: all are tried before each round of annealing.
SHARES = ((1.0, 0.94), (0.97, 0.97), (0.94, 0.94), (0.91, 0.92))
PACKING, PACKED = 6_000, 2
#: Rounds of annealing without a time limit; each has twice the moves of the one before.
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Task:
    """What the links of a chain work on."""

    problem: MultiProblem
    search: FrameSearch

    @property
    def small(self) -> bool:
        """Whether CP-SAT has a turn."""
        layers, chiplets = sum(model.layers for model in self.problem.models), self.problem.chiplets
        return layers * chiplets <= PLACES and len(self.search.rated.frames) * chiplets <= RUNS


def rated(instance: MultiInstance) -> bool:
    """Whether frames are asked for."""
    return instance.task.objective == "frames"


def refuse(instance: MultiInstance, method: str) -> None:
    """Raise :class:`InputError` where frames are asked for and the method doesn't know them."""
    if rated(instance):
        remedy = "Take multimodel/auto, whole, search, cpsat, mip or bounds, or another task.objective."
        raise InputError(f"multimodel/{method} doesn't know objective frames", "task.objective", remedy)


def told(task: Task, turn: Turn, state: State, source: str) -> None:
    """Hand over a state."""
    turn.solution(solution(task.search.rated, state.mapping, state.starts), source)


def edf(task: Task, turn: Turn) -> None:
    """Whole models, frames by their deadlines: what is refused (C6) or doesn't fit (C5) is left out."""
    whole, known = task.search.whole(), task.search.rated
    if whole is not None:
        turn.solution(solution(known, whole, timetable(known, whole, known.by_deadline)), "earliest deadline first")


def at_once(task: Task, turn: Turn) -> None:
    """The bound by the least latency of frames."""
    turn.bound(dropped_at_once(task.search.rated), "least latency of frames")


def utilisation(task: Task, turn: Turn) -> None:
    """The bound by utilisation."""
    turn.bound(dropped_by_utilisation(task.search.rated), "utilisation")


def packed(task: Task, turn: Turn, best: State, seed: int) -> State:
    """The best state of mappings packed by loads alone, for the frames that shares of the chiplets' time allow.

    Each begins from drawn segments, or with seed 0 from the best mapping."""
    search = task.search
    for share, room in SHARES:
        _, counts = most_met(search.rated, share)
        begin = (search.spread() if seed else None) or list(best.mapping)
        packing = Packing(search, counts, room, begin, turn.run.options.seed + seed)
        packing.run(PACKING, turn.deadline)
        turn.deadline.check()
        found = search.state(packing.mapping, packing.order(), sum(counts))
        if found.value < best.value:
            told(task, turn, found, "packing")
            best = found
        if best.dropped == 0:
            break
    return best


def anneal(task: Task, turn: Turn) -> None:
    """Packing, and rounds of annealing, each longer, until the bound is met or the time is up."""
    search, number = task.search, 0
    best = search.first()
    if best is None:
        return
    told(task, turn, best, "annealing")
    while not turn.run.closed and best.dropped and (number < ROUNDS or turn.run.clocked):
        for seed in range(PACKED):
            if best.dropped:
                best = packed(task, turn, best, PACKED * number + seed)
        for better in search.run(best, turn.deadline, MOVES * 2 ** min(number, 5)):
            told(task, turn, better, "annealing")
            best = better
        turn.deadline.check()
        number += 1


def cpsat_if_small(task: Task, turn: Turn) -> None:
    """The CP-SAT model of a small instance."""
    if task.small:
        by_cpsat(task, turn)


def by_cpsat(task: Task, turn: Turn) -> None:
    """The CP-SAT model."""
    from chipmap.formulations.multimodel.cpsat import build

    run, problem = turn.run, task.problem
    model = build(problem.instance)
    solve_whole(run, model, "cpsat", lambda: clash(problem, run), Limits(deadline=turn.deadline))


def by_mip(task: Task, turn: Turn) -> None:
    """The MIP."""
    from chipmap.formulations.multimodel.mip import build

    run, problem = turn.run, task.problem
    solve_whole(run, build(problem.instance), "mip", lambda: clash(problem, run))


EDF = Link("earliest deadline first", 1.0, edf)
BOUNDS = (Link("least latency", 1.0, at_once), Link("utilisation", 0.3, utilisation))
SEARCH = Link("search", 1.0, anneal)
#: Links by what a method is called in other objectives.
LINKS: dict[str, tuple[Link, ...]] = {
    "auto": (EDF, *BOUNDS, Link("cpsat", 1.0, cpsat_if_small), SEARCH),
    "whole": (EDF,),
    "search": (EDF, SEARCH),
    "cpsat": (Link("cpsat", 1.0, by_cpsat),),
    "mip": (Link("mip", 1.0, by_mip),),
    "bounds": BOUNDS,
}


def chain(instance: MultiInstance, run: Run, method: str) -> Termination:
    """Follow the links of a method."""
    return run.attempt(lambda: follow(LINKS[method], *_begun(instance, run)))


def _begun(instance: MultiInstance, run: Run) -> tuple[Task, Turn]:
    problem = narrowed(multi_problem(instance))
    return Task(problem, FrameSearch(problem, run.options.seed)), Turn(run, run.deadline)
