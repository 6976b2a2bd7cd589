"""From an operation graph to a dataflow instance: its computing operations as kernels.

Schemes follow from the operations' loop nests (``docs/families/dataflow.md``, "From an operation graph"). An operation
without one, or of which nothing is known to be computed apart, runs whole on every chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from chipmap.instances.dataflow.axes import of_loops
from chipmap.instances.dataflow.fusing import cones
from chipmap.instances.dataflow.instance import DataflowInstance, Task
from chipmap.instances.dataflow.rates import peak_rate
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Scheme, Workload
from chipmap.networks.graph import Loops, Operation, OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.words import stored, word_bytes
from chipmap.records import InputError
from chipmap.records.decimals import exact

#: Bytes of a number where no parameter tells.
WORD_BYTES = 2


def from_graph(imported: ImportedGraph, name: str, fuse: bool = True) -> DataflowInstance:
    """The instance of ``imported`` on eight SN10 in a ring, one layer.

    Computing operations are kernels with their FLOP, the bytes of all that they write, and the parameters and constants
    that they read; an edge leads from each to those that read it, directly or through views. With ``fuse`` element-wise
    operations that only each other read are one kernel (:mod:`.fusing`), named after the last of them. Where a graph
    has measured times instead of FLOP, an operation has what a chip does in that time, so that on one chip it takes
    just as long.

    Raises :class:`InputError` for a graph without any.
    """
    graph, chips = imported.graph, system("sn10", (8,))
    has_times = timed(imported)
    rate = peak_rate(chips.chip) * exact(Task().utilisation or 1)
    written = graph.written_bytes()
    times = imported.time_ns if has_times and imported.time_ns is not None else (None,) * len(graph.operations)
    last = cones(graph) if fuse else list(range(len(graph.operations)))
    members = cones_of(graph, last)
    flop = [_flop(o, time, rate) for o, time in zip(graph.operations, times, strict=True)]
    read = graph.constants_read()
    kernels = tuple(
        kernel(
            [graph.operations[v] for v in cone],
            sum(flop[v] for v in cone),
            written[end],
            stored(graph, read, cone),
        )
        for end, cone in sorted(members.items())
    )
    copies = sum(stored(graph, read, cone) for cone in members.values()) - graph.stored_bytes(read)
    edges = _edges(graph, last)
    kernels = by_heads(kernels, edges)
    loops = {graph.operations[end].name: _loops([graph.operations[v] for v in cone]) for end, cone in members.items()}
    axes = {one.name: found for one in kernels if (found := of_loops(loops[one.name], one)) is not None}
    if not kernels:
        raise InputError("has no computing operation", name, "Give a graph that computes something.")
    instance = DataflowInstance.make(
        name=name,
        workload=Workload(
            name=graph.name,
            kernels=kernels,
            edges=edges,
            word_bytes=word_bytes(imported, read) or WORD_BYTES,
            counted="samples",
            axes=axes,
        ),
        system=chips,
        notes="; ".join(
            [*imported.notes, *_remarks(imported, kernels, has_times, sum(map(len, members.values())), copies)]
        ),
    )
    instance.check()
    return instance


def timed(imported: ImportedGraph) -> bool:
    """Whether the graph has measured times instead of FLOP."""
    return imported.time_ns is not None and not any(one.flop for one in imported.graph.operations)


def cones_of(graph: OperationGraph, last: Sequence[int]) -> dict[int, list[int]]:
    """The computing operations of each kernel in order, by the last one (:func:`~.fusing.cones`)."""
    members: dict[int, list[int]] = {}
    for v in graph.topological_order():
        if graph.operations[v].role == "compute":
            members.setdefault(last[v], []).append(v)
    return members


def kernel(cone: Sequence[Operation], flop: int, written: int, stored: int) -> Kernel:
    """The kernel of operations in order, several where they are element-wise, which write and read so many bytes of
    results and of parameters and constants.

    A look-up fetches the rows that it makes of its table. What parts of a kernel need whole is never divided. Several
    operations may be split by rows where each may: the split of one follows those of what it reads. They have as many
    rows as the one with fewest (key heads, before they are repeated for all queries). A product that they only scale
    and shift is split as it is without them.
    """
    *others, operation = cone
    loops = _loops(cone)
    product = loops if loops is not operation.loops else None
    looks_up = not others and operation.looks_up(stored, written)
    whole = min(stored, sum(one.loops.whole_bytes for one in cone if one.loops is not None))
    sizes: dict[str, Any] = {
        "flop": flop,
        "output_bytes": written,
        "weight_bytes": stored - whole,
        "whole_bytes": whole,
    }
    if looks_up:
        sizes |= {"weight_bytes": 0, "whole_bytes": 0, "table_bytes": stored, "fetch_bytes": min(stored, written)}
    given = {} if loops is None else _shape(loops, looks_up)
    if others and product is None and loops is not None:
        rows = min(_rows(one.loops) for one in cone)
        given = _shape(loops.replace(rows=rows, columns=loops.rows * loops.columns // rows), False) if rows else {}
    return Kernel.make(name=operation.name, **{"kind": "opaque", "schemes": ["NONE"], **given, **sizes})


def _loops(cone: Sequence[Operation]) -> Loops | None:
    """The loop nest of a kernel's operations: that of the product that they scale and shift, else of the last one."""
    *others, operation = cone
    product = next((one.loops for one in others if one.loops is not None and one.loops.inner), None)
    return operation.loops if product is None else product


def by_heads(kernels: Sequence[Kernel], edges: Sequence[tuple[str, str]]) -> tuple[Kernel, ...]:
    """The kernels, of which a product with parameters that is read by heads may be split by them as well (OUTER).

    On a number of chips that doesn't divide the heads, a part of its rows isn't what any chip needs. Its readers are
    products of two activations with OUTER, or element-wise kernels whose rows are heads (a rotation). A product may
    read fewer heads than it has (keys and values that several queries share): as many as fit into the features, where
    the size of a head is the least of the product's sizes.
    """
    named = {kernel.name: kernel for kernel in kernels}
    heads: dict[str, set[int]] = {}
    for maker, reader in edges:
        one = named[reader]
        if one.schemes[0] == "OUTER" and not one.weights:
            fit = named[maker].M // min(one.M, one.K, one.N)
            heads.setdefault(maker, set()).add(min(one.outer, max(fit, 1)))
        elif one.schemes[0] == "M" and one.kind == "elementwise":
            heads.setdefault(maker, set()).add(one.M)

    def split(kernel: Kernel) -> Kernel:
        count = min(heads.get(kernel.name, {1}))
        rows = kernel.M
        if not kernel.weights or "M" not in kernel.schemes or not 1 < count < rows or rows % count:
            return kernel
        return kernel.replace(outer=count, M=rows // count, schemes=("OUTER", *kernel.schemes))

    return tuple(split(kernel) for kernel in kernels)


def _rows(loops: Loops | None) -> int:
    """The rows along which an operation may be split; 0 for none."""
    return loops.rows if loops is not None and "rows" in loops.splits else 0


def _shape(loops: Loops, looks_up: bool) -> dict[str, Any]:
    """Kind, sizes and schemes of a kernel with that loop nest; NONE is always one.

    A product with parameters that is split by groups reads what each part needs: the family's OUTER has it read all of
    the activation instead, so that it is an opaque kernel here.
    """
    splits = set(loops.splits)
    by_groups = loops.weights and "outer" in splits
    schemes: list[Scheme] = []
    if loops.inner and not by_groups:
        if "outer" in splits:
            schemes = ["OUTER"]
        elif "rows" in splits:
            schemes = ["M"]
        if loops.weights and "inner" in splits:
            schemes += ["K", "K_RS"] if "rows" in splits else ["K"]
        sizes = {"outer": loops.outer, "M": loops.rows, "K": loops.inner, "N": loops.columns, "heads": loops.heads}
        return {"kind": "gemm", "weights": loops.weights, **sizes, "schemes": [*schemes, "NONE"]}
    schemes = ["M", "NONE"] if by_groups or "rows" in splits else ["NONE"]
    if by_groups or looks_up or "rows" not in splits:
        return {"schemes": schemes}
    return {"kind": "elementwise", "M": loops.rows, "N": loops.columns, "schemes": schemes}


def _remarks(
    imported: ImportedGraph, kernels: Sequence[Kernel], has_times: bool, operations: int, copies: int
) -> list[str]:
    """What was assumed of a graph with so many computing ``operations`` and bytes of parameters held again."""
    chip = system("sn10", (8,)).chip.name
    whole = sum(kernel.schemes == ("NONE",) for kernel in kernels)
    tables = sum(kernel.table_bytes for kernel in kernels)
    remarks = (
        "tensors are held whole in SRAM (no token dimension is known)",
        f"{operations} operations are {len(kernels)} kernels" if operations > len(kernels) else "",
        f"{whole} of {len(kernels)} kernels run whole on every chip of a group" if whole else "",
        f"kernels that read the same parameter or constant hold a copy each, {copies:,} bytes in all" if copies else "",
        f"tables of {tables:,} bytes rest in DRAM, and their rows are fetched" if tables else "",
        "measured times are not used" if imported.time_ns is not None and not has_times else "",
        f"measured times stand as what one {chip} computes in them" if has_times else "",
        "groups of operations are not kept together" if imported.together else "",
    )
    return [remark for remark in remarks if remark]


def _flop(operation: Operation, time_ns: float | None, rate: Fraction) -> int:
    """Those of the operation, or of ``time_ns`` nanoseconds at ``rate`` of them each."""
    return operation.flop if time_ns is None else round(exact(time_ns) * rate)


def _edges(graph: OperationGraph, last: Sequence[int]) -> tuple[tuple[str, str], ...]:
    """(producer, reader) of kernels, named after the ``last`` operation of each, views between them left out, in order,
    each once."""
    reads = graph.reads()
    sources: list[tuple[int, ...]] = [()] * len(graph.operations)
    found: dict[tuple[str, str], None] = {}
    for v in graph.topological_order():
        operation = graph.operations[v]
        behind = dict.fromkeys(u for read in reads[v] for u in sources[read])
        sources[v] = (last[v],) if operation.role == "compute" else tuple(behind)
        if operation.role == "compute":
            for u in behind:
                if u != last[v]:
                    found[graph.operations[u].name, graph.operations[last[v]].name] = None
    return tuple(found)
