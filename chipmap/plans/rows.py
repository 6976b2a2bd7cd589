"""Tables of plans as people have them in a spreadsheet: columns by name, separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from chipmap.records import InputError


def heading(data: bytes) -> list[str]:
    """The names of the columns."""
    line = data.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    return [one.strip().strip('"') for one in line.split(_delimiter(line))]


def text_of(data: bytes, where: str) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is no text in UTF-8: {error.reason}", where, "Save it as UTF-8.") from None


def lines(
    data: bytes, where: str, needed: Mapping[str, Sequence[str]], remedy: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """(where it stands, its cells by column) of each line.

    ``needed``: what must be there -> the names that its column may have; a line has it under its first name.
    """
    try:
        text = text_of(data, where)
        rows = csv.reader(io.StringIO(text), delimiter=_delimiter(text.partition("\n")[0]))
        columns = [one.strip() for one in next(rows, [])]
        for what, names in needed.items():
            found = next((name for name in names if name in columns), None)
            if found is None:
                raise InputError(f"has no column for {what}", where, remedy)
            columns[columns.index(found)] = names[0]
        for row in rows:
            here = f"{where}: line {rows.line_num}"
            if row and len(row) < len(columns):
                raise InputError(f"has {len(row)} cells, the heading {len(columns)}", here, remedy)
            if row:
                yield here, dict(zip(columns, (cell.strip() for cell in row), strict=False))
    except csv.Error as error:
        raise InputError(f"is no table: {error}", where, remedy) from None


def named(cell: str, known: Mapping[str, object]) -> str:
    """The name in a cell; tables have a quote before what a spreadsheet would take for a formula."""
    return cell if cell in known else cell.removeprefix("'")


def number(cell: str, what: str, here: str) -> int:
    """A whole number from 0 on."""
    if not cell.isdecimal():
        raise InputError(f"{cell!r} is no {what}", here, f"Give the {what}'s number, from 0 on.")
    return int(cell)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)
