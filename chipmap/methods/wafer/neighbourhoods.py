"""Neighbourhoods of a floorplan: some kernels are placed and sized again, exactly, by CP-SAT.

The target time is the floorplan's own, so that wires and adapters can only fall. Four kinds of neighbourhood take
turns at random: a kernel with those nearest to it, kernels that follow each other in the order of the instance, the
ends of a long wire with their neighbours, and all kernels in the order in which they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import Any

from chipmap.deadline import Deadline
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order
from chipmap.instances.wafer.shapes import centre
from chipmap.methods.model_solve import Limits
from chipmap.methods.neighbourhoods import Tally, improve
from chipmap.networks.graph import neighbours
from chipmap.run import Run

SOURCE = "CP-SAT neighbourhoods"
#: Free kernels of the first neighbourhoods, and of the last: one more whenever a round of them gained nothing.
FIRST_SIZE, LAST_SIZE = 4, 8
#: Deterministic work of CP-SAT on one neighbourhood, and on all kernels in their order.
WORK, ORDER_WORK = 2.0, 6.0
#: One neighbourhood in so many is all kernels in their order, unless there are more kernels than this.
ORDER_EVERY, MOST_ORDERED = 8, 128

#: The free kernels.
Free = tuple[int, ...]


def search_neighbourhoods(
    run: Run,
    problem: WaferProblem,
    solution: WaferSolution,
    deadline: Deadline,
    found: Callable[[WaferSolution], None],
    seed: int = 0,
) -> Tally:
    """Improve ``solution`` (valid) until no neighbourhood is left; ``found`` hears every better one.

    ``seed`` is added to the run's."""
    tally = Tally()
    improve(run, Neighbourhoods(problem, solution, run.options.seed + seed, found), deadline, tally)
    return tally


class Neighbourhoods:
    """A floorplan and its neighbourhoods (:class:`chipmap.methods.neighbourhoods.Search`)."""

    def __init__(
        self, problem: WaferProblem, solution: WaferSolution, seed: int, found: Callable[[WaferSolution], None]
    ) -> None:
        self.problem, self.found, self.random = problem, found, Random(seed)
        self.placements = in_order(problem, solution)
        parts = evaluate(problem, self.placements)
        self.score, self.tau = parts.score, parts.time
        self.size, self.failures = min(FIRST_SIZE, problem.n), 0
        edges = problem.edges.tolist()
        self.neighbours = [set(joined) for joined in neighbours(problem.n, edges + [edge[::-1] for edge in edges])]

    @cached_property
    def fronts(self) -> tuple[tuple[Any, ...], ...]:
        """The Pareto-minimal boxes of each type at the target time."""
        from chipmap.formulations.wafer.options import Limits, options

        return options(self.problem, Limits("front", tau=self.tau))

    @cached_property
    def ordered(self) -> tuple[tuple[Any, ...], ...]:
        """As ``fronts``, and boxes of the other parities: kernels in their order have room for them."""
        from chipmap.formulations.wafer.options import Limits, options

        return options(self.problem, Limits("front", tau=self.tau, parities=True))

    def pick(self) -> Free | None:
        """A random neighbourhood; None where those of the last size gained nothing either."""
        if self.failures > 2 * self.problem.n // self.size + 4:
            self.size, self.failures = self.size + 1, 0
        if self.size > min(LAST_SIZE, self.problem.n):
            return None
        turn = self.random.randrange(ORDER_EVERY)
        if turn == 0 and self.problem.n <= MOST_ORDERED:
            return tuple(range(self.problem.n))
        return tuple((self._near, self._row, self._wire)[turn % 3]())

    def model(self, free: Free) -> Any:
        """The free kernels placed and sized anew; where all are free, they keep the order in which they lie."""
        from chipmap.formulations.wafer.cpsat_window import same_order, window

        neighbourhood = same_order if self._ordered(free) else window
        return neighbourhood(self.problem, self.placements, self._menu(free), self.tau)

    def limits(self, free: Free) -> Limits:
        """One thread and deterministic work."""
        work = ORDER_WORK if self._ordered(free) else WORK
        return Limits(work=work, gap=0.0, threads=1, seed=self.random.randrange(1000))

    def take(self, free: Free, better: WaferSolution | None) -> bool:
        """Keep a better floorplan."""
        if better is not None:
            placements = in_order(self.problem, better)
            score = evaluate(self.problem, placements).score
            if score < self.score:
                self.placements, self.score, self.failures = placements, score, 0
                self.found(better)
                return True
        self.failures += 1
        return False

    def _ordered(self, free: Free) -> bool:
        return len(free) == self.problem.n > self.size

    def _menu(self, free: Free) -> dict[int, list[Any]]:
        """The options of free kernels: Pareto-minimal boxes, in their order those of each parity, and what saves
        adapters at their neighbours."""
        from chipmap.formulations.wafer.cpsat_window import with_labels

        menu = {}
        boxes = self.ordered if self._ordered(free) else self.fronts
        for v in free:
            menu[v] = list(boxes[int(self.problem.types[v])])
            if self.problem.instance.weights.adapter:
                every = [self.placements[u] for u in (v, *sorted(self.neighbours[v]))]
                around = [p for p in every if p.c]
                tilings = sorted({(p.h, p.w) for p in around})
                menu[v] += with_labels(
                    self.problem, v, self.tau, tilings, {c for p in around for c in (p.c[0], p.c[-1])}
                )
        return menu

    def _distance(self, u: int, v: int) -> int:
        """Half tiles between the centres of two kernels."""
        a, b = centre(self.placements[u]), centre(self.placements[v])
        return abs(a[0] - b[0]) + abs(a[1] - b[1])

    def _near(self) -> list[int]:
        """A kernel and those whose centres are nearest."""
        middle = self.random.randrange(self.problem.n)
        return sorted(range(self.problem.n), key=lambda v: self._distance(middle, v))[: self.size]

    def _row(self) -> list[int]:
        """Kernels that follow each other in the instance."""
        start = self.random.randrange(max(1, self.problem.n - self.size + 1))
        return list(range(start, min(self.problem.n, start + self.size)))

    def _wire(self) -> list[int]:
        """The ends of a wire, the longer the more likely, and kernels joined to them."""
        edges = self.problem.edges.tolist()
        if not edges:
            return self._near()
        chosen = list(self.random.choices(edges, [1 + self._distance(u, v) for u, v in edges])[0])
        while len(chosen) < self.size:
            joined = sorted(set().union(*(self.neighbours[v] for v in chosen)) - set(chosen))
            if not joined:
                break
            chosen.append(self.random.choice(joined))
        return chosen
