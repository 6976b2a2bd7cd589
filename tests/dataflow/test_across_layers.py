"""Sixteen layers of GPT3 175B with partitions across layers, beside a plain program over ideals.

The plain program is plain Python on the checker's facts. Every scheme is given, so that a partition's time depends on
its kernels alone.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from math import ceil

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.dataflow import facts, times
from chipmap.validation.dataflow.mapping import mapping_of

LAYERS = 16
Set = frozenset[int]


def layers_of_gpt(partitions: int | None) -> DataflowInstance:
    instance = read("dataflow/table6-free-8x1")
    assert isinstance(instance, DataflowInstance)
    task = instance.task.replace(across_layers=True, partitions=partitions)
    return instance.replace(workload=instance.workload.replace(layers=LAYERS), task=task)


def run(partitions: int | None) -> Result:
    return solve(layers_of_gpt(partitions), None, SolveOptions.make(warm_start="none", threads=1))


class Plain:
    """What kernels take, alone: times in picoseconds, bytes in SRAM, and who reads whom."""

    def __init__(self, instance: DataflowInstance) -> None:
        kernels, degrees, task = instance.workload.kernels, instance.task.degrees, instance.task
        assert degrees is not None and task.micro_batch == 1 and instance.mode == "dfmodel"
        choices = [
            {task.schemes[one.name]} if one.name in task.schemes else facts.allowed(one, "dfmodel") for one in kernels
        ]
        assert all(len(schemes) == 1 for schemes in choices)
        schemes = tuple(min(one) for one in choices) * LAYERS
        alone = DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(range(len(schemes))))
        mapping = mapping_of(instance, alone)
        self.compute, self.network = times.compute(mapping), times.network(mapping)
        self.limit, self.count = instance.system.chip.sram_bytes, len(schemes)
        self.before, self.after = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for u, v in mapping.edges:
            self.before[v].append(u)
            self.after[u].append(v)
        self.level = times.levels(self.count, mapping.edges)
        copies = kernels * LAYERS
        outputs = [facts.local_output(*pair, instance, Degrees(tensor=8)) for pair in zip(copies, schemes, strict=True)]
        self.dram = [facts.up(one / int(instance.system.memory.bytes_per_ns)) for one in outputs]
        self.buffer = [ceil(one * task.tile_tokens / instance.workload.tokens) for one in outputs]
        whole = [int(facts.whole_weights(one, instance)) for one in copies]
        self.weights = [one // (1 if how == "NONE" else 8) for one, how in zip(whole, schemes, strict=True)]

    def time(self, inside: Set) -> int | None:
        """Picoseconds of a partition; None where it doesn't fit the SRAM."""
        memory, held = 0, sum(self.weights[v] for v in inside)
        for v in inside:
            for u in self.before[v]:
                memory += self.dram[u] * (u not in inside)
                held += self.buffer[u] * (self.level[v] - self.level[u] + 1 if u in inside else 2)
            outside = [w for w in self.after[v] if w not in inside]
            memory, held = memory + len(outside) * self.dram[v], held + 2 * len(outside) * self.buffer[v]
        sums = (sum(self.compute[v] for v in inside), memory, sum(self.network[v] for v in inside))
        return max(sums) if held <= self.limit else None

    def next(self, done: Set) -> dict[Set, int]:
        """The partitions that may follow the ideal ``done``, with their times. Weights only grow."""
        first = [v for v in range(self.count) if v not in done and done.issuperset(self.before[v])]
        front, known, found = [Set()], {Set()}, dict[Set, int]()
        for inside in front:
            for v in {*first, *(w for u in inside for w in self.after[u])} - inside:
                more = inside | {v}
                ready = all(u in done or u in inside for u in self.before[v])
                if ready and more not in known and sum(self.weights[u] for u in more) <= self.limit:
                    known.add(more)
                    front.append(more)
                    time = self.time(more)
                    if time is not None:
                        found[more] = time
        return found


@cache
def least() -> dict[int, int]:
    """Picoseconds of a micro-batch by the exact number of partitions."""
    plain = Plain(layers_of_gpt(None))
    best, todo = defaultdict[Set, dict[int, int]](dict, {Set(): {0: 0}}), {0: {Set()}}
    for size in range(plain.count):
        for done in todo.get(size, ()):
            for inside, time in plain.next(done).items():
                after = done | inside
                todo.setdefault(len(after), set()).add(after)
                for number, sofar in best[done].items():
                    best[after][number + 1] = min(sofar + time, best[after].get(number + 1, sofar + time))
    return best[Set(range(plain.count))]


@pytest.mark.parametrize("partitions", [24, 27, None])
def test_the_optimum_is_that_of_a_plain_program(partitions: int | None) -> None:
    result = run(partitions)
    assert result.status == "optimal"
    wanted = min(time for number, time in least().items() if partitions is None or number <= partitions)
    assert result.objective == wanted * layers_of_gpt(None).task.batch


@pytest.mark.parametrize("partitions", [18, 23])
def test_too_few_partitions(partitions: int) -> None:
    """A layer's weights on a chip are 12 units of 36 MiB, in kernels of one or four; 320 MiB hold eight units."""
    plain, unit = Plain(layers_of_gpt(None)), 12_288**2 * 2 // 8
    assert {weights // unit for weights in plain.weights} == {0, 1, 4} and not any(w % unit for w in plain.weights)
    assert (sum(plain.weights) // unit, plain.limit // unit) == (24 * 8, 8)
    assert min(least()) == 24
    (reason,) = run(partitions).infeasibility
    assert (reason.label, reason.limit) == ("C4", partitions) and "at most 24 would do" in reason.message
