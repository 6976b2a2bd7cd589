"""From a graph in Python to a checked instance: lists of edges, networkx graphs, pandas tables.

All three take the fields that files have (:mod:`chipmap.networks.importers.own.rows`) with amounts as numbers or as
people write them (``"64MiB"``), the family of the instance, and ``settings`` as ``--set`` takes them
(``"package.chips=4"``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chipmap.family import get_family, resolve
from chipmap.inputs.reading import changed, checked
from chipmap.records import InputError, Record, shown

if TYPE_CHECKING:
    from chipmap.networks.importers.own.rows import Rows

#: A node's name, or its fields; an edge's ends, with its bytes behind them, or its fields.
Node = Mapping[str, Any]
Edge = tuple[Any, ...] | list[Any] | Mapping[str, Any]


def from_edges(
    edges: Iterable[Edge],
    nodes: Mapping[Any, Node] | Iterable[Node],
    *,
    family: str,
    name: str = "graph",
    settings: Iterable[str] = (),
) -> Record:
    """The instance of ``family`` of a graph given by its edges and its nodes.

    An edge is ``(source, target)``, ``(source, target, bytes)`` or a mapping of these names. ``nodes`` maps names to
    fields, or lists mappings with a ``name``: ``{"a": {"flop": 1e9, "bytes": "4MiB"}, "b": {"flop": 2e9}}``. Fields are
    ``flop`` (or ``time_ns``), ``bytes``, ``weights``, ``kind``, ``role`` and ``inputs``. Raises :class:`InputError`
    that says which node or edge is wrong, and what to do.
    """
    from chipmap.networks.importers.own.rows import Rows

    rows = Rows()
    listed = isinstance(nodes, Mapping)
    for i, node in enumerate(nodes.items() if isinstance(nodes, Mapping) else _each(nodes, "nodes")):
        where = f"nodes[{node[0]!r}]" if listed else f"nodes[{i}]"
        values = node[1] if listed else node
        if not isinstance(values, Mapping):
            raise InputError(f"is {shown(values)}", where, 'Give its fields: {"flop": 1e9, "bytes": "4MiB"}.')
        rows.node({**values, "name": node[0]} if listed else values, where)
    for i, edge in enumerate(_each(edges, "edges")):
        where = f"edges[{i}]"
        if not isinstance(edge, Mapping):
            if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
                raise InputError(f"is {shown(edge)}", where, "Give (source, target) or (source, target, bytes).")
            edge = dict(zip(("source", "target", "bytes"), edge, strict=False))
        rows.edge(edge, where)
    return _instance(rows, "edges", family, name, settings)


def from_networkx(graph: Any, *, family: str, name: str = "", settings: Iterable[str] = ()) -> Record:
    """The instance of ``family`` of a networkx ``DiGraph``, whose nodes and edges have our fields as attributes.

    A node's attributes are ``flop`` (or ``time_ns``), ``bytes``, ``weights``, ``kind`` and ``role``; an edge may have
    ``bytes``. Other attributes are not used. ``name``: the graph's own, unless given.
    """
    from chipmap.networks.importers.own.rows import Rows

    if not all(hasattr(graph, part) for part in ("nodes", "edges", "is_directed")):
        raise InputError(f"is a {type(graph).__name__}", "graph", "Give a networkx.DiGraph.")
    if not graph.is_directed():
        raise InputError("its edges have no direction", "graph", "Give a networkx.DiGraph, with edges to the readers.")
    rows = Rows()
    for key, values in graph.nodes(data=True):
        rows.node({**values, "name": key}, f"node {key!r}")
    for source, target, values in graph.edges(data=True):
        rows.edge({**values, "source": source, "target": target}, f"edge {source!r} -> {target!r}")
    return _instance(rows, "networkx", family, name or str(getattr(graph, "name", "")) or "graph", settings)


def from_pandas(
    nodes: Any, edges: Any = None, *, family: str, name: str = "graph", settings: Iterable[str] = ()
) -> Record:
    """The instance of ``family`` of two pandas tables, whose columns are our fields (extra ``pandas``).

    ``nodes`` has the columns ``name`` and ``flop`` (or ``time_ns``), and perhaps ``bytes``, ``weights``, ``kind``,
    ``role`` and ``inputs``; its index counts as ``name`` where it is called so. ``edges`` has ``source``, ``target``
    and perhaps ``bytes``. Missing cells are not given.
    """
    from chipmap.networks.importers.own.rows import Rows

    rows = Rows()
    for table, called in ((nodes, "nodes"), (edges, "edges")):
        if table is None and called == "edges":
            continue
        table = _frame(table, called)
        for index, values in zip(table.index, table.to_dict("records"), strict=True):
            plain = {key: value for key, value in values.items() if not _missing(value)}
            (rows.node if called == "nodes" else rows.edge)(plain, f"{called}, row {index!r}")
    return _instance(rows, "pandas", family, name, settings)


def _frame(table: Any, called: str) -> Any:
    """A DataFrame with unlike columns, the index of names among them."""
    if not all(hasattr(table, part) for part in ("to_dict", "columns", "index", "reset_index")):
        if importlib.util.find_spec("pandas") is None:
            what = f"is a {type(table).__name__}, not a table of pandas, which isn't installed here"
            raise InputError(what, called, 'pip install "chipmap[pandas]", or use chipmap.from_edges.')
        raise InputError(f"is a {type(table).__name__}", called, "Give a pandas.DataFrame.")
    if not table.columns.is_unique:
        raise InputError("two columns have one name", called, "Rename or drop one of them.")
    return table.reset_index() if table.index.name == "name" and "name" not in table.columns else table


def _missing(value: Any) -> bool:
    """NaN, NaT and pandas' NA: none of them equals itself."""
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA's comparisons are neither true nor false; those of arrays are many
        return not hasattr(value, "__len__")


def _each(given: Any, called: str) -> Iterable[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"is a {type(given).__name__}", called, f"Give a list of {called}.")
    return given


def _instance(rows: Rows, form: str, name_of_family: str, name: str, settings: Iterable[str]) -> Record:
    """The instance of the family, changed and checked."""
    family = get_family(name_of_family)
    if not family.from_graph and not family.from_graphs:
        raise InputError(f"family {family.name!r} takes no graphs", "family", "Choose another.")
    imported = rows.graph(name, form, "", name)
    made = (
        resolve(family.from_graph)(imported, name)
        if family.from_graph
        else resolve(family.from_graphs)([(imported, name)])
    )
    return changed(checked(made, name), name, list(settings))
