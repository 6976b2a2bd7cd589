"""Where a result comes from: versions, options, machine and commit, but no host names, users or paths."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from chipmap.options import cores
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


#: The arguments of the command that this process runs, if it runs one.
COMMAND: list[str] = []


def command() -> str:
    """The command line, with files and folders elsewhere by their last name, and ``?`` for what isn't a character."""
    said = " ".join(["chipmap", *(_without_folder(one) for one in COMMAND)]) if COMMAND else ""
    return said.encode("utf-8", "replace").decode()


def _without_folder(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    elsewhere = value.startswith(("/", "~", "..", "\\")) or value[1:3] == ":\\"
    return f"{option}{equals}{value.replace(chr(92), '/').rstrip('/').rpartition('/')[2]}" if elsewhere else argument


@cache
def commit() -> str:
    """The commit of the checkout that this package lies in, empty outside of one. Changes since then aren't seen."""
    root = Path(__file__).resolve().parents[1]
    with suppress(OSError):
        git = root / ".git"
        if git.is_file():  # another work tree
            git = (root / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = (git / common.read_text().strip()).resolve() if common.is_file() else git
        for folder in (git, shared):
            if (folder / name).is_file():
                return (folder / name).read_text().strip()
        for line in (shared / "packed-refs").read_text().splitlines():
            if line.endswith(f" {name}"):
                return line.split()[0]
    return ""


@cache
def processor() -> str:
    """The processor's name, as the system tells it."""
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine(run: Run) -> dict[str, Any]:
    """What may differ between two runs that are the same: processor, cores that this process may use and those there
    are, load (processes that run or wait, over the last minute), threads that solvers may use, compiled functions.

    ``compiled`` says when functions are compiled, how many were in this run and in how many seconds of the processor,
    which links waited for them, and what ran as plain Python (``first mapping`` always does; ``all`` where nothing may
    be compiled; ``short calls`` on small instances).
    """
    options, told = run.options, [note.data for note in run.notes if note.kind == "compiled"]
    disabled = os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0")
    return {
        "processor": processor(),
        "cores": cores(),
        "cores_of_machine": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "threads": 1 if options.deterministic else options.threads or cores(),
        "compiled": {
            "when": "first" if options.compiles_first else "background",
            "functions": sum(one["functions"] for one in told),
            "seconds": round(sum(one["seconds"] for one in told), 3),
            "waited": [link for one in told for link in one["waited"]],
            "plain": ["all"] if disabled else ["first mapping", *(["short calls"] if run.small else [])],
        },
    }


def provenance(run: Run, versions: dict[str, str], reproducible: bool) -> dict[str, Any]:
    """The environment, the options of the run (a warm start from a file is named ``file``), the command line, the
    commit, and the machine."""
    options = msgspec.to_builtins(run.options)
    if run.options.warm_start and "/" in run.options.warm_start.replace("\\", "/"):
        options["warm_start"] = "file"
    found = {**environment(versions), "options": options, "reproducible": reproducible, "machine": machine(run)}
    found |= {name: said for name, said in (("command", command()), ("commit", commit())) if said}
    if run.oracle is not None:
        found["oracle"] = run.oracle_report or run.oracle.report()
    if run.evaluation is not None:
        found["evaluator"] = {"name": run.evaluation.evaluator, "version": run.evaluation.version}
    return found
