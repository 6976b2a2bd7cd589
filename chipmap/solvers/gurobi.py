"""Gurobi: MIP and LP through gurobipy's matrix interface, on the matrices of :mod:`chipmap.solvers.lowering`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gurobipy
import numpy as np
from gurobipy import GRB

from chipmap.family import Model
from chipmap.records import InputError, SolverUnavailableError
from chipmap.solvers.availability import GUROBI_FREE_SIZE, GUROBI_REMEDY, gurobi_licence
from chipmap.solvers.lowering import LoweredModel, lower
from chipmap.solvers.session import Session, Verdict

#: Gurobi's status codes (Reference Manual, "Optimization Status Codes") -> what they mean.
STATUSES: dict[int, Verdict] = {
    1: ("other_error", "none", "loaded, not solved"),
    2: ("optimal", "none", ""),
    3: ("infeasible", "none", ""),
    4: ("other_error", "none", "infeasible or unbounded"),
    5: ("other_error", "none", "unbounded"),
    6: ("stopped", "other", "cutoff"),
    7: ("stopped", "iteration", ""),
    8: ("stopped", "node", ""),
    9: ("stopped", "time", ""),
    10: ("stopped", "solution", ""),
    11: ("stopped", "interrupted", ""),
    12: ("numerical_error", "none", "numerical difficulties"),
    13: ("stopped", "other", "suboptimal: tolerances not reached"),
    14: ("other_error", "none", "in progress"),
    15: ("stopped", "other", "objective limit reached"),
    16: ("stopped", "other", "work limit"),
    17: ("stopped", "memory", ""),
    18: ("stopped", "other", "locally optimal"),
    19: ("other_error", "none", "locally infeasible"),
}


def solve(model: Model, session: Session) -> Verdict:
    """Solve a Pyomo model. The work limit is in Gurobi's work units (about a second each).

    Raises :class:`SolverUnavailableError` without a licence for a model of this size, :class:`InputError` for an
    unknown native parameter or a model that can't be lowered.
    """
    lowered = lower(model.native, session.keep_going)
    session.rows, session.columns = lowered.rows, lowered.columns
    with _loaded(lowered, session) as (native, x):
        _set_start(native, x, lowered, session)
        status = _run(native, x, lowered, session)
        if status == GRB.INF_OR_UNBD:
            # Without dual reductions presolve can tell which of the two.
            native.setParam("DualReductions", 0)
            status = _run(native, x, lowered, session)
        _read(native, x, lowered, session, status)
    if session.start_accepted is None and session.request.start is not None and lowered.integer.any():
        said = "User MIP start produced solution", "Loaded user MIP start"
        session.start_accepted = any(words in session.log for words in said)
    return STATUSES[status]


@contextmanager
def _loaded(lowered: LoweredModel, session: Session) -> Iterator[tuple[Any, Any]]:
    """The Gurobi model and its column variables, with all options; licence errors in the user's words."""
    _check_size(lowered)
    try:
        with gurobipy.Env(empty=True) as env:
            # The licence banner is printed when the environment starts.
            env.setParam("OutputFlag", 0)
            env.start()
            with gurobipy.Model(env=env) as native:
                x = _fill(native, lowered)
                _set_options(native, session)
                yield native, x
    except gurobipy.GurobiError as error:
        if error.errno in (GRB.Error.NO_LICENSE, GRB.Error.SIZE_LIMIT_EXCEEDED):
            raise SolverUnavailableError(
                f"Gurobi's licence doesn't allow this solve: {error}. {GUROBI_REMEDY}"
            ) from None
        raise


def _check_size(lowered: LoweredModel) -> None:
    if max(lowered.rows, lowered.columns) > GUROBI_FREE_SIZE and gurobi_licence() != "full":
        raise SolverUnavailableError(
            f"the model has {lowered.columns:,} variables and {lowered.rows:,} constraints, but the Gurobi licence "
            f"found here stops at {GUROBI_FREE_SIZE:,} of either. {GUROBI_REMEDY}"
        )


def _fill(native: Any, lowered: LoweredModel) -> Any:
    kinds = np.where(lowered.integer, GRB.INTEGER, GRB.CONTINUOUS)
    x = native.addMVar(lowered.columns, lb=lowered.lower, ub=lowered.upper, obj=lowered.cost, vtype=kinds)
    native.ObjCon = lowered.offset
    low, high = lowered.row_lower, lowered.row_upper
    matrix = lowered.matrix.tocsr()
    # A range would take a slack column of Gurobi's own: its two sides are two rows instead.
    equal = low == high
    for rows, sense, rhs in (
        (np.flatnonzero(equal), "=", high),
        (np.flatnonzero(~equal & np.isfinite(high)), "<", high),
        (np.flatnonzero(~equal & np.isfinite(low)), ">", low),
    ):
        if len(rows):
            constraints = native.addMConstr(matrix[rows], x, sense, rhs[rows])
            constraints.setAttr("ConstrName", [str(row) for row in rows])
    native.update()
    return x


def _set_options(native: Any, session: Session) -> None:
    request = session.request
    options: dict[str, Any] = {"LogToConsole": 0, "OutputFlag": 1, "Seed": request.seed, "MIPGap": request.gap}
    options |= {"TimeLimit": session.remaining, "Threads": session.threads, "WorkLimit": request.work_limit}
    for name, value in options.items():
        if value is not None:
            native.setParam(name, value)
    for name, value in request.native.items():
        try:
            native.setParam(name, value)
        except (gurobipy.GurobiError, TypeError, ValueError) as error:
            remedy = "See the list of parameters in Gurobi's manual."
            raise InputError(f"Gurobi refuses {name!r} = {value!r}: {error}", "native", remedy) from None


def _set_start(native: Any, x: Any, lowered: LoweredModel, session: Session) -> None:
    """Hand over the start's values; Gurobi completes them by a solve of its own."""
    if session.request.start is None:
        return
    if lowered.fixed_bounds(session.request.start) is None:
        session.start_accepted = False
        return
    start = np.full(lowered.columns, GRB.UNDEFINED)
    for variable, value in session.request.start:
        column = lowered.column_of.get(id(variable))
        if column is not None:
            start[column] = value
    x.Start = start
    native.update()


def _run(native: Any, x: Any, lowered: LoweredModel, session: Session) -> int:
    def callback(model: Any, where: int) -> None:
        """Hand messages, bounds and solutions to the session."""
        if where == GRB.Callback.MESSAGE:
            session.write(model.cbGet(GRB.Callback.MSG_STRING))
        elif where == GRB.Callback.MIP:
            session.bound(model.cbGet(GRB.Callback.MIP_OBJBND))
        elif where == GRB.Callback.MIPSOL:
            values = np.asarray(model.cbGetSolution(x))
            session.solution(lowered.value_of(values), model.cbGet(GRB.Callback.MIPSOL_OBJ))
            session.bound(model.cbGet(GRB.Callback.MIPSOL_OBJBND))

    def solve() -> int:
        native.optimize(callback)
        return int(native.Status)

    return session.run(solve, native.terminate)


def _read(native: Any, x: Any, lowered: LoweredModel, session: Session, status: int) -> None:
    if native.SolCount and status != GRB.UNBOUNDED:
        session.solution(lowered.value_of(np.asarray(x.X)), native.ObjVal)
    if native.IsMIP:
        session.bound(native.ObjBound)
    elif status == GRB.OPTIMAL:
        session.bound(native.ObjVal)


def infeasible_labels(model: Model, session: Session) -> tuple[str, ...]:
    """The labels of Gurobi's irreducible infeasible set (MIP included); () when none is found in time."""
    lowered = lower(model.native, session.keep_going)
    with _loaded(lowered, session) as (native, _):
        try:
            session.run(native.computeIIS, native.terminate)
        except gurobipy.GurobiError as error:
            if error.errno == GRB.Error.IIS_NOT_INFEASIBLE:
                return ()
            raise
        rows = [int(row.ConstrName) for row in native.getConstrs() if row.IISConstr]
    return tuple(sorted({lowered.row_labels[row] for row in rows}))
