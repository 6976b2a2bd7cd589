"""Compiling a family's functions once, outside everybody's time limit.

numba compiles a function at its first call and keeps it on disk (:mod:`chipmap.kernels`). Where a run must not pay for
that (``--compile first``), tiny instances of the family are solved before its clock starts, by the methods that its
record names (:attr:`chipmap.family.Family.warm`), in a process that no limit of the user's ends. Markers beside the
compiled functions say which of these solves were done for these sources.

Nothing that is compiled is lost. When a command is stopped, this process ends with the function at hand; when it is
killed the process goes on. It holds the lock as long, so that the next command waits for it. It ends after :data:`MOST`
seconds of the processor.
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
from pathlib import Path
from typing import NamedTuple

from chipmap.family import Family
from chipmap.kernels import disabled
from chipmap.kernels.folders import FORMAT, SHARED, fresh, homes, provide, sources_hash, trusted, user_cache
from chipmap.kernels.once import noted
from chipmap.process.child import environment
from chipmap.process.demand import Compiling, Tell, nobody

#: The most seconds of the processor that a family's solves may take, the seconds between two looks at them, and
#: between two looks at what is compiled.
MOST, PAUSE, LOOK = 600, 0.02, 0.5
#: About how many functions a family has to compile: what a bar ends with (``chipmap doctor`` counts them).
ABOUT = {"ring": 9, "placement": 18, "multimodel": 23, "wafer": 43, "dataflow": 32}
_PACKAGE = Path(__file__).resolve().parents[1]
#: Processes that were told to end with the function at hand.
_ENDING: list[subprocess.Popen[bytes]] = []


class _Solve(NamedTuple):
    """What compiles a part of a family: a shipped instance, the method, the file that says that it was done."""

    instance: str
    method: str
    marker: Path


def is_warm(family: Family) -> bool:
    """Whether what ``family`` needs was compiled, or nothing is."""
    return not family.warm or disabled() or any(not _missing(family, folder) for folder in _folders(family))


class Kept(NamedTuple):
    """What is kept of a family's compiled functions: how many, their bytes, the folders they lie in (the roots of
    them), the seconds of the processor that compiling them took as far as that was noted, and whether that is the
    ``whole`` of what :func:`warm` compiles."""

    family: str
    whole: bool
    functions: int
    bytes: int
    seconds: float
    folders: tuple[str, ...]


def kept(family: Family) -> Kept:
    """The compiled functions of ``family`` on this machine's disk, of the sources as they are."""
    rooms = tuple(_PACKAGE / room for room in ("heuristics", "instances"))
    stamp = sources_hash(family.name, rooms)
    provide(_PACKAGE)
    functions, size, folders = 0, 0, dict[Path, None]()
    for folder in [home for sources in _sources(family) for home in homes(sources)]:
        for index in folder.glob(f"*.{FORMAT}.nbi"):
            if fresh(index, stamp):
                files = list(folder.glob(f"{index.stem}.*.nbc"))
                functions += len(files)
                size += sum(path.stat().st_size for path in files)
                folders[folder] = None
    roots = dict.fromkeys(str(_PACKAGE if one.is_relative_to(_PACKAGE) else one.parent) for one in folders)
    seconds = sum(one.seconds for one in noted(folders, stamp))
    return Kept(family.name, is_warm(family), functions, size, round(seconds, 1), tuple(roots))


def _sources(family: Family) -> list[Path]:
    """The folders of a family's sources that may hold functions to compile."""
    rooms = [_PACKAGE / room / family.name for room in ("heuristics", "instances")]
    return sorted({path.parent for room in rooms for path in room.rglob("*.py")})


def warm(family: Family, tell: Tell = nobody, stopped: Callable[[], bool] = lambda: False) -> float:
    """Compile what ``family`` needs, unless that was done; returns the seconds that it took.

    ``tell`` hears how far it has come, also while it waits for another command that does it. Where nothing can be
    written, where it fails, or when it is ``stopped``, functions are compiled when they are first called.
    """
    began = time.monotonic()
    if is_warm(family):
        return 0.0
    folder = next((folder for folder in _folders(family) if _writable(folder)), None)
    if folder is None:
        return 0.0
    looking = _looking(family, stopped, tell)
    with _alone(folder / f"warm-{family.name}.lock", looking) as lock:
        _compile(_missing(family, folder), lock, looking)
    return time.monotonic() - began


def _looking(family: Family, stopped: Callable[[], bool], tell: Tell) -> Callable[[], bool]:
    """``stopped``, which tells how far it has come from time to time."""
    last = -LOOK

    def looked() -> bool:
        """Whether to stop; tells how many functions are there if the last word was long ago."""
        nonlocal last
        if time.monotonic() >= last + LOOK:
            now = kept(family)
            left = max(1, ABOUT.get(family.name, 0) - now.functions)
            tell(Compiling(family.name, now.functions, left, now.seconds))
            last = time.monotonic()
        return stopped()

    return looked


def _missing(family: Family, folder: Path) -> list[_Solve]:
    """The solves of ``family`` that weren't done yet, as far as the markers in ``folder`` tell.

    A marker's name is a hash of the sources' names, sizes and times, of what is solved, and of the Python.
    """
    sources = hashlib.sha256(f"{sys.implementation.cache_tag} {FORMAT}".encode())
    own = [
        path for room in ("heuristics", "instances") for path in sorted((_PACKAGE / room / family.name).rglob("*.py"))
    ]
    for path in (*(_PACKAGE / "kernels" / name for name in SHARED), *own):
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
    provide(_PACKAGE)
    if "NUMBA_CACHE_DIR" in os.environ:
        yield Path(os.environ["NUMBA_CACHE_DIR"])
        return
    yield _PACKAGE / "heuristics" / family.name / "__pycache__"
    yield from (folder / "chipmap" for folder in user_cache())


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
    """Do the solves, one after the other in a process without a limit of the user's; it keeps ``lock`` held."""
    if not todo:
        return
    nothing, wanted = subprocess.DEVNULL, [(one.instance, one.method, str(one.marker)) for one in todo]
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "chipmap.process.compiling", str(MOST), *(word for one in wanted for word in one)],
        env=environment(),
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
    )
    try:
        while child.poll() is None and not stopped():
            time.sleep(PAUSE)
    finally:
        child.terminate()
        _ENDING[:] = [one for one in [*_ENDING, child] if one.poll() is None]
