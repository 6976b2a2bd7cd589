"""``front`` for family ``wafer``: time, wire and adapters of floorplans against each other.

On a small fabric the front is exact. CP-SAT minimises the score within a region where no known point is as good (page
of the methods, "The front"). An optimum there is a point of the front, and cuts the regions. Without regions left the
front is complete. On a larger fabric ``wafer/auto`` solves the instance for several weights. All floorplans on its
way count, and every solve starts from the best of them. Its bound is a plane below which there is no floorplan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline, Stop
from chipmap.explaining.front import Amounts, Axis, Front, Point, Regions, undominated
from chipmap.family import family_of, resolve
from chipmap.formulations.wafer.cpsat import build
from chipmap.instances.wafer.instance import MAX_ARGUMENT, WaferInstance, WaferSolution, Weights
from chipmap.instances.wafer.problem import TICKS, wafer_problem
from chipmap.instances.wafer.wires import MAX_TRAFFIC
from chipmap.methods.model_solve import Limits, solve_within
from chipmap.methods.wafer.chain import auto
from chipmap.methods.wafer.models import small
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions

Told = Callable[[str], None]
#: The factor between the weights of one solve and the next, and the largest power of it.
FACTOR, POWERS = 4, 6
#: Deterministic work of a solve within a region where there is no time limit.
WORK = 60.0


def axes_of(instance: WaferInstance) -> tuple[Axis, ...]:
    """The terms that have a weight."""
    weights = instance.weights
    every = (
        Axis("T1", "time", "steps", 1 / TICKS, weights.time),
        Axis("T2", "wire", "tiles", 0.5, 2 * weights.wire),
        Axis("T3", "adapters", "", 1.0, TICKS * weights.adapter),
    )
    return tuple(axis for axis in every if axis.ticks)


class _Work:
    """One front in progress: ``found`` are the floorplans that the checker accepted, with their amounts."""

    def __init__(self, instance: WaferInstance, options: SolveOptions, told: Told, outer: Deadline) -> None:
        self.instance, self.told, self.axes = instance, told, axes_of(instance)
        if not self.axes:
            raise InputError("all weights are 0", "weights", "Give time, wire or adapters a weight.")
        self.judge: Callable[[Any, Any], Certificate] = resolve(family_of(instance).check)
        self.found: list[tuple[Amounts, WaferSolution]] = []
        self.run = Run(instance, options.replace(warm_start=None), self.check, outer=outer)
        self.complete = False
        self.proved: set[Amounts] = set()
        self.planes: list[tuple[Amounts, int]] = []

    def check(self, instance: Any, solution: Any) -> Certificate:
        """The checker's certificate; a floorplan that it accepts is kept. Weights don't matter to what it accepts."""
        certificate = self.judge(self.instance, solution)
        if certificate.feasible:
            amounts = tuple(certificate.terms[axis.label] // axis.ticks for axis in self.axes)
            self.found = undominated([*self.found, (amounts, solution)])
        return certificate if instance is self.instance else self.judge(instance, solution)

    def exact(self) -> None:
        """The front by regions, in half of the time at most."""
        regions, deadline = Regions(len(self.axes)), self.run.deadline
        if self.run.clocked:
            deadline = replace(deadline, until=time.monotonic() + deadline.seconds / 2)
        with suppress(Stop):
            while regions.open:
                deadline.check()
                corner = regions.open[0]
                amounts = self.within(corner, Limits(deadline=deadline, work=None if self.run.clocked else WORK))
                if amounts is not None:
                    self.proved.add(amounts)
                    regions.point(amounts)
                else:
                    regions.nothing(corner)
            self.complete = True

    def within(self, corner: tuple[float, ...], limits: Limits) -> Amounts | None:
        """The amounts of a floorplan of least score below ``corner``; None if there is none. Raises :class:`Stop` where
        that isn't found out in time."""
        most = dict.fromkeys(("T1", "T2", "T3")) | {
            axis.label: None if limit == float("inf") else int(limit) - 1
            for axis, limit in zip(self.axes, corner, strict=True)
        }
        if any(limit is not None and limit < 0 for limit in most.values()):
            return None
        model = build(self.instance, {"most": tuple(most.values())})
        start = min(self.found, key=lambda one: self.far(one[0], corner))[1] if self.found else None
        outcome = solve_within(self.run, model, None, start, limits, "cpsat")
        if outcome.value_of is not None:
            solution = model.decode(outcome.value_of)
            certificate = self.check(self.instance, solution)
            if outcome.termination.reason == "optimal" and certificate.feasible:
                return tuple(certificate.terms[axis.label] // axis.ticks for axis in self.axes)
        elif outcome.termination.reason == "infeasible":
            return None
        raise Stop

    def far(self, amounts: Amounts, corner: tuple[float, ...]) -> float:
        """Ticks by which a point is beyond a corner."""
        return sum(max(0.0, axis.ticks * (a - c)) for axis, a, c in zip(self.axes, amounts, corner, strict=True))

    def by_weights(self, solves: int) -> None:
        """Solves for so many weights, the instance's own first."""
        every = list(islice(weightings(self.instance), solves)) if len(self.axes) > 1 else [self.instance.weights]
        for number, weights in enumerate(every):
            if not self.run.keep_going():
                return
            self.told(f"weights {weights.time} : {weights.wire} : {weights.adapter} ({number + 1} of {len(every)})")
            changed = self.instance.replace(weights=weights)
            run = self.run.inner(changed, self.run.deadline.share(1 / (len(every) - number)))
            ticks = tuple(axis.ticks for axis in axes_of(changed))
            if self.found:
                best = min(self.found, key=lambda one: sum(t * a for t, a in zip(ticks, one[0], strict=True)))
                run.solution(best[1], "a point at hand")
            auto(changed, run)
            if run.proved_infeasible:
                self.complete = True
                return
            if run.lower is not None:
                self.planes.append((ticks, run.lower.value))

    def point(self, amounts: Amounts, solution: WaferSolution) -> Point:
        """A point with what is proved of it."""
        sums = [(sum(t * a for t, a in zip(ticks, amounts, strict=True)), bound) for ticks, bound in self.planes]
        gap = min((1 - bound / total for total, bound in sums if total > bound), default=1.0)
        proved = amounts in self.proved or any(total <= bound for total, bound in sums)
        return Point(amounts, solution, proved, 0.0 if proved else gap)


def weightings(instance: WaferInstance) -> Iterator[Weights]:
    """Weights with time and with adapters made heavier and lighter, by growing factors, the given ones first; none so
    large that the traffic of an edge times the weight of wires is beyond what an instance may have."""
    weights, most = instance.weights, MAX_ARGUMENT
    if any(instance.traffic):
        most = MAX_TRAFFIC // max(instance.traffic)
    yield weights
    for power in range(1, POWERS + 1):
        factor = FACTOR**power
        rest = {"wire": weights.wire * factor, "adapter": weights.adapter * factor}
        every = [weights.replace(time=weights.time * factor), weights.replace(**rest)]
        if weights.adapter and weights.wire:
            every += [weights.replace(adapter=weights.adapter * factor), weights.replace(
                time=weights.time * factor, wire=weights.wire * factor)]  # fmt: skip
        for one in every:
            if one != weights and max(one.time, one.adapter) <= MAX_ARGUMENT and one.wire <= most:
                yield one


def front(instance: WaferInstance, options: SolveOptions, solves: int, told: Told, outer: Deadline) -> Front:
    """The front: exact on a small fabric where half of the time is enough, else by weights.

    Where ``outer`` ends it, or Ctrl-C a second time, what was found stays.
    """
    work = _Work(instance, options, told, outer)
    with suppress(KeyboardInterrupt):
        if small(wafer_problem(instance)):
            told("the exact front, region by region")
            work.exact()
        if not work.complete:
            work.by_weights(solves)
    points = tuple(work.point(amounts, solution) for amounts, solution in work.found)
    return Front(instance, work.axes, points, work.complete, tuple(work.planes))
