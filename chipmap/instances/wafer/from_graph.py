"""From an imported operation graph to a kernel graph: convolutions and matrix products become kernels.

Shapes come from the operations' loop nests (:func:`shaped`), which the readers of ONNX models and PyTorch programs
find. Traced graphs and profiles have none, but FLOP and bytes: for a product and for an ordinary convolution they
determine the shapes, once the bytes of a number are known (:func:`product`, :func:`convolution`). All other operations
run inside a kernel, that of their last operand in topological order; what their other operands' kernels make flows
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from chipmap.instances.graph import Loops, Operation, OperationGraph
from chipmap.instances.importers import ImportedGraph
from chipmap.instances.wafer.instance import Kernel, WaferInstance
from chipmap.records import InputError

PRODUCTS = frozenset({"mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "addbmm", "gemm"})
CONVOLUTIONS = frozenset({"conv", "conv2d", "convolution", "_convolution"})
#: Bytes of a number, in the order in which they are tried.
WORD_BYTES = (4, 2, 1, 8)
_REMEDY = (
    "Three-dimensional convolutions, unequal strides and products with a matrix per group have no such shape; where "
    "shapes aren't known, grouped and transposed convolutions and products with shared weights haven't either. Write "
    "the kernel graph (docs/families/wafer.md)."
)
Arguments = dict[str, int]


def from_graph(imported: ImportedGraph, name: str) -> WaferInstance:
    """The instance of ``imported`` on the contest's fabric, with a weight of 1 for time and wires.

    Raises :class:`InputError` that names the first operation whose shapes the graph does not determine.
    """
    graph = imported.graph
    works = {v for v, operation in enumerate(graph.operations) if operation.role == "compute" and _works(operation)}
    if not works:
        what = "the graph has no operation that is a convolution or a matrix product"
        raise InputError(what, name, "Kernels are made of those: import a traced graph, an ONNX model or a program.")
    word, arguments = _arguments(graph, sorted(works), name)
    host, edges = _hosts(graph, works)
    kernels = [Kernel(name=graph.operations[v].name, kind="conv", arguments=arguments[v]) for v in sorted(works)]
    inside = sum(v not in works for v in host)
    notes = (
        *imported.notes,
        *([f"numbers of {word} bytes, as FLOP and bytes imply"] if word else []),
        f"{inside} other operations run inside the kernel of their last operand",
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


def _works(operation: Operation) -> bool:
    """Whether an operation is a sum of products."""
    return operation.loops.inner > 0 if operation.loops is not None else bool(_kind(operation.kind))


def shaped(loops: Loops) -> Arguments | None:
    """The arguments of a kernel with as many multiplications, weights and results as the loop nest; None without one.

    A convolution has H and W for its places times the stride, the samples below each other in H; with groups, C is
    channels per group and K all outputs. One over a line has W = T. A transposed one is the product that makes all its
    windows. A product has H · W columns (as square as possible); without parameters H = its columns or rows (the more)
    and W = ``outer``, with them K is all outputs. Three dimensions and unequal strides have no such kernel.
    """
    outputs, area = loops.outer * loops.rows, prod(loops.window)
    if loops.window and not loops.transposed:
        samples = loops.columns // max(1, prod(loops.places))
        steps = set(loops.stride)
        if len(loops.window) > 2 or len(steps) != 1:
            return None
        (step,) = steps
        height, width = (*loops.places, 1)[:2]
        side = (*loops.window, 1)
        made = _conv(samples * height * step, width * step, loops.inner // area, outputs, side[0], step)
        return made | {"S": side[1]}
    if loops.weights:
        return _conv(*_sides(loops.columns), loops.inner, outputs, 1, 1)
    more, fewer = max(loops.columns, loops.rows), min(loops.columns, loops.rows)
    return _conv(more, loops.outer, loops.inner, fewer, 1, 1)


def _arguments(graph: OperationGraph, works: Sequence[int], where: str) -> tuple[int, dict[int, Arguments]]:
    """The arguments of all ``works``, and the bytes of a number with which most of those without loop nests have whole
    shapes (0: there are none)."""
    known = {v: loops for v in works if (loops := graph.operations[v].loops) is not None}
    found = {v: given for v, loops in known.items() if (given := _of_loops(graph.operations[v], loops))}
    word, guessed = _guessed(graph, [v for v in works if v not in known])
    found |= guessed
    for v in works:
        if v not in found:
            operation = graph.operations[v]
            raise InputError(f"{operation.kind} {operation.name!r}: {_said(graph, v)}", where, _REMEDY)
    return word, found


def _of_loops(operation: Operation, loops: Loops) -> Arguments | None:
    """The arguments of an operation with that loop nest; none of one with a matrix per group of its columns."""
    return None if "grouped" in operation.kind else shaped(loops)


def _said(graph: OperationGraph, v: int) -> str:
    """Why an operation has no shape."""
    operation, loops = graph.operations[v], graph.operations[v].loops
    if loops is not None:
        window = f"window {list(loops.window)}, stride {list(loops.stride)}" if loops.window else "groups of columns"
        return f"no kernel of the fabric computes it ({window})"
    read, made = _bytes(graph, [v])
    return (
        f"{operation.flop:,} FLOP, {operation.weight_bytes:,} bytes of weights, operands of {read[v]} and results of "
        f"{made[v]:,} bytes don't determine its shape"
    )


def _bytes(graph: OperationGraph, works: Sequence[int]) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Bytes of the operands of each of ``works``, constants left out, and of its results."""
    fixed = _fixed(graph)
    reads: dict[int, list[int]] = {v: [] for v in works}
    makes = dict.fromkeys(works, 0)
    for tensor in graph.tensors:
        if tensor.producer in makes:
            makes[tensor.producer] += tensor.bytes
        for reader in tensor.readers:
            if reader in reads and tensor.bytes and not fixed[tensor.producer]:
                reads[reader].append(tensor.bytes)
    return reads, makes


def _guessed(graph: OperationGraph, works: Sequence[int]) -> tuple[int, dict[int, Arguments]]:
    """Shapes that FLOP and bytes determine, with the bytes of a number that gives most of them."""
    if not works:
        return 0, {}
    reads, makes = _bytes(graph, works)

    def shapes(word: int) -> dict[int, Arguments]:
        found = {}
        for v in works:
            operation = graph.operations[v]
            fit = product if _kind(operation.kind) == "product" else convolution
            if given := fit(operation.flop, operation.weight_bytes, reads[v], makes[v], word):
                found[v] = given
        return found

    return max(((word, shapes(word)) for word in WORD_BYTES), key=lambda pair: len(pair[1]))


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
