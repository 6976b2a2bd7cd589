"""Native options: those that are listed as safe exist and prove as before; all others void a solver's proofs."""

from __future__ import annotations

from typing import Any

import gurobipy
import highspy
import pytest
from ortools.sat.python import cp_model

from chipmap.cli.common import exit_code, remarks
from chipmap.inputs.reading import read
from chipmap.result import Result
from chipmap.solve import solve
from chipmap.solvers.native import SAFE, proofs_void

#: Options that cut off solutions, change tolerances or coefficients, or solve another problem.
UNSAFE = {
    "highs": ["objective_bound", "solver", "small_matrix_value", "mip_feasibility_tolerance", "user_bound_scale"],
    "gurobi": ["Cutoff", "FeasibilityTol", "IntFeasTol", "ObjScale", "PoolGap"],
    "cpsat": [
        "fix_variables_to_their_hinted_value",
        "enumerate_all_solutions",
        "mip_var_scaling",
        "stop_after_presolve",
    ],
}


def test_the_safe_options_are_options() -> None:
    highs, parameters = highspy.Highs(), cp_model.CpSolver().parameters
    highs.setOptionValue("output_flag", False)
    assert all(highs.getOptionType(name)[0] == highspy.HighsStatus.kOk for name in SAFE["highs"])
    assert all(hasattr(parameters, name) for name in SAFE["cpsat"])
    assert SAFE["gurobi"] <= {name.lower() for name in dir(gurobipy.GRB.Param)}


@pytest.mark.parametrize("solver", sorted(UNSAFE))
def test_what_is_not_safe_or_not_known_voids_proofs(solver: str) -> None:
    for name in [*UNSAFE[solver], "an_option_of_tomorrow"]:
        assert name in proofs_void(solver, [name]) and name.lower() not in SAFE[solver]
    assert not proofs_void(solver, SAFE[solver])
    assert not proofs_void("gurobi", ["MIPFocus", "mipgap"])


def asked(name: str, method: str, **native: Any) -> Result:
    """A run under another name, so that nothing else knows the instance, from no start."""
    instance = read(name).replace(name="x")
    return solve(instance, method, isolate=False, time_limit=60.0, threads=1, warm_start="none", native=native)


@pytest.mark.parametrize(
    ("instance", "method"),
    [
        ("placement/tiny-bus", "placement/mip"),
        ("multimodel/tiny-energy", "multimodel/mip"),
        ("dataflow/tiny-chain", "dataflow/mip"),
    ],
)
def test_an_objective_bound_proves_nothing(instance: str, method: str) -> None:
    """HiGHS says "infeasible" where its simplex stops at the bound."""
    result = asked(instance, method, objective_bound=0.0)
    assert result.status != "infeasible" and exit_code(result) != 2 and not result.infeasibility
    assert any("objective_bound" in line for line in remarks(result))


def test_a_safe_option_changes_no_proof_and_an_unsafe_one_no_solution() -> None:
    safe = asked("dataflow/tiny-chain", "dataflow/mip", presolve="off", mip_heuristic_effort=0.1)
    unsafe = asked("dataflow/tiny-chain", "dataflow/mip", mip_feasibility_tolerance=1e-7)
    assert (safe.status, unsafe.status) == ("optimal", "feasible")
    assert safe.objective == unsafe.objective
    assert "no proof" in {note.kind for note in unsafe.notes} and "no proof" not in {note.kind for note in safe.notes}
