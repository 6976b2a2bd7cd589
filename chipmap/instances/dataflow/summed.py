"""Sums over chips in which a kernel ends (``docs/families/dataflow.md``, "Sharding" and "Parts")."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.joint import joint_ns, neighbours, tensor_dimensions
from chipmap.instances.dataflow.parts import BY_HEADS, grid, head_groups, padded, parts, sums_of_heads
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import Collective
from chipmap.instances.dataflow.sizes import output_bytes, statistics_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme


def sums_ns(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme) -> Fraction:
    """Nanoseconds of the collective that ends a K-split: an all-reduce, or a reduce-scatter, of the whole output with
    its padding; of the sums of heads that several chips have terms of; of statistics of columns whose rows are
    split."""
    here = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees))
    whole = output_bytes(kernel, instance) * padded(here.output)
    ends: dict[Scheme, Collective] = {"K": "all_reduce", "K_RS": "reduce_scatter", "K_N": "reduce_scatter"}
    collective = ends.get(scheme, "none")
    factor = 2 if instance.mode == "physical" else instance.task.all_reduce_factor
    dimensions = tensor_dimensions(instance, degrees)
    if scheme in ("M_K", "K_M"):
        by_rows, _ = grid(scheme, degrees.tensor, routed(instance, degrees).last)
        collective, whole = "reduce_scatter", whole / by_rows
        dimensions = dimensions[-1:] if scheme == "M_K" else dimensions[:-1]
    if scheme in ("M", "M_T") and instance.mode == "physical" and kernel.statistics:
        collective, whole = "all_reduce", statistics_bytes(kernel, instance)
    if scheme in BY_HEADS:
        groups = head_groups(kernel, degrees.tensor)
        collective = "reduce_scatter" if scheme == "OUTER_K" else "all_reduce"
        whole = (whole if scheme == "OUTER_K" else statistics_bytes(kernel, instance)) / groups
        dimensions = neighbours(dimensions, degrees.tensor // groups)
    heads = sums_of_heads(kernel, scheme, instance.mode, degrees.tensor)
    if heads == "reduce_scatter":
        dimensions = neighbours(dimensions, degrees.tensor // kernel.heads)
        collective, whole = heads, whole / kernel.heads
    elif heads:
        collective = heads
    return joint_ns(collective, whole, dimensions, factor)
