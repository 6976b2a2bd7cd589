"""Compiled once: of several processes that want a function, one compiles it and the others wait for it; and the ledger
of what was compiled, with the seconds of the processor that each function took.

The lock of a function is a file beside its index, which the system unlocks when its holder ends, however it ends. Who
holds one waits at most for those of functions that this one calls, so that nobody waits in a circle.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from chipmap.deadline import PAUSE, look

#: The ledger's name in each folder. The ending is that of compiled functions, so that what removes them removes it.
LEDGER = "ledger.nbi"
#: Hears that a function is kept now.
KEPT: list[Callable[[], None]] = []
#: Characters of the hash of the sources in the ledger.
_SHORT = 16


class Locks:
    """The locks that this process holds; numba compiles one function at a time in a process, with those it calls."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, path: str) -> None:
        """Hold the lock at ``path``, after whoever has it; without it where the file system knows none.

        Raises :class:`~chipmap.deadline.Stop` where the work around this must end before.
        """
        if path in self._held:
            return
        with suppress(OSError):
            lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                _wait(lock)
            except BaseException:
                os.close(lock)
                raise
            self._held[path] = lock

    def release(self, path: str) -> None:
        """Let the next one have it. The file goes: who waits for it has it open."""
        lock = self._held.pop(path, None)
        if lock is not None:
            with suppress(OSError):
                os.unlink(path)
            os.close(lock)


LOCKS = Locks()


def _wait(lock: int) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            look()
            time.sleep(PAUSE)


class Entry(NamedTuple):
    """A compiled function in the ledger: its sources, its name, seconds of the processor."""

    stamp: str
    name: str
    seconds: float


def note(folder: str, stamp: Any, name: str, seconds: float) -> None:
    """Add a function to the ledger of a folder, where that can be written."""
    with suppress(OSError), open(Path(folder) / LEDGER, "a", encoding="utf-8") as file:
        file.write(f"{str(stamp)[:_SHORT]}\t{name}\t{seconds:.3f}\n")


def noted(folders: Iterable[Path], stamp: str) -> list[Entry]:
    """What the ledgers in and below ``folders`` say of functions of these sources."""
    entries = []
    for path in {path for folder in folders for path in folder.rglob(LEDGER)}:
        for line in path.read_text("utf-8", "replace").splitlines():
            with suppress(ValueError):
                its, name, seconds = line.split("\t")
                if its == stamp[:_SHORT]:
                    entries.append(Entry(its, name, float(seconds)))
    return entries
