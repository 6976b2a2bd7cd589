"""The table of runs: a column per quantity, a cell per run, with the value that it is sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chipmap.known.compare import above
from chipmap.records.quantities import number, percent, suited
from chipmap.report.page.known import Known, problem
from chipmap.report.progress import TARGETS, primal_integral, seconds_to
from chipmap.report.rows import above_known, digits, options_of, sign, units_of
from chipmap.result import Result, best_bound

#: The gap whose time is shown at first.
SHOWN = 0.01
#: Tones of a status; what is infeasible or failed isn't green.
TONES = {"optimal": "good", "valid": "good", "feasible": "fair", "infeasible": "warn", "refused": "bad", "error": "bad"}


@dataclass(frozen=True)
class Column:
    """A column: its ``key`` and heading, whether it holds numbers, and whether it is hidden at first. ``narrow``: shown
    where the page is as narrow as a phone."""

    key: str
    title: str
    numeric: bool = False
    hidden: bool = False
    narrow: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the number that it is sorted by (None: by the text), the colour of a status, and for a gap the
    length of its bar in percent."""

    text: str
    value: float | None = None
    tone: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Line:
    """A run in the table: its number in the page, its cells by column, and what it can be grouped by."""

    number: int
    cells: dict[str, Cell]


COLUMNS = (
    Column("instance", "instance", narrow=True),
    Column("settings", "settings", narrow=True),
    Column("method", "method", narrow=True),
    Column("options", "options", hidden=True),
    Column("status", "status", narrow=True),
    Column("objective", "objective", True, narrow=True),
    Column("bound", "bound", True, narrow=True),
    Column("unit", "unit", narrow=True),
    Column("gap", "gap", True, narrow=True),
    Column("known", "above known", True),
    Column("best", "above best here", True, hidden=True),
    Column("seconds", "seconds", True, narrow=True),
    Column("integral", "primal integral, s", True),
    *(Column(f"to{i}", f"s to {100 * share:g}%", True, hidden=share != SHOWN) for i, share in enumerate(TARGETS)),
    Column("found", "found by", hidden=True),
    Column("proved", "proved by", hidden=True),
    Column("checked", "checked", hidden=True),
    Column("family", "family", hidden=True),
    Column("folder", "folder", narrow=True),
)
#: What rows can be grouped by.
GROUPS = ("instance", "settings", "method", "status", "family", "options")


def lines(results: Sequence[tuple[Result, str]], known: dict[str, Known]) -> list[Line]:
    """A line per run and folder."""
    return [Line(i, _cells(result, folder, known[problem(result)])) for i, (result, folder) in enumerate(results)]


def columns(found: Sequence[Line]) -> list[Column]:
    """The columns in which some run has something. Options are shown at once where nothing else tells two runs apart,
    the distance to the best run here where it isn't that to the registry."""
    used = [one for one in COLUMNS if any(line.cells[one.key].text for line in found)]
    names = [tuple(line.cells[key].text for key in ("instance", "settings", "method")) for line in found]
    shown = {"options"} if len(set(names)) < len(names) else set()
    if any(line.cells["best"].text not in ("", line.cells["known"].text) for line in found):
        shown.add("best")
    return [replace(one, hidden=one.hidden and one.key not in shown) for one in used]


def _cells(result: Result, folder: str, known: Known) -> dict[str, Cell]:
    unit = suited(result.objective or result.bound, units_of(result).objective)
    status = f"{result.status}, failed" if result.failure else result.status
    proof, certificate, beside = best_bound(result.bounds), result.certificate, known.registered
    distance = above(result.objective, beside.entry.objective) if beside else None
    integral = primal_integral(result, known.objective)
    found = {
        "instance": Cell(result.instance),
        "settings": Cell(", ".join(result.changes)),
        "method": Cell(result.method),
        "options": Cell(options_of(result)),
        "status": Cell(status, tone="bad" if result.failure else TONES.get(result.status, "")),
        "objective": Cell(digits(result.objective, unit), _natural(result, result.objective)),
        "bound": Cell(digits(result.bound, unit), _natural(result, result.bound)),
        "unit": Cell(sign(unit)),
        "gap": gap_cell(result.gap),
        "known": Cell(above_known(beside is not None, distance), distance),
        "best": Cell(known.above_best(result), above(result.objective, known.objective)),
        "seconds": Cell(f"{result.seconds:,.2f}", result.seconds),
        "integral": Cell("" if integral is None else number(float(f"{integral:.3g}")), integral),
        "found": Cell(result.incumbent_source),
        "proved": Cell(proof.source if proof else ""),
        "checked": Cell("" if certificate is None else "valid" if certificate.feasible else "refused"),
        "family": Cell(result.family),
        "folder": Cell(folder),
    }
    for i, share in enumerate(TARGETS):
        seconds = seconds_to(result, share)
        found[f"to{i}"] = Cell("" if seconds is None else f"{seconds:,.2f}", seconds)
    return found


def gap_cell(share: float | None) -> Cell:
    """A gap with a bar as long as it is, full at 100%."""
    return Cell(percent(share), share, bar=None if share is None else round(min(100.0, max(0.0, 100 * share)), 1))


def _natural(result: Result, ticks: int | None) -> float | None:
    return None if ticks is None else ticks * units_of(result).objective.per_tick
