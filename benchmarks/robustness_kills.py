"""Processes killed at seeded moments, for :mod:`benchmarks.robustness`: solves, sweeps, their workers, Dask's.

Every process that a test starts carries a mark in its environment, by which those that outlive it are found.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARK = "CHIPMAP_ROBUSTNESS"
#: Seconds that a process has to end after what it served is gone.
PATIENCE = 20.0
SWEEP = {
    "schema": "sweep/1",
    "name": "kills",
    "generator": "random",
    "parameters": {"chips": 4},
    "axes": [
        {"name": "operations", "parameter": "operations", "values": [20, 24, 28, 32]},
        {"name": "seed", "parameter": "seed", "values": [1, 2, 3, 4, 5, 6]},
    ],
    "methods": ["ring/mip"],
    "time_limit_s": 60,
}
Rows = dict[str, tuple[str, int | None, int | None]]


def marked() -> tuple[str, dict[str, str]]:
    """A mark, and the environment that carries it."""
    mark = uuid.uuid4().hex
    return mark, {**os.environ, MARK: mark}


def carrying(mark: str) -> list[int]:
    """The processes (no zombies) that carry a mark."""
    found, wanted = [], f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _state(folder) not in "ZX":
                found.append(int(folder.name))
    return found


def orphans(mark: str) -> list[int]:
    """The processes that carry a mark and don't end within :data:`PATIENCE`; they are killed then."""
    until = time.monotonic() + PATIENCE
    while (left := carrying(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return left


def _state(folder: Path) -> str:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0]


def children(pid: int) -> list[int]:
    """The processes that ``pid`` has started (by any of its threads)."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with suppress(OSError):
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


def kill(pid: int | None, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal; whether the process was still there (and no zombie)."""
    try:
        assert pid is not None
        alive = _state(Path(f"/proc/{pid}")) != "Z"
        os.kill(pid, number)
    except (AssertionError, OSError):
        return False
    return alive


def said(process: subprocess.Popen[str], errors: Path, pattern: str) -> bool:
    """Wait until standard error (a file) holds what fits ``pattern``; False if the process ends before."""
    while process.poll() is None:
        if re.search(pattern, errors.read_text()):
            return True
        time.sleep(0.002)
    return False


# sweeps


def bench(
    folder: Path, errors: Path, env: dict[str, str], *more: str, preexec_fn: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    """``chipmap bench`` of the sweep into ``folder/out`` by two workers; ``errors`` gets its standard error."""
    sweep = errors.with_name("sweep.json")
    sweep.write_text(json.dumps(SWEEP))
    command = [sys.executable, "-m", "chipmap", "bench", str(sweep), "--out", str(folder / "out"), "--workers", "2"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT, "env": env}
    with errors.open("w") as file:
        return subprocess.Popen([*command, *more], stderr=file, preexec_fn=preexec_fn, **pipes)


def rows(folder: Path) -> Rows:
    """What the matrix in ``folder/out`` holds: key -> status, objective, bound."""
    path = folder / "out" / "matrix.sqlite"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as matrix:
        try:
            found = matrix.execute("SELECT key, status, objective, bound FROM points").fetchall()
        except sqlite3.OperationalError:  # killed before the table was made
            return {}
    assert len({key for key, *_ in found}) == len(found)
    return {key: (status, objective, bound) for key, status, objective, bound in found}


def whole(folder: Path) -> Rows:
    """The rows of a sweep that nobody disturbs."""
    process = bench(folder, folder / "errors", dict(os.environ))
    process.communicate()
    assert process.returncode == 0, (folder / "errors").read_text()
    return rows(folder)


def announced(errors: Path) -> int:
    """How many rows ``chipmap bench`` has said were done."""
    return len(re.findall(r"^ *\d+/\d+ ", errors.read_text(), re.MULTILINE))


def killed_benches(runs: int, right: Rows, workplace: Callable[[], Any]) -> tuple[int, int]:
    """SIGKILL to ``chipmap bench`` at random moments after its first new row, and the same command again, until the
    sweep is done. Good: every announced row is kept, none differs from ``right``, no process is left, and the sweep
    ends with all rows. Returns how many kills were good, and how many there were."""
    good = done = 0
    while done < runs:
        with workplace() as folder:
            before: Rows = {}
            while done < runs and len(before) < len(right):
                mark, env = marked()
                errors = folder / "errors"
                process = bench(folder, errors, env)
                if said(process, errors, r"\d+/\d+ "):
                    time.sleep(random.Random(done).uniform(0.0, 0.8))
                was_there = kill(process.pid)
                process.communicate()
                left, kept = orphans(mark), rows(folder)
                new = announced(errors)
                fine = not left and len(kept) >= len(before) + new and kept.items() <= right.items()
                fine &= before.items() <= kept.items()
                before = kept
                done += was_there
                good += was_there and fine
                if not fine:
                    print(f"bench {done}: {len(kept)} rows, {new} announced, left {left}", file=sys.stderr)
            last = bench(folder, folder / "errors", dict(os.environ))
            last.communicate()
            if last.returncode != 0 or rows(folder) != right:
                good -= 1
    return good, done


def workers_of(pid: int, cluster: bool) -> list[int]:
    """The processes that solve for ``chipmap bench``: its children, or of Dask the workers that it has started."""
    found = [one for one in children(pid) if (b"chipmap.bench.worker" in _command(one)) != cluster]
    return [one for one in found if b"spawn_main" in _command(one)] if cluster else found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def killed_workers(runs: int, right: Rows, workplace: Callable[[], Any], cluster: bool = False) -> tuple[int, int]:
    """SIGKILL to a random worker of a sweep at random moments after the first row, again and again until it ends.

    Good, for a sweep and all kills in it: it ends in order, at most with points whose workers died three times
    ("lost"), no process is left, and the same command once more gives all rows, none of them other than ``right``.
    """
    good = done = number = 0
    while done < runs:
        with workplace() as folder:
            mark, env = marked()
            errors, draw = folder / "errors", random.Random(number)
            number += 1
            process = bench(folder, errors, env, *(["--cluster", "local"] if cluster else []))
            kills = 0
            if said(process, errors, r"\d+/\d+ "):
                while process.poll() is None and done + kills < runs:
                    found = workers_of(process.pid, cluster)
                    kills += kill(draw.choice(found)) if found else 0
                    seen = announced(errors)
                    while process.poll() is None and announced(errors) <= seen:
                        time.sleep(0.01)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(draw.uniform(0.0, 1.5))
            process.communicate()
            after, left = rows(folder), orphans(mark)
            lost = [key for key, row in after.items() if row[0] == "lost"]
            fine = process.returncode == (3 if lost else 0) and not left
            fine &= len(after) == len(right) and all(row == right[key] for key, row in after.items() if key not in lost)
            if lost:
                bench(folder, errors, dict(os.environ)).communicate()
                fine &= rows(folder) == right
            done += kills
            good += kills if fine else 0
            if not fine:
                print(f"sweep {number}: exit {process.returncode}, {len(after)} rows, left {left}", file=sys.stderr)
                print(errors.read_text()[-2000:], file=sys.stderr)
    return good, done


@contextmanager
def solving(folder: Path, seed: int, command: list[str]) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """``chipmap solve`` after its first incumbent, its standard error (a file), and its mark."""
    mark, env = marked()
    errors = folder / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, cwd=ROOT, env=env)
    said(process, errors, r"incumbent \d")
    time.sleep(random.Random(seed).uniform(0.0, 0.8))
    try:
        yield process, errors, mark
    finally:
        process.kill()
        process.wait()
