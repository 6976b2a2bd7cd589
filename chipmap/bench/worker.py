"""The child of a sweep: points as JSON lines on standard input, their rows on standard output.

It never outlives its parent, and takes no more memory than its argument says (bytes).
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import BinaryIO

from chipmap.process.memory import cap
from chipmap.process.worker import end_with_parent, own_stdout


def main() -> int:
    """Answer every line until the parent closes the pipe."""
    end_with_parent()
    lines, out = sys.stdin.buffer, own_stdout()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, waiting), daemon=True).start()
    cap(int(sys.argv[1]))

    from chipmap.bench.point import failed, solve_point
    from chipmap.bench.sweep import Point

    while True:
        point = Point.from_json(waiting.get(), "worker")
        try:
            row = solve_point(point)
        except MemoryError:
            row = failed(point, "unknown", "out of memory")
        except Exception as error:
            row = failed(point, "error", f"{type(error).__name__}: {error}")
        out.write(row.to_json() + b"\n")
        out.flush()


def _read(lines: BinaryIO, waiting: queue.SimpleQueue[bytes]) -> None:
    """Hand on the lines; end at once when the parent is gone."""
    while line := lines.readline():
        waiting.put(line)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
