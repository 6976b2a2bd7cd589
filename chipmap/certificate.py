"""The checker's verdict on a solution: feasible, or which constraints are violated where and by how much."""

from __future__ import annotations

from chipmap.records import Record, counted, html_row, natural


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

    @property
    def unit(self) -> str:
        """The unit of :attr:`value`; "ticks" where it isn't known (what :func:`chipmap.check` returns knows it)."""
        return self._units.objective.name if self._units else "ticks"

    @property
    def value(self) -> float | None:
        """The objective in :attr:`unit`; None where a violation leaves it undefined."""
        return natural(self.objective, self._units.objective.per_tick if self._units else 1)

    def _verdict(self) -> str:
        return "valid" if self.feasible else f"refused, {counted(len(self.violations), 'violation')}"

    def _amount(self) -> str:
        return "no objective" if self.value is None else f"{self.value:.7g} {self.unit}"

    def __repr__(self) -> str:
        """One line: ``<Certificate: valid, 9 us>``."""
        labels = ", ".join(dict.fromkeys(one.label for one in self.violations))
        return f"<Certificate: {self._verdict()}{f' ({labels})' if labels else ''}, {self._amount()}>"

    def _repr_html_(self) -> str:
        cells = {"verdict": self._verdict(), "objective": self._amount(), "figures": self.headline}
        return html_row({**cells, "violations": "; ".join(one.message for one in self.violations[:5])})
