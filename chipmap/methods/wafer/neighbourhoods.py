"""CP-SAT neighbourhoods of a floorplan: re-place and re-size some kernels exactly, again and again.

The target time is the floorplan's own, so that wires and adapters can only fall. Four neighbourhoods take turns: a
kernel with those nearest to it, kernels that follow each other in the order of the instance, the ends of a long wire
with their neighbours, and all kernels in the order in which they lie.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import Any

from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, size
from chipmap.result import Termination
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest

#: Kernels in the first windows; one more whenever a round of windows was solved without a gain.
FIRST_SIZE = 4
#: Deterministic work of CP-SAT on one window, and on all kernels in their order.
WINDOW_WORK, ORDER_WORK = 2.0, 6.0
#: More kernels than this are not re-placed all at once.
MAX_ORDERED = 60


def improve(
    problem: WaferProblem,
    solution: WaferSolution,
    seconds: float,
    seed: int = 0,
    threads: int | None = 1,
    found: Callable[[WaferSolution], None] | None = None,
) -> WaferSolution | None:
    """A better floorplan than ``solution`` (valid) at most as slow, or None if none was found within ``seconds``.

    ``found`` hears every improvement.
    """
    from chipmap.formulations.wafer.cpsat_window import arranged

    search = _Search(problem, arranged(problem, solution), clock.monotonic() + seconds, Random(seed), threads)
    start = evaluate(problem, search.placements).score
    while search.remaining > 0.0:
        if search.round() and found is not None:
            found(search.solution)
        if search.size > problem.n:
            break
    return search.solution if evaluate(problem, search.placements).score < start else None


def windows(instance: WaferInstance, run: Run) -> Termination:
    """Neighbourhoods of the run's best floorplan, until the time is up or none has a better one."""
    from chipmap.instances.wafer.problem import wafer_problem

    def work() -> None:
        """Improve the run's best floorplan, if there is one."""
        if run.best is None:
            return
        assert isinstance(run.best.solution, WaferSolution)
        improve(
            wafer_problem(instance),
            run.best.solution,
            min(run.remaining, 1e9),
            run.options.seed,
            run.options.threads,
            lambda solution: _report(run, solution),
        )

    return run.attempt(work)


def _report(run: Run, solution: WaferSolution) -> None:
    run.solution(solution, "cpsat windows")
    run.checkpoint()


class _Search:
    """A floorplan, its neighbourhoods and the time left."""

    def __init__(
        self, problem: WaferProblem, placements: list[Placement], end: float, random: Random, threads: int | None
    ) -> None:
        from chipmap.formulations.wafer.cpsat_window import time_of

        self.problem, self.placements, self.end = problem, placements, end
        self.random, self.threads = random, threads
        self.tau = time_of(problem, placements)
        self.size = min(FIRST_SIZE, problem.n)
        self.failures = 0
        self.neighbours: list[set[int]] = [set() for _ in range(problem.n)]
        for u, v in problem.edges.tolist():
            self.neighbours[u].add(v)
            self.neighbours[v].add(u)

    @cached_property
    def fronts(self) -> tuple[tuple[Any, ...], ...]:
        """The Pareto-minimal boxes of each type at the target time."""
        from chipmap.formulations.wafer.options import Limits, options

        return options(self.problem, Limits("front", tau=self.tau))

    @property
    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.end - clock.monotonic())

    @property
    def solution(self) -> WaferSolution:
        """The best floorplan so far."""
        return WaferSolution(instance=self.problem.instance.name, placements=tuple(self.placements))

    def round(self) -> bool:
        """One neighbourhood; whether it had a better floorplan. Windows grow when a round of them had none."""
        from chipmap.formulations.wafer.cpsat_window import same_order, window

        turn = self.random.randrange(8)
        if turn == 0 and self.problem.n <= MAX_ORDERED:
            everyone = list(range(self.problem.n))
            better = self._solve(same_order(self.problem, self.placements, self._menu(everyone), self.tau), ORDER_WORK)
        else:
            pick = (self._near, self._row, self._wire)[turn % 3]
            menu = self._menu(pick())
            better = self._solve(window(self.problem, self.placements, menu, self.tau), WINDOW_WORK)
        self.failures = 0 if better else self.failures + 1
        if self.failures > 2 * self.problem.n // self.size + 4:
            self.size, self.failures = self.size + 1, 0
        return better

    def _menu(self, free: list[int]) -> dict[int, list[Any]]:
        """The options of free kernels: every Pareto-minimal box, and what saves adapters at their neighbours."""
        from chipmap.formulations.wafer.cpsat_window import with_labels

        menu = {}
        for v in free:
            menu[v] = list(self.fronts[int(self.problem.types[v])])
            if self.problem.instance.weights.adapter:
                around = [self.placements[u] for u in (v, *sorted(self.neighbours[v]))]
                tilings = sorted({(p.h, p.w) for p in around})
                menu[v] += with_labels(
                    self.problem, v, self.tau, tilings, {c for p in around for c in (p.c[0], p.c[-1])}
                )
        return menu

    def _solve(self, model: Any, work: float) -> bool:
        native = {"max_deterministic_time": work}
        request = SolveRequest(
            time_limit=self.remaining, threads=self.threads, seed=self.random.randrange(1000), native=native
        )
        outcome = solve_model(model, request, "cpsat")
        if outcome.value_of is None:
            return False
        from chipmap.formulations.wafer.cpsat_window import arranged

        new = arranged(self.problem, model.decode(outcome.value_of))
        if evaluate(self.problem, new).score >= evaluate(self.problem, self.placements).score:
            return False
        self.placements = new
        return True

    def _centre(self, v: int) -> tuple[int, int]:
        placement = self.placements[v]
        width, height = size(placement)
        return 2 * placement.x + width, 2 * placement.y + height

    def _distance(self, u: int, v: int) -> int:
        a, b = self._centre(u), self._centre(v)
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
