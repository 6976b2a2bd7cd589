"""Weights that live on the host (``task.fetch_bytes_per_ns``): what to fetch, and bounds on it.

Once the fetched weights are known, every method of the family applies (:mod:`chipmap.instances.placement.offload`). So
the chain takes turns: it places operations for given fetched weights, and chooses what to fetch for what it placed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import wraps

import numpy as np

from chipmap.heuristics.placement.keeping import kept_weights
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.offload import in_part, plain, relaxed, with_fetched
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState
from chipmap.result import Termination, TraceEvent
from chipmap.run import Run

Method = Callable[[PlacementInstance, Run], Termination]
Model = Callable[[ChainState, Turn], None]
#: Shares of the time that is left for the relaxation, for the start without fetched weights, and for each round.
LOOSE, START, ROUND = 0.2, 0.2, 0.35
#: Operations · devices up to which the whole model takes the time that is left.
SMALL = 240
#: Parts of the weights that an operation may keep, where all keep the same.
PARTS = 16
#: Rounds without a time limit; the least seconds of one with it.
ROUNDS, LEAST = 3, 0.2


def keeping(method: Method) -> Method:
    """The method on the operations that the start fetches; without a start it fetches nothing. Its bounds don't count.

    Without the choice of the task it is ``method`` itself.
    """

    @wraps(method)
    def kept(instance: PlacementInstance, run: Run) -> Termination:
        """The method, with what its start fetches."""
        if instance.task.fetch_bytes_per_ns is None:
            return method(instance, run)
        given = run.best.solution if run.best is not None else None
        fetched = given.fetched if isinstance(given, PlacementSolution) else ()
        what = f"the {len(fetched)} operations that its start fetches" if fetched else "nothing"
        run.note("search", f"this method fetches {what}; placement/auto, cpsat and mip choose", fetched=len(fetched))
        inner = _inner(run, with_fetched(instance, fetched), fetched)
        if isinstance(given, PlacementSolution):
            inner.solution(given.replace(fetched=()), run.best.source if run.best is not None else "start")

        def work() -> None:
            method(inner.instance, inner)  # type: ignore[arg-type]
            run.checkpoint()

        return run.attempt(work)

    return kept


def auto(instance: PlacementInstance, run: Run, first: Method, method: Method, model: Model) -> Termination:
    """Bounds by the relaxation, rounds of ``method`` with what is fetched chosen anew, and ``model`` for small ones."""
    return run.attempt(lambda: _Search(instance, run, method).go(first, model))


def bounds(instance: PlacementInstance, run: Run, method: Method) -> Termination:
    """The bounds and proofs of ``method`` on the relaxation."""

    def work() -> None:
        _Search(instance, run, method).relax(1.0)

    return run.attempt(work)


def first(instance: PlacementInstance, run: Run, method: Method) -> Termination:
    """First placements with all weights on devices; without one, with all on the host."""
    problem = placement_problem(instance)
    everything = tuple(name for name, size in zip(problem.names, problem.weights.tolist(), strict=True) if size)
    for fetched in ((), everything):
        if run.best is None:
            method(with_fetched(instance, fetched), _inner(run, with_fetched(instance, fetched), fetched))
    return run.terminate()


def _inner(run: Run, instance: PlacementInstance, fetched: Collection[str], share: float = 1.0) -> Run:
    """A run on the instance with these weights fetched, whose solutions are those of ``run`` too."""
    inner = run.inner(instance, run.deadline.share(share), gap=run.options.gap if share == 1.0 else 0.0)
    inner.ready, inner.small, names = run.ready, run.small, tuple(fetched)

    def hear(event: TraceEvent, now: Run) -> None:
        if event.event == "solution" and now.best is not None:
            assert isinstance(now.best.solution, PlacementSolution)
            run.solution(now.best.solution.replace(fetched=names), now.best.source)

    inner.listener = hear
    return inner


class _Search:
    """The search of one run."""

    def __init__(self, instance: PlacementInstance, run: Run, method: Method) -> None:
        self.instance, self.run, self.method = instance, run, method
        self.problem = placement_problem(instance)
        self.tried = set[tuple[str, ...]]()

    @property
    def best(self) -> PlacementSolution | None:
        """The best placement of the run."""
        found = self.run.best.solution if self.run.best is not None else None
        return found if isinstance(found, PlacementSolution) else None

    def go(self, first: Method, model: Model) -> None:
        """The relaxation, the start, then the model or rounds."""
        given = self.best
        placed = self.relax(LOOSE)
        self.place((), START)
        even = self.shared_out(first)
        small = self.problem.operations * self.problem.devices <= SMALL
        rounds = 1 if small else ROUNDS
        for number, (devices, fetched) in enumerate(self.choices([given, even, placed])):
            self.place(fetched, ROUND if not small else START, devices)
            self.run.checkpoint()
            if not self.run.clocked and number + 1 >= rounds:
                break
            if small or (self.run.clocked and ROUND * self.run.remaining < LEAST):
                break
        if small:
            model(ChainState(self.problem), Turn(self.run, self.run.deadline))

    def relax(self, share: float) -> PlacementSolution | None:
        """Report bounds, or that there is no placement, by the relaxation; its best placement."""
        loose, run = relaxed(self.instance), self.run
        inner = _inner(run, loose, (), share)

        def hear(event: TraceEvent, now: Run) -> None:
            if event.event == "bound":
                run.bound(event.value, event.source)

        inner.listener = hear
        self.method(loose, inner)
        run.notes += [note for note in inner.notes if inner.proved_infeasible and note not in run.notes]
        if inner.proved_infeasible:
            run.infeasible(*inner.infeasibility)
        elif inner.lower is not None:
            run.bound(inner.lower.value, inner.lower.source)
        run.checkpoint()
        found = inner.best.solution if inner.best is not None else None
        return found if isinstance(found, PlacementSolution) else None

    def shared_out(self, first: Method) -> PlacementSolution | None:
        """The placement where each operation keeps the same part of its weights, as large a part as ``first`` fits."""
        low, high, found = 0, PARTS, None
        while high - low > 1:
            middle = (low + high) // 2
            inner = self.run.inner(in_part(self.instance, middle / PARTS))
            first(inner.instance, inner)  # type: ignore[arg-type]
            low, high, found = (middle, high, inner) if inner.best is not None else (low, middle, found)
        if found is None or found.best is None:
            return None
        better = self.run.inner(found.instance, self.run.deadline.share(ROUND))
        better.solution(found.best.solution, found.best.source)
        self.method(better.instance, better)  # type: ignore[arg-type]
        self.run.checkpoint()
        placed = better.best.solution if better.best is not None else None
        return placed if isinstance(placed, PlacementSolution) else None

    def choices(self, begins: list[PlacementSolution | None]) -> Iterator[tuple[PlacementSolution, tuple[str, ...]]]:
        """(placement, what to fetch): for the placements to begin with, then for the best one of the run, until nothing
        new is found."""
        waiting = [one for one in begins if one is not None]
        while True:
            if not waiting and self.best is not None:
                waiting = [self.best]
            fresh = [(one, fetched) for one in waiting for fetched in self.chosen(one) if fetched not in self.tried]
            if not fresh:
                break
            waiting = waiting[waiting.index(fresh[0][0]) + 1 :]
            yield fresh[0]

    def chosen(self, placed: PlacementSolution) -> Iterator[tuple[str, ...]]:
        """What to fetch for the devices of a placement: as little as fits beside what else its schedule holds."""
        loose = relaxed(self.instance)
        certificate = self.run.check(loose, placed.replace(fetched=()))
        peaks = [int(certificate.figures.get(f"peak_bytes {name}", 0)) for name in self.problem.device_names]
        devices = self.problem.devices_of(placed)
        for reserve in (False, True):
            stays = kept_weights(self.problem, devices, np.array(peaks, dtype=np.int64), reserve)
            yield tuple(name for v, name in enumerate(self.problem.names) if self.problem.weights[v] and not stays[v])

    def place(self, fetched: tuple[str, ...], share: float, start: PlacementSolution | None = None) -> None:
        """Place operations that fetch these weights, from the devices of ``start`` on."""
        self.tried.add(fetched)
        if start is not None:
            self._as_placed(fetched, start)
        inner = _inner(self.run, with_fetched(self.instance, fetched), fetched, share)
        best = self.best
        if best is not None and best.fetched == fetched:
            inner.solution(best.replace(fetched=()), "start")
        self.method(inner.instance, inner)  # type: ignore[arg-type]
        self.run.checkpoint()

    def _as_placed(self, fetched: tuple[str, ...], start: PlacementSolution) -> None:
        """Report the very devices of ``start`` with these weights fetched, where they fit."""
        devices = self.problem.devices_of(start)
        named = self.problem.solution(devices) if not self.problem.timed else start
        if not self.problem.timed:
            self.run.solution(named.replace(fetched=fetched), "fetched")
            return
        alone = placement_problem(plain(self.instance, start.replace(fetched=fetched))[0])
        state = ChainState(alone)
        if state.evaluate_and_keep(devices) and state.best is not None and state.best[0] == 0:
            self.run.solution(state.decoded().replace(fetched=fetched), "fetched")
