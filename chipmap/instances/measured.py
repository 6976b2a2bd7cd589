"""Measured times of operations, from a table that `chipmap measure` writes or that somebody has.

A table is a CSV file with the column ``ns`` and one of these:

======================  ===============================================================================================
``operation``           the name of an operation of the graph
``module``, ``operator``  its module (``blocks.0.attn``) and kind (``linear``), as an instance's ``scopes`` and
                        ``graph.operations`` have them; several of one module and kind are taken in their order
======================  ===============================================================================================

``class`` names the class of devices that was measured; without it the times are those of the only class. ``graph`` is
the :func:`fingerprint` of the graph that was measured: a table of another graph is refused, as its shapes may be
others. Other columns are left out, empty lines and lines that begin with ``#`` skipped. A Chrome trace of
``torch.profiler`` stands for a table as well (:mod:`.measured_trace`).
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from chipmap.instances.learned import PREFIX, Learned, learned, source_of
from chipmap.instances.measured_trace import is_trace, times_of
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.common import nanoseconds
from chipmap.records import InputError, Source, choices, counted, listed, nearest
from chipmap.records.amounts import measured
from chipmap.records.quantities import share

#: Bytes within which a table's first line behind its remarks is looked for.
HEAD = 65_536
_HEADER = "Begin with a line such as operation,ns or module,operator,ns."
_AGAIN = "Measure this one: chipmap measure MODEL --out FILE."


@dataclass(frozen=True)
class Row:
    """A line of a table: ``at`` says where it stands; ``names`` are an operation, or a module and a kind."""

    at: str
    names: tuple[str, ...]
    kind: str
    graph: str
    ns: float


def fingerprint(graph: OperationGraph) -> str:
    """The hash of operations and tensors: equal where the same network was read, whatever its name.

    Shapes and the places of operands are left out.
    """
    return graph.without_operands().replace(name="", source="").content_hash


def rows(source: Source) -> list[Row]:
    """The lines of a table. Raises :class:`InputError` that names the line."""
    try:
        text = source.content().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", source.where, "Give a CSV file.") from None
    kept = ("" if line.lstrip().startswith("#") else line for line in io.StringIO(text, newline=""))
    table = csv.reader(kept)
    try:
        lines = [(table.line_num, [cell.strip() for cell in line]) for line in table if any(line)]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", f"{source.where}: line {table.line_num}", "Write it anew.") from None
    if not lines:
        raise InputError("is empty", source.where, _HEADER)
    header = [name.lower() for name in lines[0][1]]
    keys = ("operation",) if "operation" in header else ("module", "operator")
    if "ns" not in header or not set(keys) <= set(header):
        raise InputError(
            f"has the columns {listed(header, 8) or 'of nothing'}", f"{source.where}: line {lines[0][0]}", _HEADER
        )
    return [_row(dict(zip(header, cells, strict=False)), keys, f"{source.where}: line {at}") for at, cells in lines[1:]]


def _row(cells: dict[str, str], keys: tuple[str, ...], at: str) -> Row:
    missing = next((key for key in (*keys, "ns") if key not in cells), None)
    if missing:
        raise InputError(f"has no {missing}", at, _HEADER)
    ns = nanoseconds(float(10**9 * measured(cells["ns"], "seconds", "ns", at)), 1.0, at)
    return Row(at, tuple(cells[key] for key in keys), cells.get("class", ""), cells.get("graph", ""), ns)


def is_table(source: Source) -> bool:
    """Whether a file begins as a table of times of operations does."""
    with source.open() as file:
        lines = file.read(HEAD).decode("utf-8-sig", "replace").splitlines()
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    header = {name.strip().lower() for name in first.split(",")}
    return "ns" in header and ("operation" in header or "operator" in header)


@dataclass(frozen=True)
class Times:
    """``by_class``: for each class with measured operations the time of each operation in ns (None: not measured).

    ``note`` says how many operations have no time, and which share of the FLOP these do. ``spread``: what of a period
    by learned times the measured one is, from and to (None: nothing was learned).
    """

    by_class: dict[str, tuple[float | None, ...]]
    note: str
    spread: tuple[float, float] | None = None


def times(graph: OperationGraph, scopes: Sequence[str], files: Sequence[str], classes: Sequence[str]) -> Times:
    """The times that tables give a graph's computing operations; a later table counts where two give one.

    ``learned:FILE`` predicts them from a table of other networks (:mod:`.learned`); any measured one goes before.

    ``scopes``: the modules of the operations, () where none are known. ``classes``: those of the system; ("",) for a
    family with equal chips. Raises :class:`InputError` for a table of another graph, and for an unknown class.
    """
    found: dict[str, list[float | None]] = {}
    steps: dict[str, int] = {}
    predicted = [_predicted(graph, file, classes, found) for file in files if file.startswith(PREFIX)]
    for file in files:
        if file.startswith(PREFIX):
            continue
        source = source_of(file)
        table = _of_trace(source, graph, steps) if is_trace(source) else _of_table(source, graph, scopes, classes)
        for row, v in table:
            found.setdefault(_class(row, classes), [None] * len(graph.operations))[v] = row.ns
    lacking = {
        v
        for v, operation in enumerate(graph.operations)
        if operation.role == "compute" and any(times[v] is None for times in found.values())
    }
    if not found:
        raise InputError("gives no time to any operation of the graph", listed(files), _AGAIN)
    named = [
        PurePath(file).name + (f" ({counted(steps[file], 'step')})" if file in steps else "")
        for file in files
        if not file.startswith(PREFIX)
    ]
    note = "; ".join([*(one.note for one in predicted), *([f"measured times from {listed(named)}"] if named else [])])
    if lacking:
        flop = sum(operation.flop for operation in graph.operations)
        part = share(sum(graph.operations[v].flop for v in lacking), flop) if flop else "0%"
        names = listed((graph.operations[v].name for v in sorted(lacking)), 3)
        note += f"; not measured: {counted(len(lacking), 'operation')} with {part} of the FLOP ({names})"
    spread = next((one.spread for one in reversed(predicted) if one.spread is not None), None)
    return Times({kind: tuple(given) for kind, given in found.items()}, note, spread)


def _predicted(
    graph: OperationGraph, file: str, classes: Sequence[str], found: dict[str, list[float | None]]
) -> Learned:
    """What a table of other networks predicts, entered into ``found`` by class."""
    path = file.removeprefix(PREFIX)
    given = learned(graph, path)
    kinds = sorted(given.by_class)
    if classes == ("",) and len(kinds) > 1:
        what = f"has times of the classes {listed(map(repr, kinds))}, where all chips are equal"
        raise InputError(what, path, "Keep the rows of one class.")
    for kind, times in given.by_class.items():
        found[_class(Row(path, (), kind, "", 0.0), classes)] = list(times)
    return given


def _of_trace(source: Source, graph: OperationGraph, steps: dict[str, int]) -> Iterator[tuple[Row, int]]:
    """The operations that a trace has times of; the number of its steps is entered into ``steps``."""
    found, steps[source.where] = times_of(source, graph)
    yield from ((Row(source.where, (), "", "", ns), v) for v, ns in found.items())


def _of_table(
    source: Source, graph: OperationGraph, scopes: Sequence[str], classes: Sequence[str]
) -> Iterator[tuple[Row, int]]:
    """The rows of a table with their operations."""
    table, own = rows(source), fingerprint(graph)
    fitting = [row for row in table if row.graph in ("", own)]
    if table and not fitting:
        raise InputError("was measured on another graph: names or shapes differ", source.where, _AGAIN)
    kinds = sorted({row.kind for row in fitting})
    if classes == ("",) and len(kinds) > 1:
        what = f"has times of the classes {listed(map(repr, kinds))}, where all chips are equal"
        raise InputError(what, source.where, "Keep the rows of one class.")
    yield from _matched(graph, scopes, fitting)


def _class(row: Row, classes: Sequence[str]) -> str:
    """The class that a row is of."""
    if classes == ("",):
        return ""
    if not row.kind:
        if len(classes) > 1:
            how = "Add a column class" if row.names else "Give a table with a column class: a trace has none"
            remedy = f"{how}. Classes here: {listed(classes, 8)}."
            raise InputError("doesn't say which class of devices was measured", row.at, remedy)
        return classes[0]
    if row.kind in classes:
        return row.kind
    raise InputError(f"no class of devices is called {row.kind!r}", row.at, choices(row.kind, classes, "Classes here"))


def _matched(graph: OperationGraph, scopes: Sequence[str], table: list[Row]) -> Iterator[tuple[Row, int]]:
    """Each row with the operation that it is of; rows of operations that compute nothing are left out."""
    at = {operation.name: v for v, operation in enumerate(graph.operations)}
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for v, (operation, scope) in enumerate(zip(graph.operations, scopes or [""] * len(at), strict=True)):
        if operation.role == "compute":
            alike[scope, operation.kind].append(v)
    given: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in table:
        if len(row.names) == 2:
            given[*row.names, row.kind].append(row)
        elif row.names[0] not in at:
            near = nearest(row.names[0], at)
            remedy = f"Did you mean {' or '.join(near)}?" if near else "Use a name from graph.operations."
            raise InputError(f"no operation is called {row.names[0]!r}", row.at, remedy)
        elif graph.operations[at[row.names[0]]].role == "compute":
            yield row, at[row.names[0]]
    for (module, kind, _), listed_rows in given.items():
        places = alike.get((module, kind), [])
        if len(places) != len(listed_rows):
            here = f"the table has {counted(len(listed_rows), 'time')} of {kind!r} in module {module!r}"
            what = f"{here}, the graph {counted(len(places), 'such operation')}"
            raise InputError(what, listed_rows[0].at, "Give each a line, in their order, or name operations.")
        yield from zip(listed_rows, places, strict=True)
