"""Where a result comes from: versions and options, but no host names, users or paths."""

from __future__ import annotations

import platform
import sys
from typing import Any

import msgspec

from chipmap.run import Run

__version__ = "0.1.0"

#: Packages whose version can change a result; their modules have the same names.
_PACKAGES = (
    *("highspy", "gurobipy", "ortools", "pyomo", "cvxpy"),
    *("numba", "numpy", "scipy", "networkx", "msgspec"),
)


def used_versions() -> dict[str, str]:
    """Versions of the solvers and numerical packages that this process has imported."""
    from importlib import metadata

    found: dict[str, str] = {}
    for package in _PACKAGES:
        if package in sys.modules:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = str(getattr(sys.modules[package], "__version__", "unknown"))
    return found


def environment(versions: dict[str, str]) -> dict[str, Any]:
    """Versions of chipmap, Python, the platform and the ``versions`` that the solve used."""
    return {
        "chipmap": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "versions": versions,
    }


def provenance(run: Run, versions: dict[str, str], reproducible: bool) -> dict[str, Any]:
    """The environment, and the options of the run (a warm start from a file is named ``file``)."""
    options = msgspec.to_builtins(run.options)
    if run.options.warm_start and "/" in run.options.warm_start.replace("\\", "/"):
        options["warm_start"] = "file"
    found = {**environment(versions), "options": options, "reproducible": reproducible}
    if run.oracle is not None:
        found["oracle"] = run.oracle_report or run.oracle.report()
    if run.evaluation is not None:
        found["evaluator"] = {"name": run.evaluation.evaluator, "version": run.evaluation.version}
    return found
