"""A floorplan between obstacles improved: some kernels leave the board and come back where they cost least.

At the floorplan's own time wires get shorter. At a shorter time all kernels that are slower come back in other boxes.
What is worse is undone. Corners are looked for round the old places first, then on the whole fabric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from random import Random

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.board import Window
from chipmap.heuristics.wafer.obstructed import Builder, Fronts, Made
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import WaferProblem, evaluate, size

#: Most kernels that leave the board beside those that are too slow, and of these.
MOST, SLOW = 5, 12
#: How often a shorter time is tried at least; how much shorter it is at first and at most.
SHORTER, CUT, LONGEST_CUT = 0.3, 0.1, 0.5
#: Corners round the old places, in sides of the largest box that leaves.
AROUND = 2
#: Corners of the lattice in it, where defects are scattered.
CORNERS = 3000


def improve(
    problem: WaferProblem,
    placements: Sequence[Placement],
    seed: int,
    steps: int | None,
    deadline: Deadline,
    found: Callable[[list[Placement]], None],
) -> None:
    """Improve a valid floorplan for ``steps`` steps (None: until the deadline); ``found`` hears every better one."""
    search = _Search(problem, placements, seed, deadline)
    step = 0
    while (steps is None or step < steps) and deadline.keep_going():
        step += 1
        if (better := search.step()) is not None:
            found(better)


class _Search:
    def __init__(self, problem: WaferProblem, placements: Sequence[Placement], seed: int, deadline: Deadline) -> None:
        self.problem, self.random = problem, Random(seed)
        self.builder = Builder(problem, Fronts(problem), 1, deadline)
        self.builder.placed = dict(enumerate(placements))
        self.builder.board.boxes = {v: (p.x, p.y, *size(p)) for v, p in enumerate(placements)}
        self.times = [problem.time_of(v, p) for v, p in enumerate(placements)]
        self.score, self.cut = evaluate(problem, placements).score, CUT

    def step(self) -> list[Placement] | None:
        """One try; the floorplan where it is better."""
        tau, free = max(self.times), self._neighbourhood()
        of_time = self.problem.score(tau, 0, 0)
        shorter = of_time > 0 and self.random.random() < max(SHORTER, 0.9 * of_time / max(self.score, 1))
        if shorter:
            tau = int(tau * (1 - self.cut * self.random.random())) - 1
            slow = [v for v, time in enumerate(self.times) if time > tau]
            if len(slow) > SLOW:
                self.cut /= 2
                return None
            free = [*slow, *(v for v in free if v not in slow)][: max(len(slow), MOST)]
        better = self._try(free, tau)
        if shorter:
            self.cut = min(LONGEST_CUT, 2 * self.cut) if better is not None else max(1e-4, 0.9 * self.cut)
        return better

    def _try(self, free: Sequence[int], tau: int) -> list[Placement] | None:
        """Take kernels off the board and put them back within time ``tau``; what isn't as good is undone."""
        old: dict[int, Made] = {v: self.builder.take(v) for v in free}
        times = list(self.times)
        if self._back(free, tau, old):
            for v in free:
                self.times[v] = self.problem.time_of(v, self.builder.placed[v])
            made = self.builder.whole()
            score = self.score if made is None else evaluate(self.problem, made).score
            if made is not None and score < self.score:
                self.score = score
                return made
            if made is not None and score == self.score:
                return None
        self.times = times
        for v, (box, placement) in old.items():
            self.builder.board.boxes[v], self.builder.placed[v] = box, placement
        return None

    def _back(self, free: Sequence[int], tau: int, old: dict[int, Made]) -> bool:
        """Every kernel back on the board: those of groups in their order, the others at random or the largest first."""
        boxes = [box for box, _ in old.values()]
        reach = AROUND * max(max(box[2:]) for box in boxes) + 8
        window = Window(
            min(box[0] for box in boxes) - reach,
            min(box[1] for box in boxes) - reach,
            max(box[0] + box[2] for box in boxes) + reach,
            max(box[1] + box[3] for box in boxes) + reach,
        )
        corners = (window.right - window.left) * (window.top - window.low)
        self.builder.board.step = self.random.randint(1, 1 + isqrt(corners // CORNERS))
        order = list(free)
        self.random.shuffle(order)
        if self.random.random() < 0.5:
            order.sort(key=lambda v: -old[v][0][2] * old[v][0][3])
        return all(
            self.builder.put(v, tau, None, window) or (len(free) <= 2 and self.builder.put(v, tau, None)) for v in order
        )

    def _neighbourhood(self) -> list[int]:
        """A kernel, and perhaps those nearest to it or joined to it."""
        count = min(self.random.randint(1, MOST), self.problem.n)
        first = self.random.randrange(self.problem.n)
        kind = self.random.random()
        joined = list(dict.fromkeys(self.builder.joined[first]))
        if kind < 0.3 and joined:
            self.random.shuffle(joined)
            return list(dict.fromkeys([first, *joined]))[:count]
        if kind < 0.4:
            return self.random.sample(range(self.problem.n), min(count, 2))
        boxes = np.array([self.builder.board.boxes[v] for v in range(self.problem.n)])
        centres = 2 * boxes[:, :2] + boxes[:, 2:]
        order = np.abs(centres - centres[first]).sum(axis=1).argsort(kind="stable")
        return [int(v) for v in order[:count]]
