"""One run in the page: figures, trace, bounds, certificate, picture, provenance, as the template takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chipmap.certificate import Certificate
from chipmap.family import Family, get_family
from chipmap.records import Unit, counted
from chipmap.records.quantities import number, percent, suited
from chipmap.report.page.trace import MOST_POINTS, trace_chart
from chipmap.report.rows import digits, sign, units_of
from chipmap.result import Result, best_bound, claims_another, gap

Table = list[tuple[str, ...]]


def about(result: Result, folder: str, points: int = MOST_POINTS) -> dict[str, Any]:
    """What the template shows of a run; ``points``: of a curve of its trace at most."""
    family, unit = get_family(result.family), units_of(result).objective
    return {
        "tiles": _tiles(result, unit),
        "warnings": _warnings(result),
        "trace": trace_chart(result, unit, points),
        "who": _who(result, unit)[-points:],
        "infeasibility": [_reason(reason) for reason in result.infeasibility],
        "bounds": _bounds(result, unit),
        "bounds_unit": sign(unit),
        "certificate": _certificate(result, family),
        "violations": _violations(result.certificate, family),
        "notes": [note.text for note in result.notes],
        "provenance": _provenance(result, folder),
    }


def _tiles(result: Result, unit: Unit) -> Table:
    lower = best_bound(result.bounds)
    by = f"by {result.incumbent_source}" if result.incumbent_source else ""
    limit = result.termination.limit
    why = result.termination.reason.replace("_", " ") + (f" ({limit} limit)" if limit != "none" else "")
    detail = f"{why}: {result.termination.detail}" if result.termination.detail else why
    return [
        ("Objective", with_unit(result.objective, unit), by),
        *_predicted(result),
        ("Lower bound", with_unit(result.bound, unit), f"by {lower.source}" if lower else ""),
        ("Gap", percent(result.gap), "(objective - bound) / objective"),
        ("Seconds", f"{result.seconds:,.2f}", detail),
    ]


def _predicted(result: Result) -> Table:
    """What a profile of the machine predicts; nothing where none applies."""
    found = result.certificate.prediction if result.certificate else None
    if found is None:
        return []
    times = f"{found.objective / result.objective:.3g} times the objective, " if result.objective else ""
    return [("Predicted", f"about {found.amount}", f"{times}by {found.profile}; in no bound")]


def with_unit(ticks: int | None, unit: Unit) -> str:
    """So many ticks with the sign of the unit that suits them."""
    unit = suited(ticks, unit)
    return "n/a" if ticks is None else f"{digits(ticks, unit)} {sign(unit)}"


def _warnings(result: Result) -> list[str]:
    certificate, warnings = result.certificate, [f"The method failed: {result.failure}"] if result.failure else []
    tick = get_family(result.family).tick
    if certificate is not None and not certificate.feasible:
        warnings.append(f"The checker refuses this solution: {counted(len(certificate.violations), 'violation')}.")
    if certificate is not None and result.objective not in (None, certificate.objective):
        warnings.append("The certificate's objective differs from the result's.")
    claimed = result.claimed_objective
    if claimed is not None and result.objective is not None and claims_another(claimed, result.objective):
        said = f"{claimed:,}" if isinstance(claimed, int) else f"{claimed:,.10g}"
        warnings.append(f"The solver claimed {said} ticks ({tick}); the checker found {result.objective:,}.")
    return warnings


def _who(result: Result, unit: Unit) -> Table:
    """Who found or proved what, and when."""
    what = {"solution": "solution", "bound": "bound"}
    lines = sorted(result.trace, key=lambda line: line.seconds)
    return [(f"{one.seconds:,.2f}", what[one.event], with_unit(one.value, unit), one.source) for one in lines]


def _reason(reason: Any) -> dict[str, Any]:
    amounts = [f"{number(amount)} {reason.unit}" for amount in (reason.demand, reason.limit)]
    head = (reason.label, reason.resource, *amounts)
    return {"cells": head, "message": reason.message, "remedies": reason.remedies}


def _bounds(result: Result, unit: Unit) -> Table:
    """Every bound, best first, with the gap that it alone would leave."""
    return [
        (b.source, b.kind, digits(b.value, unit), percent(gap(result.objective, b.value)), f"{b.seconds:,.2f}")
        for b in sorted(result.bounds, key=lambda bound: (-bound.value, bound.seconds))
    ]


def _certificate(result: Result, family: Family) -> Table:
    certificate = result.certificate
    if certificate is None:
        return []
    lines: Table = [("verdict", "valid" if certificate.feasible else "refused")]
    if certificate.headline:
        lines.append(("headline", certificate.headline))
    if certificate.outlook:
        lines.append(("prediction", certificate.outlook.removeprefix("predicted: ")))
    for name, ticks in certificate.terms.items():
        lines.append((f"{name}: {family.terms.get(name, name)}", with_unit(ticks, units_of(result).of(name))))
    lines += [(name.replace("_", " "), number(figure)) for name, figure in certificate.figures.items()]
    if certificate.grade:
        lines.append(("grade", certificate.grade))
    return [*lines, ("solution hash", certificate.solution_hash)]


def _violations(certificate: Certificate | None, family: Family) -> Table:
    return [
        (f"{v.label} {family.constraints.get(v.label, '')}".strip(), v.where, f"{number(v.amount)} {v.unit}", v.message)
        for v in (certificate.violations if certificate else ())
    ]


def _provenance(result: Result, folder: str) -> Table:
    return [
        ("folder", folder),
        ("instance hash", result.instance_hash),
        *((f"seconds: {name}", f"{seconds:,.3f}") for name, seconds in result.timings.items()),
        *flatten(result.provenance),
    ]


def flatten(nested: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, text) of every leaf; lists are one leaf, as JSON."""
    for key, value in nested.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flatten(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else json.dumps(value, default=str)


def relative(path: Path, root: Path) -> str:
    """``path`` as seen from ``root``; its own name where it is the root."""
    return path.name if path == root else str(path.relative_to(root))
