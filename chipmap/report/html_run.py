"""One run in the HTML report: figures, trace, bounds, certificate, plot, provenance."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chipmap.certificate import Certificate
from chipmap.family import Family, get_family
from chipmap.records import Unit, counted
from chipmap.records.quantities import number, percent, suited
from chipmap.report.collect import Entry
from chipmap.report.markup import Markup, join, table, tag
from chipmap.report.rows import digits, sign, units_of
from chipmap.report.trace_svg import trace_chart
from chipmap.result import Result, best_bound, claims_another, gap

#: A plot above this size is named, not embedded.
LARGEST_PLOT = 8 * 1024 * 1024
_PILLS = {"optimal": "good", "feasible": "fair", "infeasible": "fair", "error": "bad"}
_PILLS |= {"valid": "good", "refused": "bad"}
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def pill(status: str, failure: str = "") -> Markup:
    """A status or the checker's verdict as a coloured word; with a word on the failure of the run."""
    colour = "bad" if failure else _PILLS.get(status, "")
    return tag("span", f"{status}, failed" if failure else status, class_=f"pill {colour}".strip())


def run_section(entry: Entry, number_: int, is_open: bool) -> Markup:
    """The foldable section of a whole archive (``entry.result`` is not None)."""
    result = entry.result
    assert result is not None
    family, unit = get_family(result.family), units_of(result).objective
    head = tag(
        "summary",
        tag("b", result.instance),
        pill(result.status, result.failure),
        tag("span", f"{result.method}, gap {percent(result.gap)}", class_="muted"),
    )
    body = tag(
        "div",
        _tiles(result, unit),
        *(tag("p", note, class_="warning") for note in _warnings(result)),
        _section("Incumbent and bound over time", trace_chart(result, unit)),
        _section("Why it is infeasible", _infeasibility(result)),
        _section("Lower bounds", _bounds(result, unit)),
        _section("Certificate of the independent checker", _certificate(result, family)),
        _section("Plot", _plot(entry)),
        _section("Notes", tag("ul", *(tag("li", note.text) for note in result.notes)) if result.notes else None),
        _provenance(entry, result),
        class_="run",
    )
    return tag("details", head, body, class_="card", id=f"run-{number_}", open=True if is_open else None)


def _section(title: str, body: Markup | None) -> Markup | None:
    return None if body is None else join(tag("h3", title), body)


def _tiles(result: Result, unit: Unit) -> Markup:
    lower = best_bound(result.bounds)
    by = f"by {result.incumbent_source}" if result.incumbent_source else ""
    limit = result.termination.limit
    why = result.termination.reason.replace("_", " ") + (f" ({limit} limit)" if limit != "none" else "")
    detail = f"{why}: {result.termination.detail}" if result.termination.detail else why
    tiles = [
        ("Objective", _with_unit(result.objective, unit), by),
        ("Lower bound", _with_unit(result.bound, unit), f"by {lower.source}" if lower else ""),
        ("Gap", percent(result.gap), "(objective - bound) / objective"),
        ("Seconds", f"{result.seconds:,.2f}", detail),
    ]
    boxes = (tag("div", tag("span", a), tag("b", b), tag("small", c), class_="tile") for a, b, c in tiles)
    return tag("div", *boxes, class_="tiles")


def _with_unit(ticks: int | None, unit: Unit) -> str:
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


def _infeasibility(result: Result) -> Markup | None:
    body = []
    for reason in result.infeasibility:
        amounts = (f"{number(amount)} {reason.unit}" for amount in (reason.demand, reason.limit))
        words = join(reason.message, *(tag("p", remedy, class_="muted") for remedy in reason.remedies))
        body.append((reason.label, reason.resource, *amounts, words))
    return table(("constraint", "resource", "demand", "limit", "in words"), body, {2, 3})


def _bounds(result: Result, unit: Unit) -> Markup | None:
    """Every bound, best first, with the gap that it alone would leave."""
    body = []
    for bound in sorted(result.bounds, key=lambda bound: (-bound.value, bound.seconds)):
        share = percent(gap(result.objective, bound.value))
        body.append((bound.source, bound.kind, digits(bound.value, unit), share, f"{bound.seconds:,.2f}"))
    return table(("source", "kind", f"bound, {sign(unit)}", "gap", "at second"), body, {2, 3, 4})


def _certificate(result: Result, family: Family) -> Markup | None:
    certificate = result.certificate
    if certificate is None:
        return None
    lines: list[tuple[object, ...]] = [("verdict", pill("valid" if certificate.feasible else "refused"))]
    if certificate.headline:
        lines.append(("headline", certificate.headline))
    for name, ticks in certificate.terms.items():
        lines.append((f"{name}: {family.terms.get(name, name)}", _with_unit(ticks, units_of(result).of(name))))
    lines += [(name.replace("_", " "), number(figure)) for name, figure in certificate.figures.items()]
    if certificate.grade:
        lines.append(("grade", certificate.grade))
    lines.append(("solution hash", tag("code", certificate.solution_hash)))
    return join(_violations(certificate, family), table(("figure", "value"), lines))


def _violations(certificate: Certificate, family: Family) -> Markup | None:
    body = [
        (tag("b", v.label, title=family.constraints.get(v.label)), v.where, f"{number(v.amount)} {v.unit}", v.message)
        for v in certificate.violations
    ]
    return table(("constraint", "where", "by", "in words"), body, {2})


def _plot(entry: Entry) -> Markup | None:
    """The archive's plot as a data address, so that the page stays one file and no script in an SVG can run."""
    path = entry.plot
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        return tag("p", f"{path.name} can't be read: {error.strerror}", class_="warning")
    if len(data) > LARGEST_PLOT:
        return tag("p", f"{path.name} ({len(data) / 2**20:.0f} MiB) is too large to embed.", class_="muted")
    source = f"data:{_TYPES[path.suffix.lower()]};base64,{base64.b64encode(data).decode()}"
    return tag("img", class_="plot", src=source, alt=f"plot of the mapping: {path.name}", loading="lazy")


def _provenance(entry: Entry, result: Result) -> Markup:
    lines = [
        ("archive", tag("code", entry.path.name)),
        ("instance hash", tag("code", result.instance_hash)),
        *((f"seconds: {name}", f"{seconds:,.3f}") for name, seconds in result.timings.items()),
        *((name, tag("code", text)) for name, text in flatten(result.provenance)),
    ]
    return tag("details", tag("summary", tag("h3", "Provenance")), table(("what", "value"), lines), class_="sub")


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
