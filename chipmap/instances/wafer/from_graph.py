"""From an imported operation graph to a kernel graph: convolutions and matrix products become kernels.

Shapes come from the operations' loop nests (:func:`shaped`), or from FLOP and bytes where these are all that is known
(:mod:`chipmap.instances.products`). All other operations run inside a kernel, that of their last operand in topological
order; what their other operands' kernels make flows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from chipmap.instances.products import Arguments, conv, guessed, hosts, operand_bytes, sides, works
from chipmap.instances.wafer.instance import Kernel, WaferInstance
from chipmap.networks.graph import Loops, Operation, OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError

_REMEDY = (
    "Three-dimensional convolutions, unequal strides and products with a matrix per group have no such shape; where "
    "shapes aren't known, grouped and transposed convolutions and products with shared weights haven't either. Write "
    "the kernel graph (docs/families/wafer.md)."
)


def from_graph(imported: ImportedGraph, name: str) -> WaferInstance:
    """The instance of ``imported`` on the contest's fabric, with a weight of 1 for time and wires.

    Raises :class:`InputError` that names the first operation whose shapes the graph does not determine.
    """
    graph = imported.graph
    made = {v for v, operation in enumerate(graph.operations) if operation.role == "compute" and works(operation)}
    if not made:
        what = "the graph has no operation that is a convolution or a matrix product"
        raise InputError(what, name, "Kernels are made of those: import a traced graph, an ONNX model or a program.")
    word, arguments = _arguments(graph, sorted(made), name)
    host = hosts(graph, made)
    kernels = [Kernel(name=graph.operations[v].name, kind="conv", arguments=arguments[v]) for v in sorted(made)]
    inside = sum(v not in made for v in host)
    notes = (
        *imported.notes,
        *([f"numbers of {word} bytes, as FLOP and bytes imply"] if word else []),
        f"{inside} other operations run inside the kernel of their last operand",
    )
    instance = WaferInstance.make(
        name=name,
        kernels=kernels,
        edges=[(graph.operations[u].name, graph.operations[v].name) for u, v in _edges(graph, host)],
        notes="; ".join(notes),
    )
    instance.check()
    return instance


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
        made = conv(samples * height * step, width * step, loops.inner // area, outputs, side[0], step)
        return made | {"S": side[1]}
    if loops.weights:
        return conv(*sides(loops.columns), loops.inner, outputs, 1, 1)
    more, fewer = max(loops.columns, loops.rows), min(loops.columns, loops.rows)
    return conv(more, loops.outer, loops.inner, fewer, 1, 1)


def _arguments(graph: OperationGraph, made: Sequence[int], where: str) -> tuple[int, dict[int, Arguments]]:
    """The arguments of all operations ``made`` kernels, and the bytes of a number with which most of those without loop
    nests have whole shapes (0: there are none)."""
    known = {v: loops for v in made if (loops := graph.operations[v].loops) is not None}
    found = {v: given for v, loops in known.items() if (given := _of_loops(graph.operations[v], loops))}
    word, recovered = guessed(graph, [v for v in made if v not in known])
    found |= recovered
    for v in made:
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
    read, made = operand_bytes(graph, [v])
    return (
        f"{operation.flop:,} FLOP, {operation.weight_bytes:,} bytes of weights, operands of {read[v]} and results of "
        f"{made[v]:,} bytes don't determine its shape"
    )


def _edges(graph: OperationGraph, host: dict[int, int]) -> list[tuple[int, int]]:
    """The edges between kernels, in the order of their readers."""
    reads = graph.reads()
    order = graph.topological_order()
    rank = {v: i for i, v in enumerate(order)}
    edges: dict[tuple[int, int], None] = {}
    for v in order:
        sources = {host[u] for u in reads[v] if u in host}
        for u in sorted(sources, key=rank.__getitem__):
            if u != host[v]:
                edges[u, host[v]] = None
    return list(edges)
