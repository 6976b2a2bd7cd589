"""How fast the processor is meanwhile: a small sum between operations, by which their times are put at one speed.

What else runs on a processor slows all operations down alike: it takes turns on a core, its caches and its frequency.
Processor time has that in it. So a sum of :data:`NUMBERS` numbers is timed about every :data:`EVERY_NS` of a run, each
time after a call of it that isn't counted, so that its numbers come from near caches. The pace of a run is the
geometric mean of these. An operation's time in a pass is the median over runs of time / pace, times the pass's pace;
at a common pace R it is that times R / (the pass's pace).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import exp, fsum, log
from statistics import median
from typing import Any

NUMBERS, EVERY_NS = 16_384, 200_000
#: The pace where none was taken.
UNKNOWN = 0.0


class Pace:
    """Takes the pace of runs with ``timed``, a clock's way to time a call in ns."""

    def __init__(self, timed: Callable[[Callable[[], Any]], tuple[int, Any]]) -> None:
        import torch

        numbers = torch.ones(NUMBERS)
        self._sum = partial(torch.add, numbers, 1.0, out=torch.empty(NUMBERS))
        self._timed, self._since, self._taken = timed, 0, list[int]()

    def told(self) -> bool:
        """Whether the clock is fine enough to tell it: a coarse one counts 0 for a sum."""
        return all(self._timed(self._sum)[0] > 0 for _ in range(9))

    def passed(self, ns: int) -> None:
        """An operation took so many ns: a sum is due after enough of them."""
        self._since += ns
        if self._since >= EVERY_NS:
            self.take()

    def take(self) -> None:
        """Time a sum."""
        self._sum()
        self._taken.append(max(1, self._timed(self._sum)[0]))
        self._since = 0

    def of_run(self) -> float:
        """The pace of the run that ends here, in ns of a sum."""
        if not self._taken:
            self.take()
        taken, self._taken, self._since = self._taken, [], 0
        return mean(taken)


def mean(paces: Sequence[float]) -> float:
    """The geometric mean.

    >>> round(mean([2.0, 8.0]), 9)
    4.0
    """
    return exp(fsum(map(log, paces)) / len(paces))


def at_pace(times: Sequence[float], paces: Sequence[float]) -> tuple[float, float]:
    """The time of an operation in a pass, at the pass's pace, and that pace; of runs with paces. A table has tenths.

    >>> at_pace([1000.0, 2000.0, 1000.0], [100.0, 200.0, 100.0])
    (1259.9, 126.0)
    """
    pace = mean(paces)
    ns = median(time / own for time, own in zip(times, paces, strict=True)) * pace
    return round(ns, 1), round(pace, 1)


def common(paces: Iterable[float]) -> float:
    """The pace that all times of a table are put at: the median of those known; :data:`UNKNOWN` if none is."""
    known = [one for one in paces if one > UNKNOWN]
    return median(known) if known else UNKNOWN


def at_common(samples: Sequence[float], paces: Sequence[float], pace: float) -> list[float]:
    """The samples at a common pace; those of an unknown pace as they are, and all if the common one is unknown.

    >>> at_common([10.0, 30.0, 7.0], [1.0, 3.0, 0.0], 2.0)
    [20.0, 20.0, 7.0]
    """
    return [time * pace / own if min(own, pace) > UNKNOWN else time for time, own in zip(samples, paces, strict=True)]
