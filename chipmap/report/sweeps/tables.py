"""The rows of a sweep as CSV, and in a few lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep
from chipmap.certificate import Certificate
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.records import Unit, Units, counted
from chipmap.report.rows import in_units
from chipmap.report.tables import written
from chipmap.result import Bound, Result, Termination, gap

#: Statuses that results have.
_STATUSES = ("optimal", "feasible", "infeasible", "unknown", "error")
_LAST = ("seconds", "cpu_seconds", "attempts", "version", "detail")


def table(sweep: Sweep, rows: Sequence[Row]) -> str:
    """CSV: the axes, what came out in natural units (of terms: columns ``units.T1``), figures, how long it took.

    Without the last columns it says the same whenever and wherever the points were solved.
    """
    flat = [_flat(sweep, row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row if name not in _LAST))
    return written([*names, *_LAST], flat)


def _flat(sweep: Sweep, row: Row) -> dict[str, Any]:
    found: dict[str, Any] = dict(row.labels) | {"instance": row.instance, "method": row.method, "seed": row.seed}
    units = units_of(row)
    found |= {"status": row.status, **in_units({"objective": row.objective, "bound": row.bound}, units)}
    found |= {"unit": units.objective.name, "gap": gap(row.objective, row.bound)}
    found |= in_units({"terms": row.terms}, units)["terms"]
    found |= {f"units.{name}": units.of(name).name for name in row.terms} | row.figures
    return found | {name: getattr(row, name) for name in _LAST}


def as_result(row: Row) -> Result:
    """The row as a result, which tables and pages show like that of a run: the axes are its settings, and its trace is
    empty, as a bench keeps none."""
    checked = None
    if row.objective is not None:
        checked = Certificate(
            instance_hash=row.instance_hash,
            solution_hash="",
            feasible=True,
            objective=row.objective,
            terms=row.terms,
            figures=row.figures,
        )
    bounds = () if row.bound is None else (Bound(value=row.bound, source=row.proved_by or row.method),)
    failed = row.status not in _STATUSES
    reason: Any = {"unknown": "no_solution_found", "error": "other_error"}.get(row.status, row.status)
    return Result(
        instance=row.instance or " ".join(row.labels.values()),
        instance_hash=row.instance_hash or row.key,
        family=row.method.partition("/")[0],
        units=units_of(row),
        method=row.method,
        status="error" if failed else row.status,  # type: ignore[arg-type]
        objective=row.objective,
        bound=row.bound,
        gap=gap(row.objective, row.bound),
        incumbent_source=row.found_by,
        solution=row.solution,
        certificate=checked,
        bounds=bounds,
        termination=Termination(reason="other_error" if failed else reason, detail=row.detail),
        failure=f"{row.status}: {row.detail}" if failed else "",
        timings={"total": row.seconds},
        changes=tuple(f"{name}={label}" for name, label in row.labels.items()),
        provenance={"chipmap": row.version, "options": {"time_limit": row.time_limit_s, "seed": row.seed}},
    )


def units_of(row: Row) -> Units:
    """Those of the row; of an older one the family's, or none."""
    name = row.method.partition("/")[0]
    known = get_family(name).units_of(None) if name in FAMILY_NAMES else Units(objective=Unit(name="", per_tick=1.0))
    return row.units or known


def summary(rows: Sequence[Row]) -> str:
    """How many points ended how, and what they took."""
    statuses = Counter(row.status for row in rows)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    cpu = sum(row.cpu_seconds for row in rows)
    lines = [f"{counted(len(rows), 'point')}: {counts}; {cpu:,.1f} CPU seconds of solving"]
    bad = {"bad input", "lost", "error", "unknown"}
    told = [(row.status, " ".join(row.labels.values()), row.detail) for row in rows if row.status in bad]
    lines += [": ".join(filter(None, words)) for words in told[:10]]
    return "".join(f"{line}\n" for line in lines)
