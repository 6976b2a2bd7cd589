"""Worker processes: every thread of a pool has a child of its own, which is replaced when it dies."""

from __future__ import annotations

import atexit
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from chipmap.bench.point import Row, failed
from chipmap.bench.sweep import Point
from chipmap.process.child import Child

#: Seconds past its limit that a point has before its child is killed; a child may have to compile its kernels first.
GRACE = 60.0
#: How often a point is tried whose children die.
ATTEMPTS = 3


class Solver:
    """A child (:mod:`chipmap.bench.worker`) that is replaced when it dies, and then tries its point again."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._memory_gib = 0.0
        self._closed = False

    def solve(self, data: bytes) -> bytes:
        """The row of a point, both as JSON."""
        point = Point.from_json(data, "sweep")
        for attempt in range(1, ATTEMPTS + 1):
            child, late = self._ready(point.memory_gib), False
            child.send(point)
            try:
                line = child.lines.get(timeout=point.time_limit_s + GRACE)
            except queue.Empty:
                line, late = None, True
            if line is not None and line.endswith(b"\n"):
                return Row.from_json(line, "worker").replace(attempts=attempt).to_json()
            self._end()
            if late or self._closed:
                why = "ran past its time limit" if late else "its process died"
                return failed(point, "unknown", f"killed: {why}", attempt).to_json()
        return failed(point, "lost", f"its process died {ATTEMPTS} times", ATTEMPTS).to_json()

    def _ready(self, memory_gib: float) -> Child:
        if self._memory_gib != memory_gib:
            self._end()
        if self._child is None:
            self._child, self._memory_gib = Child("chipmap.bench.worker", str(int(memory_gib * 2**30))), memory_gib
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def close(self) -> None:
        """End the child; a point under way is given up."""
        self._closed = True
        self._end()


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
