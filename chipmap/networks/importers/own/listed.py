"""Reader of graphs in JSON that people write by hand or from a script.

``{"nodes": [{"name": "a", "flop": 1e9, "bytes": "4MiB"}, …], "edges": [["a", "b"], ["b", "c", 4096], …]}``: the fields
of a node are those of :mod:`.rows`. An edge is ``[source, target]``, ``[source, target, bytes]`` or an object of these
names; ``edges`` may be left out where nodes have ``inputs``. ``name`` and ``source`` of the graph may be given.

What networkx's ``node_link_data`` gives is read too: nodes have an ``id``, edges stand under ``edges`` or ``links``.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec

from chipmap.networks.importers.common import ImportedGraph, decode
from chipmap.networks.importers.own.rows import Rows, named
from chipmap.records import InputError, counted

FORMAT = "json"
_REMEDY = "A node is an object with name, flop and bytes; an edge is [source, target] or [source, target, bytes]."


class _File(msgspec.Struct, frozen=True):
    nodes: list[dict[str, Any]]
    edges: list[list[Any] | dict[str, Any]] = []
    links: list[list[Any] | dict[str, Any]] = []
    directed: bool = True
    multigraph: bool | None = None
    name: str = ""
    source: str = ""


def read(data: bytes, where: str) -> ImportedGraph:
    """The graph; :class:`InputError` with the JSON path of what is wrong."""
    file = decode(data, _File, where, _REMEDY)
    if not file.directed:
        raise InputError("edges of this graph have no direction", f"{where}: directed", "Make it a networkx.DiGraph.")
    rows = Rows()
    for i, node in enumerate(file.nodes):
        rows.node(_by_id(node, file.multigraph is not None), f"{where}: nodes[{i}]")
    for i, edge in enumerate(file.edges or file.links):
        here = f"{where}: edges[{i}]"
        if isinstance(edge, list):
            if len(edge) not in (2, 3):
                raise InputError(
                    f"has {counted(len(edge), 'part')}", here, "Write [source, target] or [source, target, bytes]."
                )
            edge = dict(zip(("source", "target", "bytes"), edge, strict=False))
        rows.edge(edge, here)
    name = named(file.name or PurePath(where).stem, "name", where)
    return rows.graph(name, FORMAT, file.source, where)


def _by_id(node: dict[str, Any], of_networkx: bool) -> dict[str, Any]:
    """The node under its ``id``, which edges of networkx go by; there a ``name`` beside it is a label."""
    if "id" not in node or ("name" in node and not of_networkx):
        return node
    return {"name": node["id"], **{key: value for key, value in node.items() if key not in ("id", "name")}}
