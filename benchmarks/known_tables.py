"""What the pages of results say of shipped instances: tables of Markdown, figures with their rounding.

A figure such as ``49.1`` stands for anything from 49.05 to 49.15. Figures in ticks are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from chipmap.inputs.reading import shipped_names

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
SHIPPED = frozenset(shipped_names())
#: Seconds in the units of time that pages use.
SECONDS = {
    unit: Fraction(power) for unit, power in {"s": "1", "ms": "1e-3", "us": "1e-6", "µs": "1e-6", "ns": "1e-9"}.items()
}

#: What a column says of the row's instance: the value of a mapping, a bound, or the gap between the two (in percent).
Kind = Literal["value", "bound", "gap"]
#: From the cells of a row to the name of a shipped instance; "" where the row is of none.
Namer = Callable[["Table", tuple[str, ...]], str]


@dataclass(frozen=True)
class Table:
    """A table of a page, under its heading."""

    page: str
    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def family(self) -> str:
        """The family that the page's name begins with."""
        return re.split(r"[-.]", Path(self.page).name)[0]

    def cell(self, row: tuple[str, ...], column: str) -> str:
        """The cell of the column with that title; ``title#2`` is the second one of its name."""
        title, _, which = column.partition("#")
        found = [i for i, one in enumerate(self.header) if one == title]
        at = found[int(which or 1) - 1] if len(found) >= int(which or 1) else -1
        assert at >= 0, f"{self.page}: no column {column!r} in {self.header}"
        return row[at] if at < len(row) else ""


@dataclass(frozen=True)
class Figure:
    """What a page says of an instance, in natural units: anything from ``low`` to ``high``."""

    page: str
    instance: str
    kind: Literal["value", "bound"]
    low: Fraction
    high: Fraction
    said: str

    def __str__(self) -> str:
        return f"{self.instance}, {self.kind} {self.said} in {self.page}"


def tables(text: str, page: str) -> Iterator[Table]:
    """The tables of a page."""
    heading, lines = "", list[tuple[str, ...]]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(tuple(cell.strip().strip("*").strip() for cell in line.strip().strip("|").split("|")))
            continue
        if len(lines) > 2:
            yield Table(page, heading, lines[0], tuple(lines[2:]))
        lines.clear()
        heading = line.lstrip("# ").strip() if line.startswith("#") else heading


def pages() -> list[str]:
    """Every page of results and of the documentation, but for the registry's own."""
    folders = (ROOT / "benchmarks" / "results", ROOT / "docs")
    found = sorted(str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.md"))
    return ["README.md", *(page for page in found if page != "docs/best-known.md")]


def named(table: Table, cell: str) -> str:
    """The shipped instance that a cell names, with or without its family; the contest's cases by their letters."""
    name = cell.strip().strip("`")
    tried = (name, f"{table.family}/{name}", f"wafer/ispd2020-{name}" if table.family == "wafer" else "")
    return next((one for one in tried if one in SHIPPED), "")


def first(table: Table, row: tuple[str, ...]) -> str:
    """The instance that the first cell names."""
    return named(table, row[0])


def mentions(table: Table) -> set[str]:
    """The shipped instances in the table's cells and titles, also where a cell says more than the name."""
    cells = [cell for row in (table.header, *table.rows) for cell in row]
    inside = {name for cell in cells for name in re.findall(r"[a-z]+/[\w-]+", cell) if name in SHIPPED}
    return inside | set(filter(None, (named(table, cell) for cell in cells)))


def amount(cell: str, unit: str) -> tuple[Fraction, Fraction, str] | None:
    """The first number of a cell (number, half its last digit, unit); None where there is none, or another unit.

    A cell without a unit is in ``unit``.
    """
    match = NUMBER.search(cell)
    if match is None:
        return None
    digits = match[0].replace(",", "")
    mantissa, _, power = digits.partition("e")
    step = Fraction(10) ** (int(power or 0) - len(mantissa.partition(".")[2]))
    own = cell[match.end() :].strip().partition(" ")[0].rstrip(",;:")
    return Fraction(digits), step / 2, own if own in SECONDS or own == "%" else unit
