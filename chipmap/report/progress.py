"""How fast a run came near: the primal integral, and when its gap fell to a share.

All of it is read from the trace. Times are seconds into the run, reading and building included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chipmap.result import Result, gap

#: Gaps whose times are told.
TARGETS = (0.05, 0.01, 0.001)


@dataclass(frozen=True)
class Moment:
    """What was known from ``seconds`` on: the best objective and the best bound in ticks, None where there was none."""

    seconds: float
    objective: int | None
    bound: int | None

    @property
    def gap(self) -> float | None:
        """The gap between the two."""
        return gap(self.objective, self.bound)


def moments(result: Result) -> Iterator[Moment]:
    """The improvements of a run in order of time; none where costs were measured, as then another cost counted."""
    objective: int | None = None
    bound: int | None = None
    for event in sorted(result.trace, key=lambda event: event.seconds) if result.evaluation is None else ():
        if event.event == "solution":
            objective = event.value if objective is None else min(objective, event.value)
        else:
            bound = event.value if bound is None else max(bound, event.value)
        yield Moment(max(0.0, event.seconds), objective, bound)


def seconds_to(result: Result, share: float) -> float | None:
    """Seconds until the gap was at most ``share``; None where it never was, or there is no trace."""
    reached = (m.seconds for m in moments(result) if m.gap is not None and m.gap <= share)
    return next(reached, None)


def primal_integral(result: Result, best: int | None) -> float | None:
    """The integral of the primal gap over the run, in seconds (Berthold 2013, "Measuring the impact of primal
    heuristics").

    The primal gap is 1 before the first solution, then (objective - best) / max(|objective|, |best|), at most 1.
    ``best`` is the best known objective in ticks. None without it or without a trace. A run that has ``best`` at once
    comes to 0; one that never finds a solution to its whole time.
    """
    events = list(moments(result))
    if best is None or not events:
        return None
    total, since, share = 0.0, 0.0, 1.0
    for moment in events:
        total += share * max(0.0, moment.seconds - since)
        since = max(since, moment.seconds)
        share = _primal_gap(moment.objective, best)
    return total + share * max(0.0, result.seconds - since)


def _primal_gap(objective: int | None, best: int) -> float:
    if objective is None or (objective < 0 < best) or (best < 0 < objective):
        return 1.0
    largest = max(abs(objective), abs(best))
    return min(1.0, max(0, objective - best) / largest) if largest else 0.0
