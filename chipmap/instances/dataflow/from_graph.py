"""From an operation graph to a dataflow instance: its computing operations as kernels.

Schemes follow from the operations' loop nests (``docs/families/dataflow.md``, "From an operation graph"). An operation
without one, or of which nothing is known to be computed apart, runs whole on every chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance, Task
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Scheme, Workload
from chipmap.instances.graph import Loops, Operation, OperationGraph
from chipmap.instances.importers.common import ImportedGraph
from chipmap.records import InputError

#: Bytes of a number where no parameter tells.
WORD_BYTES = 2


def from_graph(imported: ImportedGraph, name: str) -> DataflowInstance:
    """The instance of ``imported`` on eight SN10 in a ring, one layer.

    Computing operations are kernels with their FLOP, the bytes of all that they write, and the parameters and constants
    that they read; an edge leads from each to those that read it, directly or through views. Where a graph has measured
    times instead of FLOP, an operation has what a chip does in that time, so that on one chip it takes just as long.
    Raises :class:`InputError` for a graph without any.
    """
    graph, chips = imported.graph, system("sn10", (8,))
    timed = imported.time_ns is not None and not any(o.flop for o in graph.operations)
    rate = Fraction(chips.chip.flop_per_ns) * Fraction(Task().utilisation or 1)
    written = [0] * len(graph.operations)
    for tensor in graph.tensors:
        written[tensor.producer] += tensor.bytes
    times = imported.time_ns if timed and imported.time_ns is not None else (None,) * len(graph.operations)
    stored = _stored(graph)
    kernels = tuple(
        kernel(o, _flop(o, times[v], rate), written[v], stored[v])
        for v, o in enumerate(graph.operations)
        if o.role == "compute"
    )
    if not kernels:
        raise InputError("has no computing operation", name, "Give a graph that computes something.")
    instance = DataflowInstance.make(
        name=name,
        workload=Workload(name=graph.name, kernels=kernels, edges=_edges(graph), word_bytes=_word(graph)),
        system=chips,
        notes="; ".join([*imported.notes, *_remarks(imported, kernels, timed)]),
    )
    instance.check()
    return instance


def kernel(operation: Operation, flop: int, written: int, stored: int) -> Kernel:
    """The kernel of ``operation``, which writes and reads so many bytes of results and of parameters and constants.

    A look-up fetches the rows that it makes of its table. What parts
    of a kernel need whole is never divided.
    """
    loops = operation.loops
    looks_up = operation.looks_up(stored, written)
    whole = min(stored, loops.whole_bytes) if loops is not None else 0
    sizes: dict[str, Any] = {
        "flop": flop,
        "output_bytes": written,
        "weight_bytes": stored - whole,
        "whole_bytes": whole,
    }
    if looks_up:
        sizes |= {"weight_bytes": 0, "whole_bytes": 0, "table_bytes": stored, "fetch_bytes": min(stored, written)}
    given = {} if loops is None else _shape(loops, looks_up)
    return Kernel.make(name=operation.name, **{"kind": "opaque", "schemes": ["NONE"], **given, **sizes})


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
        sizes = {"outer": loops.outer, "M": loops.rows, "K": loops.inner, "N": loops.columns}
        return {"kind": "gemm", "weights": loops.weights, **sizes, "schemes": [*schemes, "NONE"]}
    schemes = ["M", "NONE"] if by_groups or "rows" in splits else ["NONE"]
    if by_groups or looks_up or "rows" not in splits:
        return {"schemes": schemes}
    return {"kind": "elementwise", "M": loops.rows, "N": loops.columns, "schemes": schemes}


def _remarks(imported: ImportedGraph, kernels: Sequence[Kernel], timed: bool) -> list[str]:
    """What was assumed of a graph."""
    chip = system("sn10", (8,)).chip.name
    whole = sum(kernel.schemes == ("NONE",) for kernel in kernels)
    tables = sum(kernel.table_bytes for kernel in kernels)
    remarks = (
        "tensors are held whole in SRAM (no token dimension is known)",
        f"{whole} of {len(kernels)} kernels run whole on every chip of a group" if whole else "",
        f"tables of {tables:,} bytes rest in DRAM, and their rows are fetched" if tables else "",
        "measured times are not used" if imported.time_ns is not None and not timed else "",
        f"measured times stand as what one {chip} computes in them" if timed else "",
        "groups of operations are not kept together" if imported.together else "",
    )
    return [remark for remark in remarks if remark]


def _flop(operation: Operation, time_ns: float | None, rate: Fraction) -> int:
    """Those of the operation, or of ``time_ns`` nanoseconds at ``rate`` of them each."""
    return operation.flop if time_ns is None else round(Fraction(time_ns) * rate)


def _word(graph: OperationGraph) -> int:
    """Bytes of a number, as most parameters of products have it."""
    words: Counter[int] = Counter()
    for operation in graph.operations:
        loops = operation.loops
        if loops is not None and loops.weights and operation.moved_bytes is None:
            word = operation.weight_bytes // (loops.outer * loops.rows * loops.inner)
            if 1 <= word <= 8:
                words[word] += operation.weight_bytes
    return words.most_common(1)[0][0] if words else WORD_BYTES


def _stored(graph: OperationGraph) -> list[int]:
    """For each operation the bytes of parameters and constants that it reads, its own and those with several readers,
    each of which has them."""
    read = graph.constants_read()
    return [o.weight_bytes + sum(graph.tensors[t].bytes for t in read[v]) for v, o in enumerate(graph.operations)]


def _edges(graph: OperationGraph) -> tuple[tuple[str, str], ...]:
    """(producer, reader) of computing operations, views between them left out, in order, each once."""
    reads = graph.reads()
    sources: list[tuple[int, ...]] = [()] * len(graph.operations)
    found: dict[tuple[str, str], None] = {}
    for v in graph.topological_order():
        operation = graph.operations[v]
        behind = dict.fromkeys(u for read in reads[v] for u in sources[read])
        sources[v] = (v,) if operation.role == "compute" else tuple(behind)
        if operation.role == "compute":
            for u in behind:
                found[graph.operations[u].name, operation.name] = None
    return tuple(found)
