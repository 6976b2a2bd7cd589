"""What the links of the family's chain share: tables, windows, starts, and placements by their devices and keys."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement import bounds as lower
from chipmap.heuristics.placement import human, starts
from chipmap.heuristics.placement.annealing import State, anneal, seed_with, state
from chipmap.heuristics.placement.etf import etf
from chipmap.heuristics.placement.heft_units import heft_units
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.memory import bytes_of, excess
from chipmap.heuristics.placement.partition import partition
from chipmap.heuristics.placement.shared import joint
from chipmap.heuristics.placement.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.tables import tables, workspace
from chipmap.heuristics.placement.units import units
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.chain import Turn

#: Moves of the annealing on a small instance, and of all rounds together where no time limit is given; moves times
#: operations at most there.
FEW_MOVES, MOVES, MOST = 2_000, 200_000, 10**9
#: Rounds, and the first and last temperature as shares of the step time.
ROUNDS, HOT, COLD = 6, 1e-3, 6e-5
#: Operations that a call of compiled code simulates at most, after which the clock is looked at (some 0.1 s), and the
#: fewest moves of a call.
CHUNK, FEWEST = 1_500_000, 4
#: Moments of a simulation that the search keeps.
MOMENTS = 24
#: A search goes on for so many times what a check took before the next one.
PATIENCE = 5.0
#: Human splits from which partitions start where memory binds; partitions that are tried for the first that fits.
CRAMPED, TRIES = ("bytes", "round robin"), 12


class Stages:
    """A problem on its way through the chain."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.tables, self.work = tables(problem), workspace(problem)
        self.bytes, self.key = bytes_of(problem), default_keys(problem)
        self.none = np.zeros(problem.operations, dtype=np.int64)
        self.best: tuple[int, int, IntArray, IntArray] | None = None
        self.cost, self.wait = 0.0, 0.0  # seconds of the last check of a search, and when the next one may be
        self._windows: lower.Windows | None = None

    @property
    def size(self) -> int:
        """N · D."""
        return self.problem.operations * self.problem.devices

    def windows(self, deadline: Deadline) -> lower.Windows:
        """Heads and tails, computed once."""
        if self._windows is None:
            self._windows = lower.windows(self.problem, deadline)
        return self._windows

    def raise_windows(self, windows: lower.Windows) -> lower.Windows:
        """Keep these heads and tails from now on."""
        self._windows = windows
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
        made, begins = units(self.problem), self.begins()
        for seed in range(TRIES):
            if self.best is not None and self.best[0] == 0:
                return
            yield "partition", partition(self.problem, made, begins[seed % len(begins)], seed, deadline)

    def begins(self) -> list[IntArray]:
        """Where partitions start: all on one device; if that is too much for its memory, human splits as well.

        From these, annealing much rather ends with a partition that fits: most bytes are shared out already.
        """
        problem = self.problem
        first = joint(problem).argmax(axis=1).astype(np.int64)
        step = int(simulate(self.tables, first, self.key, False, self.none, NEVER, self.work))
        if step >= 0 and not excess(self.tables, self.bytes, first, self.work):
            return [first]
        made = human.layers(problem)
        return [*(human.split(problem, kind, made) for kind in CRAMPED), first]

    def tell(self, turn: Turn, devices: IntArray, name: str, key: IntArray | None = None) -> None:
        """Hand over the placement on ``devices``, with step time the schedule that the decoder makes of it."""
        problem = self.problem
        if not problem.timed:
            turn.solution(PlacementSolution(instance=problem.instance.name, devices=problem.names_of(devices)), name)
        elif self.weigh(devices, key) and self.best is not None and self.best[0] == 0:
            turn.solution(schedule(problem, devices, self.work), name)

    def weigh(self, devices: IntArray, key: IntArray | None = None) -> bool:
        """Simulate a placement; whether it is better than the best so far, which it is from then on."""
        key = self.key if key is None else key
        step = int(simulate(self.tables, devices, key, False, self.none, NEVER, self.work))
        if step < 0:
            return False
        over = int(excess(self.tables, self.bytes, devices, self.work))
        if self.best is not None and (over, step) >= self.best[:2]:
            return False
        self.best = (over, step, devices.copy(), key.copy())
        return True

    def tell_best(self, turn: Turn, name: str) -> None:
        """Hand over the best placement so far, if it fits."""
        if self.best is not None and self.best[0] == 0:
            _, _, devices, key = self.best
            simulate(self.tables, devices, key, False, self.none, NEVER, self.work)
            turn.solution(schedule(self.problem, devices, self.work), name)

    def anneal(self, turn: Turn, few: bool) -> None:
        """Rounds of annealing, each from the best so far, until the turn is over or enough moves were made."""
        if self.best is None or not self.problem.operations:
            return
        run, tail = turn.run, self.windows(turn.deadline).tail
        limited = run.options.time_limit is not None and not run.options.deterministic and not few
        both = workspace(self.problem, MOMENTS), workspace(self.problem, MOMENTS)
        made, allowed, simulated = units(self.problem), self.problem.allowed, 0
        chunk = max(FEWEST, CHUNK // self.problem.operations)
        budget = FEW_MOVES if few else min(MOVES, max(ROUNDS, MOST // self.problem.operations))
        chunk = min(chunk, budget // ROUNDS)
        seed_with(run.options.seed)
        total = turn.deadline.seconds
        for number in range(ROUNDS):
            over, step, devices, key = self.best
            now, done = state(devices, key, step, over), 0
            warm, until = HOT / 2**number * max(1, step), total * (ROUNDS - 1 - number) / ROUNDS
            share = 0.0
            # a checked placement costs time, twice in a child process: the last one must be told before the deadline
            while turn.deadline.keep_going() and share < 1.0 and turn.deadline.seconds > 3 * self.cost:
                left = turn.deadline.seconds
                heat = warm * (COLD / HOT) ** share
                simulated += anneal(
                    self.tables, self.bytes, made, allowed, tail, now, both, (heat, max(heat / 2, 1e-3)), chunk
                )
                done += chunk
                share = done / (budget / ROUNDS)
                if limited:
                    share = 1.0 if left <= until else 1 - (left - until) / (total / ROUNDS)
                if time.monotonic() >= self.wait:
                    self._tell_best_of(turn, now)
            self._tell_best_of(turn, now)
        run.note("search", f"annealing: {simulated} simulations", simulated=simulated)
        turn.deadline.check()

    def _tell_best_of(self, turn: Turn, now: State) -> None:
        """Hand over what the annealing found, if it is better; for a while afterwards better ones wait."""
        if self.best is None or (now.value[3], now.value[2]) < self.best[:2]:
            begun = time.monotonic()
            self.tell(turn, now.best_device.copy(), "annealing", now.best_key.copy())
            self.cost = time.monotonic() - begun
            self.wait = begun + PATIENCE * self.cost
