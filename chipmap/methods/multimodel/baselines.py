"""Published ways to schedule several models, as methods to compare with: standalone, Simba-like, SCAR.

None of them gives a bound. What they can't do on an instance becomes a note; limits (C4) they don't know, so that the
checker may refuse what they find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chipmap.deadline import Stop
from chipmap.heuristics.multimodel.baselines import classes, whole_models
from chipmap.heuristics.multimodel.tables.paths import MOST_CHIPLETS as MOST_LISTED
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, schedule
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.frames import refuse
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.multimodel.published.scar import Scar

#: SCAR's default number of splits (five windows).
SPLITS = 4
#: Rounds of the evolutionary search within a time limit, and chiplets up to which it has one.
MOST_ROUNDS, LARGE = 1_000, 9
#: Chiplets that SCAR's search can count (bits of a word).
MOST_CHIPLETS = 62
#: Share of its turn in a chain that it has on more than MOST_LISTED chiplets.
LARGE_PART = 0.2


def standalone(instance: MultiInstance, run: Run) -> Termination:
    """Each model whole, on one chiplet of a class; the better class counts."""
    refuse(instance, "standalone")

    def work() -> None:
        """Try each class of chiplets in turn."""
        problem = multi_problem(instance)
        for kind, chiplets in classes(problem):
            windows = whole_models(problem, chiplets)
            if windows is None:
                run.note("left out", f"standalone on {kind}: a model fits on none of its chiplets, or windows run out")
            else:
                run.solution(schedule(problem, windows), f"standalone on {kind}")

    return run.attempt(work)


def simba(instance: MultiInstance, run: Run) -> Termination:
    """SCAR's search on the chiplets of one class, as on a homogeneous module; the better class counts."""
    refuse(instance, "simba")

    def work() -> None:
        """Search once, or with further seeds while there is time."""
        problem, turn = multi_problem(instance), Turn(run, run.deadline)
        for kind, chiplets in classes(problem):
            _search(problem, turn, _splits(problem)[-1:], f"Simba-like on {kind}", chiplets)

    return run.attempt(work)


def scar(instance: MultiInstance, run: Run) -> Termination:
    """SCAR's search with four splits (fewer where fewer windows are allowed)."""
    refuse(instance, "scar")
    problem = multi_problem(instance)
    return run.attempt(lambda: _search(problem, Turn(run, run.deadline), _splits(problem)[-1:], "SCAR"))


def scar_best(instance: MultiInstance, run: Run) -> Termination:
    """SCAR's search with each number of splits from none to four; the best counts."""
    refuse(instance, "scar-best")
    problem = multi_problem(instance)
    return run.attempt(lambda: _search(problem, Turn(run, run.deadline), _splits(problem), "SCAR"))


def scar_evolutionary(instance: MultiInstance, run: Run) -> Termination:
    """SCAR's evolutionary search with four splits.

    On modules that it is meant for, of more than ``LARGE`` chiplets, a time limit is used up with other seeds.
    """
    refuse(instance, "scar-evolutionary")

    def work() -> None:
        from chipmap.heuristics.multimodel.published.scar import Evolution

        problem, turn = multi_problem(instance), Turn(run, run.deadline)
        again = run.clocked and problem.chiplets > LARGE
        for round_ in range(MOST_ROUNDS if again else 1):
            search = Evolution(problem, run.deadline, run.options.seed + round_)
            _report(problem, turn, search, _splits(problem)[-1], "SCAR's evolutionary search")

    return run.attempt(work)


def scar_start(problem: MultiProblem, turn: Turn) -> None:
    """The link of a chain: the schedules of SCAR's search with each number of splits, the fewest first.

    It doesn't know pins (C6): with them its turn passes. On a module whose paths are too many to list it has a part of
    its turn, as annealing is better there within seconds."""
    if problem.chiplets <= MOST_CHIPLETS and problem.allowed is None:
        few = problem.chiplets <= MOST_LISTED
        _search(problem, turn if few else turn.share(LARGE_PART), _splits(problem), "SCAR")


def _splits(problem: MultiProblem) -> range:
    return range(min(SPLITS, problem.instance.task.windows - 1) + 1)


def _search(
    problem: MultiProblem, turn: Turn, splits: Iterable[int], source: str, chiplets: Sequence[int] | None = None
) -> None:
    from chipmap.heuristics.multimodel.published.scar import Scar

    if problem.chiplets > MOST_CHIPLETS:
        remedy = f"Take another method, or a module of at most {MOST_CHIPLETS} chiplets."
        raise InputError(f"SCAR's search can't count {problem.chiplets} chiplets", "module.chiplets", remedy)
    search = Scar(problem, turn.deadline, chiplets)
    for count in splits:
        _report(problem, turn, search, count, source)


def _report(problem: MultiProblem, turn: Turn, search: Scar, splits: int, source: str) -> None:
    words = f"{source}, {splits} splits"
    plain = search.windows(splits, plain=True)
    try:
        windows = search.windows(splits)
    except Stop:
        if plain is not None and turn.run.best is None:
            turn.solution(schedule(problem, plain), f"{words}, cut short: a chiplet per model")
        raise
    if windows is None:
        turn.run.note("left out", f"{words}: {search.reason}")
    else:
        turn.solution(schedule(problem, windows), words)
    if search.cut_short:
        turn.run.note("search", f"{source}: not all layouts of a window were tried")
