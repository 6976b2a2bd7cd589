"""``chipmap doctor``: whether this installation can do the work: solvers, versions, licences, machine, extras."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from typing import Any

from chipmap.cli.common import add_format
from chipmap.cli.progress import compile_first
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.options import cores
from chipmap.process.warming import Kept, kept

#: Packages that every installation needs. Gurobi is one more solver, not a need.
CORE = ("highspy", "ortools", "pyomo", "numba", "numpy", "scipy", "networkx", "msgspec", "matplotlib", "jinja2")
#: Package -> the module to import, where that isn't the one of its name.
MODULES = {"ortools": "ortools.sat.python.cp_model", "pyomo": "pyomo.environ"}
#: Extra -> the package that it installs.
EXTRAS = {
    **{"gurobi": "gurobipy", "relaxation": "cvxpy", "learned": "torch", "onnx": "onnx", "pandas": "pandas"},
    **{"metis": "pymetis", "cluster": "dask", "dev": "pytest"},
}
UNAVAILABLE = 5
_IMPORTING = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print('broken', name, 'does not import:', str(error).splitlines()[0] if str(error) else repr(error))
"""


EXAMPLES = (
    "chipmap doctor",
    "chipmap doctor --warm",
    "chipmap doctor --warm ring wafer",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Check the installation. Exit code 0 if HiGHS and CP-SAT can be used and no known-bad version is installed,
    else 5. With --warm, compile the programs of all families first, or of those named, which the first runs do else."""
    add_format(parser)
    what = "compile the programs of these families, of all by default, once (minutes)"
    parser.add_argument("--warm", metavar="FAMILY", nargs="*", choices=FAMILY_NAMES, default=None, help=what)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 0 when nothing that chipmap needs is missing, broken or known bad, else 5."""
    if args.warm is not None:
        compile_first(*map(get_family, args.warm or reversed(FAMILY_NAMES)))  # what takes longest begins first
    found = examine()
    print(json.dumps(found, indent=1) if args.format == "json" else _table(found))
    return UNAVAILABLE if found["problems"] else 0


def examine() -> dict[str, Any]:
    """What is here, as plain data; ``problems`` lists what has to be mended, each with its remedy."""
    from chipmap import __version__
    from chipmap.solvers.availability import availability, package_version

    packages = {name: package_version(name) for name in CORE}
    solvers = [status._asdict() for status in availability()]
    problems = [s["problem"] for s in solvers if s["problem"] and s["name"] != "gurobi"]
    named = {s["package"] for s in solvers if s["problem"]}
    missing = [name for name, version in packages.items() if version is None and name not in named]
    problems += [f"{name} is missing: pip install chipmap" for name in missing]
    problems += broken_imports([MODULES.get(name, name) for name in CORE if packages[name]])
    return {
        "chipmap": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "solvers": solvers,
        "packages": packages,
        "extras": {extra: package_version(package) for extra, package in EXTRAS.items()},
        "compiled": [kept(get_family(name))._asdict() for name in FAMILY_NAMES],
        "problems": problems,
    }


def broken_imports(modules: list[str]) -> list[str]:
    """The modules that a fresh Python can't import one after the other, each with the reason.

    They share one process, as they do in a solve: some versions of two solvers work alone but not together.
    """
    done = subprocess.run([sys.executable, "-c", _IMPORTING, *modules], capture_output=True, text=True, check=False)
    broken = [line.removeprefix("broken ") for line in done.stdout.splitlines() if line.startswith("broken ")]
    if done.returncode:
        broken.append(f"Python died (exit {done.returncode}) while importing {', '.join(modules)}")
    return broken


def _memory_gib() -> float | None:
    """Memory of the machine, where the system tells."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _table(found: dict[str, Any]) -> str:
    memory = f"{found['memory_gib']} GiB" if found["memory_gib"] else "unknown"
    lines = [
        f"chipmap   {found['chipmap']}",
        f"python    {found['python']} on {found['platform']}, {found['cores']} cores, memory {memory}",
        "",
        "solvers",
    ]
    for solver in found["solvers"]:
        state = solver["problem"] or f"licence {solver['licence']}"
        lines.append(f"  {solver['name']:<8}{solver['package']:<10}{solver['version'] or 'missing':<11}{state}")
    lines += ["", "packages"]
    lines += [f"  {name:<12}{version or 'missing'}" for name, version in found["packages"].items()]
    lines += ["", "extras"]
    for extra, version in found["extras"].items():
        lines.append(f"  {extra:<12}{EXTRAS[extra]:<9}{version or f'not installed: pip install chipmap[{extra}]'}")
    lines += ["", "compiled functions"]
    lines += [_compiled(Kept(**one)) for one in found["compiled"]]
    problems = [f"  {problem}" for problem in found["problems"]]
    return "\n".join([*lines, "", *(["problems", *problems] if problems else ["no problem found"])])


def _compiled(one: Kept) -> str:
    """A family's line: what is compiled, how large it is, how long it took, where it lies."""
    if not one.functions:
        return f"  {one.family:<12}none yet"
    took = f"{one.seconds:.0f} s" if one.seconds else "unknown time"
    size = f"{one.functions:>5} in {one.bytes / 2**20:.1f} MiB, {took}"
    return f"  {one.family:<12}{'all' if one.whole else 'some':<6}{size:<32}{', '.join(one.folders)}"
