"""The link of the chain that proves the throughput of placements without C7: prices of units, then states unit by unit.

At a target load, prices (:mod:`chipmap.heuristics.placement.throughput.columns`) either show that no placement has
loads below it, or say which of the states (:mod:`chipmap.heuristics.placement.throughput.frontier`) can still have
completions. With few states the program finds better placements; with all of them it proves what is left between.
"""

from __future__ import annotations

import numpy as np

from chipmap.deadline import Stop
from chipmap.heuristics.placement.throughput.columns import ROUNDS, Devices, Set, columns
from chipmap.heuristics.placement.throughput.cut_budget import cut_budget, joined_by_budget
from chipmap.heuristics.placement.throughput.frontier import Found, placed
from chipmap.heuristics.placement.throughput.sweep import TooWideError, sweep
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.methods.chain import Turn
from chipmap.methods.placement.bounding import gap_closed
from chipmap.methods.placement.chain_state import ChainState
from chipmap.solvers.growing_rows import UnitPrices

#: States at a time, the first so many without a time limit; up to how many each keeps how it came about.
WIDTHS, UNCLOCKED, TRAIL = (1_000, 10_000, 40_000, 160_000, 640_000), 2, 10_000
#: States at a time where the times of units are their prices: these are nearly the best ones where few nets are cut.
PLAIN = (1_000, 10_000)
#: States of two devices at a time without prices, and the targets, as parts of the gap below the best load.
MANY, OF_TWO = 200_000, (0.9, 0.75, 0.5, 0.0)
#: Their targets, as parts of the gap below the best load: the lower, the fewer states.
RISING, SETTLED = (0.9, 0.75, 0.5, 0.25, 0.0), 0.95
#: States are few where so many times their number are at most the width.
FEW = 4
#: Shares of the time that is left: first prices, later ones, all at one target, and that of two devices.
FIRST, LATER, PASS, MOST = 0.3, 0.15, 0.4, 0.7
#: Targets: these parts of the gap below the best load. One is tried again where the gap becomes smaller by so much.
PARTS, PROGRESS = (0.0, 0.5, 0.25, 0.75), 0.9
NEVER = np.iinfo(np.int64).max


def by_columns(state: ChainState, turn: Turn) -> None:
    """Bounds by prices, better placements, and proofs, from the best placement so far."""
    problem, run = state.problem, turn.run
    task = problem.instance.task
    if problem.timed or task.contiguous or task.overlap or not problem.operations or problem.devices == 1:
        return
    if run.upper is None or not run.upper:
        return
    graph = joined_by_budget(joined_by_dominance(problem, run.upper), run.upper)
    if not graph.placeable:
        turn.bound(run.upper, "columns")
        return
    try:
        _Search(turn, graph).go(state)
    except TooWideError as error:
        run.note("search", f"columns: {error}")


class _Search:
    """``graph`` holds all placements better than the best at the beginning; ``prices`` [U] of its units; ``sets`` of
    units that a device can hold."""

    def __init__(self, turn: Turn, graph: LoadGraph) -> None:
        self.turn, self.run, self.graph = turn, turn.run, graph
        self.prices = np.where(graph.allowed, graph.time, NEVER).min(axis=1) + 1e-3
        self.sets: list[Set] = []

    @property
    def upper(self) -> int:
        """The best load."""
        assert self.run.upper is not None
        return self.run.upper

    @property
    def lower(self) -> int:
        """The best bound."""
        return self.run.lower.value if self.run.lower is not None else 0

    def go(self, state: ChainState) -> None:
        """More and more states, until the best placement is proved."""
        share = FIRST
        if state.problem.devices == 2:
            self._of_two(state)
        for width in PLAIN:
            self._rising(state, width)
        for width in WIDTHS[: None if self.run.clocked else UNCLOCKED]:
            for part in PARTS:
                again = True
                while again and not gap_closed(self.turn):
                    before, apart = self.upper, self.upper - self.lower
                    try:
                        self._at(state, self.upper - int(part * apart), width, share)
                    except Stop:
                        self.turn.deadline.check()
                    share, again = LATER, self.upper < before and self.upper - self.lower < PROGRESS * apart

    def _of_two(self, state: ChainState) -> None:
        """All states of two devices without prices, as of equal nets only few are left: at rising targets, then just
        above the least load if it isn't known how that came about."""
        for part in OF_TWO:
            if gap_closed(self.turn):
                return
            found = self._all_of(state, self.upper - int(part * (self.upper - self.lower)))
            if found is not None and found.load is not None and found.of_unit is None and found.whole:
                found = self._all_of(state, found.load + 1)
            if found is None or found.load is not None:
                return

    def _all_of(self, state: ChainState, target: int) -> Found | None:
        """All states with loads below a target, without prices; None where there is no time for them, and nothing found
        where too many nets are open (higher targets, which join fewer units, may have fewer)."""
        graph = joined_by_budget(joined_by_dominance(state.problem, target), target)
        if not graph.placeable or cut_budget(graph, target).budget < 0:
            self.turn.bound(target, "columns")
            return Found(None, None, True, 0)
        try:
            deadline = self.turn.deadline.share(MOST)
            devices = Devices(sweep(graph, target), deadline)
            found = placed(devices, None, MANY if self.run.clocked else TRAIL, False, True, deadline)
        except TooWideError:
            return Found(None, None, False, 0)
        except Stop:
            self.turn.deadline.check()
            return None
        self._told(state, devices, found)
        return found

    def _told(self, state: ChainState, devices: Devices, found: Found) -> bool:
        """Tell a placement, and the bound if no state was left out; whether none was."""
        if found.of_unit is not None:
            state.tell(self.turn, devices.sweep.graph.devices_of(found.of_unit), "states")
        if found.whole:
            target = devices.sweep.target
            self.turn.bound(target if found.load is None else min(target, found.load), "states")
        return found.whole

    def _rising(self, state: ChainState, width: int) -> None:
        """The times of units as prices: higher targets where one was settled by few states, lower ones where by many,
        the lowest where one isn't settled, and the best load itself where it is new."""
        step = 0
        while not gap_closed(self.turn):
            upper, apart, peak = self.upper, self.upper - self.lower, 0
            try:
                target = self.upper - int(RISING[step] * apart)
                graph = joined_by_budget(joined_by_dominance(state.problem, target), target)
                if graph.placeable:
                    peak = _Search(self.turn, graph)._at(state, target, width, FIRST, 1)
                else:
                    self.turn.bound(target, "columns")
            except TooWideError:
                if step + 1 == len(RISING):
                    raise
                step += 1
                continue
            except Stop:
                self.turn.deadline.check()
            if self.upper < upper:
                step = len(RISING) - 1
            elif self.upper - self.lower < SETTLED * apart:
                step = min(step + 1, len(RISING) - 1) if FEW * peak <= width or not step else step - 1
            elif step:
                step = 0
            else:
                return

    def _at(self, state: ChainState, target: int, width: int, share: float, rounds: int = ROUNDS) -> int:
        """Prices for loads below a target, in so many rounds, then as many states as ``width``; how many were met."""
        graph, turn = self.graph, self.turn
        if cut_budget(graph, target).budget < 0:
            turn.bound(target, "columns")
            return 0
        deadline = turn.deadline.share(PASS)
        devices = Devices(sweep(graph, target), deadline)
        priced = columns(devices, self.prices, self.sets, deadline.share(share / PASS), UnitPrices, rounds)
        turn.bound(min(target, priced.bound), "columns")
        if priced.bound >= target:
            return 0
        self.prices = priced.prices.astype(np.float64)
        devices.label(priced.prices, deadline)
        found = placed(devices, priced.prices, min(width, TRAIL), False, True, deadline)
        if not self._told(state, devices, found):
            found = placed(devices, priced.prices, width, True, False, deadline)
            if found.load is None:
                turn.bound(target, "states")
            elif found.whole:
                turn.bound(min(target, found.load), "states")
        return found.peak
