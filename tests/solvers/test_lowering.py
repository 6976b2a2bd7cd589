"""Pyomo model -> matrices: offsets, ranges, fixed and absent variables, labels, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pyomo.environ as pyo
import pytest

from chipmap.records import InputError
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.lowering import TriviallyInfeasible, lower
from chipmap.solvers.outcome import OutOfTime, SolveRequest
from tests.solvers.models import MIP_SOLVERS, Knapsack, SmallModel

GUARD = 60.0


def ranged() -> pyo.ConcreteModel:
    """Two integers with a range, an equality and a one-sided row, and a constant in a row and in the objective."""
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(bounds=(0, 6), domain=pyo.Integers), pyo.Var(bounds=(-4, 4), domain=pyo.Integers)
    m.z = pyo.Var(bounds=(-20, 20), domain=pyo.Integers)
    m.c1_range = pyo.Constraint(expr=(1, m.x + 2 * m.y, 5))
    m.c2_equal = pyo.Constraint(expr=m.z == m.x - m.y + 3)
    m.c3_least = pyo.Constraint(expr=m.z + m.x >= 4)
    m.goal = pyo.Objective(expr=m.z - 2 * m.y + 100)
    return m


def ranged_optimum() -> int:
    pairs = itertools.product(range(7), range(-4, 5))
    return min(x - y + 3 - 2 * y + 100 for x, y in pairs if 1 <= x + 2 * y <= 5 and 2 * x - y + 3 >= 4)


def test_matrices_of_a_small_model() -> None:
    m = ranged()
    lowered = lower(m)
    assert lowered.row_labels == ("c1_range", "c2_equal", "c3_least")
    order = [lowered.column_of[id(variable)] for variable in (m.x, m.y, m.z)]
    assert lowered.matrix.toarray()[:, order].tolist() == [[1, 2, 0], [-1, 1, 1], [1, 0, 1]]
    assert lowered.row_lower.tolist() == [1, 3, 4] and lowered.row_upper.tolist() == [5, 3, np.inf]
    assert lowered.lower[order].tolist() == [0, -4, -20] and lowered.upper[order].tolist() == [6, 4, 20]
    assert lowered.cost[order].tolist() == [0, -2, 1] and lowered.offset == 100 and lowered.integer.all()


def test_lowering_ends_where_the_time_does() -> None:
    """Each row is a look at the clock: the third of four (three rows and the cost) is the last."""
    looks = iter([True, True, False])
    with pytest.raises(OutOfTime):
        lower(ranged(), lambda: next(looks))
    assert next(looks, None) is None


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_no_time_to_lower_is_a_reached_limit(solver: str) -> None:
    native = ranged()
    model = SmallModel("mip", native, [native.x])
    outcome = solve_model(model, SolveRequest(should_stop=lambda: True), solver)
    assert (outcome.termination.reason, outcome.termination.limit) == ("no_solution_found", "interrupted")
    assert solve_model(model, SolveRequest(time_limit=0.0), solver).termination.limit == "time"
    assert infeasible_labels(model, SolveRequest(time_limit=0.0), solver) == ()


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_ranges_and_offsets_equal_brute_force(solver: str) -> None:
    m = ranged()
    outcome = solve_model(SmallModel("mip", m, [m.x, m.y]), SolveRequest(time_limit=GUARD), solver)
    assert outcome.objective == pytest.approx(ranged_optimum())


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_fixed_variables_are_constants_and_keep_their_value(solver: str) -> None:
    problem = Knapsack.make(items=8, rows=2, seed=4)
    model = problem.model(solver)
    model.native.x[0].fix(1)
    model.native.x[1].fix(0)
    outcome = solve_model(model, SolveRequest(time_limit=GUARD), solver)
    choices = ((1, 0, *rest) for rest in itertools.product((0, 1), repeat=6))
    assert outcome.objective == pytest.approx(min(problem.objective(x) for x in choices if problem.feasible(x)))
    assert outcome.value_of is not None and model.decode(outcome.value_of)[:2] == (1, 0)
    assert outcome.columns == 6


@pytest.mark.parametrize("solver", MIP_SOLVERS)
def test_absent_columns_are_read_from_the_variable(solver: str) -> None:
    m = ranged()
    m.unused = pyo.Var(bounds=(3, 8))
    m.below = pyo.Var(bounds=(None, -2))
    m.free = pyo.Var()
    m.fixed = pyo.Var(initialize=7)
    m.fixed.fix()
    outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD), solver)
    assert outcome.value_of is not None and outcome.columns == 3
    assert [outcome.value_of(v) for v in (m.unused, m.below, m.free, m.fixed)] == [3.0, -2.0, 0.0, 7.0]


def test_integer_columns_are_read_rounded() -> None:
    m = ranged()
    lowered = lower(m)
    values = {m.x.name: 2.9999999, m.y.name: -1e-9, m.z.name: 5.0}
    read = lowered.value_of(np.array([values[variable.name] for variable in lowered.variables]))
    assert (read(m.x), read(m.y), read(m.z)) == (3.0, 0.0, 5.0)


def test_two_objectives_are_refused() -> None:
    m = ranged()
    m.other = pyo.Objective(expr=m.x)
    with pytest.raises(InputError, match=r"2 active objectives \(goal, other\)"):
        lower(m)
    m.other.deactivate()
    assert lower(m).offset == 100


def test_objective_inside_a_block_counts() -> None:
    m = ranged()
    m.part = pyo.Block()
    m.part.goal = pyo.Objective(expr=m.x)
    with pytest.raises(InputError, match=r"part\.goal"):
        lower(m)


def test_no_objective_means_cost_0() -> None:
    m = ranged()
    m.goal.deactivate()
    outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD))
    assert (outcome.termination.reason, outcome.objective) == ("optimal", 0.0)


def test_nonlinear_model_is_refused() -> None:
    m = ranged()
    m.c4_product = pyo.Constraint(expr=m.x * m.y <= 3)
    with pytest.raises(InputError, match="c4_product"):
        lower(m)


@pytest.mark.parametrize("how", ["fixed", "cancelled", "in a block"])
def test_trivially_infeasible_row_is_labelled(how: str) -> None:
    m = ranged()
    place = m
    if how == "in a block":
        m.part = pyo.Block([3])
        place = m.part[3]
    m.one = pyo.Var(bounds=(0, 5))
    if how == "cancelled":
        place.c3_reach = pyo.Constraint([1, 2], rule=lambda _, i: m.one + m.x - m.one - m.x >= i - 1)
    else:
        m.one.fix(1)
        place.c3_reach = pyo.Constraint([1, 2], rule=lambda _, i: m.one >= i)
    with pytest.raises(TriviallyInfeasible) as caught:
        lower(m)
    assert caught.value.label == "c3_reach" and "[2]" in caught.value.row
    for solver in MIP_SOLVERS:
        outcome = solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD), solver)
        assert outcome.termination.reason == "infeasible" and outcome.infeasible_labels == ("c3_reach",)


def test_trivially_true_row_is_dropped() -> None:
    m = ranged()
    m.c9_true = pyo.Constraint(expr=m.x - m.x <= 1)
    m.x.fix(2)
    lowered = lower(m)
    assert set(lowered.row_labels) <= {"c1_range", "c2_equal", "c3_least", "c9_true"}
    assert solve_model(SmallModel("mip", m, [m.x]), SolveRequest(time_limit=GUARD)).termination.reason == "optimal"


def test_start_values_become_bounds() -> None:
    m = ranged()
    lowered = lower(m)
    bounds = lowered.fixed_bounds([(m.x, 3.0000001), (m.y, 1)])
    assert bounds is not None
    order = [lowered.column_of[id(variable)] for variable in (m.x, m.y, m.z)]
    assert bounds[0][order].tolist() == [3, 1, -20] and bounds[1][order].tolist() == [3, 1, 20]
    assert lowered.fixed_bounds([(m.x, 7)]) is None and lowered.fixed_bounds([(m.x, 2.5)]) is None


def test_rows_of_expressions() -> None:
    """Coefficients by column and a constant; what isn't linear or has no column is refused."""
    m = ranged()
    m.apart, m.held = pyo.Var(), pyo.Var(initialize=3)
    m.held.fix()
    lowered = lower(m)
    row, constant = lowered.row_of(2 * m.x - m.z + 4 * m.held + m.x + 1)
    order = [lowered.column_of[id(variable)] for variable in (m.x, m.y, m.z)]
    assert row[order].tolist() == [3, 0, -1] and constant == 13
    with pytest.raises(InputError, match="'apart' has no column"):
        lowered.row_of(m.x + m.apart)
    with pytest.raises(InputError, match="isn't linear"):
        lowered.row_of(m.x * m.y)
