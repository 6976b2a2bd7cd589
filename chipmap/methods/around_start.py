"""A restricted model round the start of a run, in any family: what a person, a heuristic or a learned policy proposed.

The start is the run's best solution (``--warm-start``), or what the family begins with where there is none, so that no
run ends worse than its start. What the model leaves out may hold the optimum: it is a restriction, whose bound and
proof of infeasibility don't count (:class:`chipmap.family.Standing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chipmap.family import Model
from chipmap.methods.model_solve import Finds, conclude, solve_within
from chipmap.records import Record
from chipmap.result import Termination
from chipmap.run import Run


@dataclass(frozen=True)
class Around:
    """A restricted model and ``start``, the solution of its instance that it is stated round.

    ``lift`` makes a solution of the run's instance from one of the model's. ``cut`` adds to the model what has become
    known since it was asked last, and says whether there was anything: then it is solved again.
    """

    model: Model
    start: Record
    lift: Callable[[Any], Record] = lambda solution: solution
    cut: Callable[[], bool] = lambda: False


def near_start(
    run: Run, source: str, begin: Callable[[], object], state: Callable[[Record], Around], anew: bool = False
) -> Termination:
    """Solve the model that ``state`` makes of the run's best solution; without one, or ``anew``, of the one that
    ``begin`` finds."""

    def work() -> None:
        """Find a start, then solve the model round it until no cut is new."""
        if run.best is None or anew:
            begin()
        run.checkpoint()
        if run.best is None:
            return
        around = state(run.best.solution)
        around.cut()
        while True:
            outcome = solve_within(run, around.model, Finds(source, around.lift), around.start)
            if outcome.termination.limit != "none" or not around.cut():
                break
            run.checkpoint()
        conclude(run, outcome, source)

    return run.attempt(work)
