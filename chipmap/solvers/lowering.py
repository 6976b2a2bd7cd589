"""A Pyomo model as sparse matrices: what HiGHS and Gurobi are given, and the way back to Pyomo's variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, InvalidExpressionError
from pyomo.common.gc_manager import PauseGC
from pyomo.core import Constraint, Objective
from pyomo.repn import generate_standard_repn
from pyomo.repn.linear import LinearRepnVisitor
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler, _LinearStandardFormCompiler_impl
from scipy.sparse import csc_array

from chipmap.records import InputError
from chipmap.solvers.outcome import OutOfTime, TriviallyInfeasible, ValueOf


@dataclass(frozen=True)
class LoweredModel:
    """min offset + cost · x  subject to  row_lower <= matrix · x <= row_upper, lower <= x <= upper, x[integer] integer.

    ``variables[j]`` is the Pyomo variable of column j; ``constraints[i]`` the Pyomo constraint of row i. Fixed and
    unused variables have no column. A maximised objective is negated.
    """

    matrix: csc_array
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    cost: np.ndarray
    offset: float
    variables: tuple[Any, ...]
    constraints: tuple[Any, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.constraints)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.variables)

    @cached_property
    def row_labels(self) -> tuple[str, ...]:
        """For each row the local name of its constraint component, such as ``c3_reach``."""
        return tuple(_label(constraint) for constraint in self.constraints)

    @cached_property
    def column_of(self) -> dict[int, int]:
        """``id`` of a Pyomo variable -> its column."""
        return {id(variable): column for column, variable in enumerate(self.variables)}

    def value_of(self, values: np.ndarray) -> ValueOf:
        """Reads a variable in a solution given by its columns' ``values``; integer columns are rounded.

        A fixed variable has its own value; one that no row and no cost mentions has the value nearest 0 in its bounds.
        """
        exact = np.where(self.integer, np.rint(values), values)

        def value_of(variable: Any) -> float:
            column = self.column_of.get(id(variable))
            return _absent_value(variable) if column is None else float(exact[column])

        return value_of

    def row_of(self, expression: Any) -> tuple[np.ndarray, float]:
        """A linear Pyomo expression as (coefficients by column, constant): it is coefficients · x + constant.

        Raises :class:`InputError` for an expression that isn't linear, or that has a variable without a column.
        """
        terms = generate_standard_repn(expression)
        if not terms.is_linear():
            raise InputError(f"{expression} isn't linear", "row_of", "Give a linear expression of the lowered model.")
        row = np.zeros(self.columns)
        for factor, variable in zip(terms.linear_coefs, terms.linear_vars, strict=True):
            column = self.column_of.get(id(variable))
            if column is None:
                remedy = "Only variables that stand in a constraint or the objective have one."
                raise InputError(f"variable {variable.name!r} has no column", "row_of", remedy)
            row[column] += float(factor)
        return row, float(terms.constant)

    def fixed_bounds(self, start: Sequence[tuple[Any, float]]) -> tuple[np.ndarray, np.ndarray] | None:
        """(lower, upper) of the columns with those of ``start`` fixed; None when a start value can't be held.

        A value is clipped onto bounds that it misses by no more than 1e-6.
        """
        lower, upper = self.lower.copy(), self.upper.copy()
        for variable, value in start:
            column = self.column_of.get(id(variable))
            if column is None:
                if variable.fixed and abs(variable.value - value) > 1e-6:
                    return None
                continue
            inside = min(max(value, lower[column]), upper[column])
            if abs(inside - value) > 1e-6 or (self.integer[column] and abs(round(inside) - inside) > 1e-6):
                return None
            lower[column] = upper[column] = round(inside) if self.integer[column] else inside
        return lower, upper


class _Watchful(LinearRepnVisitor):  # type: ignore[misc]
    """Pyomo's compiler of one expression after the other, which looks at the clock between them."""

    keep_going: Callable[[], bool]

    def walk_expression(self, expression: Any) -> Any:
        if not self.keep_going():
            raise OutOfTime
        return super().walk_expression(expression)


def _compiled(native: Any, keep_going: Callable[[], bool]) -> Any:
    """Pyomo's mixed form of the model. Its compiler lets its visitor be replaced, which sees each row."""

    def watchful(*arguments: Any, **options: Any) -> _Watchful:
        visitor = _Watchful(*arguments, **options)
        visitor.keep_going = keep_going
        return visitor

    compiler = _LinearStandardFormCompiler_impl(LinearStandardFormCompiler.CONFIG({"mixed_form": True}))
    compiler._get_visitor = watchful
    with PauseGC():  # hundreds of thousands of small objects, none of them garbage
        return compiler.write(native)


def lower(native: Any, keep_going: Callable[[], bool] = lambda: True) -> LoweredModel:
    """The matrices of a linear Pyomo model or block with at most one active objective (none: cost 0).

    Raises :class:`InputError` for more objectives or a nonlinear expression, :class:`TriviallyInfeasible` for a row
    without variables that doesn't hold, :class:`OutOfTime` as soon as not ``keep_going()``.
    """
    objectives = [o.name for o in native.component_data_objects(Objective, active=True)]
    if len(objectives) > 1:
        what = f"the model has {len(objectives)} active objectives ({', '.join(objectives)})"
        raise InputError(what, native.name, "Deactivate all but one.")
    try:
        form = _compiled(native, keep_going)
    except InfeasibleConstraintException as error:
        raise _name_infeasible(native, str(error)) from None
    except (InvalidConstraintError, InvalidExpressionError) as error:
        raise InputError(str(error), native.name, "Only linear models can be lowered.") from None
    matrix, row_lower, row_upper, constraints = _rows(form)
    _check_empty_rows(matrix, row_lower, row_upper, constraints)
    bounds = [variable.bounds for variable in form.columns]
    return LoweredModel(
        matrix=matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        lower=np.array([-np.inf if low is None else low for low, _ in bounds], float),
        upper=np.array([np.inf if high is None else high for _, high in bounds], float),
        integer=np.array([not variable.is_continuous() for variable in form.columns], bool),
        cost=np.asarray(form.c.todense(), float).reshape(-1) if objectives else np.zeros(len(form.columns)),
        offset=float(form.c_offset[0]) if objectives else 0.0,
        variables=tuple(form.columns),
        constraints=constraints,
    )


def _rows(form: Any) -> tuple[csc_array, np.ndarray, np.ndarray, tuple[Any, ...]]:
    """Pyomo's mixed form (<=, ==, >= rows) with the two rows of a range constraint joined into one."""
    kind = np.fromiter((row.bound_type for row in form.rows), int, len(form.rows))
    rhs = np.asarray(form.rhs, float)
    row_lower = np.where(kind <= 0, rhs, -np.inf)
    row_upper = np.where(kind >= 0, rhs, np.inf)
    constraints = [row.constraint for row in form.rows]
    # A range's >= row follows its <= row immediately.
    second = np.array([i > 0 and c is constraints[i - 1] for i, c in enumerate(constraints)], bool)
    if not second.any():
        return csc_array(form.A), row_lower, row_upper, tuple(constraints)
    twins = np.flatnonzero(second)
    row_lower[twins - 1] = row_lower[twins]
    keep = ~second
    matrix = csc_array(form.A.tocsr()[np.flatnonzero(keep)])
    return matrix, row_lower[keep], row_upper[keep], tuple(c for c, kept in zip(constraints, keep, strict=True) if kept)


def _check_empty_rows(matrix: csc_array, low: np.ndarray, high: np.ndarray, constraints: tuple[Any, ...]) -> None:
    """Coefficients that cancel leave rows ``low <= 0 <= high``, which must hold by themselves."""
    filled = np.bincount(matrix.indices, minlength=len(constraints))
    for row in np.flatnonzero((filled == 0) & ((low > 0.0) | (high < 0.0))):
        raise TriviallyInfeasible(_label(constraints[row]), constraints[row].name)


def _name_infeasible(native: Any, message: str) -> TriviallyInfeasible:
    """Pyomo's complaint about a constant row, with the constraint that it quotes by name."""
    for constraint in native.component_data_objects(Constraint, active=True):
        if f"'{constraint.name}'" in message:
            return TriviallyInfeasible(_label(constraint), constraint.name)
    return TriviallyInfeasible("", message)


def _label(constraint: Any) -> str:
    return str(constraint.parent_component().local_name)


def _absent_value(variable: Any) -> float:
    if variable.fixed:
        return float(variable.value)
    low, high = variable.bounds
    return float(min(max(0.0, -np.inf if low is None else low), np.inf if high is None else high))
