"""What is installed, what is known to be bad, and that asking imports no solver."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from chipmap.records import InputError, SolverUnavailableError
from chipmap.solvers import availability as module
from chipmap.solvers import solve_model
from chipmap.solvers.availability import KNOWN_BAD, availability, gurobi_licence, require
from chipmap.solvers.outcome import SolveRequest
from tests.solvers.models import SOLVERS, Knapsack


def test_all_solvers_are_here() -> None:
    statuses = {status.name: status for status in availability()}
    assert tuple(statuses) == SOLVERS
    assert all(not status.problem and status.version for status in statuses.values())


def test_gurobi_licence_is_found_without_printing(capfd: pytest.CaptureFixture[str]) -> None:
    gurobi_licence.cache_clear()
    assert gurobi_licence() in ("full", "limited")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("solver", SOLVERS)
def test_missing_solver_is_an_error_with_a_remedy(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "package_version", lambda package: None)
    with pytest.raises(SolverUnavailableError, match="pip install") as caught:
        solve_model(Knapsack.make(3, 1, seed=0).model(solver), SolveRequest(), solver)
    assert caught.value.exit_code == 5 and "\n" not in str(caught.value)
    assert all(status.problem for status in availability())


def test_unknown_solver_is_an_input_error() -> None:
    with pytest.raises(InputError, match="highs, gurobi, cpsat"):
        require("cplex")


@pytest.mark.parametrize(
    ("version", "refused", "why"),
    [
        ("1.13.1", set(), ""),
        ("1.14.0", {"highs"}, "wrong optima"),
        ("1.15.0", {"highs", "cpsat"}, "ortools"),
        ("1.15.1", {"highs", "cpsat"}, "ortools"),
        ("1.16.0", set(), ""),
        ("1.17.0", set(), ""),
    ],
)
def test_known_bad_versions(version: str, refused: set[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.package_version
    monkeypatch.setattr(module, "package_version", lambda name: version if name == "highspy" else real(name))
    for solver in SOLVERS:
        if solver in refused:
            with pytest.raises(SolverUnavailableError, match=f"{version}.*{why}"):
                require(solver)
        else:
            require(solver)


def test_no_known_bad_version_is_allowed_and_the_remedy_is_what_the_package_asks_for() -> None:
    """Both ends of a range are known, and pyproject.toml, ban and remedy say the same."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {one.name: one for one in map(Requirement, project["dependencies"])}
    for bad in KNOWN_BAD:
        remedy = Requirement(bad.remedy.removeprefix("pip install ").strip("'"))
        assert remedy == asked[bad.package]
        assert Version(bad.first) < Version(bad.fixed)
        assert not remedy.specifier.contains(bad.first) and not remedy.specifier.contains(f"{bad.first}.9")
        assert remedy.specifier.contains(bad.fixed) or any(one.first == bad.fixed for one in KNOWN_BAD)


def test_asking_imports_no_solver() -> None:
    code = (
        "import sys, chipmap.solvers, chipmap.solvers.export\n"
        "from chipmap.solvers.availability import require\n"
        "[require(name) for name in ('highs', 'gurobi', 'cpsat')]\n"
        "print({'highspy', 'gurobipy', 'ortools', 'pyomo', 'numpy', 'cvxpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_mip_imports_no_statistics() -> None:
    """Pyomo imports scipy.stats along with scipy, unless it is kept from that."""
    code = (
        "import sys, chipmap\n"
        "chipmap.solve('ring/tiny-skip', 'ring/mip', isolate=False)\n"
        "print({'highspy', 'pyomo.environ', 'scipy.stats'} & set(sys.modules) == {'highspy', 'pyomo.environ'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
