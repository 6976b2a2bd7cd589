"""Solves for :mod:`benchmarks.robustness`: how they are started, what they announced, what lies on disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chipmap
from chipmap.records import ChipmapError
from chipmap.records.quantities import number
from chipmap.report.rows import natural

ROOT = Path(__file__).parents[1]
#: (instance, method): solves of about a second with several incumbents on the way.
SOLVES = (("ring/resnet18-12", "cpsat-cold"), ("ring/resnet152-36", "auto"))


@dataclass(frozen=True)
class Line:
    """One line of the table: how many of the runs went as they should, and what else was seen."""

    what: str
    good: int
    runs: int
    seen: str


def command(seed: int, out: Path) -> list[str]:
    """``chipmap solve`` of one of the instances, in JSON, with progress on standard error."""
    instance, method = SOLVES[seed % len(SOLVES)]
    words = [sys.executable, "-m", "chipmap", "solve", instance, "--method", method, "--time-limit", "30"]
    return [*words, "--seed", str(seed), "--threads", "2", "--format", "json", "--out", str(out)]


def solve(seed: int, out: Path, **options: Any) -> subprocess.Popen[str]:
    """The process of that command."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    return subprocess.Popen(command(seed, out), **pipes, **options)


def row_of(instance: object, *arguments: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON row of a solve that runs to its end."""
    command = [sys.executable, "-m", "chipmap", "solve", str(instance), *map(str, arguments), "--format", "json"]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, cwd=ROOT, env=env, timeout=600)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def announced(errors: str) -> list[str]:
    """The incumbents that the progress lines announced, in their order."""
    return [value for value in re.findall(r"incumbent (\S+) us .*\(incumbent by", errors) if value != "n/a"]


def shown(value: float | None) -> str:
    """An objective as progress lines show it."""
    return number(value)


def objective(instance: str, solution: Path) -> str | None:
    """The checker's objective of a solution file, as shown; None if it refuses."""
    certificate = chipmap.check(instance, solution)
    return shown(natural(certificate.objective, 1e-5)) if certificate.feasible else None


def readable(folder: Path) -> bool:
    """Whether a folder passes for an archive."""
    try:
        chipmap.load(folder)
    except ChipmapError:
        return False
    return True


def valid(folder: Path) -> bool:
    """Whether a folder is a whole archive whose solution the checker accepts at the stated objective."""
    if not readable(folder):
        return False
    certificate = chipmap.check(folder, folder)
    return certificate.feasible and certificate.objective == chipmap.load(folder).result.objective


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
