"""Who judges checkpoints while training goes on: processes of this machine, or a Dask cluster's workers."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from chipmap.bench.cluster import ClusterPool
from chipmap.deadline import Deadline, Stop
from chipmap.learned.placement import judging as of_placement
from chipmap.learned.ring import judging as of_ring
from chipmap.learned.ring.judging import Judged
from chipmap.process.child import Child
from chipmap.records import ChipmapError

#: What judges the policies of each family.
JUDGES = {"ring": of_ring, "placement": of_placement}
#: Seconds between two looks at the clock while a judge works.
LOOK_S = 0.2


class Judges(Protocol):
    """Whoever judges checkpoints on the validation graphs."""

    def submit(self, checkpoint: Path, samples: int, seed: int, deadline: Deadline) -> Future[Judged]:
        """Have a checkpoint judged by so many samples a graph; given up where the deadline falls."""

    def close(self) -> None:
        """Drop what hasn't begun, and end."""


class JudgeFailedError(ChipmapError):
    """A judge ended without a verdict."""


class LocalJudges:
    """At most ``workers`` children at a time, one for each checkpoint (:mod:`chipmap.learned.ring.judging`, or that of
    another ``family``)."""

    def __init__(self, workers: int, family: str = "ring") -> None:
        self._pool, self._module = ThreadPoolExecutor(workers), JUDGES[family].__name__
        self._closed = Event()

    def submit(self, checkpoint: Path, samples: int, seed: int, deadline: Deadline) -> Future[Judged]:
        """Have a checkpoint judged by a child."""
        return self._pool.submit(_judged, self._module, checkpoint, samples, seed, deadline, self._closed)

    def close(self) -> None:
        """Drop what hasn't begun, and end children that work."""
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)


class ClusterJudges:
    """Workers of a Dask cluster, which get the checkpoint's bytes: they needn't see this machine's files."""

    def __init__(self, cluster: ClusterPool, family: str = "ring") -> None:
        self._cluster, self._judged = cluster, JUDGES[family].judged_elsewhere
        self._pool: Any = cluster.executor()
        self._asked: list[Future[Judged]] = []

    def submit(self, checkpoint: Path, samples: int, seed: int, deadline: Deadline) -> Future[Judged]:
        """Have a checkpoint judged by some worker."""
        files = checkpoint.read_bytes(), checkpoint.with_suffix(".json").read_bytes()
        self._asked.append(self._pool.submit(self._judged, *files, samples, seed))
        return self._asked[-1]

    def close(self) -> None:
        """Drop what isn't judged yet, and leave the cluster."""
        for future in self._asked:
            future.cancel()
        self._cluster.close()


def _judged(module: str, checkpoint: Path, samples: int, seed: int, deadline: Deadline, closed: Event) -> Judged:
    """The verdict of a child; it ends when the deadline does, and once its judges are ``closed``."""
    child = Child(module, str(checkpoint), "validation", str(samples), str(seed))
    try:
        while deadline.keep_going():
            if closed.is_set():
                raise Stop
            if child.wait(LOOK_S) is not None:
                break
        deadline.check()
        line = child.lines.get()
        if line is None:
            said = child.tail.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise JudgeFailedError(f"the judge of {checkpoint.name} failed; it said: {said[0]}")
        return Judged.from_json(line, "judge")
    finally:
        child.kill()
