"""The solvers, on one contract: a :class:`~chipmap.solvers.outcome.SolveRequest` in, an Outcome out.

Importing this package imports no solver; each is imported when it is first asked to solve.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chipmap.family import Model
from chipmap.records import InputError
from chipmap.result import Limit
from chipmap.solvers.availability import KINDS, require
from chipmap.solvers.outcome import Outcome, OutOfTime, SolveRequest, TriviallyInfeasible
from chipmap.solvers.session import Session

__all__ = ["infeasible_labels", "solve_model"]


def solve_model(model: Model, request: SolveRequest, solver: str | None = None) -> Outcome:
    """Solve ``model`` with ``solver`` (default: HiGHS for a ``mip``, CP-SAT for a ``cpsat`` model).

    ``outcome.objective`` and ``bound`` are of the minimised objective; a maximised one is negated. Raises
    :class:`InputError` for a solver that doesn't take this kind of model, :class:`SolverUnavailableError` for one that
    is missing, has no licence, or is known to be wrong.
    """
    name, adapter = _adapter(model, solver)
    session = Session(name, request)
    try:
        return session.conclude(adapter.solve(model, session))
    except TriviallyInfeasible as finding:
        return session.conclude(("infeasible", "none", str(finding)), (finding.label,))
    except OutOfTime:
        limit: Limit = "time" if session.remaining == 0.0 else "interrupted"
        return session.conclude(("stopped", limit, "while the model was lowered"))


def infeasible_labels(model: Model, request: SolveRequest, solver: str | None = None) -> tuple[str, ...]:
    """Labels of constraints that can't hold together in an infeasible ``model``; () when none were found in time."""
    name, adapter = _adapter(model, solver)
    try:
        labels: tuple[str, ...] = adapter.infeasible_labels(model, Session(name, request))
        return labels
    except TriviallyInfeasible as finding:
        return (finding.label,)
    except OutOfTime:
        return ()


def _adapter(model: Model, solver: str | None) -> tuple[str, Any]:
    """The solver's name and its module: ``solve(model, session) -> Verdict`` and ``infeasible_labels``."""
    fitting = [name for name, kinds in KINDS.items() if model.kind in kinds]
    name = solver or fitting[0]
    require(name)
    if name not in fitting:
        what = f"solver {name!r} doesn't take a {model.kind} model"
        raise InputError(what, "--solver", f"Choose from: {', '.join(fitting)}.")
    if model.kind == "mip":
        _import_little()
    return name, import_module(f"chipmap.solvers.{name}")


def _import_little() -> None:
    """Keep Pyomo from importing statistics, integration and geometry along with scipy's sparse matrices.

    No model needs them, and they take longer than a tiny solve. Where Pyomo doesn't keep what it calls once scipy is
    imported, or has called it, nothing changes.
    """
    from pyomo.common import dependencies

    known: Any = getattr(dependencies, "scipy_available", None)
    if getattr(known, "_callback", None) is not None:
        known._callback = None
