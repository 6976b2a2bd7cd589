"""The intra-chip pass: the partitions of a chip whose kernels and their sharding are given.

The kernels of one stage (or of all layers in a row) are forward kernels with one scheme each. So the cost of a
partition depends only on its kernels, and the best partitions are a shortest path over the order ideals of their graph.
Tensors that other stages send and read count. Every constraint on a partition can be checked, C6 included.

Sums of added products are left out: which partition has them depends on all others. With them it is no proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.engines.ideals import TooManyIdealsError, all_ideals, bits
from chipmap.instances.dataflow.batch_time import caching, resident
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem, levels, wires
from chipmap.instances.dataflow.suppliers import possible_suppliers, spared
from chipmap.instances.dataflow.tiles import sharing

#: Order ideals of a stage that are listed at most.
MOST_IDEALS = 2000


@dataclass(frozen=True, eq=False)
class Stage:
    """The copies ``inside`` a stage, with the number of the option ``chosen`` for every copy of the instance."""

    problem: DataflowProblem
    chosen: Sequence[int]
    inside: Sequence[int]

    @cached_property
    def tensors(self) -> list[tuple[int, int]]:
        """(producer, consumer) of every tensor with an end inside."""
        own = set(self.inside)
        return [(u, v) for u, v in wires(self.problem, len(self.chosen) // self.problem.n) if u in own or v in own]

    @cached_property
    def level(self) -> list[int]:
        """For each copy of the instance the most edges of a path to it."""
        every = wires(self.problem, len(self.chosen) // self.problem.n)
        found: list[int] = levels(len(self.chosen), np.array(every, dtype=np.int64).reshape(-1, 2)).tolist()
        return found

    @cached_property
    def groups(self) -> list[frozenset[int]]:
        """The copies inside of each group that is pinned together."""
        kernels, n = self.problem.instance.workload.kernels, self.problem.n
        index = {kernel.name: i for i, kernel in enumerate(kernels)}
        starts, named = range(0, len(self.chosen), n), self.problem.instance.task.together
        return [frozenset(start + index[name] for name in group) for start in starts for group in named]

    @cached_property
    def suppliers(self) -> dict[tuple[int, int], list[int]]:
        """For each (maker, reader) those who may have paid for what the reader needs."""
        return possible_suppliers(self.problem, self.chosen)

    @cached_property
    def spared(self) -> set[tuple[int, int]]:
        """The tensors that their reader needn't change."""
        return spared(self.problem, self.chosen)

    @cached_property
    def kept(self) -> int:
        """Bytes that rest in DRAM."""
        return sum(self.option(i).kept for i in self.inside)

    def option(self, i: int) -> Option:
        """The option of copy i."""
        return self.problem.options[i % self.problem.n][self.chosen[i]]

    def ideals(self) -> list[frozenset[int]]:
        """Every set of copies inside that holds what its own read inside, the smallest first.

        Raises :class:`TooWideError` for more than ``MOST_IDEALS``.
        """
        place = {v: i for i, v in enumerate(self.inside)}
        producers = [0] * len(place)
        for u, v in self.tensors:
            if u in place and v in place:
                producers[place[v]] |= 1 << place[u]
        try:
            masks = all_ideals(producers, MOST_IDEALS).masks
        except TooManyIdealsError:
            raise TooWideError(f"a stage has more than {MOST_IDEALS:,} order ideals") from None
        return [frozenset(self.inside[i] for i in bits(mask)) for mask in masks]

    def once(self, makers: Iterator[int]) -> dict[int, int]:
        """How often each maker counts: per tensor, in mode ``physical`` once."""
        found = Counter(makers)
        return dict.fromkeys(found, 1) if self.problem.instance.mode == "physical" else found

    def crossing(self, part: frozenset[int]) -> list[tuple[int, int]]:
        """(copy, how often) of what is written and what is read at the border of a partition."""
        made = self.once(u for u, v in self.tensors if u in part and v not in part)
        read = self.once(u for u, v in self.tensors if u not in part and v in part)
        return [*made.items(), *read.items()]

    def fits(self, before: frozenset[int], part: frozenset[int]) -> bool:
        """Whether a partition after those of ``before`` obeys C2, C4 of chips that don't fuse, C5, C6 and C7."""
        task, system = self.problem.instance.task, self.problem.instance.system
        if len(part) > 1 and not self.problem.instance.asked[2]:
            return False
        touched = [group for group in self.groups if group & part]
        if len(touched) > 1 or any(not group <= part for group in touched):
            return False
        if task.utilisation is None and len(part) > system.chip.tiles:
            return False
        return self._held(part) <= self.problem.sram and self._in_dram(before, part)

    def _held(self, part: frozenset[int]) -> int:
        """Bytes of SRAM: weights and buffers."""
        held = sum(self.option(i).weights for i in part)
        held += sum(2 * times * self.option(u).buffer for u, times in self.crossing(part))
        waits = ((u, self.level[v] - self.level[u] + 1) for u, v in self.tensors if u in part and v in part)
        return held + sum(self.option(u).buffer * levels for u, levels in waits)

    def _in_dram(self, before: frozenset[int], part: frozenset[int]) -> bool:
        capacity, later = self.problem.instance.system.memory.capacity_bytes, set(self.inside) - before
        if capacity is None:
            return True
        own = set(self.inside)
        alive = self.once(
            u
            for u, v in self.tensors
            if (u in part and v not in part) or ((u in before or u not in own) and v in later)
        )
        return self.kept + sum(times * self.option(u).waits for u, times in alive.items()) <= capacity

    def caches(self, part: frozenset[int]) -> bool:
        """Whether the KV cache of the one partition of a chip fits SRAM beside what it holds."""
        if not caching(self.problem):
            return False
        return self._held(part) + sum(self.option(i).cache for i in part) <= self.problem.sram

    def ticks(self, part: frozenset[int], stays: bool) -> int:
        """Picoseconds of a partition, its weights in SRAM if they stay there, and then its KV cache if it fits."""
        problem, n = self.problem, self.problem.n
        compute = sum(self.option(i).compute for i in part)
        if problem.shares:
            shared = sharing([problem.shares[i % n][self.chosen[i]] for i in part], problem.instance.system.chip.tiles)
            compute = compute if shared is None else shared.ticks
        memory = sum(self.option(i).fetch if stays else self.option(i).stream for i in part)
        if stays and self.caches(part):
            memory = 0
        memory += sum(times * self.option(u).dram for u, times in self.crossing(part))
        network = sum(self.option(i).collective for i in part)
        for u, v in self.tensors:
            if v in part and (u, v) not in self.spared and part.isdisjoint(self.suppliers.get((u, v), ())):
                network += problem.converts(u % n, v % n, self.chosen[u], self.chosen[v])
        join = max if problem.instance.task.overlap else lambda *times: sum(times)
        return problem.launch + join(compute, memory, network)


def partitions(stage: Stage, deadline: Deadline = Deadline()) -> list[frozenset[int]] | None:
    """The partitions of the stage, in their order, that take the least time one after the other; None where none fit.

    Raises :class:`TooWideError` for too many order ideals.
    """
    whole, found = frozenset(stage.inside), list[tuple[int, list[frozenset[int]]]]()
    asked, exactly, _ = stage.problem.instance.asked
    most = len(whole) if asked is None else asked
    if not whole:
        return None if exactly else []
    if resident(stage.problem) and not (exactly and most != 1) and stage.fits(frozenset(), whole):
        found.append((stage.ticks(whole, True), [whole]))
    counted = exactly or most < len(whole)
    best: dict[tuple[frozenset[int], int], tuple[int, list[frozenset[int]]]] = {(frozenset(), 0): (0, [])}
    ideals = stage.ideals()
    for before in ideals:
        deadline.check()
        starts = [(k, best[before, k]) for k in range(most + 1) if (before, k) in best and (k < most or not counted)]
        for after in ideals if starts else ():
            if not (before < after and stage.fits(before, part := after - before)):
                continue
            ticks = stage.ticks(part, False)
            for k, (total, row) in starts:
                key = after, k + 1 if counted else 0
                if key not in best or total + ticks < best[key][0]:
                    best[key] = total + ticks, [*row, part]
    found += [best[whole, k] for k in range(most + 1) if (whole, k) in best and (k == most or not exactly)]
    return min(found, key=lambda one: one[0])[1] if found else None
