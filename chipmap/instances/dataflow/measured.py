"""``--costs``: kernels that take measured or learned times (:mod:`chipmap.instances.measured`) on one chip.

A kernel's work is stated as the FLOP that one chip of the system computes in that time, at the rate that it reaches:
its peak times ``task.utilisation`` and the chip's share for such a kernel. Divided over chips it takes its part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from chipmap.instances.dataflow.equipping import on_system
from chipmap.instances.dataflow.from_graph import cones_of, timed
from chipmap.instances.dataflow.fusing import cones
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.rates import best_block, of_attention, peak
from chipmap.instances.dataflow.sizes import flop
from chipmap.instances.dataflow.system import Chip
from chipmap.instances.dataflow.workload import Kernel
from chipmap.instances.learned import PREFIX, source_of
from chipmap.instances.measured import Times, rows, times
from chipmap.instances.measured_trace import is_trace
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError
from chipmap.records.decimals import exact

_AGAIN = "Give --costs where the program is converted, or a table with a line operation,ns and the names of kernels."


def equip_graph(
    instance: DataflowInstance, imported: ImportedGraph, system: str = "", costs: Sequence[str] = ()
) -> DataflowInstance:
    """The instance made of a graph on another system, with the times of the graph's operations.

    A kernel of several operations takes the sum of their times; those without one take their FLOP's. Times that the
    graph has itself instead of FLOP are kept.
    """
    found = on_system(instance, system)
    graph = imported.graph
    own = imported.time_ns if timed(imported) else None
    if not costs and own is None:
        return found
    given = times(graph, imported.scopes, costs, ("",)) if costs else Times({}, "")
    late = given.by_class.get("", (None,) * len(graph.operations))
    ns = [new if new is not None else old for old, new in zip(own or late, late, strict=True)]
    sums: dict[str, tuple[Fraction, int]] = {}
    for end, cone in cones_of(graph, cones(graph)).items():
        if any(ns[v] is not None for v in cone):
            total = sum((exact(time) for v in cone if (time := ns[v]) is not None), Fraction(0))
            sums[graph.operations[end].name] = total, sum(graph.operations[v].flop for v in cone if ns[v] is None)
    return _timed(found, sums, given)


def equip(instance: DataflowInstance, system: str = "", costs: Sequence[str] = ()) -> DataflowInstance:
    """The instance on another system, with the times that tables give its kernels by their names."""
    found = on_system(instance, system)
    if not costs:
        return found
    for file in costs:
        source = source_of(file)
        if file.startswith(PREFIX) or is_trace(source) or any(row.graph for row in rows(source)):
            raise InputError("has times of operations, of which an instance keeps only kernels", file, _AGAIN)
    kernels = instance.workload.kernels
    given = times(_graph_of(instance), (), costs, ("",))
    ns = zip(kernels, given.by_class[""], strict=True)
    return _timed(found, {kernel.name: (exact(time), 0) for kernel, time in ns if time is not None}, given)


def _graph_of(instance: DataflowInstance) -> OperationGraph:
    """The kernels as operations."""
    workload = instance.workload
    place = {kernel.name: v for v, kernel in enumerate(workload.kernels)}
    operations = [Operation(name=kernel.name, kind=kernel.kind, flop=flop(kernel)) for kernel in workload.kernels]
    tensors = [Tensor(producer=place[maker], readers=(place[reader],), bytes=1) for maker, reader in workload.edges]
    return OperationGraph.checked(workload.name, operations, tensors)


def _timed(instance: DataflowInstance, sums: Mapping[str, tuple[Fraction, int]], given: Times) -> DataflowInstance:
    """The instance whose kernels take (ns, and the time of more FLOP) on one chip."""
    instance.check()
    task, chip = instance.task, instance.system.chip
    if task.utilisation is None:
        what = "is null: kernels share tiles, and take the cycles of their sizes"
        raise InputError(what, "task.utilisation", "Give a share, or leave out --costs.")
    kernels = []
    for kernel in instance.workload.kernels:
        if kernel.name in sums:
            rate = exact(task.utilisation) * peak(kernel, instance.workload, chip)
            ns, more = sums[kernel.name]
            kernel = kernel.replace(flop=flop_within(kernel, chip, ns * rate, more))
        kernels.append(kernel)
    told = f"measured times stand as the FLOP that one {chip.name} computes in them"
    if instance.system.others:
        told += "; other chips compute these at their own rates"
    notes = [note for note in instance.notes.split("; ") if note and not note.startswith("measured times stand as")]
    workload = instance.workload.replace(kernels=tuple(kernels))
    notes += [*filter(None, [given.note]), told]
    return instance.replace(workload=workload, notes="; ".join(notes), time_spread=given.spread or ())


def flop_within(kernel: Kernel, chip: Chip, work: Fraction, more: int = 0) -> int:
    """FLOP of a kernel that take as long as ``work`` FLOP at the whole rate and ``more`` at the kernel's share of it.

    The share depends on the FLOP by lines (least, share): those lines count that lead to themselves. Where none does,
    as the time jumps over the one that is asked for, the first line beyond it begins.
    """
    lines = of_attention(kernel, chip) or (() if chip.blocks else chip.efficiency)
    if kernel.kind == "elementwise" or not (lines or chip.blocks):
        return round(work + more)
    if not lines:
        return round(work * best_block(chip) + more)
    ends = [*(least for least, _ in lines[1:]), float("inf")]
    for (least, share), end in zip(lines, ends, strict=True):
        found = max(round(work * exact(share) + more), 0 if (least, share) == tuple(lines[0]) else round(least))
        if found < end:
            return found
    raise AssertionError("the last line has no end")
