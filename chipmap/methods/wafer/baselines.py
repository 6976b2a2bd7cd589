"""The placers of the published comparison as methods: CU.POKer and the two it was measured against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import WaferProblem, formulas_only
from chipmap.methods.wafer.greedy import report, sized
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.wafer.published.cu_poker import Found


def poker(instance: WaferInstance, run: Run) -> Termination:
    """CU.POKer (:mod:`chipmap.heuristics.wafer.published.cu_poker`)."""
    return run.attempt(lambda: _poker(instance, run, each=False))


def poker_each(instance: WaferInstance, run: Run) -> Termination:
    """CU.POKer refined and annealed at every target time instead of once at the end, with c of any size."""
    return run.attempt(lambda: _poker(instance, run, each=True))


def _poker(instance: WaferInstance, run: Run, each: bool) -> None:
    from chipmap.heuristics.wafer.published.cu_poker import Placer, TimeSearch

    problem, hear = _begin(instance, run, "CU.POKer, refined at each target" if each else "CU.POKer")
    search = TimeSearch(Placer(problem, within=not each), run.options.seed, run.deadline, hear, each, anneal=each)
    if search.run() is None:
        run.note("left out", "no target time lets the rows fit the fabric")


def annealing(instance: WaferInstance, run: Run) -> Termination:
    """Annealing on twin binary sequences (:mod:`chipmap.heuristics.wafer.published.twin_binary`)."""

    def work() -> None:
        from chipmap.heuristics.wafer.published.twin_binary import twin_binary

        problem, hear = _begin(instance, run, "annealing on twin binary sequences")
        twin_binary(problem, run.options.seed, run.deadline, hear)

    return run.attempt(work)


def divide(instance: WaferInstance, run: Run) -> Termination:
    """The divide-and-conquer slicing placer (:mod:`chipmap.heuristics.wafer.published.divide`)."""

    def work() -> None:
        from chipmap.heuristics.wafer.published.divide import divide as part

        problem, hear = _begin(instance, run, "divide and conquer")
        part(problem, run.deadline, hear)

    return run.attempt(work)


def _begin(instance: WaferInstance, run: Run, source: str) -> tuple[WaferProblem, Callable[[Found], None]]:
    """Every kernel by itself; the problem, and what hears the floorplans of a placer."""
    problem = formulas_only(instance)
    sized(problem, run)
    return problem, lambda found: report(problem, run, found.placements, source)
