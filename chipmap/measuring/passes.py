"""Passes of measuring: every operation of every program by turns, a reference kernel between, medians.

In a pass each operation runs in :data:`BATCHES` batches of calls, each of about :data:`BATCH_NS`. The pass's time is
the median of the batches' means. The time of an operation is the median of its passes. The repeat error is how far the
medians of every second pass are from those of the passes between: |a - b| / ((a + b) / 2). One thread counts the
processor time of its own, so that what else runs on the machine counts little; several count time by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from chipmap.deadline import Deadline
from chipmap.measuring.programs import Program

BATCHES, BATCH_NS, MOST_CALLS = 3, 700_000, 1_000
#: Rows of the square product that is timed between programs.
REFERENCE = 384


@dataclass
class Operation:
    """What was measured of an operation: ns of each pass."""

    module: str
    kind: str
    samples: list[float] = field(default_factory=list)

    @property
    def ns(self) -> float:
        """The median of the passes."""
        return median(self.samples)

    @property
    def repeat(self) -> float | None:
        """The relative difference of the passes' two halves; None for one pass."""
        return repeat_error(self.samples)


@dataclass
class Measured:
    """A program's operations by name, and ns of whole passes."""

    operations: dict[str, Operation] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)


def repeat_error(samples: list[float]) -> float | None:
    """|a - b| / ((a + b) / 2) of the medians of every second sample and of those between.

    >>> repeat_error([100.0, 110.0, 100.0]), repeat_error([5.0])
    (0.09523809523809523, None)
    """
    if len(samples) < 2:
        return None
    a, b = median(samples[::2]), median(samples[1::2])
    return abs(a - b) / ((a + b) / 2) if a + b else 0.0


class Clock:
    """Times calls on ``threads`` threads of the processor."""

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.now = time.thread_time_ns if threads == 1 else time.perf_counter_ns

    def once(self, call: Callable[[], Any]) -> int:
        """Nanoseconds of one call."""
        began = self.now()
        call()
        return self.now() - began

    def mean(self, call: Callable[[], Any]) -> float:
        """The median over batches of a call's mean time in ns; a first call warms up."""
        first = max(1, self.once(call))
        calls = max(1, min(MOST_CALLS, BATCH_NS // first))
        found = []
        for _ in range(BATCHES if calls > 1 else 1):
            began = self.now()
            for _ in range(calls):
                call()
            found.append((self.now() - began) / calls)
        return median(found)


def one_pass(
    programs: list[Program], found: dict[str, Measured], number: int, clock: Clock, until: Deadline
) -> Iterator[tuple[Program, float]]:
    """Time each operation once more that has ``number`` samples or fewer, program by program, until the time is over.

    Yields each program as it is done, with the ns of the reference kernel before it.
    """
    import torch

    square = torch.randn(REFERENCE, REFERENCE)
    for program in programs:
        reference = clock.mean(lambda: torch.mm(square, square))
        measured = found.setdefault(program.graph, Measured())
        with torch.no_grad():
            for one in program.run():
                operation = measured.operations.setdefault(one.name, Operation(one.module, one.kind))
                if len(operation.samples) <= number and until.keep_going():
                    operation.samples.append(clock.mean(one.call))
            if until.keep_going():
                measured.whole.append(clock.mean(program.whole()))
        yield program, reference
