"""Reader of graphs in JSON that people write by hand or from a script.

``{"nodes": [{"name": "a", "flop": 1e9, "bytes": "4MiB"}, …], "edges": [["a", "b"], ["b", "c", 4096], …]}``: the fields
of a node are those of :mod:`.rows`. An edge is ``[source, target]``, ``[source, target, bytes]`` or an object of these
names; ``edges`` may be left out where nodes have ``inputs``. ``name`` and ``source`` of the graph may be given.
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
    name: str = ""
    source: str = ""


def read(data: bytes, where: str) -> ImportedGraph:
    """The graph; :class:`InputError` with the JSON path of what is wrong."""
    file = decode(data, _File, where, _REMEDY)
    rows = Rows()
    for i, node in enumerate(file.nodes):
        rows.node(node, f"{where}: nodes[{i}]")
    for i, edge in enumerate(file.edges):
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
