"""Which solvers are here, in which version, under which licence.

Versions come from the installed packages' metadata, so that asking imports no solver (only Gurobi's licence does).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from packaging.version import Version

from chipmap.records import InputError, SolverUnavailableError, choices

#: Variables or constraints that the licence in Gurobi's pip package allows.
GUROBI_FREE_SIZE = 2000
GUROBI_REMEDY = "Get a licence at gurobi.com (free for academics: gurobi.com/academia), or use --solver highs."

#: Solver -> its package.
PACKAGES = {"highs": "highspy", "gurobi": "gurobipy", "cpsat": "ortools"}
#: Solver -> the extra that brings it; the others come with chipmap.
EXTRAS = {"gurobi": "gurobi"}
#: Solver -> kinds of model that it takes.
KINDS = {"highs": ("mip",), "gurobi": ("mip",), "cpsat": ("cpsat",)}


#: What pyproject.toml asks for of HiGHS.
HIGHSPY = "highspy>=1.13,!=1.14.*,!=1.15.*"


class KnownBad(NamedTuple):
    """Versions of a package, from ``first`` up to but not ``fixed``, with which ``solvers`` must not be used, and why.

    Both ends were tried: ``first`` fails, ``fixed`` doesn't (``docs/dev/architecture.md``, "Solver facts").
    """

    package: str
    first: str
    fixed: str
    why: str
    remedy: str
    solvers: tuple[str, ...]
    together_with: str | None = None

    def applies(self) -> bool:
        """Whether such a version is installed (beside ``together_with``, where that is needed)."""
        installed = package_version(self.package)
        partner = self.together_with is None or package_version(self.together_with) is not None
        return installed is not None and partner and Version(self.first) <= Version(installed) < Version(self.fixed)


KNOWN_BAD = (
    KnownBad("highspy", "1.14", "1.15", "returns wrong optima", f"pip install '{HIGHSPY}'", ("highs",)),
    KnownBad(
        "highspy",
        "1.15",
        "1.16",
        "can't be imported in one process with ortools (both ship libhighs.so.1)",
        f"pip install '{HIGHSPY}'",
        ("highs", "cpsat"),
        together_with="ortools",
    ),
)


class SolverStatus(NamedTuple):
    """One solver: its package and version (None: not installed), licence, and ``problem`` ("" when it is usable)."""

    name: str
    package: str
    version: str | None
    licence: str
    problem: str


@cache
def package_version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def availability() -> tuple[SolverStatus, ...]:
    """The status of every solver that chipmap knows, in a fixed order."""
    return tuple(
        SolverStatus(name, package, package_version(package), _licence(name), _problem(name))
        for name, package in PACKAGES.items()
    )


def require(name: str) -> None:
    """Raise :class:`SolverUnavailableError`, in one sentence with its remedy, unless the solver can be used.

    Gurobi's licence is not looked at: it may depend on the model's size. :class:`InputError` for an unknown name.
    """
    if name not in PACKAGES:
        raise InputError(f"no solver is called {name!r}", "--solver", choices(name, PACKAGES))
    problem = _problem(name)
    if problem:
        raise SolverUnavailableError(problem)


@cache
def gurobi_licence() -> str:
    """``"full"``, ``"limited"`` (that of the pip package) or ``"none"``: found by trying, without printing."""
    import gurobipy

    try:
        with gurobipy.Env(empty=True) as env:
            env.setParam("OutputFlag", 0)
            env.start()
            with gurobipy.Model(env=env) as model:
                model.addMVar(GUROBI_FREE_SIZE + 1)
                model.optimize()
    except gurobipy.GurobiError as error:
        return "limited" if error.errno == gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED else "none"
    return "full"


def _licence(name: str) -> str:
    if name != "gurobi" or package_version("gurobipy") is None:
        return {"highs": "MIT", "cpsat": "Apache-2.0"}.get(name, "commercial")
    limited = f"of pip: {GUROBI_FREE_SIZE:,} variables or constraints"
    return {"full": "full", "limited": limited, "none": "none"}[gurobi_licence()]


def _problem(name: str) -> str:
    package = PACKAGES[name]
    installed = package_version(package)
    if installed is None:
        remedy = f"pip install {package}" if name not in EXTRAS else f'pip install "chipmap[{EXTRAS[name]}]"'
        return f"solver {name!r} needs the package {package}, which is not installed: {remedy}"
    for bad in KNOWN_BAD:
        if name in bad.solvers and bad.applies():
            return f"solver {name!r}: {bad.package} {package_version(bad.package)} {bad.why}: {bad.remedy}"
    return ""
