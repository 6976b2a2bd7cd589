"""Solving within an explanation: an instance by its best chain, or as if its pipeline were always full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chipmap.certificate import Certificate
from chipmap.explaining.dataflow.spent import spent
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.methods.dataflow.cases import Choices, DegreesCase, solve_each
from chipmap.methods.dataflow.chain import auto, solve_degrees
from chipmap.methods.dataflow.stages import UnfitError
from chipmap.result import Termination
from chipmap.run import Run

Check = Callable[[Any, Any], Certificate]


def solve(instance: DataflowInstance, run: Run, bubble: bool) -> Termination:
    """The best chain; without ``bubble`` that of the batch as if no stage ever waited for another."""
    return auto(instance, run) if bubble else run.attempt(lambda: _full(instance, run))


def without_bubble(check: Check) -> Check:
    """A checker that leaves the bubble out of the objective, and what updates fill of it; all else is ``check``'s."""

    def checked(instance: Any, solution: Any) -> Certificate:
        certificate = check(instance, solution)
        if not certificate.feasible or certificate.objective is None or not isinstance(solution, DataflowSolution):
            return certificate
        parts = spent(instance, solution, certificate.terms)
        return certificate.replace(objective=certificate.objective - parts.bubble + parts.filled)

    return checked


def _full(instance: DataflowInstance, run: Run) -> None:
    """Every choice of degrees and plan, by the exact programs, with the bubble left out of the batch's time.

    Bounds are those of the programs; a choice that is too much for them keeps the bound of its kernels one by one.
    """
    todo = Choices(instance, handovers=True, bubble=False)
    if todo.least is None:
        return
    run.bound(todo.least, "all FLOP")

    def solve(case: DegreesCase, others: list[int], _: int) -> list[int]:
        """The bound at one choice of degrees: its optimum, or what is known where that takes too long."""
        run.bound(min([case.bound, *others]), "kernels one by one")
        try:
            ticks = solve_degrees(case.problem, run)
        except TooWideError:
            ticks = case.bound
        except UnfitError as error:
            ticks = error.bound
        return [] if ticks is None else [ticks]

    proved = solve_each(todo, run, solve)
    if proved:
        run.bound(min(proved), "program over ideals")
