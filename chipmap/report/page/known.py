"""What all runs of an instance and the registry know of it together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chipmap.family import get_family
from chipmap.known.compare import Comparison, above, compared
from chipmap.records.quantities import percent
from chipmap.report.rows import units_of
from chipmap.result import Bound, Result, best_bound, gap
from chipmap.run import contradict


@dataclass(frozen=True)
class Known:
    """What is known of one instance: the best valid objective and the best bound in ticks, each with who found it, of
    all its runs and of the registry. ``registered``: the registry's word, None where it doesn't hold the instance."""

    runs: tuple[Result, ...]
    objective: int | None
    found_by: str
    bound: Bound | None
    infeasible: bool = False
    registered: Comparison | None = None

    @property
    def gap(self) -> float | None:
        """The gap between the best objective and the best bound, whichever runs they come from."""
        if self.objective is None or self.bound is None:
            return None
        return gap(self.objective, min(self.bound.value, self.objective))

    @property
    def contradiction(self) -> bool:
        """Whether the bound lies above the objective by more than the tolerance: then one of the runs is wrong."""
        return self.objective is not None and self.bound is not None and contradict(self.objective, self.bound.value)

    @property
    def warning(self) -> str:
        """What a contradiction says, for the top of the page."""
        assert self.bound is not None
        first = self.runs[0]
        return (
            f"{first.instance}: the bound of {self.bound.source} ({self.bound.value:,} ticks of "
            f"{get_family(first.family).tick}) lies above the checked objective of {self.found_by} "
            f"({self.objective:,}). One of the two is wrong: please report it."
        )

    def above_best(self, result: Result) -> str:
        """How far a run lies above the best of these runs and the registry; empty for the only run there is."""
        alone = len(self.runs) == 1 and self.registered is None
        return "" if alone else percent(above(result.objective, self.objective))


def best_known(results: Iterable[Result]) -> dict[str, Known]:
    """What is known of each instance, by its content hash (:func:`problem`), in the order of the results."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(problem(result), []).append(result)
    return {key: _known(runs) for key, runs in groups.items()}


def problem(result: Result) -> str:
    """The hash of the result's instance and its tick, with the user's own constraint if there was one: that is another
    problem."""
    what, oracle = [result.instance_hash, str(units_of(result).objective.per_tick)], result.provenance.get("oracle")
    if not oracle:
        return " ".join(what)
    named = [oracle.get(key) for key in ("name", "version", "scope")] if isinstance(oracle, dict) else [oracle]
    return " ".join([*what, *map(str, named)])


def _known(runs: list[Result]) -> Known:
    """The registry's word counts where the runs are no better; a user's own constraint makes it another problem."""
    valid = [r for r in runs if r.objective is not None and r.certificate is not None and r.certificate.feasible]
    values = [(run.objective or 0, run.method) for run in valid]
    bounds = [bound for result in runs for bound in result.bounds]
    beside = compared(runs[0])
    if beside is not None:
        entry = beside.entry
        if entry.objective is not None:
            values.insert(0, (entry.objective, f"registry: {entry.found}"))
        if entry.bound is not None:
            bounds.insert(0, Bound(value=entry.bound, source=f"registry: {entry.proved}", seconds=-1.0))
    objective, found_by = min(values, key=lambda value: value[0], default=(None, ""))
    proved = any(run.status == "infeasible" for run in runs) or (beside is not None and beside.entry.infeasible)
    return Known(tuple(runs), objective, found_by, best_bound(bounds), objective is None and proved, beside)
