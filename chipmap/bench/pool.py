"""Worker processes: every thread of a pool has a child of its own, which is replaced when it dies."""

from __future__ import annotations

import atexit
import os
import queue
import signal
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from chipmap.bench.point import Row, failed
from chipmap.bench.sweep import Point
from chipmap.process.supervisor import spawn

#: Seconds past its limit that a point has before its child is killed; a child may have to compile its kernels first.
GRACE = 60.0
#: How often a point is tried whose children die.
ATTEMPTS = 3


class ChildLostError(Exception):
    """A child died, or was killed since it ran past its limit (``late``)."""

    def __init__(self, late: bool) -> None:
        super().__init__("ran past its time limit" if late else "its process died")
        self.late = late


class Child:
    """A process that solves one point at a time (:mod:`chipmap.bench.worker`)."""

    def __init__(self, memory_gib: float) -> None:
        self.memory_gib = memory_gib
        memory = str(int(memory_gib * 2**30))
        self.process = spawn("chipmap.bench.worker", memory, stderr=subprocess.DEVNULL)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def solve(self, point: Point) -> Row:
        """The row of ``point``. Raises :class:`ChildLostError`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(point.to_json() + b"\n")
            self.process.stdin.flush()
            line = self._lines.get(timeout=point.time_limit_s + GRACE)
        except queue.Empty:
            self.kill()
            raise ChildLostError(late=True) from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self.kill()
            raise ChildLostError(late=False)
        return Row.from_json(line, "worker")

    def kill(self) -> None:
        """End it, and whatever it has started."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


class Solver:
    """A child that is replaced when it dies, and then tries its point again."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._closed = False

    def solve(self, data: bytes) -> bytes:
        """The row of a point, both as JSON."""
        point = Point.from_json(data, "sweep")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ready(point.memory_gib).solve(point).replace(attempts=attempt).to_json()
            except ChildLostError as error:
                self._child = None
                if error.late or self._closed:
                    return failed(point, "unknown", f"killed: {error}", attempt).to_json()
        return failed(point, "lost", f"its process died {ATTEMPTS} times", ATTEMPTS).to_json()

    def _ready(self, memory_gib: float) -> Child:
        if self._child is not None and self._child.memory_gib != memory_gib:
            self._child.kill()
            self._child = None
        if self._child is None:
            self._child = Child(memory_gib)
        return self._child

    def close(self) -> None:
        """End the child; a point under way is given up."""
        self._closed = True
        if self._child is not None:
            self._child.kill()


_here = threading.local()


def solve_isolated(data: bytes) -> bytes:
    """The row of a point, both as JSON, by a child of this very thread (what Dask's workers run)."""
    if not hasattr(_here, "solver"):
        _here.solver = Solver()
        atexit.register(_here.solver.close)
    row: bytes = _here.solver.solve(data)
    return row


class LocalPool:
    """Points solved by ``workers`` processes of this machine, one for each thread of a pool."""

    def __init__(self, workers: int) -> None:
        self._solvers: list[Solver] = []
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(workers, initializer=self._begin)

    def _begin(self) -> None:
        self._own.solver = Solver()
        self._solvers.append(self._own.solver)

    def submit(self, point: Point) -> Future[bytes]:
        """Have ``point`` solved: a future of its row (JSON)."""
        return self._pool.submit(lambda: self._own.solver.solve(point.to_json()))

    def close(self) -> None:
        """Drop what hasn't begun and end the children."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for solver in self._solvers:
            solver.close()
        self._pool.shutdown()
