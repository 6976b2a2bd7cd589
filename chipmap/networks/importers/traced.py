"""Reader of traced operator graphs in JSON: ``nodes`` with kinds and sizes, ``edges``, ``outputs``.

The format (torchvision-like and transformers-like graphs): ``nodes: [{id, name, op, kind, flops, out_bytes,
weight_bytes, shape}]`` with kind ``input``, ``const``, ``view`` or ``compute``; ``edges: [[u, v, bytes]]``;
``outputs: [id]``. Ids are topological.

Weights are folded into their first consumer, and no edge leads from a parameter to others that read it. So parameters
that several operations share can't be told: they count at the first. A product that reads a single tensor, and has
fewer weights than its matrix must have, is named in a note.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from chipmap.networks.graph import Operation, OperationGraph, Role, Tensor
from chipmap.networks.importers.common import MAX_BYTES, ImportedGraph, decode, unique_names
from chipmap.records import InputError

#: Operators that take only the shape or type of their input, so that their value is known beforehand.
SHAPE_ONLY = frozenset({"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "empty_like"})

#: Look-ups in a table; one that is a parameter stands in the node's own ``weight_bytes``.
LOOK_UPS = frozenset({"embedding", "gather", "index", "index_select", "take"})
#: Products of two matrices.
PRODUCTS = frozenset({"mm", "addmm", "linear", "matmul"})

_REMEDY = "A node has id, name, op, kind, flops and out_bytes; an edge is [from, to, bytes]."
_Flop = Annotated[int, msgspec.Meta(ge=0, le=10**18)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)]


class _Node(msgspec.Struct, frozen=True):
    id: int
    name: str
    op: str
    kind: Literal["input", "const", "view", "compute"]
    flops: _Flop
    out_bytes: _Bytes
    weight_bytes: _Bytes = 0


class _TracedGraph(msgspec.Struct, frozen=True):
    name: str
    nodes: list[_Node]
    edges: list[tuple[int, int, int]]
    outputs: list[int]
    source: str = ""


def imported(data: bytes, where: str) -> ImportedGraph:
    """The graph of :func:`read`, with a note on products whose weights count elsewhere."""
    graph = read(data, where)
    bare = [graph.operations[v].name for v in _without_weights(graph)]
    said = f"products without weights, which they share with operations before them: {', '.join(bare[:10])}"
    return ImportedGraph(graph, None, "traced", (said,) if bare else ())


def _without_weights(graph: OperationGraph) -> list[int]:
    """Products of a single tensor whose weights are too few to be a matrix.

    Of [m, k] · [k, n] with words of w bytes, F / 2 = m k n, and operand and result have m k w and m n w bytes. So the
    matrix has k n w = (F / 2)² w³ / (operand · result) bytes, and w is 1 or more.
    """
    read: list[list[int]] = [[] for _ in graph.operations]
    made = [0] * len(graph.operations)
    for tensor in graph.tensors:
        made[tensor.producer] += tensor.bytes
        for reader in tensor.readers:
            read[reader].append(tensor.bytes)
    return [
        v
        for v, operation in enumerate(graph.operations)
        if operation.kind in PRODUCTS and operation.role == "compute" and len(read[v]) == 1
        if operation.weight_bytes * read[v][0] * made[v] < (operation.flop // 2) ** 2
    ]


def read(data: bytes, where: str) -> OperationGraph:
    """The graph; raises :class:`InputError` with the JSON path of what is wrong.

    FLOP are those of the file. A look-up in a parameter moves what it reads besides (its indices) and twice what it
    makes; one in a tensor moves all that it reads, since its table can't be told from its indices.

    A node that depends on no input is a constant (if the graph has inputs at all). An operation with several outputs
    makes one tensor per ``getitem`` that reads it, and one without readers for outputs that nothing reads.
    """
    traced = decode(data, _TracedGraph, where, _REMEDY)
    nodes = traced.nodes
    if [node.id for node in nodes] != list(range(len(nodes))):
        raise InputError("node ids are not 0, 1, 2, …", f"{where}: nodes", "Number the nodes in their order.")
    count = len(nodes)
    reads: list[list[int]] = [[] for _ in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for i, (u, v, _) in enumerate(traced.edges):
        here = f"{where}: edges[{i}]"
        if not (0 <= u < count and 0 <= v < count):
            raise InputError(f"edge {u} -> {v} names no node", here, f"Ids run from 0 to {count - 1}.")
        if u >= v:
            raise InputError(f"edge {u} -> {v} leads backwards", here, "Number nodes after those that they read.")
        reads[v].append(u)
        readers[u].append(v)
    for i, v in enumerate(traced.outputs):
        if not 0 <= v < count:
            raise InputError(f"output {v} names no node", f"{where}: outputs[{i}]", f"Ids run from 0 to {count - 1}.")
    roles = _roles(nodes, reads)
    names = unique_names((node.name for node in nodes), (node.id for node in nodes))
    operations = (
        Operation(
            name=names[v],
            kind=node.op,
            role=roles[v],
            flop=node.flops,
            weight_bytes=node.weight_bytes,
            moved_bytes=_moved(node, [nodes[u] for u in set(reads[v])]) if roles[v] == "compute" else None,
        )
        for v, node in enumerate(nodes)
    )
    tensors = _tensors(nodes, readers, roles, set(traced.outputs))
    return OperationGraph.checked(traced.name, operations, tensors, traced.source, where)


def _moved(node: _Node, read: list[_Node]) -> int | None:
    """Bytes that a look-up in a parameter moves; None for other operators."""
    if node.op not in LOOK_UPS or not node.weight_bytes:
        return None
    return sum(source.out_bytes for source in read) + 2 * node.out_bytes


def _roles(nodes: list[_Node], reads: list[list[int]]) -> list[Role]:
    has_inputs = any(node.kind == "input" for node in nodes)
    dynamic = [False] * len(nodes)
    for v, node in enumerate(nodes):
        from_input = any(dynamic[u] for u in reads[v]) and node.op not in SHAPE_ONLY
        dynamic[v] = node.kind == "input" or from_input or not has_inputs
    roles: list[Role] = []
    for v, node in enumerate(nodes):
        if node.kind == "input":
            roles.append("input")
        elif node.kind == "const" or not dynamic[v]:
            roles.append("constant")
        else:
            roles.append("view" if node.kind == "view" else "compute")
    return roles


def _tensors(nodes: list[_Node], readers: list[list[int]], roles: list[Role], outputs: set[int]) -> list[Tensor]:
    tensors: list[Tensor] = []

    def add(v: int, to: list[int], size: int, output: bool) -> None:
        # a constant that takes only the shape of its input doesn't read it
        kept = [w for w in to if roles[w] != "constant" or roles[v] == "constant"]
        if kept or output or size:
            tensors.append(Tensor(producer=v, readers=tuple(sorted(set(kept))), bytes=size, output=output))

    for v, node in enumerate(nodes):
        parts = [w for w in readers[v] if nodes[w].op == "getitem"]
        for w in parts:
            add(v, [w], nodes[w].out_bytes, False)
        rest = [w for w in readers[v] if nodes[w].op != "getitem"]
        left = max(0, node.out_bytes - sum(nodes[w].out_bytes for w in parts))
        if rest or v in outputs or not parts or left:
            add(v, rest, node.out_bytes if rest or v in outputs else left, v in outputs)
    return tensors
