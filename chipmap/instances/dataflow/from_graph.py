"""From a published graph to a dataflow instance: its computing operations as opaque kernels."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Task
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.graph import Operation, OperationGraph
from chipmap.instances.importers import ImportedGraph
from chipmap.records import InputError


def from_graph(imported: ImportedGraph, name: str) -> DataflowInstance:
    """The instance of ``imported`` on eight SN10 in a ring, one layer, schemes M and NONE.

    Computing operations are kernels with their FLOP, the bytes of all that they write, and their weights; an edge leads
    from each to those that read it, directly or through views. Where a graph has measured times instead of FLOP, an
    operation has what a chip does in that time, so that on one chip it takes just as long. Raises :class:`InputError`
    for a graph without any.
    """
    graph, chips = imported.graph, system("sn10", (8,))
    timed = imported.time_ns is not None and not any(o.flop for o in graph.operations)
    rate = Fraction(chips.chip.flop_per_ns) * Fraction(Task().utilisation or 1)
    written = [0] * len(graph.operations)
    for tensor in graph.tensors:
        written[tensor.producer] += tensor.bytes
    times = imported.time_ns if timed and imported.time_ns is not None else (None,) * len(graph.operations)
    kernels = tuple(
        Kernel(
            name=o.name,
            kind="opaque",
            flop=_flop(o, times[v], rate),
            output_bytes=written[v],
            weight_bytes=o.weight_bytes,
        )
        for v, o in enumerate(graph.operations)
        if o.role == "compute"
    )
    if not kernels:
        raise InputError("has no computing operation", name, "Give a graph that computes something.")
    remarks = (
        "tensors are held whole in SRAM (no token dimension is known)",
        "measured times are not used" if imported.time_ns is not None and not timed else "",
        f"measured times stand as what one {chips.chip.name} computes in them" if timed else "",
        "groups of operations are not kept together" if imported.together else "",
    )
    instance = DataflowInstance.make(
        name=name,
        workload=Workload(name=graph.name, kernels=kernels, edges=_edges(graph)),
        system=chips,
        notes="; ".join([*imported.notes, *filter(None, remarks)]),
    )
    instance.check()
    return instance


def _flop(operation: Operation, time_ns: float | None, rate: Fraction) -> int:
    """Those of the operation, or of ``time_ns`` nanoseconds at ``rate`` of them each."""
    return operation.flop if time_ns is None else round(Fraction(time_ns) * rate)


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
