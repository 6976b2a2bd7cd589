"""What the user asks of a solve."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, TypedDict

import msgspec

from chipmap.records import InputError, Record

SolverName = Literal["highs", "gurobi", "cpsat"]
Compile = Literal["background", "first"]
#: More than any machine has; solvers keep the number in 32 bits.
MOST_THREADS = 4_096


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SolveOptions(Record, frozen=True, kw_only=True):
    """What the user asks of a solve. Seconds, bytes; ``gap`` is the relative gap at which a run may stop.

    ``oracle`` names a function of the user's own as ``module:function`` (:mod:`chipmap.oracle`), and so does
    ``evaluator`` (:mod:`chipmap.evaluator`), which may be called ``evaluations`` times. ``native`` holds
    parameters passed through to the solver under its own names. ``compile`` says when functions are compiled that a
    limited run needs and that aren't yet: meanwhile, or ``first``, before its time begins (which ``deterministic``
    does always).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("compile",)

    time_limit: float | None = None
    gap: float = 0.0
    threads: int | None = None
    seed: int = 0
    deterministic: bool = False
    memory_limit: int | None = None
    solver: SolverName | None = None
    warm_start: str | None = None
    oracle: str | None = None
    evaluator: str | None = None
    evaluations: int | None = None
    native: dict[str, Any] = {}
    compile: Compile = "background"

    @property
    def compiles_first(self) -> bool:
        """Whether functions are compiled before the time begins."""
        return self.deterministic or self.compile == "first"

    def check(self) -> None:
        """Raise :class:`InputError` for limits that make no sense."""
        for name, unit in (("time_limit", "seconds"), ("memory_limit", "bytes")):
            value = getattr(self, name)
            if value is not None and not 0 < value < 2**62:
                remedy = f"Give more than 0, and less than 2^62 {unit}."
                raise InputError(f"is {value}", f"--{name.replace('_', '-')}", remedy)
        if self.threads is not None and not 0 < self.threads <= MOST_THREADS:
            raise InputError(f"is {self.threads}", "--threads", f"Give a whole number from 1 to {MOST_THREADS:,}.")
        if self.evaluations is not None and self.evaluations < 1:
            raise InputError(f"is {self.evaluations}", "--evaluations", "Give a whole number above 0.")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"is {self.seed}", "--seed", f"Give a whole number from 0 to {2**31 - 1:,}.")
        try:
            msgspec.json.encode(self.native)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InputError(f"holds what is no data: {error}", "native", "Give numbers and texts.") from None
        if not 0.0 <= self.gap < 1.0:
            raise InputError(f"is {self.gap}", "--gap", "Give a share from 0 to below 1, such as 0.01 for 1%.")


class OptionsByName(TypedDict, total=False):
    """The fields of :class:`SolveOptions` that :func:`chipmap.solve` takes by name beside its own parameters."""

    time_limit: float | None
    gap: float
    threads: int | None
    seed: int
    deterministic: bool
    memory_limit: int | None
    solver: SolverName | None
    warm_start: str | os.PathLike[str] | None
    evaluations: int | None
    native: dict[str, Any]
    compile: Compile
