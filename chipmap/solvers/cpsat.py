"""CP-SAT through ortools, on the native ``CpModel`` of a CP formulation.

A model may expose ``assumptions``, a dict of label -> literal that enforces the constraints of that label: a solve
holds all of them, and :func:`infeasible_labels` asks which of them can't hold together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ortools.sat.python import cp_model

from chipmap.family import Model
from chipmap.records import InputError
from chipmap.solvers.outcome import ValueOf
from chipmap.solvers.session import COMPLETION_SHARE, Session, Verdict

#: With fewer seconds left, presolve doesn't look for clauses that are exactly-one constraints: CP-SAT 9.15 doesn't look
#: at the clock in it, and takes up to one second of deterministic time (two of ours) however short the limit.
SHORT = 10.0
#: CpSolverStatus -> what it means. UNKNOWN and FEASIBLE are ends at a limit, which `_limit` names.
STATUSES: dict[str, Verdict] = {
    "OPTIMAL": ("optimal", "none", ""),
    "FEASIBLE": ("stopped", "time", ""),
    "UNKNOWN": ("stopped", "time", ""),
    "INFEASIBLE": ("infeasible", "none", ""),
    "MODEL_INVALID": ("other_error", "none", "invalid model"),
}


def solve(model: Model, session: Session) -> Verdict:
    """Solve a ``CpModel`` (minimised; a maximised objective is negated). The work limit is in deterministic seconds.

    Raises :class:`InputError` for an unknown native parameter.
    """
    native = _with_assumptions(model)
    session.rows, session.columns = len(native.proto.constraints), len(native.proto.variables)
    with _own_hints(native):
        if session.request.start is not None:
            _complete(native, session)
        completed = len(session.log)
        solver = _solver(session)
        status = _run(solver, native, session)
    verdict = STATUSES[status]
    if status == "MODEL_INVALID":
        verdict = ("other_error", "none", native.validate() or solver.solution_info())
    if verdict[0] == "stopped":
        verdict = _limit(solver, session)
    if session.start_accepted:
        # Presolve may break a symmetry that the start has: it was accepted all the same, and the session keeps it.
        session.start_accepted = "solution hint is complete and is feasible" in session.log[completed:]
    return verdict


def reader(solution: Sequence[int]) -> ValueOf:
    """Reads a variable, a negated literal or a constant in a whole solution."""

    def value_of(variable: Any) -> float:
        if isinstance(variable, int):
            return variable
        index = variable.index
        return solution[index] if index >= 0 else 1 - solution[-index - 1]

    return value_of


def kept(model: Model, values: Sequence[int], seconds: float) -> bool:
    """Whether ``values``, one for each variable and in its domain, keep all constraints; True if time is too short."""
    native = _with_assumptions(model).clone()
    _hint(native, range(len(values)), values)
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    return solver.solve(native) != cp_model.INFEASIBLE


def export_cpsat(model: Model, path: Path) -> None:
    """Write the ``CpModelProto``: text for ``.pbtxt``, binary for ``.pb``."""
    if not _with_assumptions(model).export_to_file(str(path)):
        raise InputError("can't be written", str(path), "Check the disk.")


def infeasible_labels(model: Model, session: Session) -> tuple[str, ...]:
    """Labels of the model's ``assumptions`` that can't hold together; () if it has none or time is short.

    CP-SAT's sufficient set, shrunk label by label (deletion filter) as long as time allows.
    """
    assumptions: dict[str, Any] = getattr(model, "assumptions", {})
    core = _core(model, assumptions, session) if assumptions else None
    for label in sorted(core or {}):
        if core and label in core:
            rest = {other: literal for other, literal in core.items() if other != label}
            fewer = _core(model, rest, session) if rest else None
            core = core if fewer is None else fewer
    return tuple(sorted(core or {}))


def _core(model: Model, assumptions: dict[str, Any], session: Session) -> dict[str, Any] | None:
    """A part of ``assumptions`` that suffices for infeasibility; None when these are not proved infeasible in time."""
    if session.remaining == 0.0:
        return None
    native = model.native.clone()
    native.clear_objective()  # CP-SAT takes assumptions only without one
    native.clear_hints()
    native.add_assumptions(assumptions.values())
    solver = _solver(session)
    solver.parameters.num_workers = 1
    if _run(solver, native, session, report=False) != "INFEASIBLE":
        return None
    core = set(solver.sufficient_assumptions_for_infeasibility())
    return {label: literal for label, literal in assumptions.items() if literal.index in core}


def _with_assumptions(model: Model) -> cp_model.CpModel:
    """The native model, with its assumptions (if any) held in a copy."""
    assumptions: dict[str, Any] = getattr(model, "assumptions", {})
    if not assumptions:
        native: cp_model.CpModel = model.native
        return native
    copy = model.native.clone()
    copy.add_bool_and(assumptions.values())
    return copy


@contextmanager
def _own_hints(native: cp_model.CpModel) -> Iterator[None]:
    """Lets a solve replace the model's hints, and puts the model's own back."""
    hint = native.proto.solution_hint
    before = (list(hint.vars), list(hint.values))
    try:
        yield
    finally:
        _hint(native, *before)


def _hint(native: cp_model.CpModel, indices: Sequence[int], values: Sequence[int]) -> None:
    native.clear_hints()
    native.proto.solution_hint.vars.extend(indices)
    native.proto.solution_hint.values.extend(values)


def _solver(session: Session, share: float = 1.0) -> cp_model.CpSolver:
    """A solver with all options, for a share of the time left."""
    request = session.request
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.log_search_progress = True
    parameters.log_to_stdout = False
    parameters.catch_sigint_signal = False  # the session hears Ctrl-C
    parameters.random_seed = request.seed
    parameters.relative_gap_limit = request.gap
    if session.remaining is not None:
        parameters.max_time_in_seconds = share * session.remaining
        if not request.deterministic and session.remaining < SHORT:
            parameters.find_clauses_that_are_exactly_one = False
    if session.threads is not None:
        parameters.num_workers = session.threads
    if request.work_limit is not None:
        parameters.max_deterministic_time = share * request.work_limit
    for name, value in request.native.items():
        _set_parameter(parameters, name, value)
    solver.log_callback = lambda line: session.write(line + "\n")
    return solver


def _set_parameter(parameters: cp_model.cmh.SatParameters, name: str, value: Any) -> None:
    """Set a native parameter: numbers and booleans as they are, enumerations by name, lists item by item."""
    if name.startswith("_") or not hasattr(parameters, name):
        raise InputError(f"CP-SAT has no parameter {name!r}", "native", "The list is ortools/sat/sat_parameters.proto.")
    try:
        if isinstance(value, list | tuple):
            getattr(parameters, name).extend(value)
        elif isinstance(value, str) and not isinstance(getattr(parameters, name), str):
            setattr(parameters, name, getattr(type(getattr(parameters, name)), value))
        else:
            setattr(parameters, name, value)
    except (TypeError, ValueError, AttributeError):
        remedy = "Give a value of the parameter's type; the list is ortools/sat/sat_parameters.proto."
        raise InputError(f"CP-SAT refuses {value!r} for its parameter {name!r}", "native", remedy) from None


def _sign(native: cp_model.CpModel) -> float:
    """-1 where an objective is maximised."""
    return -1.0 if native.proto.objective.scaling_factor < 0 else 1.0


class _Incumbents(cp_model.CpSolverSolutionCallback):
    """Reports each solution to the session."""

    def __init__(self, session: Session, sign: float) -> None:
        super().__init__()
        self._session, self._sign = session, sign

    def on_solution_callback(self) -> None:
        response = self.response_proto
        self._session.solution(reader(list(response.solution)), self._sign * response.objective_value)


def _run(solver: cp_model.CpSolver, native: cp_model.CpModel, session: Session, report: bool = True) -> str:
    """Run ``solver`` to its end or an interruption; the name of its status. Incumbents and bounds are reported."""
    sign = _sign(native)
    incumbents = _Incumbents(session, sign) if report else None
    if report and native.has_objective():
        solver.best_bound_callback = lambda value: session.bound(sign * value)
    status = str(session.run(lambda: solver.solve(native, incumbents), solver.stop_search).name)
    if report and status in ("OPTIMAL", "FEASIBLE"):
        session.solution(reader(list(solver.response_proto.solution)), sign * solver.objective_value)
    if report and status in ("OPTIMAL", "FEASIBLE", "UNKNOWN") and native.has_objective():
        session.bound(sign * solver.best_objective_bound)
    elif report and status == "OPTIMAL":
        session.bound(0.0)  # no objective: every solution is optimal
    return status


def _complete(native: cp_model.CpModel, session: Session) -> None:
    """Hint the whole solution that one solve with the start's variables fixed gives; nothing if there is none.

    CP-SAT can lose a hint when its limit falls in presolve: so the session keeps the solution, too.
    """
    assert session.request.start is not None
    session.start_accepted = False
    pairs = [(variable.index, round(value)) for variable, value in session.request.start]
    _hint(native, *zip(*pairs, strict=True)) if pairs else native.clear_hints()
    solver = _solver(session, COMPLETION_SHARE)
    solver.parameters.fix_variables_to_their_hinted_value = True
    status = _run(solver, native, session, report=False)
    native.clear_hints()
    if status not in ("OPTIMAL", "FEASIBLE"):
        return
    session.start_accepted = True
    solution = list(solver.response_proto.solution)
    session.solution(reader(solution), _sign(native) * solver.objective_value)
    _hint(native, range(len(solution)), solution)


def _limit(solver: cp_model.CpSolver, session: Session) -> Verdict:
    """Which limit ended a search that proved nothing."""
    if session.stopping:
        return ("stopped", "interrupted", "")
    limit = session.request.work_limit
    if limit is not None and solver.deterministic_time >= 0.99 * limit:
        return ("stopped", "other", "deterministic time limit")
    if solver.wall_time >= 0.95 * solver.parameters.max_time_in_seconds:
        return ("stopped", "time", "")
    return ("stopped", "other", "a native limit")
