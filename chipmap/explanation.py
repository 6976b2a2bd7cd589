"""What ``chipmap explain`` says: statements, changes that were tried, the difference between two solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from chipmap.certificate import Violation
from chipmap.records import Record, html_row, natural
from chipmap.result import Infeasibility, Note, Status

#: Ends a hint of a solve where only a lower limit of what would help is known: changes are tried there, not in a solve.
EXPLAIN = "`chipmap explain` says what does, solved and checked"

#: What a change's objective is worth. ``proved``: the optimum of the changed instance. ``best found``: a checked
#: mapping of it, while ``bound`` says what is still possible. ``infeasible``: proved to have no mapping. ``unknown``:
#: neither a mapping nor a proof within the time.
Standing = Literal["proved", "best found", "infeasible", "unknown"]


class Step(Record, frozen=True, kw_only=True):
    """What an explanation does now: it solves the instance as it is, or changed as ``what`` says, maybe once more."""

    kind: Literal["instance", "change"]
    what: str = ""
    again: bool = False


class Statement(Record, frozen=True, kw_only=True):
    """One fact: its ``topic``, the ``label`` of the constraint or term that it is about ("" if none), in words.

    ``figures`` holds the numbers and names of the message; their keys carry the unit (``work_us``, ``sram_bytes``).
    """

    topic: str
    label: str = ""
    message: str
    figures: dict[str, Any] = {}


class Change(Record, frozen=True, kw_only=True):
    """A change of the instance that was solved: what came out, and what that gains.

    ``objective`` (ticks) is the checker's, for the changed instance; ``bound`` the best lower bound. ``gain`` is the
    share by which the objective falls against the best solution of the instance as it is (negative where it rises),
    None where one of the two is missing. ``setting`` is what ``--set`` takes, where that can express the change.
    """

    kind: str
    what: str
    setting: str = ""
    standing: Standing
    objective: int | None = None
    bound: int | None = None
    gain: float | None = None
    figures: dict[str, Any] = {}


class Moved(Record, frozen=True, kw_only=True):
    """A run of operations, neighbours in the order of the graph, that all moved from one chip to another."""

    first: str
    last: str
    operations: int
    source: int
    target: int
    figures: dict[str, Any] = {}


class Side(Record, frozen=True, kw_only=True):
    """One of two compared solutions: the checker's word on it."""

    feasible: bool
    objective: int | None
    terms: dict[str, int]
    violations: tuple[Violation, ...] = ()
    figures: dict[str, float] = {}


class Difference(Record, frozen=True, kw_only=True):
    """Two solutions side by side: what moved, and the resources whose load differs.

    ``resources`` has a row per resource and quantity that differs: ``resource`` ("chip 3", "link 3 -> 4"),
    ``quantity`` ("work_us", "memory_bytes" …), ``before``, ``after``.
    """

    before: Side
    after: Side
    moved: tuple[Moved, ...] = ()
    resources: tuple[dict[str, Any], ...] = ()


class Explanation(Record, frozen=True, kw_only=True):
    """Why an instance's objective is what it is, or why it has no solution, and which changes would help.

    ``objective`` and ``bound`` (ticks) are those of the instance as it is. ``changes`` are ranked: the best first.
    """

    schema: Literal["explanation/1"] = "explanation/1"
    instance: str
    instance_hash: str
    family: str
    status: Status
    objective: int | None = None
    bound: int | None = None
    terms: dict[str, int] = {}
    given: Side | None = None
    statements: tuple[Statement, ...] = ()
    infeasibility: tuple[Infeasibility, ...] = ()
    changes: tuple[Change, ...] = ()
    difference: Difference | None = None
    notes: tuple[Note, ...] = ()
    seconds: float = 0.0

    @property
    def unit(self) -> str:
        """The unit of :attr:`value` and :attr:`lower`; "ticks" where it isn't known."""
        return self._units.objective.name if self._units else "ticks"

    @property
    def value(self) -> float | None:
        """The objective in :attr:`unit`; None without a solution."""
        return natural(self.objective, self._units.objective.per_tick if self._units else 1)

    @property
    def lower(self) -> float | None:
        """The bound in :attr:`unit`; None without one."""
        return natural(self.bound, self._units.objective.per_tick if self._units else 1)

    def attach(self, text: Callable[[Explanation], str]) -> None:
        """Let the explanation be printed by ``text``; no part of what is written or compared."""
        self.__dict__["_text"] = text

    def __str__(self) -> str:
        """The text that ``chipmap explain`` prints, of what :func:`chipmap.explain` returned; else :func:`repr`."""
        text: Callable[[Explanation], str] | None = self.__dict__.get("_text")
        return repr(self) if text is None else text(self)

    def __repr__(self) -> str:
        """One line: ``<Explanation of ring/tiny-skip: optimal, 9 us, 4 statements, 6 changes>``."""
        value = "no solution" if self.value is None else f"{self.value:.7g} {self.unit}"
        counts = f"{len(self.statements)} statements, {len(self.changes)} changes"
        return f"<Explanation of {self.instance}: {self.status}, {value}, {counts}>"

    def _repr_html_(self) -> str:
        value = "" if self.value is None else f"{self.value:.7g} {self.unit}"
        why = " ".join(one.message for one in self.statements)
        return html_row({"instance": self.instance, "status": self.status, "objective": value, "why": why})
