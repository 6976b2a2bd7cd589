"""Convolutions and matrix products of an operation graph: which they are, and what runs together with each.

Readers of ONNX models and PyTorch programs find loop nests of operations (:class:`~chipmap.networks.graph.Loops`).
Traced graphs and profiles have none, but FLOP and bytes: for a product and for an ordinary convolution they determine
the shapes, once the bytes of a number are known (:func:`product`, :func:`convolution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from chipmap.networks.graph import Operation, OperationGraph

PRODUCTS = frozenset({"mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "addbmm", "gemm"})
CONVOLUTIONS = frozenset({"conv", "conv2d", "convolution", "_convolution"})
Arguments = dict[str, int]
#: Bytes of a number, in the order in which they are tried.
WORD_BYTES = (4, 2, 1, 8)


def kind_of(kind: str) -> str:
    """``product``, ``convolution``, or nothing, by an operator's name."""
    plain = kind.lower()
    return "product" if plain in PRODUCTS else "convolution" if plain in CONVOLUTIONS else ""


def works(operation: Operation) -> bool:
    """Whether an operation is a sum of products."""
    return operation.loops.inner > 0 if operation.loops is not None else bool(kind_of(operation.kind))


def operand_bytes(graph: OperationGraph, works: Sequence[int]) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Bytes of the operands of each of ``works``, constants left out, and of its results."""
    fixed = fixed_operations(graph)
    reads: dict[int, list[int]] = {v: [] for v in works}
    makes = dict.fromkeys(works, 0)
    for tensor in graph.tensors:
        if tensor.producer in makes:
            makes[tensor.producer] += tensor.bytes
        for reader in tensor.readers:
            if reader in reads and tensor.bytes and not fixed[tensor.producer]:
                reads[reader].append(tensor.bytes)
    return reads, makes


def guessed(graph: OperationGraph, works: Sequence[int]) -> tuple[int, dict[int, Arguments]]:
    """Shapes that FLOP and bytes determine, with the bytes of a number that gives most of them."""
    if not works:
        return 0, {}
    reads, makes = operand_bytes(graph, works)

    def shapes(word: int) -> dict[int, Arguments]:
        found = {}
        for v in works:
            operation = graph.operations[v]
            fit = product if kind_of(operation.kind) == "product" else convolution
            if given := fit(operation.flop, operation.weight_bytes, reads[v], makes[v], word):
                found[v] = given
        return found

    return max(((word, shapes(word)) for word in WORD_BYTES), key=lambda pair: len(pair[1]))


def fixed_operations(graph: OperationGraph) -> list[bool]:
    """Whether an operation is a constant, or a view of constants."""
    reads = graph.reads()
    fixed = [False] * len(graph.operations)
    for v in graph.topological_order():
        role = graph.operations[v].role
        fixed[v] = role == "constant" or (role == "view" and bool(reads[v]) and all(fixed[u] for u in reads[v]))
    return fixed


def product(flop: int, weights: int, read: Sequence[int], made: int, word: int) -> Arguments | None:
    """A product's arguments; None where the figures fit none.

    Of one operand, [M, C] · [C, K]: FLOP 2MCK, and M · C, M · K and C · K (+ K of a bias; none where another operation
    counts them) numbers of operand, result and weights. Of two, B times [M, C] · [C, K], the larger one on the left:
    FLOP 2BMCK. The kernel has H · W = M, or H = M and W = B.
    """
    work, sizes = flop // 2, sorted((size // word for size in read), reverse=True)
    out = made // word
    if not work or not out or any(size % word for size in (*read, made)):
        return None
    if len(sizes) == 1:
        m = _quotient(sizes[0] * out, work)
        c, k = _quotient(sizes[0], m), _quotient(out, m)
        if m * c * k == work and weights in (0, c * k * word, (c * k + k) * word):
            return conv(*sides(m), c, k, 1, 1)
    if len(sizes) == 2 and not weights:
        times = _quotient(sizes[0] * sizes[1] * out, work * work)
        m, c, k = _quotient(work, sizes[1]), _quotient(work, out), _quotient(work, sizes[0])
        if times and times * m * c * k == work and sizes[0] == times * m * c and out == times * m * k:
            return conv(m, times, c, k, 1, 1)
    return None


def convolution(flop: int, weights: int, read: Sequence[int], made: int, word: int) -> Arguments | None:
    """A convolution's arguments; None where the figures fit none.

    With P places in the result, FLOP 2 · R² · C · K · P, P · K numbers of result, R² · C · K (+ K of a bias) of
    weights and T² · P · C of operand (padded so that the stride T divides it): the first T of 1, 2, 4 for which R is
    whole. P is split into two sides as nearly equal as a square divisor allows.
    """
    out, sizes = made // word, [size // word for size in read]
    if not flop or not out or len(sizes) != 1 or any(size % word for size in (*read, made, weights)):
        return None
    reach = _quotient(flop, 2 * out)  # R² · C
    for per_filter in (reach, reach + 1):
        k = _quotient(weights // word, per_filter) if reach else 0
        places = _quotient(out, k)
        for stride in (1, 2, 4):
            c = _quotient(sizes[0], stride * stride * places)
            area = _quotient(reach, c)
            if area and isqrt(area) ** 2 == area:
                height, width = sides(places)
                return conv(height * stride, width * stride, c, k, isqrt(area), stride)
    return None


def _quotient(a: int, b: int) -> int:
    """a / b where that is whole, else 0."""
    return a // b if b > 0 and a % b == 0 else 0


def sides(places: int) -> tuple[int, int]:
    """Two numbers with that product, the second the largest whose square divides it."""
    side = next(s for s in range(isqrt(places), 0, -1) if places % (s * s) == 0)
    return places // side, side


def conv(height: int, width: int, inputs: int, outputs: int, side: int, stride: int) -> Arguments:
    """H, W places times the stride; C and K channels in and out; R, S the window; T, U the stride."""
    return {"H": height, "W": width, "C": inputs, "K": outputs, "R": side, "S": side, "T": stride, "U": stride}


def hosts(graph: OperationGraph, works: set[int]) -> dict[int, int]:
    """The operation of ``works`` with which each runs: itself, or that of its last operand in topological order.

    Operations that depend on none of ``works`` have none.
    """
    reads = graph.reads()
    order = graph.topological_order()
    rank = {v: i for i, v in enumerate(order)}
    host: dict[int, int] = {}
    for v in order:
        sources = {host[u] for u in reads[v] if u in host}
        if v in works:
            host[v] = v
        elif sources:
            host[v] = max(sources, key=rank.__getitem__)
    return host
