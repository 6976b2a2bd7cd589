"""Prices of units at which the sets that devices can hold below a target load are worth as little as possible.

Let pi(u) >= 0 be prices of units, and V(k) the most that a set of units is worth which a device of kind k can hold with
a load below a target T. Where there are n(k) devices of kind k and

    Σ pi(u) > Σ n(k) · V(k),

no placement has all loads below T. The best prices solve the linear program: maximise Σ pi(u), with Σ n(k) · s(k) = 1
and pi(S) <= s(k) for each such set S. It is solved by rows: the sets that are worth most at some prices are its next
rows. Prices for these are the best ones so far, moved towards the program's solution (Wentges, 1997).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.placement.throughput.cut_budget import cut_budget
from chipmap.heuristics.placement.throughput.one_device import Pricing, one_device
from chipmap.heuristics.placement.throughput.sweep import Sweep
from chipmap.instances.placement.problem import IntArray

#: Sum of all prices, as whole numbers; how far prices move towards the program's solution.
WHOLE, STEP = 2.0**40, 0.05
#: Rounds at most, and the gap of the program at which prices are good enough.
ROUNDS, GAP = 1_000, 1e-4
Real = NDArray[np.float64]
#: A set of units of a device: its kind, its load and the units.
Set = tuple[int, int, IntArray]


@dataclass(frozen=True)
class Columns:
    """``prices`` [U], whole numbers. ``share``: Σ pi / Σ n · V, above 1 where no load is below the target. ``limit``:
    no prices have a larger share, as far as sets are known. ``bound``: the least load by these prices.
    """

    prices: IntArray
    share: float
    limit: float
    bound: int


class Devices:
    """The pricing of all kinds of devices for loads below the target of a sweep. ``left``: per position what the
    budget (:mod:`cut_budget`) leaves for loads, at the prices of devices, beside the work of the units to come.
    """

    def __init__(self, sweep: Sweep, deadline: Deadline) -> None:
        """Raises :class:`TooWideError`."""
        graph = sweep.graph
        self.budget = cut_budget(graph, sweep.target)
        most, work = self.budget.most, self.budget.work[list(sweep.order)]
        self.sweep, self.count = sweep, [len(devices) for devices in graph.kinds]
        self.kinds = [Pricing(one_device(sweep, k, most[k], deadline)) for k in range(len(self.count))]
        self.left = int(self.budget.price.sum()) * (sweep.target - 1) - np.append(np.cumsum(work[::-1])[::-1], 0)

    def label(self, prices: IntArray, deadline: Deadline) -> None:
        """Label the rows of all kinds."""
        for kind in self.kinds:
            kind.label(prices, deadline)

    def worth(self) -> int:
        """Σ n · V."""
        return sum(n * int(kind.best()[1][-1]) for n, kind in zip(self.count, self.kinds, strict=True))

    def bound(self, prices: IntArray) -> int:
        """The least load x at which Σ n · V is Σ pi or more, V being what sets of load x or less are worth; the target
        where there is none below it."""
        best = [kind.best() for kind in self.kinds]
        loads = np.unique(np.concatenate([load for load, _ in best]))
        worth = np.zeros(len(loads), dtype=np.int64)
        for n, (load, value) in zip(self.count, best, strict=True):
            worth += n * value[np.searchsorted(load, loads, side="right") - 1]
        enough = np.flatnonzero(worth >= prices.sum())
        return int(loads[enough[0]]) if len(enough) else self.sweep.target


class Program(Protocol):
    """The linear program over prices: :class:`chipmap.solvers.growing_rows.UnitPrices`."""

    def add(self, kind: int, units: IntArray) -> None:
        """State that a set of units is worth at most the share of a device of that kind."""

    def solved(self) -> tuple[float, Any]:
        """The sum of all prices at its largest, and the prices."""


#: Makes the program of so many units and so many devices of each kind.
Maker = Callable[[int, list[int]], Program]


def columns(
    devices: Devices, first: Real, sets: list[Set], deadline: Deadline, make: Maker, rounds: int = ROUNDS
) -> Columns:
    """About the best prices for the target of ``devices``, from ``first`` [U] on, or such as show that no placement has
    loads below it. ``sets`` are known; new ones are added. Raises ``Stop`` at the deadline, if the first round isn't
    over then.
    """
    program, trial = _program(devices, make, sets), first / first.sum()
    found = Columns(np.zeros(len(first), dtype=np.int64), 0.0, np.inf, 0)
    best = trial
    for _ in range(rounds):
        prices = np.maximum(0, np.rint(trial * WHOLE)).astype(np.int64)
        try:
            devices.label(prices, deadline)
        except Stop:
            if not found.share:
                raise
            break
        worth, bound = devices.worth(), max(found.bound, devices.bound(prices))
        share = int(prices.sum()) / max(1, worth)
        for k, pricing in enumerate(devices.kinds):
            sets.append((k, *pricing.units()))
            program.add(k, sets[-1][2])
        limit, solution = program.solved()
        if share > found.share:
            best, found = prices / max(1, worth), replace(found, prices=prices, share=share)
        found = replace(found, limit=limit, bound=bound)
        if int(prices.sum()) > worth:
            break
        if limit - found.share < GAP:
            break
        trial = (1 - STEP) * best + STEP * solution
    return found


def _program(devices: Devices, make: Maker, sets: list[Set]) -> Program:
    """The program of the sets known whose loads are below the target."""
    program = make(devices.sweep.graph.units, devices.count)
    for kind, load, units in sets:
        if load < devices.sweep.target:
            program.add(kind, units)
    return program
