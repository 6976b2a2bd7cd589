"""What the family's pages charge a mapping for its exchanges, by kernel: bytes over a chip's link on a switch.

The checker's own functions on a switch of one byte per nanosecond without latencies, where a time is a number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, Keep, Task
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Scheme, Workload
from chipmap.validation.dataflow import exchanges, facts
from chipmap.validation.dataflow.mapping import mapping_of
from chipmap.validation.dataflow.present import places


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


def charges(
    workload: Workload, schemes: Mapping[str, Scheme], chips: int, keep: Keep = "step", adds: bool = True
) -> list[Charge]:
    """T3 and T6 of a mapping kernel by kernel; those above 0. Layouts are kept as long as ``keep`` says, without a
    backward phase until the end of the forward one. Not ``adds``: products that a kernel adds up have a sum each."""
    if not adds:
        workload = workload.replace(kernels=[one.replace(adds=()) for one in workload.kernels])
    instance, degrees = one_group(workload, chips)
    kernels = instance.workload.kernels
    late = [kernel.phase == "backward" for kernel in kernels]
    index = {kernel.name: i for i, kernel in enumerate(kernels)}
    solution = DataflowSolution(
        degrees=degrees,
        schemes=tuple(schemes[kernel.name] for kernel in kernels),
        partitions=tuple(places(late, [(index[u], index[v]) for u, v in workload.edges])),
        keep="phase" if keep == "step" and not any(late) else keep,
    )
    mapping, found = mapping_of(instance, solution), []
    for term, each in (("T3", exchanges.each_run(mapping)), ("T6", exchanges.after(mapping))):
        for one in each:
            payer = kernels[one.payer]
            # of what experts made, numbers of each copy are statistics of the kernel that makes them
            numbers = schemes.get(one.what) == "E" and payer.statistics and schemes[payer.name] == "NONE"
            what = "statistics" if numbers else one.what
            found.append(Charge(payer.name, term, what, Fraction(one.ticks, facts.PS)))
    return [one for one in found if one.link]
