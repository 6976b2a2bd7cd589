"""Limits on the memory of a process (``RLIMIT_AS``: bytes of address space) and on its seconds of the processor, as the
system keeps them; its garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Bytes that :func:`room` leaves at least: compiled functions are loaded into them.
LEAST = 256 * 2**20
_held = threading.Lock()


#: Objects that are made until Python looks for cycles among the young ones, and how often it looks at older ones.
SELDOM = (100_000, 10, 10)


def collect_seldom() -> None:
    """Have Python look for cycles seldom in this process: on large records, half of all time goes there."""
    gc.set_threshold(*SELDOM)


def cap(limit: int | None) -> None:
    """Let this process take no more memory than so many bytes, from now on."""
    if limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def cpu_limit(seconds: int) -> None:
    """End this process after so many seconds of the processor from its start, on all cores together."""
    import resource

    with suppress(OSError, ValueError):  # the user's own limit is lower
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


@contextmanager
def room(limit: int | None) -> Iterator[None]:
    """Within it, this process may grow up to ``limit`` bytes of memory in use (or by :data:`LEAST`, if that is more).

    What is above fails with ``MemoryError``. The limit is lifted afterwards. The process may be somebody else's: it
    keeps what it has, and where several threads ask at once, the first one's limit counts.
    """
    used = _used()
    if limit is None or used is None or not _held.acquire(blocking=False):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped, resident = used
    most = mapped + max(limit - resident, LEAST)
    try:
        if soft == resource.RLIM_INFINITY or most < soft:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        _held.release()


def _used() -> tuple[int, int] | None:
    """Bytes that are mapped and bytes in memory now; None where the system doesn't say."""
    try:
        import resource

        pages = Path("/proc/self/statm").read_text().split()
    except (ImportError, OSError):
        return None
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()
