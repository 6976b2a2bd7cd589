"""What the family's pages charge a mapping for its exchanges, by kernel: bytes over a chip's link on a switch.

The checker's own functions on a switch of one byte per nanosecond without latencies, where a time is a number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees, Task
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Scheme, Workload
from chipmap.validation.dataflow import facts, training
from chipmap.validation.dataflow.layouts import added_up, change


class Charge(NamedTuple):
    """Bytes that ``payer`` is charged in a term for an exchange of ``tensor``."""

    payer: str
    term: str
    tensor: str
    link: Fraction


def one_group(workload: Workload, chips: int) -> tuple[DataflowInstance, Degrees]:
    """The workload on a group of chips that is all there is, mode ``physical``, a sample at a time."""
    degrees = Degrees(tensor=chips, pipeline=1, data=1, dimensions=("tensor",))
    network = (Dimension(size=chips, topology="switch", bytes_per_ns=1.0, latency_ns=0.0),)
    task = Task(degrees=degrees, micro_batch=1, fused=False)
    instance = DataflowInstance.make(
        name="exchanges", workload=workload, system=system("sn10", (chips,)).replace(network=network), task=task
    )
    return instance, degrees


def charges(workload: Workload, schemes: Mapping[str, Scheme], chips: int) -> list[Charge]:
    """T3 of sums at their makers and of changes of layout at each reader, and T6 of updated weights; those above 0."""
    instance, degrees = one_group(workload, chips)
    kernels = {kernel.name: kernel for kernel in workload.kernels}
    link = instance.system.network[0]
    found = []
    for name, kernel in kernels.items():
        size, scheme = facts.batched_output(kernel, instance), schemes[name]
        if scheme == "K":
            found.append(Charge(name, "T3", name, facts.all_reduce(size, link, 2)))
        elif scheme in ("K_RS", "K_N"):
            padded = size * facts.padding(kernel, scheme, instance, degrees)
            found.append(Charge(name, "T3", name, facts.reduce_scatter(padded, link)))
        else:
            what = "statistics" if scheme == "M" else name
            found.append(Charge(name, "T3", what, added_up(kernel, scheme, instance, degrees)))
        gathered = Fraction(training.summed(kernel, scheme, instance, degrees), facts.PS)
        found.append(Charge(name, "T6", f"W:{name}", gathered))
    for maker, reader in workload.edges:
        ends = [(kernels[one], schemes[one]) for one in (maker, reader)]
        # of what experts made, numbers of each copy are statistics of the kernel that makes them
        numbers = schemes[maker] == "E" and kernels[reader].statistics and schemes[reader] == "NONE"
        what = "statistics" if numbers else maker
        found.append(Charge(reader, "T3", what, change(ends[0], ends[1], instance, degrees)))
    return [one for one in found if one.link]
