"""Compiling a family's functions once, outside everybody's time limit.

numba compiles a function at its first call and keeps it on disk (:mod:`chipmap.kernels`). A run with a time limit must
not pay for that: before its clock starts, tiny instances of the family are solved by the methods that its record names
(:attr:`chipmap.family.Family.warm`), in processes that no limit of the user's ends. Markers beside the compiled
functions say which of these solves were done for these sources. What a process has compiled stays, also where it is
interrupted.

These processes outlive a command that is killed, as the longest function takes many seconds: a command that is killed
after few seconds, again and again, would never come to its end. They last for :data:`MOST` seconds at most and hold the
lock until then, so that the next command waits for them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import NamedTuple

from chipmap.family import Family
from chipmap.kernels import disabled
from chipmap.kernels.folders import FORMAT, trusted
from chipmap.process.child import environment

#: The most seconds that compiling may take, and those between two looks at what it does.
MOST, PAUSE = 300.0, 0.02
_PACKAGE = Path(__file__).resolve().parents[1]


class _Solve(NamedTuple):
    """What compiles a part of a family: a shipped instance, the method, the file that says that it was done."""

    instance: str
    method: str
    marker: Path


def is_warm(family: Family) -> bool:
    """Whether what ``family`` needs was compiled, or nothing is."""
    return not family.warm or disabled() or any(not _missing(family, folder) for folder in _folders(family))


class Kept(NamedTuple):
    """What is kept of a family's compiled functions: how many, their bytes and their folder (of the first where they
    lie in several), and whether that is the ``whole`` of what :func:`warm` compiles."""

    family: str
    whole: bool
    functions: int
    bytes: int
    folder: str


def kept(family: Family) -> Kept:
    """The compiled functions of ``family`` on this machine's disk."""
    rooms = [_PACKAGE / room / family.name for room in ("heuristics", "instances")]
    named = os.environ.get("NUMBA_CACHE_DIR")
    folders = [Path(named)] if named else [*rooms, Path("~/.cache/numba").expanduser()]
    hashes = [hashlib.sha1(str(path.parent).encode()).hexdigest() for room in rooms for path in room.rglob("*.py")]
    found = [path for folder in folders for path in folder.rglob(f"*.{FORMAT}.*.nbc")]
    own = [path for path in found if path.is_relative_to(_PACKAGE) or any(one in path.parent.name for one in hashes)]
    where = str(folders[0] if named or not own or own[0].is_relative_to(_PACKAGE) else own[0].parents[1])
    return Kept(family.name, is_warm(family), len(own), sum(path.stat().st_size for path in own), where)


def warm(
    family: Family, tell: Callable[[str], None] = lambda text: None, stopped: Callable[[], bool] = lambda: False
) -> float:
    """Compile what ``family`` needs, unless that was done; returns the seconds that it took.

    ``tell`` hears a sentence before it begins, or waits for another command that does it. Where nothing can be written,
    where it fails, when it is ``stopped``, or after :data:`MOST` seconds, functions are compiled when they are first
    called.
    """
    began = time.monotonic()
    if is_warm(family):
        return 0.0
    folder = next((folder for folder in _folders(family) if _writable(folder)), None)
    if folder is None:
        return 0.0
    until = began + MOST
    tell(f"compiling the programs of family {family.name}, once (up to two minutes; --time-limit starts after it)")
    with _alone(folder / f"warm-{family.name}.lock", lambda: stopped() or time.monotonic() > until) as lock:
        _compile(_missing(family, folder), lock, lambda: stopped() or time.monotonic() > until)
    return time.monotonic() - began


def _missing(family: Family, folder: Path) -> list[_Solve]:
    """The solves of ``family`` that weren't done yet, as far as the markers in ``folder`` tell.

    A marker's name is a hash of the sources' names, sizes and times, of what is solved, and of the Python.
    """
    sources = hashlib.sha256(f"{sys.implementation.cache_tag} {FORMAT}".encode())
    own = [
        path for room in ("heuristics", "instances") for path in sorted((_PACKAGE / room / family.name).rglob("*.py"))
    ]
    for path in (_PACKAGE / "kernels" / "annealing.py", *own):
        state = path.stat()
        sources.update(f"{path.relative_to(_PACKAGE)} {state.st_size} {state.st_mtime_ns} ".encode())
    solves = []
    for instance, method in family.warm:
        found = sources.copy()
        found.update(f"{instance} {method}".encode())
        # the ending is that of compiled functions, so that what removes these removes it as well
        solves.append(_Solve(instance, method, folder / f"warm-{found.hexdigest()[:32]}.nbi"))
    return [solve for solve in solves if not solve.marker.exists()]


def _folders(family: Family) -> Iterator[Path]:
    """Where a marker may lie: where numba is told to keep its files, beside the sources, or in the user's cache."""
    if "NUMBA_CACHE_DIR" in os.environ:
        yield Path(os.environ["NUMBA_CACHE_DIR"])
        return
    yield _PACKAGE / "heuristics" / family.name / "__pycache__"
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "chipmap"


def _writable(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK) and trusted(folder)


@contextmanager
def _alone(path: Path, stopped: Callable[[], bool]) -> Iterator[int | None]:
    """Hold the lock at ``path``, so that others who want the same wait; wait for them unless ``stopped``, too. Without
    it where the file system knows no locks.

    Yields the lock's descriptor: a child that inherits it holds the lock as well.
    """
    lock = None
    with suppress(OSError):
        lock = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        while lock is not None and not stopped():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(PAUSE)
            except OSError:  # no locks here
                break
            else:
                break
        yield lock
    finally:
        if lock is not None:
            os.close(lock)


def _compile(todo: list[_Solve], lock: int | None, stopped: Callable[[], bool]) -> None:
    """Run the solves, as many at a time as there are cores; where one fails, no more are begun."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    running = list[subprocess.Popen[bytes]]()
    try:
        while (todo or running) and not stopped():
            while todo and len(running) < cores:
                running.append(_solving(todo.pop(0), lock))
            for child in [child for child in running if child.poll() is not None]:
                running.remove(child)
                if child.returncode != 0:
                    todo = []
            time.sleep(PAUSE)
    finally:
        for child in running:
            child.kill()
            child.wait()


def _solving(solve: _Solve, lock: int | None) -> subprocess.Popen[bytes]:
    """A solve without a limit in a process of its own, whose kernels run compiled; it keeps ``lock`` held, and makes
    the marker at its end."""
    nothing, arguments = subprocess.DEVNULL, (solve.instance, solve.method, str(ceil(MOST)), str(solve.marker))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "chipmap.process.compiling", *arguments],
        env=environment(),
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
    )
