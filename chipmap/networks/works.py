"""What the time of an operation is learned from: its operator, FLOP and bytes, and how it works.

A table of ``chipmap measure`` has these beside each time, so that it says something of other networks' operations too.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from chipmap.networks.graph import Loops, OperationGraph
from chipmap.networks.words import stored

#: Names of an operator in other exports -> the one that is learned of.
_ALIKE = {
    **dict.fromkeys(("addmm", "mm", "dense"), "linear"),
    **dict.fromkeys(("matmul", "baddbmm", "einsum"), "bmm"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "_convolution"), "convolution"),
    **dict.fromkeys(("clone", "contiguous", "copy", "to", "_to_copy", "lift_fresh_copy"), "copy"),
    **dict.fromkeys(("native_layer_norm", "fused_rms_norm"), "layer_norm"),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "native_batch_norm"), "batch_norm"),
    "native_group_norm": "group_norm",
    **dict.fromkeys(("sub", "rsub", "subtract"), "add"),
    **dict.fromkeys(("hardtanh", "relu6", "clip"), "clamp"),
    **dict.fromkeys(("divide", "true_divide"), "div"),
    "multiply": "mul",
}
#: Products of two operands alone: one that is a parameter makes them linear.
_PRODUCTS = {"bmm", "matmul", "einsum"}
#: Operators whose second operand may be a parameter, and those that multiply several pairs of matrices.
_WEIGHTED = {"bmm", "linear", "convolution"}
_BATCHED = {"bmm", "scaled_dot_product_attention"}

#: Numbers of 4 bytes in a vector of a processor, the longest first.
VECTORS = (16, 8)
#: The sort of a padding that adds nothing: a copy.
NOTHING = "nothing"


class Work(NamedTuple):
    """An operation's operator, its FLOP, and the bytes that it reads, reads of parameters, and writes.

    ``sort``: how it works, where one operator has several ways (:func:`sort`). ``parts``: products that it consists of,
    each of two matrices; 1 for all other operators. ``row``, ``apart``, ``turned``: how it goes through memory
    (:mod:`chipmap.networks.importers.operators.order`); of a convolution the numbers of its window and stride.
    """

    kind: str
    flop: int
    read: int
    weights: int
    written: int
    sort: str = ""
    parts: int = 1
    row: int = 1
    apart: int = 1
    turned: int = 0

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """FLOP and bytes of its own."""
        return self.flop, self.read, self.weights, self.written

    @property
    def group(self) -> str:
        """What it is learned among: its operator, and its sort."""
        return f"{self.kind} {self.sort}".rstrip()


def canonical(kind: str, weights: int = 0) -> str:
    """The operator that one is learned as: in place or not, composed or not.

    A product of matrices is ``linear`` where it reads ``weights`` bytes of parameters. What ``baddbmm`` reads of these
    may be what it adds, so it stays a product of activations.

    >>> canonical("relu_"), canonical("aten.addmm"), canonical("_softmax"), canonical("einsum", 4)
    ('relu', 'linear', 'softmax', 'linear')
    """
    name = kind.rpartition("aten.")[2].rstrip("_") or kind
    if weights and name in _PRODUCTS:
        return "linear"
    return _ALIKE.get(name, _ALIKE.get(name.lstrip("_"), name.lstrip("_")))


def sort(kind: str, loops: Loops | None) -> str:
    """How a convolution of these loops works; "" for one that is unknown, and for any other operator.

    ``transposed``; ``depthwise``: a channel in each group; ``grouped16``: several groups that read and make multiples
    of 16 channels, whole vectors of a processor; ``grouped8``: of 8; ``grouped``: of others. Of a single group
    ``point``: 1 × 1; ``strided``: 1 × 1 with a stride; ``patch``: the stride is the window; ``dense``: all others.

    >>> sort("convolution", Loops(rows=64, inner=3 * 16, columns=196, window=(4, 4), stride=(4, 4)))
    'patch'
    """
    if kind != "convolution" or loops is None or not loops.window:
        return ""
    window = prod(loops.window)
    if loops.transposed:
        return "transposed"
    if loops.outer > 1:
        if loops.inner == window:
            return "depthwise"
        whole = next((width for width in VECTORS if not loops.rows % width and not loops.inner // window % width), "")
        return f"grouped{whole}"
    if window == 1:
        return "strided" if prod(loops.stride) > 1 else "point"
    return "patch" if loops.window == loops.stride else "dense"


def works(graph: OperationGraph) -> list[Work]:
    """The work of each operation. A look-up reads the rows that it fetches, not its table. A convolution or
    product counts what is made of parameters alone, such as a kernel that is normed first, as parameters."""
    constants, written = graph.constants_read(), graph.written_bytes()
    reads: list[dict[int, None]] = [{} for _ in graph.operations]
    for t, tensor in enumerate(graph.tensors):
        for reader in tensor.readers:
            reads[reader][t] = None
    known, made = _of_parameters(graph, reads)
    found = []
    for v, operation in enumerate(graph.operations):
        held, loops = stored(graph, constants, [v]), operation.loops
        moving = {t: graph.tensors[t].bytes for t in reads[v] if not known[graph.tensors[t].producer]}
        if canonical(operation.kind) in _WEIGHTED:
            normed = {t for t in moving if made[graph.tensors[t].producer]}
            if len(normed) < len(moving):
                held += sum(moving.pop(t) for t in normed)
        read = sum(moving.values())
        if operation.moved_bytes is not None:
            held, read = 0, max(0, operation.moved_bytes - written[v])
        kind = canonical(operation.kind, held)
        of = NOTHING if kind == "pad" and read == written[v] else sort(kind, loops)
        parts = loops.outer if kind in _BATCHED and loops is not None and loops.inner else 1
        row, apart, turned = operation.order or (1, 1, 0)
        if kind == "convolution" and loops is not None and loops.window:
            row, apart = prod(loops.window), prod(loops.stride)
        found.append(Work(kind, operation.flop, read, held, written[v], of, parts, row, apart, turned))
    return found


def _of_parameters(graph: OperationGraph, reads: list[dict[int, None]]) -> tuple[list[bool], list[bool]]:
    """For each operation whether it is a constant or a view of some, and whether it computes from constants alone."""
    known = [operation.role == "constant" for operation in graph.operations]
    made = [False] * len(known)
    for v in graph.topological_order():
        role, of = graph.operations[v].role, [graph.tensors[t].producer for t in reads[v]]
        if role == "view" and of:
            known[v] = all(known[u] for u in of)
        if role in ("view", "compute") and not known[v]:
            any_ = bool(of or graph.operations[v].weight_bytes)
            made[v] = any_ and all(known[u] or made[u] for u in of)
    return known, made
