"""A page of runs: one HTML file, no external resource.

The page is made by jinja2, which escapes every text. Its charts are plain SVG of our own: they are there before a
script runs, they print, and they cost a page little. A charting library inlined adds about a megabyte or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap import __version__
from chipmap.records import counted, written_out
from chipmap.records.quantities import percent, suited
from chipmap.report.collect import Entry
from chipmap.report.page import grid, profiles, versus
from chipmap.report.page.known import Known, best_known
from chipmap.report.page.pictures import draw, packed, worth_drawing
from chipmap.report.page.run import about, relative
from chipmap.report.page.trace import MOST_POINTS
from chipmap.report.rows import above_known, digits, sign, units_of
from chipmap.result import Result

if TYPE_CHECKING:
    from jinja2 import Environment

#: Runs up to which each is open at first; pictures that are drawn unless asked for more.
OPEN, PICTURES = 1, 8
#: With more runs than this, each is compressed until it is opened, so that the page opens fast.
UNPACKED = 40
#: Points of all traces together.
POINTS = 20_000
#: Characters of all packed pictures together, so that a page stays below 10 MB.
ROOM = 5_000_000
KNOWN_HEAD = ("instance", "best objective", "by", "best bound", "by", "unit", "gap", "registry", "runs")
_TONES = grid.TONES | {"worse": "bad", "slower": "warn", "better": "good", "faster": "good", "gone": "warn"}


@dataclass(frozen=True)
class Wanted:
    """What a page shows beside its runs: at most so many pictures, or where each is fetched from (``picture_at``, by
    the number of the run); runs to compare with (``before``) and what these are called."""

    pictures: int = PICTURES
    picture_at: Callable[[int], str] | None = None
    before: Sequence[Result] | None = None
    other: str = ""


def page(entries: Sequence[Entry], folder: Path, wanted: Wanted | None = None) -> str:
    """The runs of ``entries`` as one HTML document."""
    wanted = wanted or Wanted()
    whole = [entry for entry in entries if entry.result is not None]
    shown = [(entry.result, relative(entry.path, folder)) for entry in whole if entry.result is not None]
    results = [result for result, _ in shown]
    known = best_known(results)
    lines = grid.lines(shown, known)
    columns = grid.columns(lines)
    keys = [column.key for column in columns]
    pairs = None if wanted.before is None else versus.pairs(wanted.before, results)
    broken = [(relative(entry.path, folder), entry.problem) for entry in entries if entry.result is None]
    told = {
        "title": f"chipmap report: {folder.resolve().name}",
        "version": __version__,
        "summary": _summary(results, known, len(broken)),
        "warnings": [one.warning for one in known.values() if one.contradiction],
        "columns": columns,
        "groups": [c for c in columns if c.key in grid.GROUPS],
        "lines": lines,
        "statuses": sorted({line.cells["status"].text for line in lines}),
        "measured": any(result.evaluation for result in results),
        "known_head": KNOWN_HEAD,
        "known": [_best(one) for one in known.values()],
        "charts": profiles.charts(results),
        "pairs": None if pairs is None else versus.table(pairs),
        "told": None if pairs is None else versus.told(pairs),
        "other": wanted.other,
        "broken": broken,
        "runs": _runs(whole, lines, wanted) if keys else [],
    }
    return str(_environment().get_template("page.html").render(told))


def _runs(entries: Sequence[Entry], lines: Sequence[grid.Line], wanted: Wanted) -> list[dict[str, Any]]:
    """What the template shows of each run, with the pictures that were asked for, as long as there is room."""
    from markupsafe import Markup

    points = min(MOST_POINTS, max(8, POINTS // max(1, len(entries))))
    drawing = set() if wanted.picture_at else set(worth_drawing(entries, wanted.pictures))
    found, room = [], ROOM
    for entry, line in zip(entries, lines, strict=True):
        assert entry.result is not None
        served = " --serve" if entry.of_bench else ""
        drawn = draw(entry) if line.number in drawing and room > 0 else None
        picture = packed(drawn.json()) if drawn else ""
        room -= len(picture)
        told = {
            "line": line,
            "about": about(entry.result, line.cells["folder"].text, points),
            "picture": picture if room > 0 else "",
            "picture_at": wanted.picture_at(line.number) if wanted.picture_at and entry.drawable else "",
            "command": f"chipmap show {line.cells['folder'].text}{served}" if entry.drawable else "",
        }
        body = _environment().get_template("run.html").render(told)
        many = len(entries) > UNPACKED
        shown = {"packed": packed(body)} if many else {"body": Markup(body)}
        found.append({"line": line, "open": len(entries) <= OPEN, **shown})
    return found


def _summary(results: Sequence[Result], known: dict[str, Known], broken: int) -> str:
    proved = sum(k.gap == 0.0 and not k.contradiction for k in known.values())
    parts = [
        f"{counted(len(results), 'run')} of {counted(len(known), 'instance')}",
        f"{proved} proved optimal, here or in the registry",
    ]
    if refuted := sum(k.infeasible for k in known.values()):
        parts.append(f"{refuted} proved infeasible")
    if broken:
        parts.append(f"{counted(broken, 'archive')} not read")
    return "; ".join(parts) + ". Every objective is the independent checker's; every bound names its source."


def _best(known: Known) -> tuple[str, ...]:
    """A line under :data:`KNOWN_HEAD`."""
    unit = suited(known.objective, units_of(known.runs[0]).objective)
    best = "infeasible" if known.infeasible else digits(known.objective, unit)
    bound = (digits(known.bound.value, unit), known.bound.source) if known.bound else (percent(None), "")
    share = "contradiction" if known.contradiction else percent(known.gap)
    name = " ".join([known.runs[0].instance, *(f"[{change}]" for change in known.runs[0].changes)])
    runs = [run.objective for run in known.runs if run.objective is not None]
    entry = known.registered.entry if known.registered else None
    registry = above_known(entry is not None, None)
    if entry is not None and entry.objective is not None and runs:
        nearest = min(runs)
        apart = percent(abs(nearest - entry.objective) / abs(entry.objective)) if entry.objective else percent(None)
        registry = (
            "equal" if nearest == entry.objective else f"{apart} {'above' if nearest > entry.objective else 'better'}"
        )
    return name, best, known.found_by, *bound, sign(unit), share, registry, str(len(known.runs))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    folder = Path(__file__).with_name("templates")
    made = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                       finalize=_plain)  # fmt: skip
    made.globals |= {name: Markup((folder / file).read_text(encoding="utf-8")) for name, file in _FILES.items()}
    made.globals["tones"] = _TONES
    return made


_FILES = {"css": "style.css", "script": "script.js"}


def _plain(value: object) -> object:
    """Control characters of names written out; what is HTML already stays."""
    return written_out(value) if type(value) is str else value
