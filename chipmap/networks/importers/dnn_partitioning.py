"""Reader of the JSON graphs of *Efficient Algorithms for Device Placement of DNN Graph Operators*.

The format (Tarnawski et al., NeurIPS 2020): ``nodes: [{id, name, fpgaLatency, cpuLatency, size, isBackwardNode,
supportedOnFpga, colorClass}]`` and ``edges: [{sourceId, destId, cost, size}]``. What the numbers are:

- ``fpgaLatency`` is the time on an accelerator, in ms (the layer graphs repeat the forward times of PipeDream's
  profiles, which are in ms; the operator graphs' transfer costs are ms at 2 GiB/s). It becomes the measured time.
- An edge's ``size`` is in bytes (fractions, found on the operator graphs' empty tensors, are rounded up). The format
  calls it optional: without any, a producer's ``size`` stands in. ``cost`` is a transfer time between an accelerator
  and its host; a package has no such transfers, and it is ignored.
- A node's ``size`` is the memory that it takes: output and weights. What exceeds its output counts as its weights.
- Nodes of one ``colorClass`` must share a device: they become keep-together groups.

:func:`published` reads what a file says, for this reader and for the throughput instances of ``placement``, which take
backward nodes, transfer costs and the host as well.

A node that takes no time and reads nothing is a constant if it has a size (the weights of the operator graphs) and an
input if it has none (the token ids of the layer graphs). All others compute, those without time as well, since they
carry tensors. Backward nodes are left out: on a one-directional ring the
gradients have no way back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import msgspec

from chipmap.networks.graph import Operation, Role
from chipmap.networks.importers import common
from chipmap.networks.importers.common import ImportedGraph, nanoseconds, size
from chipmap.records import InputError

FORMAT = "dnn-partitioning"
_NS_PER_MS = 1e6


class Node(common.Node, frozen=True, kw_only=True):
    """A node, by the format's own names."""

    fpgaLatency: float  # noqa: N815
    cpuLatency: float | None = None  # noqa: N815
    size: float
    isBackwardNode: bool | int = False  # noqa: N815
    supportedOnFpga: bool | int = True  # noqa: N815
    colorClass: int | None = None  # noqa: N815


class Edge(common.Edge, frozen=True, kw_only=True):
    """An edge, by the format's own names."""

    cost: float | None = None
    size: float | None = None


class File(msgspec.Struct, frozen=True):
    """A file, by the format's own names."""

    nodes: list[Node]
    edges: list[Edge]
    maxFPGAs: int | None = None  # noqa: N815
    maxSizePerFPGA: float | None = None  # noqa: N815
    maxCPUs: int = 0  # noqa: N815


@dataclass(frozen=True)
class Published:
    """A file with the positions of each edge's two nodes."""

    file: File
    pairs: list[tuple[int, int]]
    where: str

    def time(self, i: int, field: str, of: str = "nodes") -> float:
        """A latency or cost in ns; :class:`InputError` where it is no time, or missing."""
        here, value = f"{self.where}: {of}[{i}]", getattr(getattr(self.file, of)[i], field)
        if value is None:
            raise InputError(f"{field} is missing", here, "A throughput instance needs cpuLatency and cost everywhere.")
        return nanoseconds(value, _NS_PER_MS, f"{here}.{field}")

    def bytes_of(self, v: int) -> int:
        """All bytes that a node takes."""
        return size(self.file.nodes[v].size, f"{self.where}: nodes[{v}].size")

    def groups(self, names: Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
        """Those of the nodes with ``names`` (by position) that must share a device, by colour."""
        colours: dict[int, list[str]] = {}
        for v, name in names.items():
            colour = self.file.nodes[v].colorClass
            if colour is not None:
                colours.setdefault(colour, []).append(name)
        return tuple(tuple(group) for _, group in sorted(colours.items()) if len(group) > 1)


def published(data: bytes, where: str) -> Published:
    """What a file says; :class:`InputError` with the JSON path of what is wrong."""
    remedy = "A node has at least id, fpgaLatency and size; an edge sourceId and destId."
    file = common.decode(data, File, where, remedy)
    return Published(file, common.ends(file.nodes, file.edges, where), where)


def read(data: bytes, where: str) -> ImportedGraph:
    """The forward nodes of the graph; :class:`InputError` with the JSON path of what is wrong."""
    found = published(data, where)
    file = found.file
    forward = [v for v, node in enumerate(file.nodes) if not node.isBackwardNode]
    if not forward:
        raise InputError("no node belongs to the forward pass", f"{where}: nodes", "Clear isBackwardNode.")
    nodes = [file.nodes[v] for v in forward]
    edges = _edges(file, found.pairs, {old: new for new, old in enumerate(forward)}, where)
    made: dict[int, int] = defaultdict(int)
    for u, _, count in edges:
        made[u] = max(made[u], count)
    reading = {v for _, v, _ in edges}
    operations, times, computing = [], [], dict[int, str]()
    for v, (old, name) in enumerate(zip(forward, common.node_names(nodes), strict=True)):
        time, taken = found.time(old, "fpgaLatency"), found.bytes_of(old)
        role: Role = "compute" if time or v in reading else "constant" if taken else "input"
        weights = max(0, taken - made[v]) if role == "compute" else 0
        if role == "compute":
            computing[old] = name
        kind = name.rstrip("0123456789_") or name
        operations.append(Operation(name=name, kind=kind, role=role, weight_bytes=weights))
        times.append(time if role == "compute" else None)
    graph = common.graph_of_edges(PurePath(where).stem, operations, edges, "dnn-partitioning", where)
    return ImportedGraph(graph, tuple(times), FORMAT, _notes(file, nodes), found.groups(computing))


def _edges(file: File, pairs: list[tuple[int, int]], kept: dict[int, int], where: str) -> list[tuple[int, int, int]]:
    """Edges among the nodes ``kept`` (position in the file -> position in the graph), with their bytes."""
    known = any(edge.size is not None for edge in file.edges)
    edges = []
    for i, (u, v) in enumerate(pairs):
        if u in kept and v in kept:
            count = file.edges[i].size if known else file.nodes[u].size
            if count is None:
                raise InputError("size is missing", f"{where}: edges[{i}]", "Give it for all edges or for none.")
            edges.append((kept[u], kept[v], size(count, f"{where}: edges[{i}].size")))
    return edges


def _notes(file: File, nodes: list[Node]) -> tuple[str, ...]:
    notes = ["fpgaLatency (ms) is the measured time; transfer costs are recomputed from bytes and the package's links"]
    if file.edges and all(edge.size is None for edge in file.edges):
        notes.append("edges give no size: a tensor has the size of the node that makes it")
    if len(nodes) < len(file.nodes):
        notes.append(f"{len(file.nodes) - len(nodes)} backward nodes left out")
    return tuple(notes)
