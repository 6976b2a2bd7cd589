"""Lanes: chains that work side by side on one run, in threads whose finds the run's own thread checks and keeps.

Compiled kernels and solvers release the interpreter, so threads are enough; and no process is left behind when a solve
is stopped hard. Only the run's own thread touches the run: a lane hands over what it found and asks its deadline
whether to go on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from chipmap.deadline import Stop
from chipmap.methods.chain import Link, Turn, follow
from chipmap.records import Record
from chipmap.result import Infeasibility
from chipmap.run import Run

#: Seconds between two looks at the deadline, and how long stopped lanes get to notice.
TICK = 0.05
PATIENCE = 5.0


@dataclass(frozen=True)
class Find:
    """What a lane hands over: a solution or a bound (ticks) with its source, a proof that there is no solution with its
    reasons, its end, or its failure."""

    source: str
    solution: Record | None = None
    bound: int | None = None
    refuted: tuple[Infeasibility, ...] | None = None
    failure: BaseException | None = None
    ends: bool = False


@dataclass(frozen=True)
class Lane(Turn):
    """A turn in a thread of its own: finds go through a queue."""

    finds: queue.SimpleQueue[Find]

    @property
    def own_thread(self) -> bool:
        """Whether it is a turn in the run's own thread."""
        return False

    def solution(self, solution: Record, source: str) -> None:
        """Hand over a solution."""
        self.finds.put(Find(source, solution=solution))

    def bound(self, value: int, source: str) -> None:
        """Hand over a lower bound in ticks."""
        self.finds.put(Find(source, bound=value))

    def infeasible(self, *reasons: Infeasibility) -> None:
        """Hand over the proof that there is no solution."""
        self.finds.put(Find("proof", refuted=reasons))


def side_by_side(run: Run, state: Any, lanes: Sequence[Sequence[Link]], patient: bool = False) -> None:
    """Follow each list of links in a lane of its own, until all end or the run must stop.

    ``patient``: their shares are seconds of the processor (:class:`chipmap.deadline.Deadline`).

    Raises :class:`chipmap.deadline.Stop` as ``run.checkpoint`` does, after what was handed over has been kept, and
    whatever a link raised.
    """
    finds: queue.SimpleQueue[Find] = queue.SimpleQueue()
    stopping = threading.Event()
    deadline = replace(run.deadline, ended=lambda: "interrupted" if stopping.is_set() else None, patient=patient)
    lane = Lane(run, deadline, finds)
    # the context says how kernels run; a thread has none of its own
    contexts = [(copy_context(), links) for links in lanes if links]
    threads = [
        threading.Thread(target=context.run, args=(_work, lane, state, links), daemon=True)
        for context, links in contexts
    ]
    for thread in threads:
        thread.start()
    working = len(threads)
    try:
        while working:
            working -= _take(run, finds, TICK)
            run.checkpoint()
    except BaseException:
        stopping.set()
        _settle(run, threads, finds)
        raise


def _work(lane: Lane, state: Any, links: Sequence[Link]) -> None:
    failure: BaseException | None = None
    try:
        with lane.deadline.heeded():
            follow(links, state, lane)
    except Stop:
        pass  # the run's own thread sees for itself why
    except BaseException as error:  # handed to the run's own thread, which raises it
        failure = error
    lane.finds.put(Find("lane", failure=failure, ends=True))


def _take(run: Run, finds: queue.SimpleQueue[Find], seconds: float) -> int:
    """Keep what comes within ``seconds`` until the queue is empty; the number of lanes that ended.

    Raises the first failure, after all that was handed over has been kept.
    """
    ended, failure = 0, None
    with suppress(queue.Empty):
        find = finds.get(timeout=seconds)
        while True:
            ended += find.ends
            failure = failure or find.failure
            if find.solution is not None:
                run.solution(find.solution, find.source)
            if find.bound is not None:
                run.bound(find.bound, find.source)
            if find.refuted is not None:
                run.infeasible(*find.refuted)
            find = finds.get_nowait()
    if failure is not None:
        raise failure
    return ended


def _settle(run: Run, threads: list[threading.Thread], finds: queue.SimpleQueue[Find]) -> None:
    """Wait a moment for stopped lanes and keep what they still hand over."""
    patience = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, patience - time.monotonic()))
    _take(run, finds, 0.001)
