"""HiGHS: MIP and LP through highspy, on the matrices of :mod:`chipmap.solvers.lowering`."""

from __future__ import annotations

import math
import os
import time
from itertools import count
from typing import Any

import highspy
import numpy as np
from scipy.sparse import csr_array

from chipmap.family import Model
from chipmap.records import InputError
from chipmap.solvers.implied_integers import implied_integers
from chipmap.solvers.lowering import LoweredModel, lower
from chipmap.solvers.session import COMPLETION_SHARE, Session, Verdict

#: HighsModelStatus -> what it means. HiGHS reports a reached node limit as a "solution limit".
STATUSES: dict[str, Verdict] = {
    "kNotset": ("other_error", "none", "not solved"),
    "kLoadError": ("other_error", "none", "load error"),
    "kModelError": ("other_error", "none", "model error"),
    "kPresolveError": ("other_error", "none", "presolve error"),
    "kSolveError": ("numerical_error", "none", "solve error"),
    "kPostsolveError": ("numerical_error", "none", "postsolve error"),
    "kModelEmpty": ("optimal", "none", "empty model"),
    "kOptimal": ("optimal", "none", ""),
    "kInfeasible": ("infeasible", "none", ""),
    "kUnboundedOrInfeasible": ("other_error", "none", "infeasible or unbounded"),
    "kUnbounded": ("other_error", "none", "unbounded"),
    "kObjectiveBound": ("stopped", "other", "objective bound reached"),
    "kObjectiveTarget": ("stopped", "other", "objective target reached"),
    "kTimeLimit": ("stopped", "time", ""),
    "kIterationLimit": ("stopped", "iteration", ""),
    "kUnknown": ("numerical_error", "none", "unknown status"),
    "kSolutionLimit": ("stopped", "node", "node, leaf or solution limit"),
    "kInterrupt": ("stopped", "interrupted", ""),
    "kHighsInterrupt": ("stopped", "interrupted", ""),
    "kMemoryLimit": ("stopped", "memory", ""),
}

#: Bit of HiGHS's option ``presolve_rule_off`` for probing.
PROBING = 1 << 15
#: Above this number of binaries times nonzeros (some 3 s), probing is off: HiGHS 1.13 doesn't look at the clock in it,
#: and has been seen to take 60 s of a limit of 12 s (HiGHS pull request 2865 mends it in a later version).
PROBING_SIZE = 1e9


def solve(model: Model, session: Session) -> Verdict:
    """Solve a Pyomo model. The work limit counts branch-and-bound nodes.

    Raises :class:`InputError` for an unknown native option or a model that can't be lowered.
    """
    lowered = lower(model.native, session.keep_going)
    session.rows, session.columns = lowered.rows, lowered.columns
    if session.remaining == 0.0:  # handing over millions of nonzeros takes seconds, too
        return STATUSES["kTimeLimit"]
    start = _complete(lowered, session) if session.request.start is not None else None
    highs = _load(lowered, session)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)
    status = _run(highs, lowered, session)
    if status == "kUnboundedOrInfeasible":
        status = _unbounded_or_infeasible(lowered, session)
    _read(highs, lowered, session, status)
    if start is not None and "cannot yield feasible solution" in session.log:
        session.start_accepted = False
    return STATUSES[status]


def _load(lowered: LoweredModel, session: Session, bounds: tuple[np.ndarray, np.ndarray] | None = None) -> Any:
    """A fresh solver with the model and all options."""
    highs = highspy.Highs()
    # HiGHS calls its logging callback only when it also logs somewhere else.
    highs.setOptionValue("log_to_console", False)
    highs.setOptionValue("log_file", os.devnull)
    highs.cbLogging += lambda event: session.write(event.message)
    highs.passModel(highs_lp(lowered, bounds))
    request = session.request
    options: dict[str, Any] = {
        "random_seed": request.seed,
        # HiGHS prunes by whole units itself when all costs are integers on integer columns, so that an absolute gap
        # below 1 would gain nothing; its default relative gap of 1e-4 would end with a gap that never closes.
        "mip_rel_gap": request.gap,
        "mip_abs_gap": 0.0,
    }
    if int(lowered.integer.sum()) * lowered.matrix.nnz > PROBING_SIZE:
        options["presolve_rule_off"] = PROBING
    if request.work_limit is not None:
        options["mip_max_nodes"] = int(request.work_limit)
    options |= {"time_limit": session.remaining, "threads": session.threads}
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in {**given, **request.native}.items():
        set_option(highs, name, value)
    return highs


def highs_lp(lowered: LoweredModel, bounds: tuple[np.ndarray, np.ndarray] | None = None) -> Any:
    """The matrices as a ``HighsLp`` (with other column ``bounds`` if given)."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = lowered.columns, lowered.rows
    lp.col_cost_ = lowered.cost
    lp.col_lower_, lp.col_upper_ = bounds or (lowered.lower, lowered.upper)
    lp.row_lower_, lp.row_upper_ = lowered.row_lower, lowered.row_upper
    lp.offset_ = lowered.offset
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = lowered.matrix.indptr
    lp.a_matrix_.index_ = lowered.matrix.indices
    lp.a_matrix_.value_ = lowered.matrix.data
    if lowered.integer.any():
        kinds, rows = highspy.HighsVarType, csr_array(lowered.matrix)
        whole = implied_integers(rows, lowered.row_lower, lowered.row_upper, lowered.integer)
        lp.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in whole]
    return lp


def set_option(highs: Any, name: str, value: Any) -> None:
    """Set a native option, with its value converted to the option's type; :class:`InputError` when there is none."""
    status, kind = highs.getOptionType(name)
    if status != highspy.HighsStatus.kOk:
        raise InputError(f"HiGHS has no option {name!r}", "native", "See the list of options in the HiGHS manual.")
    convert = {"kBool": bool, "kInt": int, "kDouble": float, "kString": str}[kind.name]
    try:
        converted = convert(value)
        fits = converted == value or isinstance(value, str)
        status = highs.setOptionValue(name, converted) if fits else highspy.HighsStatus.kError
    except (TypeError, ValueError):
        status = highspy.HighsStatus.kError
    if status != highspy.HighsStatus.kOk:
        raise InputError(f"HiGHS refuses {value!r} for its option {name!r}", "native", "Give a value in its range.")


#: HiGHS raises its bound by a solution before it hands the solution out: so long a bound waits for one below it, and
#: so many of HiGHS's callbacks where the same bounds must come in every run.
HOLD_SECONDS, HOLD_CALLS = 0.2, 20


def _run(highs: Any, lowered: LoweredModel, session: Session, report: bool = True) -> str:
    """Run ``highs`` to its end or an interruption; the name of its status. Incumbents and bounds are reported."""

    held: list[tuple[float, float]] = []  # since when, bound
    calls, hold = count(), HOLD_CALLS if session.request.deterministic else HOLD_SECONDS

    def on_interrupt(event: Any) -> None:
        """Report a bound once it has stood for a while, and stop when asked to."""
        if report and lowered.integer.any():
            value = event.data_out.mip_dual_bound
            now = next(calls) if session.request.deterministic else time.monotonic()
            while held and now - held[0][0] >= hold:
                session.bound(held.pop(0)[1])
            if math.isfinite(value) and (not held or value > held[-1][1]):
                held.append((now, value))
        if session.stopping:
            event.interrupt()

    def on_solution(event: Any) -> None:
        values = np.array(event.data_out.mip_solution)
        session.solution(lowered.value_of(values), event.data_out.objective_function_value)

    def solve() -> str:
        """Run HiGHS, and let its scheduler go; the model's status."""
        try:
            highs.run()
        finally:
            # The number of threads belongs to the scheduler of this thread, and a second solve with another number
            # would fail: so the scheduler goes with the thread.
            highspy.Highs.resetGlobalScheduler(True)
        return str(highs.getModelStatus().name)

    for callback in (highs.cbMipInterrupt, highs.cbSimplexInterrupt, highs.cbIpmInterrupt):
        callback.subscribe(on_interrupt)
    if report:
        highs.cbMipImprovingSolution.subscribe(on_solution)
    return session.run(solve, lambda: None)


def _read(highs: Any, lowered: LoweredModel, session: Session, status: str) -> None:
    """The final solution and bound."""
    if status == "kModelEmpty":
        session.solution(lowered.value_of(np.zeros(0)), lowered.offset)
        session.bound(lowered.offset)
        return
    if status != "kUnbounded":
        _solution(highs, lowered, session)
    info = highs.getInfo()
    if lowered.integer.any():
        session.bound(info.mip_dual_bound)
    elif status == "kOptimal":
        session.bound(info.objective_function_value)


def _solution(highs: Any, lowered: LoweredModel, session: Session) -> np.ndarray | None:
    """The columns' values in the final solution, which the session hears; None if there is none."""
    info = highs.getInfo()
    if info.primal_solution_status != highspy.kSolutionStatusFeasible:
        return None
    values = np.array(highs.getSolution().col_value)
    session.solution(lowered.value_of(values), info.objective_function_value)
    return values


def _complete(lowered: LoweredModel, session: Session) -> np.ndarray | None:
    """All columns' values, from one solve with those of the start fixed; None (not accepted) if there are none."""
    assert session.request.start is not None
    bounds = lowered.fixed_bounds(session.request.start)
    session.start_accepted = bounds is not None
    if bounds is None or not lowered.columns:
        return None
    highs = _load(lowered, session, bounds)
    if session.remaining is not None:
        highs.setOptionValue("time_limit", COMPLETION_SHARE * session.remaining)
    _run(highs, lowered, session, report=False)
    values = _solution(highs, lowered, session)
    session.start_accepted = values is not None
    return values


def _unbounded_or_infeasible(lowered: LoweredModel, session: Session) -> str:
    """Presolve couldn't tell which: without costs a feasible model is optimal at once, so unbounded with them."""
    highs = _load(lowered, session)
    highs.changeColsCost(lowered.columns, np.arange(lowered.columns, dtype=np.int32), np.zeros(lowered.columns))
    status = _run(highs, lowered, session, report=False)
    return {"kOptimal": "kUnbounded", "kInfeasible": "kInfeasible"}.get(status, "kUnboundedOrInfeasible")


def infeasible_labels(model: Model, session: Session) -> tuple[str, ...]:
    """The labels of an infeasible set of rows: irreducible where time allows, () when none is found.

    An infeasible linear relaxation gives HiGHS's own set. Otherwise each label's rows are dropped in turn, and stay
    dropped if what is left is still infeasible (deletion filter; Chinneck, *Feasibility and Infeasibility in
    Optimization*, 2008, section 6.2).
    """
    lowered = lower(model.native, session.keep_going)
    return _relaxation_labels(lowered, session) or _deletion_filter(lowered, session)


def _relaxation_labels(lowered: LoweredModel, session: Session) -> tuple[str, ...]:
    """Labels of HiGHS's infeasible set of the linear relaxation: first the quick one (2), then an irreducible (6)."""
    found: tuple[str, ...] = ()
    for strategy in (2, 6):
        highs = _load(lowered, session)
        highs.setOptionValue("iis_strategy", strategy)
        _, iis = session.run(highs.getIis, lambda: None)
        if not (iis.valid_ and len(iis.row_index_)):
            break
        found = tuple(sorted({lowered.row_labels[row] for row in iis.row_index_}))
        if len(found) == 1 or (session.remaining is not None and session.remaining <= 0.0):
            break
    return found


def _deletion_filter(lowered: LoweredModel, session: Session) -> tuple[str, ...]:
    labels = np.array(lowered.row_labels)
    kept = sorted(set(lowered.row_labels))
    if not _infeasible(lowered, session, np.ones(len(labels), bool)):
        return ()
    for label in tuple(kept):
        rest = [other for other in kept if other != label]
        if _infeasible(lowered, session, np.isin(labels, rest)):
            kept = rest
    return tuple(kept)


def _infeasible(lowered: LoweredModel, session: Session, rows: np.ndarray) -> bool:
    """Whether the model with these rows only, and no cost, is proved infeasible in the time left."""
    if session.remaining == 0.0 or session.stopping:
        return False
    highs = _load(lowered, session)
    highs.changeColsCost(lowered.columns, np.arange(lowered.columns, dtype=np.int32), np.zeros(lowered.columns))
    for row in np.flatnonzero(~rows):
        highs.changeRowBounds(int(row), -np.inf, np.inf)
    return _run(highs, lowered, session, report=False) == "kInfeasible"
