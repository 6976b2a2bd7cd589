"""The checker's verdict on a solution: feasible, or which constraints are violated where and by how much."""

from __future__ import annotations

from chipmap.records import Record


class Violation(Record, frozen=True, kw_only=True):
    """One violated constraint: its label on the family's page, where, by how much, in which unit, in words."""

    label: str
    where: str
    amount: float
    unit: str
    message: str


class Certificate(Record, frozen=True, kw_only=True):
    """What the independent checker found.

    ``objective`` (integer, in the family's tick) and ``terms`` (ticks, by name T1, T2 …) are recomputed from the
    instance and the solution; they are None and empty when a violation leaves them undefined. ``grade`` names how
    memory was checked; ``figures`` holds derived figures in natural units (chips used, latency …);
    ``headline`` says the few that matter most, in words;
    ``oracle`` names the user's function that was asked, with its version (empty: none).
    """

    instance_hash: str
    solution_hash: str
    feasible: bool
    objective: int | None = None
    terms: dict[str, int] = {}
    violations: tuple[Violation, ...] = ()
    grade: str = ""
    figures: dict[str, float] = {}
    headline: str = ""
    oracle: str = ""
