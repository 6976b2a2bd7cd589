"""What is known of an instance: its best value, its best bound, and where each of them comes from."""

from __future__ import annotations

from typing import Any, Literal, Self

from chipmap.records import Record, Unit
from chipmap.result import gap, natural


class Origin(Record, frozen=True, kw_only=True, omit_defaults=True):
    """How to make an instance: its shipped name, or a generator with its parameters; ``set``: what is changed then."""

    instance: str | None = None
    generator: str | None = None
    parameters: dict[str, Any] = {}
    set: dict[str, Any] = {}


class Source(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Where a value or a bound comes from: a run of chipmap's, or a publication.

    Of a run: its method, which ``step`` of it did it, chipmap's version, the seed, the seconds that it had at most, and
    ``archive``, the SHA-256 of what the run has left (``result.json``, or the row of a sweep). ``publication`` is a
    citation; the rest is empty then.
    """

    method: str = ""
    step: str = ""
    version: str = ""
    seed: int = 0
    time_limit_s: float = 0.0
    archive: str = ""
    publication: str = ""

    def __str__(self) -> str:
        """``ring/auto (program n1), chipmap 0.1.0, seed 0``, or the citation."""
        if self.publication:
            return self.publication
        step = f" ({self.step})" if self.step else ""
        return f"{self.method}{step}, chipmap {self.version}, seed {self.seed}"


class Reported(Record, frozen=True, kw_only=True):
    """A value that a page of results states though its solution wasn't kept, or a bound without the run that proved it:
    in ticks, rounded to the worse side, and the page's path in the repository."""

    ticks: int
    page: str


class Entry(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the instance with this hash; ``instance`` is its name, which others may have as well.

    ``objective`` (by the checker) and ``bound`` are in ticks of ``unit``. ``found`` and ``proved`` say where they come
    from; of an ``infeasible`` instance, ``proved`` says who proved that. ``solution`` is given in files for a
    maintainer; shipped ones lie in an archive of their own. ``reported`` and ``reported_bound`` are better than what
    stands here, and nobody can check them any more.
    """

    instance: str
    instance_hash: str
    family: str
    origin: Origin
    unit: Unit
    objective: int | None = None
    found: Source | None = None
    bound: int | None = None
    proved: Source | None = None
    infeasible: bool = False
    reported: Reported | None = None
    reported_bound: Reported | None = None
    solution: dict[str, Any] | None = None

    @property
    def value(self) -> float | None:
        """The best known value in natural units."""
        return natural(self.objective, self.unit.per_tick)

    @property
    def lower(self) -> float | None:
        """The best known bound in natural units."""
        return natural(self.bound, self.unit.per_tick)

    @property
    def gap(self) -> float | None:
        """(objective - bound) / |objective|."""
        return gap(self.objective, self.bound)

    @property
    def optimal(self) -> bool:
        """Whether the value is proved to be the best one."""
        return self.objective is not None and self.objective == self.bound


class Entries(Record, frozen=True, kw_only=True):
    """A file of entries: a shipped one of a family, or one for a maintainer to merge."""

    schema: Literal["known/1"] = "known/1"
    entries: tuple[Entry, ...]

    @classmethod
    def sorted(cls, entries: list[Entry]) -> Self:
        """The entries in the order of their names."""
        return cls(entries=tuple(sorted(entries, key=lambda one: (one.family, one.instance, one.instance_hash))))
