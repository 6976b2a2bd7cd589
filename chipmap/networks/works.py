"""What the time of an operation is learned from: its operator, FLOP and bytes.

A table of ``chipmap measure`` has these beside each time, so that it says something of other networks' operations too.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

from chipmap.networks.graph import OperationGraph
from chipmap.networks.words import stored

#: Bytes of a number, and the widest window of a depthwise convolution.
NUMBER, WINDOW = 4, 11
#: Names of an operator in other exports -> the one that is learned of.
_ALIKE = {
    **dict.fromkeys(("addmm", "mm", "dense"), "linear"),
    **dict.fromkeys(("matmul", "baddbmm", "einsum"), "bmm"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "_convolution"), "convolution"),
    **dict.fromkeys(("clone", "contiguous", "copy", "to", "_to_copy", "lift_fresh_copy"), "copy"),
    **dict.fromkeys(("native_layer_norm", "fused_rms_norm"), "layer_norm"),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "native_batch_norm"), "batch_norm"),
    "native_group_norm": "group_norm",
    **dict.fromkeys(("sub", "rsub"), "add"),
    "hardtanh": "clamp",
    "relu6": "clamp",
}


class Work(NamedTuple):
    """An operation's operator, its FLOP, and the bytes that it reads, reads of parameters, and writes."""

    kind: str
    flop: int
    read: int
    weights: int
    written: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """All but the operator."""
        return self[1:]


def canonical(kind: str) -> str:
    """The operator that one is learned as: in place or not, composed or not.

    >>> canonical("relu_"), canonical("aten.addmm"), canonical("_softmax")
    ('relu', 'linear', 'softmax')
    """
    name = kind.rpartition("aten.")[2].rstrip("_") or kind
    return _ALIKE.get(name, _ALIKE.get(name.lstrip("_"), name.lstrip("_")))


def sort(work: Work) -> str:
    """What an operation is learned among: its operator, and of a convolution how it works, as its sizes tell.

    Let K = FLOP / (2 · results) be the products of a result, R the numbers read for each place of an output channel.
    A number has 4 bytes. For c channels, windows of k × k, stride s and g groups, K = c k² / g and R = c s² but for
    borders. ``point``: K = R, as of 1 × 1; ``depthwise``: K = k² and R as many as channels are made, or more;
    ``dense``: K > R; ``strided``: K is about R / 4, as of 1 × 1 with stride 2; ``part``: any other K < R.

    >>> sort(Work("convolution", 2 * 64 * 8 * 16, 4 * 64 * 8, 4 * 8 * 16, 4 * 64 * 16))
    'convolution point'
    """
    if work.kind != "convolution" or not min(work.flop, work.weights, work.written):
        return work.kind
    results, weights = work.written / NUMBER, work.weights / NUMBER
    length = work.flop / (2 * results)
    for channels in (weights / length, weights / (length + 1)):  # without a bias, with one
        if _whole(channels) and _whole(results / round(channels)):
            break
    else:
        channels = max(1.0, weights / length)
    read = max(1.0, work.read / NUMBER * channels / results)
    side = isqrt(round(length))
    if abs(length - read) < 0.02 * read:
        return "convolution point"
    if 1 < side <= WINDOW and side**2 == round(length) < read and read > 0.6 * channels:
        return "convolution depthwise"
    if length > read:
        return "convolution dense"
    return "convolution strided" if 2.9 < read / length < 4.2 else "convolution part"


def _whole(x: float) -> bool:
    """Whether a number is a positive whole one, but for rounding."""
    return x > 0.5 and abs(x - round(x)) < 1e-6 * x


def works(graph: OperationGraph) -> list[Work]:
    """The work of each operation of the graph. A look-up reads the rows that it fetches, not its table."""
    constants, written = graph.constants_read(), graph.written_bytes()
    reads: list[dict[int, None]] = [{} for _ in graph.operations]
    for t, tensor in enumerate(graph.tensors):
        for reader in tensor.readers:
            reads[reader][t] = None
    known = [operation.role == "constant" for operation in graph.operations]
    for v in graph.topological_order():
        if graph.operations[v].role == "view" and reads[v]:
            known[v] = all(known[graph.tensors[t].producer] for t in reads[v])
    found = []
    for v, operation in enumerate(graph.operations):
        held = stored(graph, constants, [v])
        read = sum(graph.tensors[t].bytes for t in reads[v] if not known[graph.tensors[t].producer])
        if operation.moved_bytes is not None:
            held, read = 0, max(0, operation.moved_bytes - written[v])
        found.append(Work(canonical(operation.kind), operation.flop, read, held, written[v]))
    return found
