"""From a published graph to a dataflow instance: its computing operations as opaque kernels."""

from __future__ import annotations

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.graph import OperationGraph
from chipmap.instances.importers import ImportedGraph
from chipmap.records import InputError


def from_graph(imported: ImportedGraph, name: str) -> DataflowInstance:
    """The instance of ``imported`` on eight SN10 in a ring, one layer, schemes M and NONE.

    Computing operations are kernels with their FLOP, the bytes of all that they write, and their weights; an edge leads
    from each to those that read it, directly or through views. Raises :class:`InputError` for a graph without any.
    """
    graph = imported.graph
    written = [0] * len(graph.operations)
    for tensor in graph.tensors:
        written[tensor.producer] += tensor.bytes
    kernels = tuple(
        Kernel(name=o.name, kind="opaque", flop=o.flop, output_bytes=written[v], weight_bytes=o.weight_bytes)
        for v, o in enumerate(graph.operations)
        if o.role == "compute"
    )
    if not kernels:
        raise InputError("has no computing operation", name, "Give a graph that computes something.")
    remarks = (
        "tensors are held whole in SRAM (no token dimension is known)",
        "measured times are not used" if imported.time_ns else "",
        "groups of operations are not kept together" if imported.together else "",
    )
    instance = DataflowInstance.make(
        name=name,
        workload=Workload(name=graph.name, kernels=kernels, edges=_edges(graph)),
        system=system("sn10", (8,)),
        notes="; ".join([*imported.notes, *filter(None, remarks)]),
    )
    instance.check()
    return instance


def _edges(graph: OperationGraph) -> tuple[tuple[str, str], ...]:
    """(producer, reader) of computing operations, views between them left out, in order, each once."""
    reads: list[list[int]] = [[] for _ in graph.operations]
    for tensor in graph.tensors:
        for reader in tensor.readers:
            reads[reader].append(tensor.producer)
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
