"""Solves whose kernels run compiled, however small their instances: ``python -m chipmap.process.compiling SECONDS
[INSTANCE METHOD MARKER] ...``, one after the other in one process, so that what they have in common is compiled once.
Where a method comes to its end, the file MARKER is made. With the first that doesn't the process ends, with code 1
(:mod:`chipmap.process.warming`). After so many seconds of the processor the system ends it, whatever it does, and
whether or not its parent still lives. At SIGTERM it ends as soon as the function at hand is kept.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read
from chipmap.kernels.once import KEPT, LOCKS
from chipmap.process.conduct import at_once, checker, guarded, start_method
from chipmap.process.memory import cpu_limit
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions


def main(name: str, method: str) -> int:
    """Solve the shipped instance by the method, or the function (``module:function``), on one thread."""
    instance = read(name)
    family = family_of(instance)
    function = method if ":" in method else family.method(method).function
    before = None if ":" in method else start_method(family, family.method(method), None)
    run = Run(instance, SolveOptions(threads=1), checker(family, None))

    def work() -> Termination:
        """What a solve of the instance does, in one process: bounds, start, method."""
        at_once(run, family)
        if before is not None:
            resolve(before)(instance, run)
        run.checkpoint()
        ended: Termination = resolve(function)(instance, run)
        return ended

    reason = guarded(run, work).reason
    return int(reason in ("other_error", "numerical_error", "imprecise"))


def _end(number: int, frame: FrameType | None) -> None:
    """End, at once or after the function at hand."""
    KEPT.append(lambda: os._exit(1))
    if not LOCKS:
        os._exit(1)


def every(arguments: Sequence[str]) -> int:
    """Do the solves that triples of arguments name: an instance, a method, a marker. 0 if all came to their end."""
    for instance, method, marker in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
        if main(instance, method):
            return 1
        with suppress(OSError):
            Path(marker).touch()
    return 0


if __name__ == "__main__":
    cpu_limit(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, _end)
    os._exit(every(sys.argv[2:]))
