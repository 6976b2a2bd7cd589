"""The first mapping of a ring instance, by plain code: the greedy baseline, and where pins, groups or memory leave it
none, a short search with backtracking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.greedy import PATIENCE
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.programs import greedy
from chipmap.networks.graph import neighbours
from chipmap.run import Run

#: Chips tried for an operation, in all, per order; mappings that the checker judges.
NODES, JUDGED = 6_000, 150


def first(instance: RingInstance, run: Run) -> None:
    """Report the greedy mapping; without one, the first of a few searches that the checker accepts."""
    greedy(instance, run)
    if run.best is None:
        search(ring_problem(instance), run)


def search(problem: RingProblem, run: Run) -> None:
    """Try chips operation by operation in a topological order: those near its share of the work first, then the lowest
    ones. Refused mappings are forgotten. It ends :data:`PATIENCE` seconds past the deadline, or past its own begin."""
    searching, late = _Search(problem), run.deadline.late(PATIENCE)
    for wish in (searching.share, lambda i: 0):
        for number, chips in enumerate(searching.mappings(wish, late)):
            if run.solution(lift(problem.instance, chips), "backtracking").feasible:
                return
            run.rejected.pop()
            if number >= JUDGED:
                break


class _Search:
    """The computing operations in order, with the chips that pins, groups and their neighbours (C1) leave."""

    def __init__(self, problem: RingProblem) -> None:
        self.problem = problem
        self.order = [v for v in problem.order if problem.computing[v]]
        place = {v: i for i, v in enumerate(self.order)}
        flows = [(place[u], place[v]) for u, v in problem.flows.tolist()] if problem.has("C1") else []
        self.producers = neighbours(len(self.order), [(v, u) for u, v in flows])
        readers = neighbours(len(self.order), flows)
        every = range(problem.chips)
        self.chips = [sorted(every if (some := problem.allowed[v]) is None else some) for v in self.order]
        self.low = [min(some, default=0) for some in self.chips]
        self.high = [max(some, default=-1) for some in self.chips]
        for i in range(len(self.order)):
            self.low[i] = max([self.low[i], *(self.low[j] for j in self.producers[i])])
        for i in reversed(range(len(self.order))):
            self.high[i] = min([self.high[i], *(self.high[j] for j in readers[i])])
        self.group = {place[v]: g for g, group in enumerate(problem.groups) for v in group if v in place}
        self.apart: list[set[int]] = [set() for _ in self.order]
        for group in problem.apart:
            for v in group:
                self.apart[place[v]] |= {place[w] for w in group if w != v}
        self.weights = [int(problem.weight_bytes[v]) for v in self.order]
        done, total = 0, max(1, problem.total_ticks)
        self.parts = list[float]()
        for v in self.order:
            self.parts.append(done * problem.chips / total)
            done += int(problem.ticks[v])

    def share(self, i: int) -> int:
        """The chip on which operation ``i`` would be if all had equal work."""
        return min(self.problem.chips - 1, int(self.parts[i]))

    def mappings(self, wish: Callable[[int], int], late: Deadline) -> Iterator[dict[int, int]]:
        """Mappings that keep C0, C1, C2 and what weights alone say of C4, as far as :data:`NODES` and the time go."""
        problem, count = self.problem, len(self.order)
        room = problem.sram_bytes if problem.has("C4") else None
        at, held = [-1] * count, [0] * problem.chips
        stack, nodes = [self._ways(0, at, wish)] if count else [], 0
        while stack and nodes < NODES and late.keep_going():
            i = len(stack) - 1
            if at[i] >= 0:
                held[at[i]] -= self.weights[i]
                at[i] = -1
            chip = next(stack[-1], None)
            nodes += 1
            if chip is None:
                stack.pop()
            elif room is None or held[chip] + self.weights[i] <= room:
                at[i] = chip
                held[chip] += self.weights[i]
                if i + 1 < count:
                    stack.append(self._ways(i + 1, at, wish))
                elif not problem.has("C2") or len(set(at)) == max(at) + 1:
                    yield dict(zip(self.order, at, strict=True))

    def _ways(self, i: int, at: Sequence[int], wish: Callable[[int], int]) -> Iterator[int]:
        """The chips that operation ``i`` may have after those before it, the wished one first."""
        low = max([self.low[i], *(at[j] for j in self.producers[i])])
        fixed = [at[j] for j in range(i) if i in self.group and self.group.get(j) == self.group[i]]
        taken = {at[j] for j in self.apart[i] if j < i}
        some = [c for c in self.chips[i] if low <= c <= self.high[i] and all(c == one for one in fixed)]
        some = [c for c in some if c not in taken]
        return iter(sorted(some, key=lambda c: abs(c - wish(i))))
