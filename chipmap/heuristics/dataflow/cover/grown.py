"""Partitions that are cheap at given prices, without a pricing program: a beam search over sets of unlike kernels.

A set begins as one kernel and grows by one kernel at a time, with all kernels on paths between its own (C1), until it
has :data:`LARGEST`. It is kept where it fits the SRAM (C2), counted as the pricing program counts. Each kernel has its
quickest option. A set is the better, the less its time is against the prices of what it has.

Such partitions are columns for the cover's linear program. Columns decide about prices alone: what a beam search misses
makes no bound wrong.
"""

from __future__ import annotations

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.changes import Changes
from chipmap.heuristics.dataflow.cover.convexity import reached_from
from chipmap.heuristics.dataflow.cover.pricing import Partition, Prices, covered
from chipmap.heuristics.dataflow.symmetric.classes import Classes
from chipmap.heuristics.engines.ideals import bits
from chipmap.instances.dataflow.batch import forward_runs

#: Sets of so many kernels don't grow on, which bounds a search's work.
LARGEST = 10


def quickest(classes: Classes) -> list[int]:
    """For each kernel the option that takes least time by itself."""
    each = [[max(o.compute, o.stream, o.collective) for o in options] for options in classes.problem.options]
    return [times.index(min(times)) for times in each]


class PartitionBeamSearch:
    """Grows partitions of one problem whose classes have one kernel each; ``unit``: picoseconds per unit of time."""

    def __init__(self, classes: Classes, unit: float) -> None:
        self.classes, self.unit, problem = classes, unit, classes.problem
        self.chosen, self.of = quickest(classes), classes.of()
        self.option = [options[o] for options, o in zip(problem.options, self.chosen, strict=True)]
        self.backward = [classes.backward[c] for c in self.of]
        edges = [(int(u), int(v)) for u, v in problem.edges.tolist()]
        self.after, self.before = reached_from(problem.n, edges), reached_from(problem.n, [(v, u) for u, v in edges])
        self.readers: list[list[int]] = [[] for _ in range(problem.n)]
        self.makers: list[list[int]] = [[] for _ in range(problem.n)]
        for u, v in edges:
            self.readers[u].append(v)
            self.makers[v].append(u)
        self.changes = Changes(classes)
        self.known: dict[int, Partition | None] = {}

    def best(self, prices: Prices, count: int, deadline: Deadline) -> list[tuple[bool, Partition]]:
        """The ``count`` cheapest partitions of two or more kernels that were met, and their phases; ``count`` sets of
        each size grow on."""
        met: dict[int, tuple[float, int]] = {}
        sets = [1 << v for v in range(self.classes.problem.n)]
        while sets and deadline.keep_going():
            grown = dict[int, tuple[float, int]]()
            for one in sets:
                phase = self.backward[one.bit_length() - 1]
                for v in range(self.classes.problem.n):
                    more = self._closed(one, v)
                    if more in met or more == one or self.backward[v] != phase:
                        continue
                    part = self._partition(more)
                    if part is not None:
                        worth = (part.time - prices.each[phase]) / max(1e-9, covered(part, prices))
                        met[more] = grown[more] = worth, more
            sets = [more for _, more in sorted(grown.values())[:count] if more.bit_count() < LARGEST]
        found = [(self.backward[one.bit_length() - 1], self.known[one]) for _, one in sorted(met.values())[:count]]
        return [(phase, part) for phase, part in found if part is not None]

    def _closed(self, one: int, v: int) -> int:
        """The set with kernel v and all that lies on paths between them."""
        more = one | 1 << v
        for w in bits(one):
            if self.after[w] >> v & 1:
                more |= self.after[w] & self.before[v]
            elif self.after[v] >> w & 1:
                more |= self.after[v] & self.before[w]
        return more

    def _partition(self, members: int) -> Partition | None:
        """What the set is in the cover; None where it doesn't fit."""
        if members not in self.known:
            self.known[members] = self._made(bits(members), members)
        return self.known[members]

    def _made(self, inside: list[int], members: int) -> Partition | None:
        problem, option = self.classes.problem, self.option
        held = sum(option[v].weights for v in inside)
        if held > problem.sram:
            return None
        network: float = sum(option[v].collective for v in inside)
        network += self.changes.least(((u, v) for v in inside for u in self.makers[v]), self.chosen)
        moved, crosses = list[int](), dict[tuple[int, int], float]()  # makers of tensors that cross the border
        for v in inside:
            for u in self.makers[v]:
                if members >> u & 1:
                    held += self.changes.link(u, v)[1].waits * option[u].buffer
                else:
                    moved.append(u)
                    self._cross(crosses, u, v, 1.0)
            for w in self.readers[v]:
                if not members >> w & 1:
                    moved.append(v)
                    self._cross(crosses, v, w, -1.0)
        if problem.instance.mode == "physical":  # one transfer for all readers
            moved = sorted(set(moved))
        if held + sum(2 * option[u].buffer for u in moved) > problem.sram:
            return None
        compute, memory = sum(option[v].compute for v in inside), sum(option[v].stream for v in inside)
        memory += sum(option[u].dram for u in moved)
        whole = max(compute, memory, network) if problem.instance.task.overlap else compute + memory + network
        runs = 1 if self.backward[inside[0]] else forward_runs(problem.instance)
        kernels = {(self.of[v], self.chosen[v]): 1 for v in inside}
        return Partition(runs * (problem.launch + whole) / self.unit, kernels, crosses)

    def _cross(self, crosses: dict[tuple[int, int], float], u: int, v: int, sign: float) -> None:
        e, link = self.changes.link(u, v)
        if len(link.made) > 1:
            g = self.changes.made[e][self.chosen[u]]
            crosses[e, g] = crosses.get((e, g), 0.0) + sign
