"""Ctrl-C, SIGTERM and SIGHUP as a flag, so that whatever is running ends in order and its result is written whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within ``with Interrupts() as interrupts``, a signal sets ``interrupts.signal``.

    It also raises :class:`KeyboardInterrupt` if it is a second Ctrl-C, or while ``interrupts.eager`` is set (when there
    is nothing to lose). Only the main thread can catch signals; elsewhere this does nothing. An inner ``Interrupts``
    tells the outer one. A ``guest`` in somebody else's program catches Ctrl-C alone, and only where Python's own
    handler stands: what the program does at a signal stays its own.
    """

    def __init__(self, eager: bool = False, guest: bool = False) -> None:
        self.signal: int | None = None
        self.eager, self.guest = eager, guest
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number (130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP); None when there was none."""
        return None if self.signal is None else 128 + self.signal

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _CAUGHT:
                now = signal.getsignal(number)
                if number == signal.SIGHUP and now is signal.SIG_IGN:
                    continue  # nohup: the terminal may go
                ours = isinstance(getattr(now, "__self__", None), Interrupts)
                if self.guest and not ours and now is not signal.default_int_handler:
                    continue
                self._before[number] = signal.signal(number, self._catch)
                outer = self._outer(number)
                if outer is not None:
                    self.signal = outer.signal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, number
        outer = self._outer(number)
        if outer is not None:
            outer.signal = number
        if self.eager or (again and number == signal.SIGINT):
            raise KeyboardInterrupt

    def _outer(self, number: int) -> Interrupts | None:
        owner = getattr(self._before.get(number), "__self__", None)
        return owner if isinstance(owner, Interrupts) else None
