"""Tasks that work side by side on one run: threads whose finds the run's own thread checks and keeps.

Compiled kernels and solvers release the interpreter, so threads are enough; and no process is left behind when a solve
is stopped hard. Only the run's own thread touches the run: a task hands over what it found and asks whether to go on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chipmap.records import Record
from chipmap.run import Run

#: Seconds between two looks at the deadline, and how long stopped tasks get to notice.
TICK = 0.05
PATIENCE = 5.0


@dataclass(frozen=True)
class Find:
    """What a task hands over: a solution or a bound (ticks) with its source, the end of a task, or its failure."""

    source: str
    solution: Record | None = None
    bound: int | None = None
    failure: BaseException | None = None
    ends: bool = False


@dataclass
class Member:
    """A task's way to its run. ``until`` is the moment (monotonic) at which the task should hand over to the next."""

    run: Run
    finds: queue.SimpleQueue[Find]
    stopping: threading.Event
    until: float = field(default=float("inf"))

    def keep_going(self) -> bool:
        """Whether the task should go on: its share isn't used up, nobody stopped the run."""
        return not self.stopping.is_set() and time.monotonic() < self.until

    @property
    def seconds(self) -> float:
        """Seconds until the task should hand over, at most those that the run has left."""
        return max(0.0, min(self.until - time.monotonic(), self.run.remaining))

    def share(self, part: float) -> Member:
        """The member with ``part`` of the time that the run has left (all of it where there is no limit)."""
        return Member(
            self.run, self.finds, self.stopping, min(self.until, time.monotonic() + part * self.run.remaining)
        )

    def solution(self, source: str) -> Callable[[Record], None]:
        """What takes the solutions of ``source``."""
        return lambda solution: self.finds.put(Find(source, solution=solution))

    def bound(self, value: int, source: str) -> None:
        """Hand over a lower bound in ticks."""
        self.finds.put(Find(source, bound=value))


Task = Callable[[Member], None]


def work_together(run: Run, lanes: list[list[Task]]) -> None:
    """Run the tasks of each lane one after the other, the lanes side by side, until all end or the run must stop.

    Raises :class:`chipmap.run.Stop` as ``run.checkpoint`` does, after what was handed over has been kept, and whatever
    a task raised.
    """
    finds: queue.SimpleQueue[Find] = queue.SimpleQueue()
    member = Member(run, finds, threading.Event())
    threads = [threading.Thread(target=_lane, args=(member, lane), daemon=True) for lane in lanes if lane]
    for thread in threads:
        thread.start()
    working = len(threads)
    try:
        while working:
            working -= _take(run, finds, TICK)
            run.checkpoint()
    except BaseException:
        member.stopping.set()
        _settle(run, threads, finds)
        raise


def _lane(member: Member, lane: list[Task]) -> None:
    failure: BaseException | None = None
    try:
        for task in lane:
            if not member.keep_going():
                break
            task(member)
    except BaseException as error:  # handed to the run's own thread, which raises it
        failure = error
    member.finds.put(Find("lane", failure=failure, ends=True))


def _take(run: Run, finds: queue.SimpleQueue[Find], seconds: float) -> int:
    """Keep what comes within ``seconds`` until the queue is empty; the number of lanes that ended."""
    ended = 0
    try:
        find = finds.get(timeout=seconds)
        while True:
            ended += find.ends
            if find.failure is not None:
                raise find.failure
            if find.solution is not None:
                run.solution(find.solution, find.source)
            if find.bound is not None:
                run.bound(find.bound, find.source)
            find = finds.get_nowait()
    except queue.Empty:
        return ended


def _settle(run: Run, threads: list[threading.Thread], finds: queue.SimpleQueue[Find]) -> None:
    """Wait a moment for stopped tasks and keep what they still hand over."""
    patience = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, patience - time.monotonic()))
    _take(run, finds, 0.001)
