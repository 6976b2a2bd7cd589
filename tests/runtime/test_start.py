"""A first solve: what it imports and compiles; the clock doesn't count compiling; nothing compiled is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import chipmap
from chipmap.deadline import Stop
from chipmap.family import FAMILY_NAMES, Family, get_family, resolve
from chipmap.inputs.reading import read
from chipmap.kernels import Kernel
from chipmap.process import conduct, supervisor
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions

#: What no solve of a tiny instance needs, in the process that keeps the time or in the one that solves.
NEEDLESS = (
    *("numba", "llvmlite", "scipy", "pandas", "networkx", "matplotlib", "ortools", "highspy", "pyomo", "cvxpy"),
    *("chipmap.networks.importers.reading", "chipmap.networks.importers.onnx_model", "chipmap.kernels.compiled"),
)
#: Solves in a child of its own; prints what this process has imported, and the packages that the child says it used.
SOLVE = """
import json, sys
import chipmap
result = chipmap.solve(sys.argv[1], isolate=True)
print(json.dumps([result.status, list(sys.modules), list(result.provenance["versions"])]))
"""
TINY = [name for family in FAMILY_NAMES for name in resolve(get_family(family).shipped) if "/tiny-" in name]


def test_a_tiny_solve_imports_little() -> None:
    ran = subprocess.run([sys.executable, "-c", SOLVE, "ring/tiny-skip"], capture_output=True, check=True, text=True)
    status, here, child = json.loads(ran.stdout)
    assert status == "optimal"
    assert not set(NEEDLESS) & set(here)
    assert set(child) == {"msgspec", "numpy"}


@pytest.mark.parametrize(
    "name", ["ring/tiny-skip", "dataflow/tiny-chain", "wafer/tiny-adapters", "multimodel/tiny-two"]
)
@pytest.mark.parametrize("limit", [(), ("--time-limit", "60")], ids=["", "limited"])
def test_a_first_solve_compiles_nothing(name: str, limit: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chipmap", "solve", name, "--format", "json", *limit]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert json.loads(ran.stdout)["status"] == "optimal"
    assert "compiling" not in ran.stderr
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", TINY)
def test_plain_python_finds_what_compiled_functions_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> tuple[Any, ...]:
        result = chipmap.solve(name, deterministic=True)
        bounds = [(bound.value, bound.source) for bound in result.bounds]
        trace = [(event.event, event.value, event.source) for event in result.trace]
        return result.status, result.objective, result.solution, result.certificate, bounds, trace, result.infeasibility

    assert get_family(name.partition("/")[0]).is_small(chipmap.read(name))
    with monkeypatch.context() as fresh:  # as in a process that has loaded nothing
        fresh.setattr(Kernel, "_loaded", property(lambda self: False, lambda self, value: None), raising=False)
        plain = seen()
    monkeypatch.setattr(conduct, "plainly", lambda *_: nullcontext())
    assert plain == seen()


class Compiling:
    """Stands for compiling a family: remembers for whom, and says that it took so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, list[str]()

    def __call__(self, family: Family, *_: Callable[..., Any]) -> float:
        self.asked.append(family.name)
        return self.seconds


@pytest.mark.parametrize("isolate", [True, False], ids=["child", "in process"])
def test_what_must_be_compiled_on_the_way_does_not_count(isolate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling = Compiling(1000.0)
    monkeypatch.setattr(sys.modules["chipmap.solve"], "is_warm", lambda family: False)
    for module in (conduct, supervisor):
        monkeypatch.setattr(module, "warm", compiling)
    result = chipmap.solve("ring/tiny-skip", "random", time_limit=100, isolate=isolate, compile="first")
    assert compiling.asked == ["ring"]
    assert (result.objective, result.failure) == (900_000, "")
    assert result.seconds < 0.0  # the clock stood for 1000 s


def test_what_is_compiled_is_kept_by_a_kill(tmp_path: Path) -> None:
    def kept() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}

    def until_more(than: int) -> None:
        command = [
            sys.executable,
            "-m",
            "chipmap.process.compiling",
            "300",
            "ring/tiny-skip",
            "exact",
            str(tmp_path / "done"),
        ]
        child = subprocess.Popen(command, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})
        try:
            while len(kept()) <= than:
                assert child.poll() is None, "it has ended before"
                time.sleep(0.02)
        finally:
            child.kill()
            child.wait()

    until_more(0)
    first = kept()
    until_more(len(first))
    again = kept()
    assert len(again) > len(first) > 0
    assert {path: again[path] for path in first} == first  # loaded, not written anew


#: The seconds that :func:`never_done` may take.
SEEN: list[float] = []


def never_done(instance: Any, run: Run) -> Termination:
    """A start that would take whatever time there is."""
    SEEN.append(run.deadline.seconds)
    raise Stop


@pytest.mark.parametrize(("options", "share"), [({"time_limit": 1e6}, conduct.START), ({}, 1.0)])
def test_a_start_leaves_time_to_the_method(options: dict[str, Any], share: float) -> None:
    """A start whose time is up isn't the end of the run, which has the rest of the time then."""
    run = Run(read("ring/tiny-skip"), SolveOptions(**options), conduct.checker(get_family("ring"), None))
    SEEN.clear()
    conduct.begin_with(run, f"{__name__}:never_done")
    start, left = SEEN[0], run.deadline.seconds
    assert start == pytest.approx(share * 1e6, rel=0.01) if options else start == left == float("inf")
    assert left > 0.99 * options.get("time_limit", 0.0)
    run.checkpoint()
