"""Compiles functions by name, one after the other: ``python -m chipmap.process.compiler``.

Standard input has a request after the other: eight bytes with the length of a pickle, and the pickle of a number, a
module, a function's name and numba's types of its arguments. For each, a line on standard output: the number, how many
functions were compiled for it, and the seconds of the processor that this took. The pipe is that of the process that
started it, so that nobody else can put a pickle there. When that process ends, what it asked for is still compiled.
After :data:`MOST` seconds of the processor the compiler ends.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

from chipmap.kernels.compiled import compilations
from chipmap.process.memory import cpu_limit

#: The most seconds of the processor.
MOST = 600


def main() -> int:
    """Serve standard input to its end."""
    cpu_limit(MOST)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    while (wanted := _next(requests)) is not None:
        number, module, name, types = wanted
        began, before = time.process_time(), compilations()
        with suppress(Exception):  # whoever calls the function compiles it then, and hears what is wrong
            getattr(import_module(module), name).compiled.compile(types)
        with suppress(BrokenPipeError):  # nobody listens any more
            answers.write(f"{number} {compilations() - before} {time.process_time() - began:.3f}\n")
            answers.flush()
    return 0


def _next(requests: BinaryIO) -> Any:
    """The next request; None at the end of the pipe."""
    size = requests.read(8)
    if len(size) < 8:
        return None
    data = requests.read(int.from_bytes(size, "big"))
    return pickle.loads(data)


if __name__ == "__main__":
    code = main()
    os._exit(code)
