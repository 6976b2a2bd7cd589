"""Exported models re-solve to the same value, in HiGHS, Gurobi and CP-SAT themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import gurobipy
import highspy
import pyomo.environ as pyo
import pytest
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model

from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.export import export, safe_names
from chipmap.solvers.outcome import SolveRequest
from tests.solvers.models import Knapsack, Makespan, SmallModel, infeasible
from tests.solvers.test_lowering import ranged, ranged_optimum

GUARD = 60.0


def highs_value(path: Path) -> float:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(highs.getInfo().objective_function_value)


def gurobi_value(path: Path) -> float:
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.read(str(path), env=env) as native:
        native.optimize()
        return float(native.ObjVal)


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
@pytest.mark.parametrize("value", [highs_value, gurobi_value])
def test_mip_files_resolve_to_the_same_value(suffix: str, value: Callable[[Path], float], tmp_path: Path) -> None:
    knapsack, makespan = Knapsack.make(items=9, rows=3, seed=1, offset=12345), Makespan.make(5, 3, seed=1)
    small = ranged()
    for model, optimum in (
        (knapsack.model("highs"), knapsack.optimum()),
        (makespan.model("highs"), makespan.optimum()),
        (SmallModel("mip", small, [small.x]), ranged_optimum()),
    ):
        path = tmp_path / f"model{suffix}"
        export(model, path)
        assert value(path) == pytest.approx(optimum)
        assert solve_model(model, SolveRequest(time_limit=GUARD)).objective == pytest.approx(optimum)


def test_large_coefficients_keep_their_digits(tmp_path: Path) -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    m.c1 = pyo.Constraint(expr=123456789 * m.x >= 987654321)
    m.goal = pyo.Objective(expr=123456789 * m.x + 987654321)
    for suffix in (".lp", ".mps"):
        path = tmp_path / f"model{suffix}"
        export(SmallModel("mip", m, [m.x]), path)
        assert highs_value(path) == 123456789 * 9 + 987654321


def test_names_say_what_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "model.lp"
    export(Makespan.make(3, 2, seed=0).model("highs"), path)
    text = path.read_text()
    assert "c1_once_2:" in text and "t1_machine_1:" in text and "x_2_1" in text


def test_names_are_safe_and_unique() -> None:
    names = ["x[1,2]", "x[12]", "x(1, 2)", "x_1_2", "free", "e5", "E", "3rd", "", "ü", "Max", "st", "b" * 300]
    safe = safe_names(names)
    assert len(set(safe)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z]\w{0,254}", name, re.ASCII) for name in safe)
    assert safe[:2] == ["x_1_2", "x_12"] and safe[4:8] == ["v_free", "v_e5", "v_E", "v_3rd"]


def test_reserved_names_survive_the_reader(tmp_path: Path) -> None:
    m = pyo.ConcreteModel()
    for name in ("free", "st", "e5", "end", "inf", "bin"):
        m.add_component(name, pyo.Var(bounds=(1, 4), domain=pyo.Integers))
    m.subject = pyo.Constraint(expr=m.free + m.st + m.e5 + m.end + m.inf + m.bin >= 9)
    m.goal = pyo.Objective(expr=m.free + m.st + m.e5 + m.end + m.inf + 2 * m.bin)
    path = tmp_path / "model.lp"
    export(SmallModel("mip", m, [m.free]), path)
    assert highs_value(path) == gurobi_value(path) == 10


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_cpsat_protos_resolve_to_the_same_value(suffix: str, tmp_path: Path) -> None:
    problem = Makespan.make(6, 3, seed=3)
    path = tmp_path / f"model{suffix}"
    export(problem.model("cpsat"), path)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = GUARD
    assert solver.solve(read_proto(path)) == cp_model.OPTIMAL
    assert solver.objective_value == problem.optimum()


def test_cpsat_proto_holds_the_assumptions(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    export(infeasible("cpsat"), path)
    assert cp_model.CpSolver().solve(read_proto(path)) == cp_model.INFEASIBLE


def read_proto(path: Path) -> cp_model.CpModel:
    proto = cp_model_pb2.CpModelProto()
    if path.suffix == ".pb":
        proto.ParseFromString(path.read_bytes())
    else:
        text_format.Parse(path.read_text(), proto)
    model = cp_model.CpModel()
    model.proto.parse_text_format(text_format.MessageToString(proto))
    return model


@pytest.mark.parametrize(("solver", "suffix"), [("highs", ".pb"), ("highs", ""), ("cpsat", ".lp"), ("cpsat", ".mps")])
def test_format_that_does_not_fit(solver: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Formats for it"):
        export(Knapsack.make(3, 1, seed=0).model(solver), tmp_path / f"model{suffix}")


@pytest.mark.parametrize(("solver", "suffix"), [("highs", ".lp"), ("highs", ".mps"), ("cpsat", ".pb")])
def test_folder_that_does_not_exist(solver: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        export(Knapsack.make(3, 1, seed=0).model(solver), tmp_path / "nowhere" / f"model{suffix}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("suffix", [".mps", ".lp", ".pb", ".pbtxt"])
def test_a_full_disk_is_told(tmp_path: Path, suffix: str) -> None:
    """HiGHS says nothing where its file isn't whole."""
    (path := tmp_path / f"model{suffix}").symlink_to("/dev/full")
    model = Makespan.make(3, 2, seed=0).model("highs" if suffix in (".mps", ".lp") else "cpsat")
    with pytest.raises(InputError, match="can't be written"):
        export(model, path)
