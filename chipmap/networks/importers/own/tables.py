"""Reader of graphs in CSV: a table of nodes, with its edges in a column, in a second table below, or in a second file.

The first line of a table names its columns, those of :mod:`.rows`::

    name,flop,bytes,weights,inputs
    embed,0,512KiB,8MiB,
    dense,1e9,2MiB,4MiB,embed

A table whose columns are ``source`` and ``target`` (and perhaps ``bytes``) holds edges. It may follow the nodes in the
same file, or be a file of its own: given beside the nodes, or found next to them where the two are called alike
(``net.nodes.csv`` and ``net.edges.csv``, or ``nodes.csv`` and ``edges.csv``). Empty lines and lines that begin with
``#`` are skipped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.own.fields import ALIASES, EDGE, NODE, columns, plain
from chipmap.networks.importers.own.rows import Rows, named
from chipmap.records import InputError, Source, counted

FORMAT = "csv"
_EXAMPLE = "The first line names the columns: name,flop,bytes and perhaps weights, kind, time_ns, role, inputs."
_EDGES = (
    "Give them in a column inputs (names, separated by semicolons), below the nodes in a table that begins with "
    "source,target, or in a second file: chipmap convert nodes.csv edges.csv --family NAME."
)
#: Cells of the first line by which a table without the ending .csv is known.
_KNOWN = {"name", "source", "target"}
#: Line and cells.
_Line = tuple[int, list[str]]


def accepts(data: bytes, where: str) -> bool:
    """Whether it is called .csv, or looks like a table of nodes or edges."""
    if where.lower().endswith(".csv"):
        return True
    lines = (line.strip() for line in data[:4000].decode(errors="replace").split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    cells = {_field(cell) for cell in re.split(r"[,;\t|]", first)}
    return len(cells) > 1 and bool(cells & _KNOWN)


def paired(sources: Sequence[Source]) -> list[Source]:
    """The sources, each table of edges beside the table of nodes before it (or else the one behind it)."""
    found: list[Source] = []
    waiting: Source | None = None
    for source in sources:
        table = source.head.lstrip()[:1] != b"{" and source.where.lower().endswith(".csv")
        if table and _names_ends(next(_lines(source), (0, []))[1]):  # a table of edges alone
            if found and found[-1].where.lower().endswith(".csv") and found[-1].beside is None:
                found[-1].beside = source
            elif waiting is None:
                waiting = source
            else:
                found.append(source)
            continue
        if table and waiting is not None:
            source.beside, waiting = waiting, None
        found.append(source)
    return found if waiting is None else [*found, waiting]


def read(source: Source) -> ImportedGraph:
    """The graph; :class:`InputError` with the line of what is wrong."""
    rows = Rows()
    lines = _lines(source)
    first = next(lines, None)
    if first is None:
        raise InputError("is empty", source.where, _EXAMPLE)
    if _names_ends(first[1]):
        remedy = "Give the table of nodes as well: chipmap convert nodes.csv edges.csv --family NAME."
        raise InputError("is a table of edges alone", f"{source.where}: line {first[0]}", remedy)
    connected = _nodes(source.where, first, lines, rows)
    beside = source.beside or (None if connected else _neighbour(source))
    notes: tuple[str, ...] = ()
    if beside is not None:
        inner = _lines(beside)
        header = next(inner, None)
        if header is None:
            raise InputError("is empty", beside.where, "The first line names the columns: source,target,bytes.")
        _edges(beside.where, header, inner, rows)
        notes = (f"edges from {beside.where}",)
    elif not connected and len(rows.nodes) > 1:
        raise InputError("has no edges", source.where, _EDGES)
    name = re.sub(r"(?i)\W?nodes$", "", PurePath(source.where).stem) or PurePath(source.where).stem
    return rows.graph(named(name, "the file's name", source.where), FORMAT, "", source.where, notes)


def _nodes(where: str, header: _Line, lines: Iterator[_Line], rows: Rows) -> bool:
    """Read nodes, and edges below them; whether the file says what is connected."""
    here = f"{where}: line {header[0]}"
    names = _header(header[1], NODE, here)
    if "name" not in names:
        raise InputError("the column name is missing", here, _EXAMPLE)
    if not {"flop", "time_ns"} & set(names):
        raise InputError("the column flop is missing", here, f"{_EXAMPLE} Measured times can stand for flop.")
    for number, cells in lines:
        if _names_ends(cells):
            _edges(where, (number, cells), lines, rows)
            return True
        rows.node(_row(header[1], cells, where, number), f"{where}: line {number}")
    return "inputs" in names


def _edges(where: str, header: _Line, lines: Iterator[_Line], rows: Rows) -> None:
    here = f"{where}: line {header[0]}"
    names = _header(header[1], EDGE, here)
    for end in ("source", "target"):
        if end not in names:
            raise InputError(f"the column {end} is missing", here, "The first line is source,target or has bytes, too.")
    for number, cells in lines:
        rows.edge(_row(header[1], cells, where, number), f"{where}: line {number}")


def _header(cells: Sequence[str], known: tuple[str, ...], where: str) -> list[str]:
    """The fields of the columns; :class:`InputError` where commas don't separate them, or two have one name."""
    for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(cells) == 1 and separator in cells[0]:
            remedy = "Save it with commas between cells, and points in numbers."
            raise InputError(f"cells are separated by {called}", where, remedy)
    seen: set[str] = set()
    for cell in cells:
        if cell in seen:
            raise InputError(f"the column {cell!r} is there twice", where, "Keep one of them.")
        seen.add(cell)
    return list(columns(cells, known, where).fields.values())


def _row(header: Sequence[str], cells: Sequence[str], where: str, number: int) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{counted(len(cells), 'cell')}, but the first line of the table has {len(header)}"
        remedy = "Leave cells empty, or quote those that hold a comma."
        raise InputError(what, f"{where}: line {number}", remedy)
    return {name: cell for name, cell in zip(header, cells, strict=True) if name or cell}


def _lines(source: Source) -> Iterator[_Line]:
    """The lines that hold anything, with the number on which each begins."""
    where = source.where
    try:
        text = source.content().decode()
    except UnicodeDecodeError as error:
        line = source.content()[: error.start].count(b"\n") + 1
        raise InputError("isn't UTF-8 text", f"{where}: line {line}", "Save it as CSV in UTF-8.") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"isn't CSV: {error}", f"{where}: line {number}", "Mend the quotes of that line."
            ) from None
        if cells is None:
            return
        cells = [cell.strip() for cell in cells]
        if any(cells) and not cells[0].startswith("#"):
            yield number, cells


def _names_ends(cells: Sequence[str]) -> bool:
    return {"source", "target"} <= {_field(cell) for cell in cells}


def _field(cell: str) -> str:
    name = plain(cell)
    return ALIASES.get(name, name)


def _neighbour(source: Source) -> Source | None:
    """The file of edges that is called as ``source`` is, with ``edges`` for ``nodes``."""
    if source.path is None:
        return None
    path = Path(source.path)
    head, word, tail = path.name.rpartition("nodes")
    beside = path.with_name(f"{head}edges{tail}")
    return Source(beside) if word and beside.is_file() else None
