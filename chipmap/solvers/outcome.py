"""The one contract of the solver adapters: what a solve is asked (SolveRequest) and what it answers (Outcome)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chipmap.records import ChipmapError
from chipmap.result import Termination

#: Reads the value of a native variable (Pyomo variable data, or a CP-SAT variable) in a solution.
ValueOf = Callable[[Any], float]


class OutOfTime(Exception):  # noqa: N818 - not an error: the limit ends the solve
    """The time limit fell while a model was lowered."""


class TriviallyInfeasible(ChipmapError):  # noqa: N818 - a finding about the model
    """A row without free variables can't hold: the model is infeasible, and ``label`` names the constraint."""

    exit_code = 2

    def __init__(self, label: str, row: str) -> None:
        self.label, self.row = label, row
        super().__init__(f"constraint {row!r} ({label}) can't hold whatever the variables are")


@dataclass(frozen=True)
class SolveRequest:
    """Limits and hooks of one solve. Seconds; ``gap`` relative; ``work_limit`` in the solver's own unit.

    ``start`` holds (variable, value) pairs of the decision variables; the adapter completes them by one solve with
    these fixed, and says so in ``Outcome.start_accepted``. ``on_solution(value_of, objective)`` and ``on_bound(bound)``
    are called as the solver reports (possibly from another thread); ``should_stop()`` is polled.
    """

    time_limit: float | None = None
    gap: float = 0.0
    threads: int | None = None
    seed: int = 0
    deterministic: bool = False
    work_limit: float | None = None
    start: tuple[tuple[Any, float], ...] | None = None
    on_solution: Callable[[ValueOf, float], None] | None = None
    on_bound: Callable[[float], None] | None = None
    should_stop: Callable[[], bool] | None = None
    log_file: Path | None = None
    native: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a solver said, on our terms. ``objective`` and ``bound`` are its own claims (None: none).

    ``infeasible_labels`` names constraint groups (``c3_reach`` …) of an irreducible or sufficient infeasible set.
    """

    solver: str
    termination: Termination
    value_of: ValueOf | None = None
    objective: float | None = None
    bound: float | None = None
    start_accepted: bool | None = None
    infeasible_labels: tuple[str, ...] = ()
    seconds: float = 0.0
    rows: int = 0
    columns: int = 0
    log: str = ""
