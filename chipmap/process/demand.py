"""Functions that a run needs, compiled in another process while it goes on with what needs none of them.

A run that comes to a function which isn't compiled yet asks :class:`Demand` for it. That sends the function's name and
the types of its arguments to a compiler (:mod:`chipmap.process.compiler`), and the part of the chain ends there
(:class:`chipmap.kernels.Unready`); the chain comes back to it (:func:`chipmap.methods.chain.follow`). With ``patient``
whoever calls the function waits for it, as a run without a time limit does; it ends as soon as it is cancelled.
The compiler keeps each function on disk as soon as it is done, so that nothing is compiled twice, whoever is stopped.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from chipmap.process.child import environment
from chipmap.records import counted


class Compiling(NamedTuple):
    """How far compiling has come for a family: functions done, functions still to do (those that are known), and the
    seconds of the processor that it has taken.

    >>> print(Compiling("ring", 30, 10, 12.3))
    compiling what family ring needs, once: 30 functions done, 10 to do, 12 s
    """

    family: str
    done: int
    left: int
    seconds: float

    def __str__(self) -> str:
        far = f"{counted(self.done, 'function')} done, {self.left} to do, {self.seconds:.0f} s"
        return f"compiling what family {self.family} needs, once: {far}"


#: Hears how far compiling has come.
Tell = Callable[[Compiling], None]


def nobody(now: Compiling) -> None:
    """Hears nothing."""


@dataclass
class Function:
    """A function that has been asked for, and whether the compiler is through with it."""

    number: int
    done: bool = False

    def ready(self) -> bool:
        """Whether it can be called now."""
        return self.done


class Demand:
    """The functions that a process has asked for, for a family; ``tell`` hears whenever one is asked for, or done."""

    def __init__(self, family: str = "", tell: Tell = nobody, patient: bool = False) -> None:
        self.family, self.functions, self.seconds, self.patient = family, 0, 0.0, patient
        self._tell, self._asked, self._lock = tell, dict[Any, Function](), threading.Lock()
        self._compiler: subprocess.Popen[bytes] | None = None
        self._failed = False

    def __call__(self, module: str, name: str, types: Any) -> Function | None:
        """What becomes of a function with arguments of these types; None where the compiler doesn't make it: it is to
        be compiled where it is called."""
        key = module, name, types
        with self._lock:
            if "<locals>" in name or self._failed or (key in self._asked and self._asked[key].done):
                return None
            if key not in self._asked:
                wanted = self._asked[key] = Function(len(self._asked))
                self._send((wanted.number, module, name, types))
                self._say()
            return None if self._failed else self._asked[key]

    def _send(self, wanted: tuple[int, str, str, Any]) -> None:
        try:
            data = pickle.dumps(wanted)
            if self._compiler is None:
                self._compiler = _started()
                threading.Thread(target=self._hear, args=(self._compiler,), daemon=True).start()
            assert self._compiler.stdin is not None
            self._compiler.stdin.write(len(data).to_bytes(8, "big") + data)
            self._compiler.stdin.flush()
        except (OSError, pickle.PicklingError, AttributeError, TypeError):  # the last two: a type that has no name
            self._give_up()

    def close(self) -> None:
        """Nothing more will be asked for; what was is still compiled, whether or not this process lives on."""
        with self._lock:
            if self._compiler is not None and self._compiler.stdin is not None:
                with suppress(OSError):
                    self._compiler.stdin.close()
            self._failed = True

    def _hear(self, compiler: subprocess.Popen[bytes]) -> None:
        """Take in what the compiler is through with, until it ends."""
        assert compiler.stdout is not None
        with compiler.stdout:
            for line in compiler.stdout:
                number, functions, seconds = line.split()
                with self._lock:
                    self.functions += int(functions)
                    self.seconds += float(seconds)
                    next(one for one in self._asked.values() if one.number == int(number)).done = True
                    self._say()
        with self._lock:
            self._give_up()
        compiler.wait()

    def _say(self) -> None:
        left = sum(not one.done for one in self._asked.values())
        try:
            self._tell(Compiling(self.family, self.functions, left, self.seconds))
        except Exception as error:  # the listener's own
            self._tell = nobody
            traceback.print_exception(error)

    def _give_up(self) -> None:
        """Without the compiler functions are compiled where they are called."""
        self._failed = True
        for one in self._asked.values():
            one.done = True


def _started() -> subprocess.Popen[bytes]:
    """A compiler in a session of its own: it finishes what it was asked for when this process ends."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "chipmap.process.compiler"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
