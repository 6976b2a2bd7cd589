"""The page of results at a glance, ``docs/results.md``: ``python -m benchmarks.results_page``.

``results_rows.toml`` says what each row is, and where its figures stand in the files of ``benchmarks/results``: by the
words around them, in a column, by how often something is there. So what is measured anew changes its row, and a figure
that is gone is an error.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.known_tables import NUMBER, ROOT, tables

PAGE = ROOT / "docs" / "results.md"
ROWS = Path(__file__).with_name("results_rows.toml")
HEAD = """# Results at a glance

Each row says what was solved, what came out, and which script of `benchmarks/` makes the numbers again. The script's
name leads to its results. [What was measured](measurements.md) lists all of them. The machine had 2 cores, and other
jobs ran on it: each page of results says how many. Seconds are those of whole commands in fresh processes, unless
the row says otherwise. What is known of each shipped instance is in [best-known values](best-known.md). [Choose a
method](howto/choose-a-method.md) has a table by size.

`python -m benchmarks.results_page` makes this page from the results.

| what | result | made by `python -m` |
|---|---|---|
"""
#: What a figure may be of the numbers of a column.
TAKEN: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max, "sum": sum, "count": len}


class Figure(str):
    """A figure as it stands there; with a format it is a number."""

    def __format__(self, form: str) -> str:
        return format(float(self.replace(",", "")), form) if form else str(self)


def figures(row: dict[str, Any], text: str) -> dict[str, Figure]:
    """The figures of a row, by name, in the text of its results. Raises :class:`LookupError` for one that isn't there.

    ``find``: patterns with named groups. ``count``: how many lines match. ``sum``: of the group of all that match.
    ``column``: [title, what to take of it, pattern of the rows that count].
    """
    found: dict[str, Any] = {}
    for pattern in row.get("find", ()):
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise LookupError(f"{row['page']}.md: nothing matches {pattern!r}")
        found |= match.groupdict()
    for name, pattern in row.get("count", {}).items():
        found[name] = len(re.findall(pattern, text, re.MULTILINE))
    for name, pattern in row.get("sum", {}).items():
        found[name] = sum(float(number) for number in re.findall(pattern, text, re.MULTILINE))
    for name, (title, taken, *which) in row.get("column", {}).items():
        found[name] = _column(text, title, taken, which[0] if which else "")
    empty = [name for name, one in found.items() if not one and name not in row.get("zero", ())]
    if empty:
        raise LookupError(f"{row['page']}.md: nothing for {', '.join(empty)}")
    return {name: Figure(f"{one:g}" if isinstance(one, float) else one) for name, one in found.items()}


def _column(text: str, title: str, taken: str, which: str) -> float:
    """One figure of the first numbers in the cells of a column, in rows that match; ``<=2`` counts those up to 2."""
    numbers = [
        float(number[0].replace(",", ""))
        for table in tables(text, "")
        if title in table.header
        for row in table.rows
        if re.search(which, " | ".join(row)) and (number := NUMBER.search(table.cell(row, title)))
    ]
    if not numbers:
        raise LookupError(f"no numbers below {title!r}")
    return sum(one <= float(taken[2:]) for one in numbers) if taken.startswith("<=") else TAKEN[taken](numbers)


def line(row: dict[str, Any]) -> str:
    """A row of the page. ``behind`` is the heading of the part of the results that counts."""
    known = figures(row, source(row))
    what, result, script = (row[part].format(**known) for part in ("what", "result", "script"))
    return f"| {what} | {result} | [`benchmarks.{script}`](../benchmarks/results/{row['page']}.md) |\n"


def source(row: dict[str, Any]) -> str:
    """The text that the figures of a row stand in."""
    text = (ROOT / "benchmarks" / "results" / f"{row['page']}.md").read_text(encoding="utf-8")
    return text[text.index(f"## {row['behind']}\n") :] if "behind" in row else text


def text() -> str:
    """The page."""
    rows = tomllib.loads(ROWS.read_text(encoding="utf-8"))["row"]
    return HEAD + "".join(map(line, rows))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
