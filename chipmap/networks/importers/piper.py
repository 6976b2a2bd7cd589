"""Reader of Piper's JSON graphs: layers with their options for tensor parallelism and recomputation.

The format (Tarnawski et al., *Piper: Multidimensional Planner for DNN Parallelization*, NeurIPS 2021): ``nodes: [{id,
name, TMPCs: {degree: [{id, timePerSample, parameterSize, …}]}}]`` and ``edges: [{sourceId, destId,
communicationCost}]``. Read is each layer's option without parallelism and recomputation: degree 1, ``vanilla`` (the
first of degree 1 if none is called so). ``timePerSample`` is the time of forward and backward pass in seconds,
``parameterSize`` and ``communicationCost`` are bytes. Two of the published files (gnmt, resnet) repeat PipeDream's
profiles, whose times are in ms: a graph of more than 10 s per sample is taken for one of these, and a note says so.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from chipmap.networks.graph import Operation
from chipmap.networks.importers import common
from chipmap.networks.importers.common import Edge, ImportedGraph, Node, nanoseconds, size
from chipmap.records import InputError

FORMAT = "piper"
#: Sums of timePerSample above this are in ms.
MAX_SECONDS = 10.0
_REMEDY = "A node has id and TMPCs; an edge sourceId, destId and communicationCost."


class _Option(msgspec.Struct, frozen=True):
    timePerSample: float  # noqa: N815 (the format's own names)
    parameterSize: float  # noqa: N815
    id: str = ""


class _Node(Node, frozen=True, kw_only=True):
    TMPCs: dict[str, list[_Option]]


class _Edge(Edge, frozen=True, kw_only=True):
    communicationCost: float  # noqa: N815


class _File(msgspec.Struct, frozen=True):
    nodes: list[_Node]
    edges: list[_Edge]


def read(data: bytes, where: str) -> ImportedGraph:
    """The layers without parallelism; :class:`InputError` with the JSON path of what is wrong."""
    file = common.decode(data, _File, where, _REMEDY)
    pairs = common.ends(file.nodes, file.edges, where)
    options = [_vanilla(node, f"{where}: nodes[{v}].TMPCs") for v, node in enumerate(file.nodes)]
    in_ms = sum(option.timePerSample for option in options) > MAX_SECONDS
    names = common.node_names(file.nodes)
    operations, times = [], []
    for v, (name, option) in enumerate(zip(names, options, strict=True)):
        here = f"{where}: nodes[{v}]"
        kind = name.partition("#")[0].rstrip("0123456789") or name
        weights = size(option.parameterSize, f"{here}.parameterSize")
        operations.append(Operation(name=name, kind=kind, weight_bytes=weights))
        times.append(nanoseconds(option.timePerSample, 1e6 if in_ms else 1e9, f"{here}.timePerSample"))
    edges = [
        (u, v, size(edge.communicationCost, f"{where}: edges[{i}].communicationCost"))
        for i, ((u, v), edge) in enumerate(zip(pairs, file.edges, strict=True))
    ]
    graph = common.graph_of_edges(PurePath(where).stem, operations, edges, "Piper", where)
    unit = "ms (more than 10 s per sample otherwise)" if in_ms else "seconds"
    notes = (f"timePerSample is forward and backward pass of one sample, read as {unit}; tensor parallelism off",)
    return ImportedGraph(graph, tuple(times), FORMAT, notes)


def _vanilla(node: _Node, where: str) -> _Option:
    options = node.TMPCs.get("1")
    if not options:
        raise InputError("there is no option of degree 1", where, 'Give the layer without parallelism as "1".')
    return next((option for option in options if option.id == "vanilla"), options[0])
