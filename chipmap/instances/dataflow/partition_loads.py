"""What each partition of a mapping takes of a chip and of the network: what tiles are balanced by."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.batch_time import batch_factor
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.loads import chosen_options, often, times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.records import InputError


class Load(NamedTuple):
    """One partition: picoseconds of each of its kernels if it had all tiles (what they take at least, or with the given
    utilisation), of DRAM at the memory's rate, and of the network, all of it and its latency alone; how often it runs
    per micro-batch, and what goes by before it runs."""

    compute: tuple[int, ...]
    memory: int
    network: int
    latency: int
    runs: int = 1
    launch: int = 0


def loads(instance: DataflowInstance, solution: DataflowSolution) -> tuple[Load, ...]:
    """The partitions of ``solution``, which obeys C0, in their order; of all layers where partitions reach across.

    Raises :class:`InputError` where stages share out kernels: a batch isn't so many times the sum of these then.
    """
    if instance.task.stages == "kernels":
        raise InputError("chips are balanced for stages of layers alone", "task.stages", "Set it to layers.")
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    fast = tuple(one.replace(bytes_per_ns=1e12) for one in instance.system.network)
    silent = instance.replace(system=instance.system.replace(network=fast))
    each, compute, again = times(problem, solution), chosen_options(problem, solution), often(problem, solution)
    without = times(dataflow_problem(silent, solution.degrees, *solution.plan), solution)
    return tuple(
        Load(
            compute=tuple(compute[i].compute for i, q in enumerate(solution.partitions) if q == p),
            memory=each[p].memory,
            network=each[p].network,
            latency=without[p].network,
            runs=again[p],
            launch=problem.launch,
        )
        for p in sorted(set(solution.partitions))
    )


def layer_share(instance: DataflowInstance, solution: DataflowSolution) -> float:
    """Seconds of the batch per picosecond of T4."""
    return float(batch_factor(dataflow_problem(instance, solution.degrees, *solution.plan))) / 1e12
