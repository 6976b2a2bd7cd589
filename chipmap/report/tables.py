"""Rows (see :mod:`chipmap.report.rows`) as text: an aligned table, Markdown, CSV, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from chipmap.records import csv_text

Row = dict[str, Any]

_COLUMNS = ("instance", "method", "status", "objective", "bound", "unit", "gap", "seconds", "checked")
_NUMBERS = frozenset({"objective", "bound", "gap", "seconds"})
_NESTED = ("terms", "figures")


def percent(share: float | None) -> str:
    """A gap for people: ``0%`` only when it is zero, ``n/a`` when a side is missing.

    >>> percent(0.0), percent(0.0123), percent(1e-7), percent(None)
    ('0%', '1.23%', '<0.01%', 'n/a')
    """
    if share is None:
        return "n/a"
    if share == 0.0:
        return "0%"
    return f"{share:.2%}" if abs(share) >= 5e-5 else "<0.01%"


def number(value: float | None) -> str:
    """A value for people: seven significant digits, all those before the point, thousands apart; ``n/a`` for None.

    >>> number(1234.56789), number(0.5), number(123456789.0), number(None)
    ('1,234.568', '0.5', '123,456,789', 'n/a')
    """
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.7g}"


def cells(row: Row) -> dict[str, str]:
    """The row's cells as people read them, by column of the gap table."""
    return {
        "instance": str(row["instance"]),
        "method": str(row["method"]),
        "status": f"{row['status']}, failed" if row.get("failure") else str(row["status"]),
        "objective": number(row["objective"]),
        "bound": number(row["bound"]),
        "unit": str(row["unit"]),
        "gap": percent(row["gap"]),
        "seconds": f"{row['seconds']:,.2f}",
        "checked": "valid" if row["feasible"] else "refused" if row["objective"] is not None else "n/a",
    }


def table(rows: Iterable[Row]) -> str:
    """An aligned table, numbers to the right."""
    lines = [[cell[name] for name in _COLUMNS] for cell in map(cells, rows)]
    widths = [max(len(name), *(len(line[i]) for line in lines), 0) for i, name in enumerate(_COLUMNS)]
    head = _line(_COLUMNS, widths)
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([head, rule, *(_line(line, widths) for line in lines)]) + "\n"


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text.rjust(width) if name in _NUMBERS else text.ljust(width)
        for name, text, width in zip(_COLUMNS, texts, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def markdown(rows: Iterable[Row]) -> str:
    """The same table in Markdown, for pages and issues."""
    rule = ["--:" if name in _NUMBERS else "---" for name in _COLUMNS]
    lines = [[cell[name].replace("|", "\\|") for name in _COLUMNS] for cell in map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (list(_COLUMNS), rule, *lines))


def csv(rows: Iterable[Row]) -> str:
    """Every field of every row; nested ones become columns ``terms.T1``, ``figures.chips`` …; empty for None.

    Units of terms only where they aren't the objective's.
    """
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
            flat.update({f"{name}.{key}": unit for key, unit in value.items() if unit != row["unit"]})
        elif name in _NESTED:
            flat.update({f"{name}.{key}": inner for key, inner in value.items()})
        elif isinstance(value, list):
            flat[name] = "; ".join(map(str, value))
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else value
    return flat


def json_lines(rows: Iterable[Row]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
