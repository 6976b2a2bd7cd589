"""What an extra brings: the error that names it where it is missing, and that nothing else loads it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from chipmap.cli.doctor import CORE
from chipmap.cli.doctor import EXTRAS as LISTED
from chipmap.process.conduct import EXTRAS
from chipmap.solvers.availability import EXTRAS as SOLVERS
from chipmap.solvers.availability import PACKAGES

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {
    extra: [Requirement(line).name for line in lines] for extra, lines in PROJECT["optional-dependencies"].items()
}


@pytest.mark.parametrize("limit", [(), ("--time-limit", "60")], ids=["in process", "child"])
def test_a_method_without_its_package_names_the_extra(limit: tuple[str, ...], tmp_path: Path) -> None:
    """As if cvxpy weren't installed: exit code 5, one message, no traceback."""
    missing = "raise ModuleNotFoundError(\"No module named 'cvxpy'\", name='cvxpy')"
    (tmp_path / "cvxpy.py").write_text(missing)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "chipmap",
            "bound",
            "dataflow/table6-free-8x1",
            "--method",
            "dataflow/relaxation",
            *limit,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 5, done.stderr
    assert 'needs cvxpy, which is not installed\n  Install it: pip install "chipmap[relaxation]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_extras_bring_what_the_errors_say() -> None:
    """Every package that an error or `chipmap doctor` calls an extra's is in that extra, and not in the core."""
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    said = [*EXTRAS.items(), *((PACKAGES[solver], extra) for solver, extra in SOLVERS.items())]
    said += [(package, extra) for extra, package in LISTED.items()]
    assert not [(package, extra) for package, extra in said if package not in OPTIONAL[extra] or package in core]
    assert set(CORE) <= core


def test_a_mip_by_highs_loads_no_package_of_an_extra() -> None:
    """Nor what draws: Gurobi, cvxpy and matplotlib are imported where they are used."""
    code = (
        "import sys, chipmap\n"
        "found = chipmap.solve('ring/tiny-skip', 'mip', solver='highs', isolate=False)\n"
        "print(found.status, 'highspy' in sys.modules, [one for one in sys.argv[1:] if one in sys.modules])"
    )
    optional = sorted({package for packages in OPTIONAL.values() for package in packages} - {"pytest"})
    done = subprocess.run(
        [sys.executable, "-c", code, *optional, "matplotlib"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "optimal True []\n"
