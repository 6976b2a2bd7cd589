"""The evaluator, a cost of the user's own: any function (instance, solution) -> cost, such as a run of hardware.

It is given as ``--evaluator module:function`` or in Python, never in an instance file, and says what a valid mapping
costs: a number of at least 0, the lower the better, in any unit; infinity says that the mapping doesn't run. Methods
that use one (``Method.measured``) return the mapping of least measured cost. The checker still judges every mapping;
objective and bounds stay those of the analytic cost, and say nothing of the measured one.

Each mapping is measured once: the function must be one of its arguments, or its noise so small that one call will do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from chipmap.oracle import imported, name_of, version_of
from chipmap.records import ChipmapError, InputError, Record, counted
from chipmap.result import Evaluation, Measurement

#: Calls of a run that says nothing else.
CALLS = 100
#: Where messages about it point to.
OPTION = "--evaluator"


class EvaluatorError(ChipmapError):
    """The user's function raised an exception or returned something else than a cost."""


@dataclass(eq=False)
class Evaluator:
    """The user's function with its name and version, how often it may be called, and what it said so far.

    Without a ``function`` it measures nothing: then it is the record of what another process measures. ``hear`` is told
    every measurement.
    """

    name: str
    version: str = ""
    function: Callable[[Any, Any], Any] | None = None
    limit: int = CALLS
    hear: Callable[[Measurement], None] = lambda measurement: None
    measurements: list[Measurement] = field(default_factory=list)
    cached: int = 0
    _known: dict[str, float] = field(default_factory=dict)

    @property
    def used_up(self) -> bool:
        """Whether the function may not be called again."""
        return len(self.measurements) >= self.limit

    def cost(self, solution: Record) -> float | None:
        """What it said of this mapping; None where it wasn't asked."""
        return self._known.get(solution.content_hash)

    def ask(self, instance: Record, solution: Record, objective: int, source: str) -> float | None:
        """The cost of ``solution``, whose analytic objective in ticks and source are noted beside it.

        None where it would take a call that isn't allowed any more. Raises :class:`EvaluatorError`.
        """
        key = solution.content_hash
        if key in self._known:
            self.cached += 1
            return self._known[key]
        if self.used_up or self.function is None:
            return None
        began = time.monotonic()
        try:
            answer = self.function(instance, solution)
        except Exception as error:
            raise EvaluatorError(f"the evaluator {self.name} raised {type(error).__name__}: {error}") from error
        cost = self._known[key] = self._cost(answer)
        self.take(
            Measurement(
                call=len(self.measurements) + 1,
                cost=cost if cost < math.inf else None,
                objective=objective,
                source=source,
                seconds=round(time.monotonic() - began, 6),
                solution=key[:12],
            )
        )
        return cost

    def take(self, measurement: Measurement) -> None:
        """Note one measurement, made here or elsewhere."""
        self.measurements.append(measurement)
        self.hear(measurement)

    def _cost(self, answer: Any) -> float:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            raise EvaluatorError(f"the evaluator {self.name} returned {answer!r}: give a number")
        cost = float(answer)
        if math.isnan(cost) or cost < 0.0:
            raise EvaluatorError(f"the evaluator {self.name} returned {answer!r}: give a number of at least 0")
        return cost

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".rstrip()

    def report(self, cost: float | None) -> Evaluation:
        """What a result records; ``cost`` is that of its solution."""
        return Evaluation(
            evaluator=self.name,
            version=self.version,
            cost=cost if cost is not None and cost < math.inf else None,
            calls=len(self.measurements),
            cached=self.cached,
            refused=sum(one.cost is None for one in self.measurements),
            limit=self.limit,
            seconds=round(sum(one.seconds for one in self.measurements), 3),
            measurements=tuple(self.measurements),
        )


def note(report: Evaluation) -> str:
    """The report in a sentence."""
    best = "nothing" if report.cost is None else f"{report.cost:.7g}"
    calls = f"{counted(report.calls, 'call')} of at most {report.limit:,}"
    refused = f", {report.refused} without a cost" if report.refused else ""
    title = f"{report.evaluator} {report.version}".rstrip()
    which = "the solution has the least cost" if report.cost is not None else "the solution wasn't measured"
    return f"evaluator {title}: {best} in {calls}{refused}; {which}, the bound holds for the analytic cost alone"


def load_evaluator(given: str | Callable[..., Any], limit: int | None) -> Evaluator:
    """The evaluator that ``given`` names (``"module:function"``, on the path or in the folder) or is.

    Raises :class:`InputError` for what can't be imported or called.
    """
    function = imported(given, OPTION) if isinstance(given, str) else given
    if not callable(function):
        remedy = "Name a function (instance, solution) -> cost."
        raise InputError(f"{given!r} is not a function", OPTION, remedy)
    name = given if isinstance(given, str) else name_of(function)
    return Evaluator(name, version_of(function), function, limit or CALLS)
