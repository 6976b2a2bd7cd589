"""When a piece of work must end: one moment, and whoever may end it before. Every loop asks its deadline.

A run has one (:attr:`chipmap.run.Run.deadline`). Parts of its work get shares of it, and inner runs inherit it, so
that nothing outlives the user's limit. Seconds are those of :func:`time.monotonic`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, Protocol

#: Seconds between two looks at whether a function is compiled.
PAUSE = 0.02
StopReason = Literal["time", "interrupted", "gap", "iteration", "ready"]


class Stop(Exception):  # noqa: N818 - a signal, not an error
    """Raised where work must end: its time is up, the user interrupts, the gap is closed, the calls that it may make
    are used up (``iteration``), or earlier work can go on (``ready``). What was found stays."""

    def __init__(self, limit: StopReason = "time") -> None:
        self.limit: StopReason = limit
        super().__init__(limit)


class Awaited(Protocol):
    """A function that is compiled in another process."""

    def ready(self) -> bool:
        """Whether it can be called now, or will never be compiled there."""


class Unready(BaseException):
    """A function would have to be compiled within a time limit (no Exception: no method is to handle it).

    ``awaited`` says when it is ready, where it is compiled meanwhile (:mod:`chipmap.process.demand`).
    """

    def __init__(self, awaited: Awaited | None = None) -> None:
        super().__init__()
        self.awaited = awaited


@dataclass(frozen=True)
class Deadline:
    """Work must end at ``until``, or as soon as ``ended()`` names another reason.

    Whoever asks after the moment is told so, and ``passed()`` is called: what follows depends on the machine's speed.
    ``part``: the share of the whole limit that it is, whatever the clock has left (:meth:`share`).
    Where it is ``patient``, shares of it are seconds of the processor (:meth:`share`). ``processor``: the thread whose
    work must end when it has had so many of them (:func:`time.thread_time`).
    """

    until: float = float("inf")
    ended: Callable[[], StopReason | None] = lambda: None
    passed: Callable[[], None] = lambda: None
    patient: bool = False
    processor: tuple[int, float] | None = None
    part: float = 1.0

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """The deadline in so many seconds from now (None: never)."""
        return cls() if seconds is None else cls(time.monotonic() + seconds)

    @property
    def seconds(self) -> float:
        """Seconds left, never below 0; infinite without a limit."""
        left = self.until - time.monotonic()
        if self.processor is not None and self.processor[0] == threading.get_ident():
            left = min(left, self.processor[1] - time.thread_time())
        if left <= 0.0:
            self.passed()
        return max(0.0, left)

    def keep_going(self) -> bool:
        """Whether work may go on."""
        return self.ended() is None and self.seconds > 0.0

    def check(self) -> None:
        """Raise :class:`Stop` unless work may go on."""
        reason = self.ended() or ("time" if self.seconds <= 0.0 else None)
        if reason is not None:
            raise Stop(reason)

    def wait(self, awaited: Awaited) -> None:
        """Wait until a function is compiled. Raises :class:`Stop` when work must end before."""
        while not awaited.ready():
            self.check()
            time.sleep(PAUSE)

    def share(self, part: float) -> Deadline:
        """The deadline after ``part`` of the time that is left now.

        Where it is patient: once this thread has had so many seconds of the processor. On a busy machine that takes
        longer, but at most twice the part by the clock, and at most half of what the part leaves to others.
        """
        left, whole = self.seconds, replace(self, part=self.part * part)
        if not self.patient or left == float("inf"):
            return whole.within(part * left)
        spent = time.thread_time() + part * left
        longest = whole.within(min(2 * part, (1 + part) / 2) * left)
        return replace(longest, processor=(threading.get_ident(), spent))

    def within(self, seconds: float) -> Deadline:
        """The deadline in so many seconds from now, or this one if that comes first."""
        return replace(self, until=min(self.until, time.monotonic() + seconds))

    def late(self, seconds: float) -> Deadline:
        """So many seconds after this deadline, or from now where it has passed: for work that a result depends on."""
        return Deadline(max(self.until, time.monotonic()) + seconds, self.ended)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Within this, and in this thread, :func:`look` asks this deadline."""
        before = _HEEDED.set(self)
        try:
            yield
        finally:
            _HEEDED.reset(before)


#: The deadline of the work that a thread is doing.
_HEEDED: ContextVar[Deadline] = ContextVar("heeded", default=Deadline())


def around() -> Deadline:
    """The deadline of the work that this thread is doing; never, outside a run."""
    return _HEEDED.get()


def look() -> None:
    """Raise :class:`Stop` where the work around this must end.

    For the loops that state models: they belong to anybody's model and know nothing of runs. Outside a run it does
    nothing.
    """
    _HEEDED.get().check()
