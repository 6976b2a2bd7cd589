"""A clock for a compiled loop that can't return in the middle: a thread beside it takes its allowance away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from chipmap.deadline import Deadline
from chipmap.instances.dataflow.problem import IntArray

#: Seconds between two looks at the clock.
EVERY = 0.05


@contextmanager
def watched(work: IntArray, deadline: Deadline) -> Iterator[None]:
    """Within this, ``work[1]``, the most that a loop may do, falls below 0 as soon as the ``deadline`` is over; the
    loop compares its work with it.

    Raises :class:`chipmap.deadline.Stop` at the end then. The loop runs without the interpreter's lock (``nogil``).
    """
    done, most = Event(), int(work[1])

    def watch() -> None:
        while not done.wait(EVERY):
            if not deadline.keep_going():
                work[1] = -1
                return

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        over = work[1] < 0
        work[1] = most
        if over:  # whatever the loop said when it had to stop
            deadline.check()
