"""What each partition of a mapping asks of a chip: work for its tiles, picoseconds of DRAM and of the network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.layer_handover import handovers
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import (
    DataflowProblem,
    batch_factor,
    caching,
    dataflow_problem,
    levels,
    wires,
)
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
    moved = _network(problem, solution)
    latency = _network(dataflow_problem(silent, solution.degrees, *solution.plan), solution)
    memory, compute = _memory(problem, solution), _options(problem, solution)
    often = runs(problem.instance)
    again = {p: often[i % problem.n] for i, p in enumerate(solution.partitions)}
    return tuple(
        Load(
            compute=tuple(compute[i].compute for i, q in enumerate(solution.partitions) if q == p),
            memory=memory[p],
            network=moved[p],
            latency=latency[p],
            runs=again[p],
            launch=problem.launch,
        )
        for p in sorted(set(solution.partitions))
    )


def layer_share(instance: DataflowInstance, solution: DataflowSolution) -> float:
    """Seconds of the batch per picosecond of T4."""
    return float(batch_factor(dataflow_problem(instance, solution.degrees, *solution.plan))) / 1e12


def _options(problem: DataflowProblem, solution: DataflowSolution) -> list[Option]:
    pairs = [(problem.options[i % problem.n], scheme) for i, scheme in enumerate(solution.schemes)]
    return [next(option for option in choice if option.scheme == scheme) for choice, scheme in pairs]


def _memory(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, int]:
    where, options = solution.partitions, _options(problem, solution)
    times = dict.fromkeys(where, 0)
    physical = problem.instance.mode == "physical"
    seen: set[tuple[int, int]] = set()
    for u, v in wires(problem, len(where) // problem.n):
        for p in (where[u], where[v]) if where[u] != where[v] else ():
            if not physical or (u, p) not in seen:
                times[p] += options[u].dram
            seen.add((u, p))
    layers = 1 if problem.instance.task.across_layers else problem.instance.workload.layers // problem.degrees.pipeline
    resident = physical and layers == 1 and len(times) == 1 and not problem.instance.system.chip.streams
    fetched = not resident or not _caches_fit(problem, options)
    for p, option in zip(where, options, strict=True):
        times[p] += (option.fetch if fetched else 0) if resident else option.stream
    return times


def _caches_fit(problem: DataflowProblem, options: list[Option]) -> bool:
    """Whether one partition of all kernels has room for its KV cache beside weights and buffers."""
    if not caching(problem):
        return False
    tensors = wires(problem, len(options) // problem.n)
    level = levels(len(options), np.array(tensors, dtype=np.int64).reshape(-1, 2)).tolist()
    buffers = sum(options[u].buffer * (level[v] - level[u] + 1) for u, v in tensors)
    return buffers + sum(option.weights + option.cache for option in options) <= problem.sram


def _network(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, int]:
    where, options = solution.partitions, _options(problem, solution)
    number = [problem.options[i % problem.n].index(option) for i, option in enumerate(options)]
    times = dict.fromkeys(where, 0)
    for p, option in zip(where, options, strict=True):
        times[p] += option.collective
    for u, v in [*wires(problem, len(where) // problem.n), *handovers(problem)]:
        times[where[v]] += problem.converts(u % problem.n, v % problem.n, number[u], number[v])
    return times
