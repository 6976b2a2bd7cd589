"""Rows (see :mod:`chipmap.report.rows`) as text: an aligned table, Markdown, CSV, JSON lines."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from chipmap.records import csv_text, in_one_line
from chipmap.records.quantities import number, percent, smaller
from chipmap.report.rows import above_known

Row = dict[str, Any]

_COLUMNS = ("instance", "method", "status", "objective", "bound", "unit", "gap", "seconds", "checked")
_NUMBERS = frozenset({"objective", "bound", "gap", "measured", "seconds", "above known"})
#: Columns of text are narrowed to so many characters.
_LEAST = 12
_NESTED = ("terms", "figures", "prediction", "progress")


def cells(row: Row) -> dict[str, str]:
    """The row's cells as people read them, by column of the gap table; behind an instance what of it was changed."""
    changes = ", ".join(row.get("changes") or ())
    steps, unit = smaller(row["objective"] or row["bound"], str(row["unit"]))
    objective, bound = (None if one is None else one * 1000**steps for one in (row["objective"], row["bound"]))
    return {
        "instance": f"{row['instance']} [{changes}]" if changes else str(row["instance"]),
        "method": str(row["method"]),
        "status": f"{row['status']}, failed" if row.get("failure") else str(row["status"]),
        "objective": number(objective),
        "bound": number(bound),
        "unit": unit,
        "gap": percent(row["gap"]),
        "measured": number(row.get("measured")),
        "seconds": f"{row['seconds']:,.2f}",
        "checked": "valid" if row["feasible"] else "refused" if row["objective"] is not None else "n/a",
        "above known": above_known(bool(row.get("registered")), row.get("above_best_known")),
    }


def terminal_width() -> int | None:
    """The columns of the terminal (or $COLUMNS); None where standard output is none, and lines may be of any length."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and 0 < int(given) < 10_000:
        return int(given)
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    return None


def table(rows: Iterable[Row], width: int | None = None, known: bool = False) -> str:
    """An aligned table, numbers to the right; in two lines a row where it is wider than ``width``.

    There is a column of measured costs, and one of folders, if some row has one, and, where it is asked for by
    ``known``, one of what the rows lie above the best known value.
    """
    columns, found = _chosen(list(rows), known)
    lines = [[cell[name] for name in columns] for cell in found]
    widths = [max(len(name), *(len(line[i]) for line in lines), 0) for i, name in enumerate(columns)]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        return _narrow(found, columns, width)
    rule = "  ".join("-" * one for one in widths)
    return "\n".join([_line(columns, columns, widths), rule, *(_line(columns, one, widths) for one in lines)]) + "\n"


def _chosen(rows: Sequence[Row], known: bool) -> tuple[list[str], list[dict[str, str]]]:
    """The columns that some row needs, and the cells of each row."""
    known = known and any(row.get("registered") for row in rows)
    folders = any(row.get("folder") for row in rows)
    measured = any(row.get("measured") is not None for row in rows)
    columns = [*_COLUMNS[:-2], *(["measured"] if measured else []), *_COLUMNS[-2:]]
    columns += [*(["above known"] if known else []), *(["folder"] if folders else [])]
    return columns, [{**cells(row), "folder": str(row.get("folder", ""))} for row in rows]


def _narrow(found: Sequence[dict[str, str]], columns: Sequence[str], width: int) -> str:
    """A line with the names of each row, and one with its numbers below."""
    names = [name for name in columns if name in ("instance", "method", "folder")]
    rest = [name for name in columns if name not in names]
    widths = [max(len(name), *(len(cell[name]) for cell in found), 0) for name in rest]
    blocks = [
        "  ".join(names),
        f"  {_line(rest, rest, widths)}",
        "-" * min(width, 2 + sum(widths) + 2 * len(widths) - 2),
    ]
    for cell in found:
        blocks += textwrap.wrap("  ".join(cell[name] for name in names if cell[name]), width, subsequent_indent="    ")
        blocks.append(f"  {_line(rest, [cell[name] for name in rest], widths)}")
    return "\n".join(blocks) + "\n"


def wrapped(cells: Sequence[Sequence[str]], widths: list[int], width: int | None, indent: int) -> list[str]:
    """Aligned lines of ``cells`` within ``width``: the widest columns are narrowed, and their cells get more lines."""
    widths, lines = list(widths), []
    while width is not None and indent + sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    for row in cells:
        parts = [
            textwrap.wrap(cell, size) or [""] if len(cell) > size else [cell]
            for cell, size in zip(row, widths, strict=True)
        ]
        for i in range(max(map(len, parts))):
            texts = [part[i] if i < len(part) else "" for part in parts]
            lines.append("  ".join(text.ljust(size) for text, size in zip(texts, widths, strict=True)).rstrip())
    return lines


def columns(rows: Iterable[tuple[Any, ...]], indent: str = "  ") -> str:
    """Rows as aligned text, whose cells are broken into lines where a terminal is narrower than that."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "".join(f"{indent}{line}\n" for line in wrapped(cells, widths, terminal_width(), len(indent)))


def _line(columns: Sequence[str], texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text.rjust(width) if name in _NUMBERS else text.ljust(width)
        for name, text, width in zip(columns, texts, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def markdown(rows: Iterable[Row]) -> str:
    """The same table in Markdown, for pages and issues, with what the rows lie above the best known value."""
    columns, found = _chosen(list(rows), known=True)
    rule = ["--:" if name in _NUMBERS else "---" for name in columns]
    lines = [[_markdown(cell[name]) for name in columns] for cell in found]
    return "".join(f"| {' | '.join(line)} |\n" for line in (columns, rule, *lines))


def _markdown(text: str) -> str:
    """A cell whose text is no markup: neither HTML, nor emphasis, code, a link or another cell.

    >>> _markdown("<b>|[a](b)")
    '&lt;b&gt;\\\\|[a]\\\\(b)'
    """
    escaped = in_one_line(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "|`*":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped.replace("](", "]\\(").replace("![", "\\![")


def csv(rows: Iterable[Row]) -> str:
    """Every field of every row; nested ones become columns ``terms.T1``, ``term_units.T1``, ``figures.chips`` …; empty
    for None."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for line in flat for name in line)) or [*_COLUMNS[:-1], "feasible"]
    return written(columns, flat)


def written(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Rows as CSV; what a row lacks stays empty."""
    return csv_text(columns, ([row.get(name, "") for name in columns] for row in rows))


def _flat(row: Row) -> Row:
    flat: Row = {}
    for name, value in row.items():
        if name == "term_units":
            flat.update({f"{name}.{key}": unit for key, unit in value.items()})
        elif name in _NESTED:
            flat.update({f"{name}.{key}": inner for key, inner in (value or {}).items()})
        elif isinstance(value, list):
            flat[name] = "; ".join(map(str, value))
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else value
    return flat


def json_lines(rows: Iterable[Row]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
