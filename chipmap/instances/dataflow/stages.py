"""What a mapping costs where the stages of a pipeline share out kernels: stage times, transfers, bytes in DRAM.

The formulas are those of ``docs/families/dataflow-stages.md``. A mapping is given by the number of each copy's option,
its partition (0, 1, … without a gap) and the stage of each partition; copies are those of all layers, layer by layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.instances.dataflow.problem import DataflowProblem, levels, resident, steps, wires
from chipmap.instances.dataflow.tiles import sharing


class StageCosts(NamedTuple):
    """Picoseconds of each partition, of each stage (T7 is the longest) and of each transfer from a stage to the next;
    the most bytes of SRAM of each partition, and of DRAM of each."""

    partitions: tuple[int, ...]
    stages: tuple[int, ...]
    links: tuple[int, ...]
    sram: tuple[int, ...]
    dram: tuple[int, ...]

    @property
    def step(self) -> int:
        """Picoseconds of a step: the slowest stage or transfer."""
        return max(*self.stages, *self.links, 0)


def batch_of_steps(problem: DataflowProblem, step: int) -> int:
    """Picoseconds of the batch, for a step of so many."""
    return steps(problem) * step


def stage_costs(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], stages: Sequence[int]
) -> StageCosts:
    """What this mapping costs, whatever C1, C2, C6 and C8 say of it."""
    copies = _Copies(problem, chosen, partitions, stages)
    times = tuple(copies.ticks(c) for c in range(len(stages)))
    pipeline = problem.degrees.pipeline
    return StageCosts(
        partitions=times,
        stages=tuple(sum(time for time, at in zip(times, stages, strict=True) if at == s) for s in range(pipeline)),
        links=tuple(copies.link(s) for s in range(pipeline - 1)),
        sram=tuple(copies.sram(c) for c in range(len(stages))),
        dram=tuple(copies.dram(c) for c in range(len(stages))),
    )


class _Copies:
    """The copies of a mapping with their options, and its tensors (u, v)."""

    def __init__(
        self, problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], stages: Sequence[int]
    ) -> None:
        self.problem, self.chosen, self.partitions, self.stages = problem, chosen, partitions, stages
        self.options = [problem.options[i % problem.n][o] for i, o in enumerate(chosen)]
        self.tensors = wires(problem, len(chosen) // problem.n)
        self.multicast = problem.instance.mode == "physical"

    def inside(self, c: int) -> list[int]:
        return [i for i, p in enumerate(self.partitions) if p == c]

    def once(self, makers: Iterable[int]) -> dict[int, int]:
        """How often each maker counts: once in mode ``physical``, else per edge."""
        found = dict[int, int]()
        for u in makers:
            found[u] = 1 if self.multicast else found.get(u, 0) + 1
        return found

    def crossing(self, c: int) -> list[tuple[int, int]]:
        """Each tensor that partition c writes to DRAM or reads from there, and how often."""
        p = self.partitions
        made = self.once(u for u, v in self.tensors if p[u] == c != p[v])
        read = self.once(u for u, v in self.tensors if p[u] != c == p[v])
        return [*made.items(), *read.items()]

    def ticks(self, c: int) -> int:
        """Picoseconds of partition c; the only one of its stage keeps its weights in SRAM (mode ``physical``)."""
        problem, inside, p = self.problem, self.inside(c), self.partitions
        stays = resident(problem) and self.stages.count(self.stages[c]) == 1
        memory = sum(self.options[i].fetch if stays else self.options[i].stream for i in inside)
        memory += sum(times * self.options[u].dram for u, times in self.crossing(c))
        network = sum(self.options[i].collective for i in inside)
        n = problem.n
        network += sum(
            problem.converts(u % n, v % n, self.chosen[u], self.chosen[v]) for u, v in self.tensors if p[v] == c
        )
        compute = sum(self.options[i].compute for i in inside)
        if problem.shares and inside:
            shared = sharing(
                [problem.shares[i % n][self.chosen[i]] for i in inside], problem.instance.system.chip.tiles
            )
            compute = shared.ticks if shared else compute
        return max(compute, memory, network) if problem.instance.task.overlap else compute + memory + network

    def link(self, s: int) -> int:
        """Picoseconds to send on what stages up to s make for later ones."""
        at = [self.stages[c] for c in self.partitions]
        return sum(
            k * self.options[u].link for u, k in self.once(u for u, v in self.tensors if at[u] <= s < at[v]).items()
        )

    def sram(self, c: int) -> int:
        """Bytes of SRAM of partition c: its weights, and the buffers of its tensors."""
        level = levels(len(self.chosen), np.array(self.tensors, dtype=np.int64).reshape(-1, 2))
        held = sum(self.options[i].weights for i in self.inside(c))
        for u, v in self.tensors:
            if self.partitions[u] == c == self.partitions[v]:
                held += self.options[u].buffer * int(level[v] - level[u] + 1)
        return held + sum(2 * times * self.options[u].buffer for u, times in self.crossing(c))

    def dram(self, c: int) -> int:
        """Bytes of DRAM while partition c runs: what its stage keeps, and the tensors that wait there."""
        s, p = self.stages[c], self.partitions
        at = [self.stages[partition] for partition in p]
        waits = self.once(u for u, v in self.tensors if p[u] < p[v] and p[u] <= c <= p[v] and (p[u] == c or at[v] == s))
        kept = sum(option.kept for i, option in enumerate(self.options) if at[i] == s)
        return kept + sum(times * self.options[u].waits for u, times in waits.items())
