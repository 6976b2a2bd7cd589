"""Functions that a run needs, compiled in another process while it goes on with what needs none of them.

A run in a child process that comes to a function which isn't compiled yet asks :class:`Demand` for it. That sends the
function's name and the types of its arguments to a compiler (:mod:`chipmap.process.compiler`), and the part of the
chain ends there (:class:`chipmap.kernels.Unready`); the chain comes back to it (:func:`chipmap.methods.chain.follow`).
The compiler keeps each function on disk as soon as it is done, so that nothing is compiled twice, whoever is stopped.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chipmap.process.child import environment


@dataclass
class Function:
    """A function that has been asked for, and whether the compiler is through with it."""

    number: int
    done: bool = False

    def ready(self) -> bool:
        """Whether it can be called now."""
        return self.done


class Demand:
    """The functions that a process has asked for. ``tell`` hears how many are compiled, in how many seconds of the
    processor, and how many are wanted."""

    def __init__(self, tell: Callable[[int, float, int], None] = lambda functions, seconds, asked: None) -> None:
        self.functions, self.seconds = 0, 0.0
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
            return None if self._failed else self._asked[key]

    def _send(self, wanted: tuple[int, str, str, Any]) -> None:
        try:
            if self._compiler is None:
                self._compiler = _started()
                threading.Thread(target=self._hear, args=(self._compiler,), daemon=True).start()
            data = pickle.dumps(wanted)
            assert self._compiler.stdin is not None
            self._compiler.stdin.write(len(data).to_bytes(8, "big") + data)
            self._compiler.stdin.flush()
        except (OSError, pickle.PicklingError):
            self._give_up()

    def _hear(self, compiler: subprocess.Popen[bytes]) -> None:
        """Take in what the compiler is through with, until it ends."""
        assert compiler.stdout is not None
        for line in compiler.stdout:
            number, functions, seconds = line.split()
            with self._lock:
                self.functions += int(functions)
                self.seconds += float(seconds)
                next(one for one in self._asked.values() if one.number == int(number)).done = True
                asked = sum(not one.done for one in self._asked.values())
            self._tell(self.functions, self.seconds, asked)
        with self._lock:
            self._give_up()

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
