"""Exported models re-solve to the same value in a program that knows nothing of chipmap, and its solution is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipmap.family import Family, Formulation, Standing
from chipmap.plans.solver_values import adopt, recognise
from chipmap.solvers.export import export
from tests.conformance.cases import FAMILIES, TinyCase, cases, identify


def solution_of(path: Path) -> Path:
    """Where the solver writes its solution of the model in ``path``."""
    return path.with_suffix(f"{path.suffix}.sol")


def by_highs(path: Path) -> float | None:
    """The optimum of the model in an LP or MPS file; None if it has no solution."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for option, value in (("threads", 1), ("time_limit", 60.0), ("mip_rel_gap", 0.0)):
        highs.setOptionValue(option, value)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    status = highs.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible), status
    optimal = status == highspy.HighsModelStatus.kOptimal
    highs.writeSolution(str(solution_of(path)), 0)
    highspy.Highs.resetGlobalScheduler(True)
    return float(highs.getInfo().objective_function_value) if optimal else None


def by_gurobi(path: Path) -> float | None:
    """The same by Gurobi's own reader."""
    import gurobipy

    with gurobipy.Env(params={"OutputFlag": 0, "Threads": 1, "TimeLimit": 60.0, "MIPGap": 0.0}) as env:
        model = gurobipy.read(str(path), env)
        model.optimize()
        if model.Status in (gurobipy.GRB.INFEASIBLE, gurobipy.GRB.INF_OR_UNBD):
            return None
        assert model.Status == gurobipy.GRB.OPTIMAL
        model.write(str(solution_of(path)))
        return float(model.ObjVal)


def by_cpsat(path: Path) -> float | None:
    """The optimum of a ``CpModelProto`` in a file."""
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2
    from ortools.sat.python import cp_model

    proto = cp_model_pb2.CpModelProto()
    if path.suffix == ".pb":
        proto.ParseFromString(path.read_bytes())
    else:
        text_format.Parse(path.read_text(), proto)
    model = cp_model.CpModel()
    assert model.proto.parse_text_format(text_format.MessageToString(proto))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 60.0
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    solution_of(path).write_text(str(solver.response_proto))
    return solver.objective_value if status == cp_model.OPTIMAL else None


READERS = {
    "mip": [(".lp", by_highs), (".mps", by_highs), (".lp", by_gurobi), (".mps", by_gurobi)],
    "cpsat": [(".pb", by_cpsat), (".pbtxt", by_cpsat)],
}


@pytest.mark.parametrize(
    ("family", "formulation", "case"),
    [(family, form, case) for family in FAMILIES for form in family.formulations for case in cases(family)[::5]],
    ids=identify,
)
def test_an_exported_model_has_the_same_optimum(
    family: Family, formulation: Formulation, case: TinyCase, tmp_path: Path
) -> None:
    optimum, _ = case.best
    model = case.build(formulation)
    for suffix, solve in READERS[formulation.kind]:
        path = tmp_path / f"model{suffix}"
        export(model, path)
        value = solve(path)
        if value is not None:
            data = solution_of(path).read_bytes()
            assert recognise(data, "model.sol", case.instance)
            certificate = case.check(adopt(case.instance, data, "model.sol").solution)
            assert certificate.feasible or model.standing in (Standing.RELAXATION, Standing.AUXILIARY), suffix
            assert certificate.objective == optimum or model.standing is not Standing.EXACT, suffix
        if model.standing is Standing.EXACT:
            assert (value is None) == (optimum is None), suffix
            assert optimum is None or value == pytest.approx(optimum, rel=1e-6, abs=1e-6), suffix
        elif model.standing is Standing.RESTRICTION and value is not None:
            assert optimum is not None and value >= optimum * (1 - 1e-6), suffix
        elif model.standing is Standing.RELAXATION and optimum is not None:
            assert value is not None and value <= optimum * (1 + 1e-6), suffix
