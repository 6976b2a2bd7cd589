"""What the kernels at the ends of a network cost: embedding and head, in the pipeline's first and last stage."""

from __future__ import annotations

from collections.abc import Callable

from chipmap.instances.dataflow.batch_time import outside
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.loads import times
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.uneven import End, cached_ends, end_instance, end_mapping

#: Makes the arrays of an instance at degrees.
Maker = Callable[[DataflowInstance, Degrees], DataflowProblem]


def ends_of(instance: DataflowInstance, degrees: Degrees, make: Maker) -> tuple[End, End]:
    """The first and the last end of a network at these degrees, kept with the settled instance. An end is an instance
    of its own, whose arrays ``make`` makes."""
    known = cached_ends(instance)
    if degrees not in known:
        known[degrees] = _end(instance, degrees, False, make), _end(instance, degrees, True, make)
    return known[degrees]


def _end(instance: DataflowInstance, degrees: Degrees, last: bool, make: Maker) -> End:
    alone = end_instance(instance, degrees, last)
    if alone is None:
        return End()
    problem = make(alone, degrees)
    mapping = end_mapping(alone, degrees, problem.places)
    join = max if instance.task.overlap else sum
    each = [(one.compute, one.memory, one.network) for one in times(problem, mapping).values()]
    ticks = sum(problem.launch + join(taken) for taken in each)
    held = 0
    if instance.system.memory.capacity_bytes is not None:
        held = max(dram_bytes(problem, [0] * problem.n, problem.places))
    return End(ticks, outside(problem, "after"), held)
