"""Reader of graphs in GraphML, as networkx and yEd write it: a directed graph whose nodes and edges have our fields.

A node's ``id`` is its name, the ``attr.name`` of a key says which field its data are (:mod:`.rows`). Declarations of
types and entities are refused, so that a small file stays small.
"""

from __future__ import annotations

from pathlib import PurePath
from xml.etree import ElementTree

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.own.rows import Rows, named
from chipmap.records import InputError

FORMAT = "graphml"


def accepts(data: bytes, where: str) -> bool:
    """Whether it is called .graphml, or is XML with such an element near its beginning."""
    head = data[:4000].lstrip()
    return head[:1] == b"<" and (b"<graphml" in head or where.lower().endswith(".graphml"))


def read(data: bytes, where: str) -> ImportedGraph:
    """The graph; :class:`InputError` with what is wrong, and the node or edge."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise InputError("declares types or entities of XML", where, "Leave out <!DOCTYPE …>.")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"isn't valid XML: {error}", where, "Mend the file at that position.") from None
    graphs = [one for one in root if _tag(one) == "graph"]
    if len(graphs) != 1:
        raise InputError(f"holds {len(graphs)} graphs", where, "Give one graph per file.")
    graph = graphs[0]
    if graph.get("edgedefault") != "directed":
        raise InputError("edges of this graph have no direction", where, 'Write edgedefault="directed".')
    keys = {one.get("id"): one.get("attr.name") or one.get("id") or "" for one in root if _tag(one) == "key"}
    rows = Rows()
    for i, element in enumerate(one for one in graph if _tag(one) == "node"):
        rows.node({**_data(element, keys, ("name",), rows), "name": element.get("id")}, f"{where}: node {i + 1}")
    for i, element in enumerate(one for one in graph if _tag(one) == "edge"):
        ends = {"source": element.get("source"), "target": element.get("target")}
        given = _data(element, keys, ("source", "target", "weight"), rows)
        rows.edge({**given, **ends}, f"{where}: edge {i + 1}")
    return rows.graph(named(graph.get("id") or PurePath(where).stem, "name", where), FORMAT, "", where)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _data(
    element: ElementTree.Element, keys: dict[str | None, str], without: tuple[str, ...], rows: Rows
) -> dict[str, str]:
    """The data of a node or an edge, by the names of their keys; those in ``without`` are noted as not used."""
    found = {
        keys.get(one.get("key"), one.get("key") or ""): (one.text or "").strip()
        for one in element
        if _tag(one) == "data"
    }
    rows.ignored |= dict.fromkeys(name for name in found if name in without)
    return {name: text for name, text in found.items() if name not in without}
