"""Whether family ``ring`` has a mapping within a target, asked of CP-SAT alone."""

from __future__ import annotations

from typing import Literal

from chipmap.formulations.ring.cpsat import RingCpChoices, build
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.models import decision
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest


def refute(
    subject: RingInstance | RingProblem,
    target: int,
    *,
    time_limit: float,
    threads: int | None = None,
    tighten: Literal["windows", "none"] = "windows",
) -> RingSolution | Literal["infeasible", "unknown"]:
    """A solution with objective <= ``target`` ticks; ``"infeasible"``: proved that none has it; ``"unknown"``.

    ``subject`` is taken as it is: contract it first. ``tighten="none"`` leaves out station windows and redundant rows,
    so that only the constraints of the page and CP-SAT speak. ``time_limit`` in seconds.
    """
    problem = subject if isinstance(subject, RingProblem) else ring_problem(subject)
    if tighten == "windows":
        model = decision(problem, target)
    else:
        model = build(problem.instance, RingCpChoices(objective="feasible", cuts=(), upper=target))
    if model is None:
        return "infeasible"
    outcome = solve_model(model, SolveRequest(time_limit=time_limit, threads=threads))
    if outcome.value_of is not None:
        solution: RingSolution = model.decode(outcome.value_of)
        return solution
    return "infeasible" if outcome.termination.reason == "infeasible" else "unknown"
