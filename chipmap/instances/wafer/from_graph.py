"""From an imported operation graph to a kernel graph: convolutions and matrix products become kernels.

An operation graph holds FLOP, bytes of weights and bytes of tensors, and no shapes. For a product and for an ordinary
convolution they determine the shapes, once the bytes of a number are known: see :func:`product` and
:func:`convolution`. All other operations run inside a kernel, that of their last operand in topological order; what
their other operands' kernels make flows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from chipmap.instances.graph import OperationGraph
from chipmap.instances.importers import ImportedGraph
from chipmap.instances.wafer.instance import Kernel, WaferInstance
from chipmap.records import InputError

PRODUCTS = frozenset({"mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "addbmm", "gemm"})
CONVOLUTIONS = frozenset({"conv", "conv2d", "convolution", "_convolution"})
#: Bytes of a number, in the order in which they are tried.
WORD_BYTES = (4, 2, 1, 8)
_REMEDY = (
    "Grouped, dilated, transposed and one- or three-dimensional convolutions, products whose weights are shared, and "
    "profiles without FLOP don't determine it. Write the kernel graph (docs/families/wafer.md)."
)
Arguments = dict[str, int]


def from_graph(imported: ImportedGraph, name: str) -> WaferInstance:
    """The instance of ``imported`` on the contest's fabric, with a weight of 1 for time and wires.

    Raises :class:`InputError` that names the first operation whose shapes the graph does not determine.
    """
    graph = imported.graph
    works = {v for v, operation in enumerate(graph.operations) if _kind(operation.kind) and operation.role == "compute"}
    if not works:
        what = "the graph has no operation that is a convolution or a matrix product"
        raise InputError(what, name, "Kernels are made of those: import a traced graph, an ONNX model or a program.")
    word, arguments = _arguments(graph, sorted(works), name)
    host, edges = _hosts(graph, works)
    kernels = [Kernel(name=graph.operations[v].name, kind="conv", arguments=arguments[v]) for v in sorted(works)]
    inside = sum(v not in works for v in host)
    notes = (
        *imported.notes,
        f"numbers of {word} bytes, as FLOP and bytes imply; {inside} other operations run inside the kernel of their "
        "last operand",
    )
    instance = WaferInstance.make(
        name=name,
        kernels=kernels,
        edges=[(graph.operations[u].name, graph.operations[v].name) for u, v in edges],
        notes="; ".join(notes),
    )
    instance.check()
    return instance


def _kind(kind: str) -> str:
    plain = kind.lower()
    return "product" if plain in PRODUCTS else "convolution" if plain in CONVOLUTIONS else ""


def _arguments(graph: OperationGraph, works: Sequence[int], where: str) -> tuple[int, dict[int, Arguments]]:
    """The bytes of a number with which most operations have whole shapes, and these shapes; all must have them."""
    fixed = _fixed(graph)
    reads: list[list[int]] = [[] for _ in graph.operations]
    makes = [0] * len(graph.operations)
    for tensor in graph.tensors:
        makes[tensor.producer] += tensor.bytes
        for reader in tensor.readers:
            if tensor.bytes and not fixed[tensor.producer]:
                reads[reader].append(tensor.bytes)

    def shapes(word: int) -> dict[int, Arguments]:
        found = {}
        for v in works:
            operation = graph.operations[v]
            fit = product if _kind(operation.kind) == "product" else convolution
            if given := fit(operation.flop, operation.weight_bytes, reads[v], makes[v], word):
                found[v] = given
        return found

    word, found = max(((word, shapes(word)) for word in WORD_BYTES), key=lambda pair: len(pair[1]))
    for v in works:
        if v not in found:
            operation = graph.operations[v]
            what = (
                f"{operation.kind} {operation.name!r}: {operation.flop:,} FLOP, {operation.weight_bytes:,} bytes of "
                f"weights, operands of {reads[v]} and results of {makes[v]:,} bytes don't determine its shape"
            )
            raise InputError(what, where, _REMEDY)
    return word, found


def _fixed(graph: OperationGraph) -> list[bool]:
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
            return _conv(*_sides(m), c, k, 1, 1)
    if len(sizes) == 2 and not weights:
        times = _quotient(sizes[0] * sizes[1] * out, work * work)
        m, c, k = _quotient(work, sizes[1]), _quotient(work, out), _quotient(work, sizes[0])
        if times and times * m * c * k == work and sizes[0] == times * m * c and out == times * m * k:
            return _conv(m, times, c, k, 1, 1)
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
                height, width = _sides(places)
                return _conv(height * stride, width * stride, c, k, isqrt(area), stride)
    return None


def _quotient(a: int, b: int) -> int:
    """a / b where that is whole, else 0."""
    return a // b if b > 0 and a % b == 0 else 0


def _sides(places: int) -> tuple[int, int]:
    """Two numbers with that product, the second the largest whose square divides it."""
    side = next(s for s in range(isqrt(places), 0, -1) if places % (s * s) == 0)
    return places // side, side


def _conv(height: int, width: int, inputs: int, outputs: int, side: int, stride: int) -> Arguments:
    return {"H": height, "W": width, "C": inputs, "K": outputs, "R": side, "S": side, "T": stride, "U": stride}


def _hosts(graph: OperationGraph, works: set[int]) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """The kernel in which each operation runs, where it has one, and the edges between kernels in order."""
    reads = graph.reads()
    order = graph.topological_order()
    rank = {v: i for i, v in enumerate(order)}
    host: dict[int, int] = {}
    edges: dict[tuple[int, int], None] = {}
    for v in order:
        sources = {host[u] for u in reads[v] if u in host}
        if v in works:
            host[v] = v
        elif sources:
            host[v] = max(sources, key=rank.__getitem__)
        for u in sorted(sources, key=rank.__getitem__):
            if u != host[v]:
                edges[u, host[v]] = None
    return host, list(edges)
