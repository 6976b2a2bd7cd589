"""One point of a sweep: solved, and its row checked a second time by whoever keeps it."""

from __future__ import annotations

import time
from typing import Any

import chipmap
from chipmap.bench.sweep import Point
from chipmap.family import family_of, resolve
from chipmap.known.records import Origin
from chipmap.records import ChipmapError, InputError, Record, Units
from chipmap.result import best_bound, retold
from chipmap.run import SolveOptions
from chipmap.solve import check, solve

#: Names of figures in rows of before -> those of today: the values are GB/s, no Gb/s.
RENAMED = {
    "dram_gbps": "dram_gb_per_s",
    "link_gbps": "link_gb_per_s",
    "tensor_link_gbps": "tensor_link_gb_per_s",
}
#: Statuses that more time can't change.
FINAL = frozenset({"optimal", "infeasible", "bad input"})


class Row(Record, frozen=True, kw_only=True):
    """What is known of a point. Objective, bound and terms are in ticks of ``units``; ``detail`` says what went wrong.

    ``status`` is that of a Result, or ``bad input`` (no such instance) or ``lost`` (its workers died). ``figures`` are
    the checker's and the family's own measures. ``origin`` says how to make the instance again (older rows lack it).
    ``found_by`` and ``proved_by`` name what found the solution, and what proved the bound.
    """

    key: str
    labels: dict[str, str]
    method: str = ""
    seed: int = 0
    instance: str = ""
    instance_hash: str = ""
    origin: Origin | None = None
    status: str
    units: Units | None = None
    objective: int | None = None
    bound: int | None = None
    found_by: str = ""
    proved_by: str = ""
    terms: dict[str, int] = {}
    figures: dict[str, float] = {}
    solution: dict[str, Any] | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    attempts: int = 1
    time_limit_s: float = 0.0
    memory_gib: float = 0.0
    version: str = ""
    detail: str = ""

    def settled(self, point: Point) -> bool:
        """Whether this row answers ``point``: for good, or within no less time and memory than is offered now."""
        enough = self.time_limit_s >= point.time_limit_s and self.memory_gib >= point.memory_gib
        return self.status in FINAL or (self.status in ("feasible", "unknown") and enough)

    def renamed(self) -> Row:
        """The row with its figures under the names of today."""
        if self.figures.keys().isdisjoint(RENAMED):
            return self
        return self.replace(figures={RENAMED.get(name, name): value for name, value in self.figures.items()})


def failed(point: Point, status: str, detail: str, attempts: int = 1) -> Row:
    """The row of a point that has no result."""
    return Row(
        key=point.key,
        labels=point.labels,
        method=point.method or "",
        seed=point.seed,
        origin=point.origin,
        status=status,
        detail=detail,
        attempts=attempts,
        time_limit_s=point.time_limit_s,
        memory_gib=point.memory_gib,
        version=chipmap.__version__,
    )


def solve_point(point: Point) -> Row:
    """Make the instance, solve it within the point's time, measure it. Bad input is a row, not an exception."""
    started, cpu = time.monotonic(), time.process_time()
    try:
        instance = point.build()
        options = SolveOptions.make(time_limit=point.time_limit_s, seed=point.seed, threads=1)
        result = solve(instance, point.method, options, isolate=False, started=started)
    except ChipmapError as error:
        return failed(point, "bad input" if isinstance(error, InputError) else "error", str(error))
    certificate = result.certificate
    reasons = [reason.message for reason in result.infeasibility]
    end, proof = result.termination, best_bound(result.bounds)
    if result.status in ("unknown", "error"):
        reasons.append(end.detail or (end.limit if end.limit != "none" else end.reason))
    row = failed(point, result.status, "; ".join(reasons)).replace(
        method=result.method,
        instance=result.instance,
        instance_hash=result.instance_hash,
        units=result.units,
        objective=result.objective,
        bound=result.bound,
        found_by=result.incumbent_source,
        proved_by=proof.source if proof and result.bound is not None else "",
        terms=certificate.terms if certificate else {},
        figures=_figures(instance, result.solution, certificate.figures if certificate else {}),
        solution=result.solution,
    )
    return row.replace(seconds=round(time.monotonic() - started, 4), cpu_seconds=round(time.process_time() - cpu, 4))


def _figures(instance: Record, plain: dict[str, Any] | None, figures: dict[str, float]) -> dict[str, float]:
    """The checker's figures and the family's measures, which need no solution to say what a system costs."""
    family = family_of(instance)
    if not family.measures:
        return figures
    solution = None if plain is None else resolve(family.solution).make(**plain)
    own: dict[str, float] = resolve(family.measures)(instance, solution)
    return figures | own


def audited(point: Point, row: Row) -> Row:
    """The row, if the checker here says of its solution what the row says; else a row with status ``error``."""
    if row.solution is None:
        wrong = "" if row.objective is None else f"{row.status}, but there is no solution"
        return row.replace(status="error", detail=wrong) if wrong else row
    instance = point.build()
    try:
        solution = resolve(family_of(instance).solution).make(**row.solution)
    except InputError as error:
        return row.replace(status="error", detail=f"the solution can't be read: {error}")
    certificate, unit = check(instance, solution), family_of(instance).units_of(instance).objective
    wrong = ""
    if not certificate.feasible:
        wrong = f"the checker refuses the solution: {certificate.violations[0].message}"
    elif (judged := retold(certificate.objective, unit, row.units.objective if row.units else unit)) != row.objective:
        wrong = f"the checker says {judged}, the row {row.objective}"
    elif certificate.terms != row.terms:
        wrong = f"the checker says {certificate.terms}, the row {row.terms}"
    elif instance.content_hash != row.instance_hash:
        wrong = "the row is of another instance"
    elif row.status == "optimal" and row.bound != row.objective:
        wrong = f"optimal, but the bound is {row.bound}"
    return row.replace(status="error", detail=wrong) if wrong else row
