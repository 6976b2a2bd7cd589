"""Readers of published graph formats; :func:`import_graph` finds the right one by looking at the content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from chipmap.networks.importers import dnn_partitioning, onnx_model, pipedream, piper, torch_program, traced
from chipmap.networks.importers.common import ImportedGraph, decode
from chipmap.networks.importers.counting import Counting, amount
from chipmap.networks.importers.dimensions import Dimensions, UnknownDimensionError
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.own import dot, graphml, listed, tables
from chipmap.networks.importers.torch import count as torch_count
from chipmap.records import InputError, Source, counted

__all__ = ["FORMATS", "import_graph", "import_graphs", "is_binary", "is_text", "paired", "summary"]

Reader = Callable[[bytes, str], ImportedGraph]

#: The formats, with what tells each from the others.
FORMATS = {
    "traced": "JSON with nodes that have out_bytes (traced operator graphs)",
    dnn_partitioning.FORMAT: "JSON with nodes that have fpgaLatency (Tarnawski et al. 2020)",
    piper.FORMAT: "JSON with nodes that have TMPCs (Tarnawski et al. 2021)",
    pipedream.FORMAT: "text with forward_compute_time=… on each layer's line (Narayanan et al. 2019)",
    onnx_model.FORMAT: "an ONNX model (.onnx)",
    torch_program.FORMAT: "a program that torch.export.save wrote (.pt2)",
    tables.FORMAT: "a table of nodes whose first line is name,flop,bytes,… (your own graph)",
    listed.FORMAT: "JSON with nodes that have a name and flop or time_ns (your own graph)",
    graphml.FORMAT: "GraphML whose nodes have flop or time_ns (your own graph)",
    dot.FORMAT: "a digraph of Graphviz whose nodes have flop or time_ns (your own graph)",
}


def is_binary(source: Source) -> bool:
    """Whether it is in a binary format, whose reader opens only what it needs of a file that may be large."""
    if torch_program.accepts(source.head):
        return True
    return source.head.lstrip()[:1] != b"{" and onnx_model.accepts(source.head, source.where)


def import_graph(
    path: str,
    data: bytes | None = None,
    dimensions: Dimensions | None = None,
    source: Source | None = None,
    *,
    unknown: str | None = None,
    formulas: Mapping[str, Callable[[Call], int]] | None = None,
    branch: str | None = None,
) -> ImportedGraph:
    """The graph in the file at ``path`` (or in ``data``, whose name is then ``path``; or in ``source``).

    ``dimensions`` gives symbolic dimensions of ONNX models and PyTorch programs a value (``{"batch": (1,)}``) and
    tensors a shape (``{"tokens": (1, 128)}``). ``formulas`` give the FLOP of operators by kind, ``unknown`` says what
    those of programs count that have neither a formula nor a rule (:class:`.counting.Counting`; by default ``bytes``).
    ``branch`` (``true``, ``false``, ``heavier``) says which branch is read where the inputs decide; without it such a
    program is refused. Raises :class:`InputError` that says where and why a file can't be read, or lists the formats
    that can.
    """
    source = source or Source(path, data)
    if is_binary(source):
        torch = torch_program.accepts(source.head)
        counting = Counting(unknown or "bytes", formulas or {}, branch)
        return (torch_program.read if torch else onnx_model.read)(source, dimensions, counting)
    if dimensions:
        what = "only ONNX models and PyTorch programs have dimensions to give values to"
        raise InputError(what, source.where, "Leave out --dim.")
    if unknown is not None or formulas:
        what = "only ONNX models and PyTorch programs have operators to count"
        raise InputError(what, source.where, "Leave out --unknown.")
    if branch is not None:
        what = "only ONNX models and PyTorch programs have branches to choose from"
        raise InputError(what, source.where, "Leave out --branch.")
    content = source.content()
    if _is_table(source):
        return tables.read(source)
    return _reader(content, source.where)(content, source.where)


def is_text(source: Source) -> bool:
    """Whether it is a graph in a format of text that isn't JSON."""
    if source.head.lstrip()[:1] == b"{" or is_binary(source):
        return False
    content = source.content()
    return _is_table(source) or pipedream.accepts(content) or _of_text(content, source.where)


def _of_text(content: bytes, where: str) -> bool:
    return graphml.accepts(content, where) or dot.accepts(content, where)


def paired(sources: Sequence[Source]) -> list[Source]:
    """The sources, each table of edges (CSV) joined to the table of nodes that it belongs to."""
    return tables.paired(sources)


def _is_table(source: Source) -> bool:
    content = source.content()
    is_json = content.lstrip()[:1] == b"{" or graphml.accepts(content, source.where)
    return not is_json and not pipedream.accepts(content) and tables.accepts(content, source.where)


def import_graphs(
    sources: Sequence[tuple[Source, str]],
    dimensions: Dimensions,
    unknown: str | None = None,
    branch: str | None = None,
) -> list[tuple[ImportedGraph, str]]:
    """Several graphs with their names, as :func:`import_graph` reads one.

    ``NAME:batch`` is a dimension of the graph of that name; any other name gives a value to all graphs that have it, of
    which there must be one. Only ONNX models and PyTorch programs among the graphs get ``dimensions``,
    ``unknown`` and ``branch``.
    """
    found: list[tuple[ImportedGraph, str]] = []
    names = {name for _, name in sources} if len(sources) > 1 else set()
    owned = {full: full.partition(":")[::2] for full in dimensions if full.partition(":")[0] in names}
    used, missing = set[str](), dict[str, UnknownDimensionError]()
    for source, name in sources:
        given = {full: shape for full, shape in dimensions.items() if full not in owned}
        mine = {own: dimensions[full] for full, (where, own) in owned.items() if where == name}
        asked, chosen = unknown, branch
        if not is_binary(source) and any(is_binary(other) for other, _ in sources):
            given, asked, chosen = {}, None, None
        while True:
            try:
                graph = import_graph(source.where, None, given | mine, source, unknown=asked, branch=chosen)
                found.append((graph, name))
                break
            except UnknownDimensionError as error:
                if len(sources) == 1 or error.name in mine:
                    raise
                missing[error.name] = error
                del given[error.name]
        used |= given.keys()
    for name, unmatched in missing.items():
        if name not in used:
            raise unmatched
    return found


def summary(imported: ImportedGraph) -> list[str]:
    """Lines that say what a graph comes to: its FLOP and parameters, and beside them the count of PyTorch's counter
    for a program of ATen operators, where PyTorch is installed.
    """
    totals = imported.totals
    if totals is None:
        operations = imported.graph.operations
        flop = sum(o.flop for o in operations if o.role == "compute")
        weights = sum(o.weight_bytes for o in operations)
        return [f"{amount(flop)}, parameters of {counted(weights, 'byte')}"]
    tensors = f"{counted(totals.tensors, 'tensor')} of {counted(totals.bytes, 'byte')}"
    held = f"{counted(totals.numbers, 'parameter')} in {tensors}"
    numbers, size, count = totals.buffers
    if count:
        held += f"; {counted(numbers, 'number')} in {counted(count, 'buffer')} of {counted(size, 'byte')}"
    if 0 < totals.stored < totals.bytes + size:
        held += f"; {counted(totals.stored, 'byte')} of all these are stored, the rest is never read or only beforehand"
    lines = [f"{amount(totals.flop)}, {held}"]
    if imported.format == torch_program.FORMAT:
        lines += torch_count.compared(totals)
    return lines


_READERS: tuple[tuple[str, Reader], ...] = (
    ("out_bytes", traced.imported),
    ("fpgaLatency", dnn_partitioning.read),
    ("TMPCs", piper.read),
    ("name", listed.read),
)


class _Head(msgspec.Struct):
    nodes: list[msgspec.Raw] | None = None
    multigraph: bool | None = None


def _reader(data: bytes, where: str) -> Reader:
    remedy = "Formats that are read: " + "; ".join(f"{name}: {how}" for name, how in FORMATS.items()) + "."
    if data.lstrip()[:1] != b"{":
        if pipedream.accepts(data):
            return pipedream.read
        if graphml.accepts(data, where):
            return graphml.read
        if dot.accepts(data, where):
            return dot.read
        raise InputError("no known graph format", where, remedy)
    head = decode(data, _Head, where, remedy)
    nodes = head.nodes
    if not nodes:
        raise InputError("no known graph format: there is no list of nodes, or it is empty", where, remedy)
    # the first few nodes: a field missing on one of them is then the reader's to report
    keys = set().union(*(decode(bytes(node), dict[str, msgspec.Raw], f"{where}: nodes", remedy) for node in nodes[:9]))
    if head.multigraph is not None and "id" in keys:  # networkx's node_link_data
        return listed.read
    for field, reader in _READERS:
        if field in keys:
            return reader
    raise InputError(f"no known graph format: nodes have {', '.join(sorted(keys)) or 'no fields'}", where, remedy)
