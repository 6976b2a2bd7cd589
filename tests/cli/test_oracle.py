"""``--oracle``: by name, in both commands; what is said of it; bad names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command

MODULE = """
VERSION = "3"


def one_chip(instance, solution):
    return len(set(solution.chips)) == 1


def broken(instance, solution):
    raise RuntimeError("no licence")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the current folder."""
    (tmp_path / "my_compiler_check.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "my_compiler_check"


def test_solve_and_check(
    chipmap: Command, put: Callable[..., Path], data: dict[str, Any], module: str, tmp_path: Path
) -> None:
    path, out = put(data), tmp_path / "run"
    oracle = f"{module}:one_chip"
    arguments = ("--format", "json", "--quiet", "--time-limit", 30)
    done = chipmap("solve", path, "--oracle", oracle, "--out", out, *arguments)
    assert (done.code, done.json["status"], done.json["figures"]["chips_used"]) == (0, "optimal", 1)
    record = done.json["figures"]["oracle"]
    assert (record["name"], record["version"], record["scope"]) == (oracle, "3", "mapping")
    assert record["rejected"] >= 1 and f"oracle {oracle} 3 (scope mapping)" in done.err
    checked = chipmap("check", path, out, "--oracle", oracle)
    assert checked.code == 0 and f"{oracle} 3" in checked.out
    free = put({"schema": "ring-solution/1", "chips": [0, 0, 1]}, "free.json")
    assert chipmap("check", path, free).code == 0
    refused = chipmap("check", path, free, "--oracle", oracle, "--format", "json")
    assert refused.code == 4 and [v["label"] for v in refused.json["violations"]] == ["C5"]


def test_bad_oracles(chipmap: Command, put: Callable[..., Path], data: dict[str, Any], module: str) -> None:
    path = put(data)
    for name in ("nothing", "no_such_module:f", f"{module}:nobody", f"{module}:VERSION"):
        done = chipmap("solve", path, "--oracle", name, "--quiet")
        assert done.code == 1 and "--oracle" in done.err and "Traceback" not in done.err
    done = chipmap("solve", path, "--oracle", f"{module}:broken", "--quiet", "--time-limit", 30)
    assert done.code == 3 and "no licence" in done.err and "Traceback" not in done.err
