"""What the links of the family's chain share: tables, windows, starts, and placements by their devices and keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds import simple as lower
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.siblings.roles import Roles, roles
from chipmap.heuristics.placement.simulation.backward import backward_keys
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import Work, tables, workspace
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.apart import set_apart
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.frugal import frugal_order
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.chain import Turn
from chipmap.methods.lanes import Lane

#: Human splits from which partitions start where memory binds; partitions that are tried for the first that fits.
CRAMPED, TRIES = ("bytes", "round robin"), 12
#: Work goes on for so many times what a check took before the next one.
PATIENCE = 5.0
#: Times that a start's schedule is run backwards at most.
PASSES = 6

#: (bytes too many, step time, devices [N], keys [N]).
Placed = tuple[int, int, IntArray, IntArray]


def better(one: Placed | None, other: Placed | None) -> Placed | None:
    """The better of two placements; the first one where they are equally good."""
    return other if other is not None and (one is None or other[:2] < one[:2]) else one


class ChainState:
    """A problem on its way through the chain. Lanes share it: what uses ``work`` or ``best`` takes turns."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.tables, self.work = tables(problem), workspace(problem)
        self.bytes, self.key = bytes_of(problem), default_keys(problem)
        self.none = np.zeros(problem.operations, dtype=np.int64)
        self.best: Placed | None = None
        # the best start by the upward rank alone, and the best ones of each kind by keys from schedules run backwards
        self.ranked: Placed | None = None
        self.turned_starts: dict[str, Placed] = {}
        self.carried = False  # whether a plan of a smaller graph fits: it is a better start than all others
        self.phased = False  # whether partitions of a large graph were made before siblings
        self.cost, self.wait = 0.0, 0.0  # seconds that a check takes, and when a search may ask for the next one
        self.simulated, self.turns = 0, threading.RLock()
        self.turning = True  # whether the search found the best by running schedules backwards
        self._heads_and_tails: lower.HeadsAndTails | None = None

    @cached_property
    def frugal_key(self) -> IntArray:
        """The places of operations in an order that holds little [N]."""
        found = np.empty(self.problem.operations, dtype=np.int64)
        found[frugal_order(self.problem)] = np.arange(self.problem.operations)
        return found

    @cached_property
    def repeated(self) -> Roles | None:
        """The structure that repeats, if there is one."""
        return roles(self.problem)

    @property
    def size(self) -> int:
        """N · D."""
        return self.problem.operations * self.problem.devices

    def heads_and_tails(self, deadline: Deadline) -> lower.HeadsAndTails:
        """Heads and tails, computed once."""
        if self._heads_and_tails is None:
            self._heads_and_tails = lower.heads_and_tails(self.problem, deadline)
        return self._heads_and_tails

    def raise_heads_and_tails(self, windows: lower.HeadsAndTails) -> lower.HeadsAndTails:
        """Keep these heads and tails from now on."""
        self._heads_and_tails = windows
        return windows

    def singles(self) -> Iterator[tuple[str, IntArray]]:
        """Everything on one device, for each device that allows it."""
        for d in range(self.problem.devices):
            if (devices := starts.one_device(self.problem, d)) is not None:
                yield "one device", devices

    def starts(self, deadline: Deadline) -> Iterator[tuple[str, IntArray]]:
        """(name, devices) of all starts, the quickest ones first."""
        yield from self.singles()
        made = human.layers(self.problem)
        for kind in human.SPLITS:
            yield f"human, {kind}", human.split(self.problem, kind, made)
        yield from self.fitting(deadline)
        yield "heft-units", heft_units(self.problem, self.tables)
        yield "heft", starts.heft(self.problem, self.tables)
        yield "etf", etf(self.problem, self.tables, deadline)

    def fitting(self, deadline: Deadline) -> Iterator[tuple[str, IntArray]]:
        """Partitions until one fits, where nothing did before."""
        if not self.problem.timed or self.problem.devices == 1:
            return
        made, begins = units(self.problem), self.initial_partitions()
        for seed in range(TRIES):
            if self.best is not None and self.best[0] == 0:
                return
            yield "partition", partition(self.problem, made, begins[seed % len(begins)], seed, deadline)

    def initial_partitions(self) -> list[IntArray]:
        """Where partitions start: all on one device; if that is too much for its memory, human splits as well.

        From these, annealing much rather ends with a partition that fits: most bytes are shared out already.
        """
        problem = self.problem
        first = common_devices(problem).argmax(axis=1).astype(np.int64)
        with self.turns:
            step = int(simulate(self.tables, first, self.key, False, self.none, NEVER, self.work))
            if step >= 0 and not excess(self.tables, self.bytes, first, self.work):
                return [first]
        made = human.layers(problem)
        return [*(human.split(problem, kind, made) for kind in CRAMPED), first]

    def tell(self, turn: Turn, devices: IntArray, name: str, key: IntArray | None = None) -> None:
        """Hand over the placement on ``devices``, with step time the schedule that the decoder makes of it."""
        problem = self.problem
        if not problem.timed:
            turn.solution(problem.solution(set_apart(problem, devices)), name)
            return
        if self.evaluate_and_keep(devices, key):
            self.tell_best(turn, name)

    def evaluate_and_keep(self, devices: IntArray, key: IntArray | None = None, kind: str = "start") -> bool:
        """Simulate a placement; whether it is better than the best so far, which it is from then on.

        Without ``key`` it is a start of that ``kind``: by the upward rank, where memory overflows also by an order that
        holds little, and by keys from the schedule run backwards, as long as these help.
        """
        devices = set_apart(self.problem, devices)
        with self.turns:
            before = self.best
            found = self.placed(devices, self.key if key is None else key, self.work)
            self.best = better(before, found)
            if key is None and found is not None:
                if found[0] and self.problem.instance.task.memory == "live":
                    found = better(found, self.placed(devices, self.frugal_key, self.work)) or found
                    self.best = better(self.best, self.placed(*found[2:], self.work))
                self.ranked = better(self.ranked, found)
                found = self._after_backward_passes(found)
                self.turned_starts[kind] = better(self.turned_starts.get(kind), found) or found
                self.best = better(self.best, found)
            return self.best is not before

    def _after_backward_passes(self, found: Placed) -> Placed:
        """A placement whose schedule is in ``work``, by keys from schedules run backwards, as long as these help."""
        for _ in range(PASSES):
            again = self.placed(found[2], backward_keys(self.tables, found[2], self.work), self.work)
            if again is None or again[:2] >= found[:2]:
                break
            found = again
        return found

    def turned(self, devices: IntArray) -> Placed | None:
        """A placement by the upward rank, then by keys from schedules run backwards; None without a route."""
        with self.turns:
            found = self.placed(devices, self.key, self.work)
            return None if found is None else self._after_backward_passes(found)

    def best_by_backward_keys(self, devices: IntArray, key: IntArray, work: Work) -> Placed | None:
        """A placement by keys from its schedule run backwards, which is in ``work`` then; None without a route."""
        if self.placed(devices, key, work) is None:
            return None
        return self.placed(devices, backward_keys(self.tables, devices, work), work)

    def placed(self, devices: IntArray, key: IntArray, work: Work) -> Placed | None:
        """A placement, whose schedule ``work`` holds then; None without a route."""
        step = int(simulate(self.tables, devices, key, False, self.none, NEVER, work))
        over = int(excess(self.tables, self.bytes, devices, work)) if step >= 0 else 0
        return (over, step, devices.copy(), key.copy()) if step >= 0 else None

    def tell_best(self, turn: Turn, name: str) -> None:
        """Hand over the best placement so far, if it fits."""
        if self.best is None or self.best[0] > 0:
            return
        self._hand_over(turn, self.decoded(), name)

    def tell_better(
        self, turn: Turn, name: str, told: tuple[int, int] | None, wait: bool = True
    ) -> tuple[int, int] | None:
        """Hand over the best placement if it is better than what was ``told``; what is told then.

        For a while after a check it waits.
        """
        if self.best is None or self.best[:2] == told or (wait and time.monotonic() < self.wait):
            return told
        begun = time.monotonic()
        self.tell_best(turn, name)
        self.wait = begun + PATIENCE * self.cost
        return self.best[:2]

    def decoded(self) -> PlacementSolution:
        """The schedule of the best placement so far."""
        assert self.best is not None
        with self.turns:
            _, _, devices, key = self.best
            simulate(self.tables, devices, key, False, self.none, NEVER, self.work)
            return schedule(self.problem, devices, self.work)

    def _hand_over(self, turn: Turn, found: PlacementSolution, name: str) -> None:
        """Hand over a schedule, and see what its check costs (a lane's is checked by another thread)."""
        begun = time.monotonic()
        turn.solution(found, name)
        if not isinstance(turn, Lane):
            self.cost = time.monotonic() - begun
