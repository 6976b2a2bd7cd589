"""Local search of a mapping: simulated annealing on moves that keep C1, towards one target after the other.

On wide graphs C3 is what is hard to keep: a move that shifts work between neighbouring chips makes some pair of chips
send past a third. So a mapping may break C3, C4 and the target T on the way, at a price. What is minimised is its

    excess = sum over chips c of max(0, time(c) / T - 1), over links likewise, and memory beyond the SRAM
           + sum over pairs of chips (a, b) that break C3 of price · (1 + FLOW · flows from a to b) · mean time / T

with the mean time of an operation. A mapping with excess 0 has an objective <= T and obeys C1, C3 and C4 (of grade
``full`` what grade ``boundary`` asks; the checker judges). The next target is then a little below its objective. Chips
may be empty on the way: a mapping without its empty chips has the same loads and obeys C2.

Moves, each a random one: an operation goes to a chip, at most three away, that C1 allows; an operation goes one or two
chips on or back, along with the operations that C1 then forces to go there too; two neighbouring chips between which no
flow leads change places. The last kind matters where branches of the graph share the chips in turn.

A try goes from a high temperature to a low one, from the best mapping. Tries take the temperatures of :data:`HOT` in
turn: low ones gain little by little, which is all that is needed at first, high ones leave a local optimum. After a
round of tries without a gain, the next one has the other price of :data:`PRICES`; after two rounds, tries get twice as
many moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.incidence import incidence
from chipmap.heuristics.ring.local_search.levels_kernel import NO_LEVELS, Levels
from chipmap.heuristics.ring.local_search.loads_kernel import Goal, Net, Place, fill
from chipmap.heuristics.ring.local_search.moves_kernel import Heat, anneal
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import IntArray, RingProblem

#: What a pair of chips that breaks C3 costs, in operations of mean length, and each of its flows as a share of that. On
#: `layered` the first is better with 1,000 operations, 50 wide, the second with 200, 16 wide; on these, all that
#: follows was tuned as well.
PRICES, FLOW = (1.0, 0.5), 0.2
#: Temperatures at which tries begin, and end, in operations of mean length over the target.
HOT = (0.03, 0.1, 0.3, 0.6)
COLD = 0.01
#: Moves of the first tries: so many per pair of operations, so many at most.
EACH, FEWEST = 20, 200_000
#: A search ends when two rounds of tries brought no gain after the moves of a try were doubled so often.
DOUBLINGS = 4
#: Where no mapping is known that obeys C4: targets in shares of the plain bound, first temperatures, moves of a try.
#: Tried on Whisper small in 96 MiB.
LOOSE, HOTTER, TRIES = (2, 4, 16), (0.3, 0.6, 1.5), 400_000
#: Moves between two looks at the clock.
CHUNK = 20_000
#: The largest and smallest share by which a target lies below the best objective.
STEPS = (0.02, 0.002)
#: Chips at most: what sends to a chip is a word of 64 bits.
MOST_CHIPS = 64


class Effort(NamedTuple):
    """What a try is: its first temperature, the price of a pair that breaks C3, its moves."""

    hot: float
    price: float
    moves: int


class LocalSearch:
    """The search on one problem (arrays are made once). Raises ValueError where it doesn't apply."""

    def __init__(self, problem: RingProblem) -> None:
        if not problem.has("C1"):
            raise ValueError("the local search rests on C1")
        if problem.chips > MOST_CHIPS:
            raise ValueError(f"the local search takes at most {MOST_CHIPS} chips")
        if problem.groups:
            raise ValueError("the local search knows no groups together that aren't merged")
        self.problem = problem
        self.operations = [v for v in problem.order if problem.computing[v]]
        #: Whether pins, forbidden chips or groups apart are in force: numbers of chips then matter.
        self.restricted = bool(problem.apart) or any(chips is not None for chips in problem.allowed)
        self.net = _net(problem, self.operations)

    def improve(
        self,
        chips: Sequence[int] | IntArray,
        take: Callable[[tuple[int, ...]], bool],
        lower: int,
        seed: int = 0,
        deadline: Deadline = Deadline(),
        doublings: int = DOUBLINGS,
    ) -> None:
        """Better and better mappings from the valid one ``chips`` [n] on, each handed to ``take``.

        Ends when ``take`` says no (the mapping doesn't count), when the objective is ``lower``, the deadline has come,
        or two rounds of tries brought nothing after so many ``doublings``.
        """
        random = np.array([seed], dtype=np.uint64)
        best = np.asarray(chips, dtype=np.int64)[self.operations]
        value = max(terms(self.problem, chips))
        first = min(FEWEST, EACH * len(self.operations) ** 2)
        moves, step, tries, failed = first, STEPS[0], 0, 0
        lower = max(1, lower)  # targets are divided by
        while value > lower and moves <= first << doublings:
            target = max(lower, value - max(1, int(step * value)))
            turn, hot = divmod(tries, len(HOT))
            effort = Effort(HOT[hot], PRICES[turn % len(PRICES)], moves)
            if self.restricted:
                self.net = self.net._replace(allowed=self._around(best, random))
            found = self.attempt(best, target, effort, random, deadline)
            if found is not None and self.restricted and self.problem.has("C2"):
                found = found if len(np.unique(found)) == found.max() + 1 else None
            if found is None and not deadline.keep_going():
                return
            if found is None:
                step, tries, failed = max(STEPS[1], step / 2), tries + 1, failed + 1
                moves *= 1 if failed % (len(HOT) * len(PRICES)) else 2
                continue
            best = found if self.restricted else closed(found)
            mapping = self.mapping(best)
            value = max(terms(self.problem, np.maximum(mapping, 0)))
            step, failed = min(STEPS[0], 1.5 * step), 0
            if not take(tuple(mapping.tolist())):
                return

    def _around(self, best: IntArray, random: NDArray[np.uint64]) -> IntArray:
        """The chips that each operation may have beside that of ``best`` [n, C]: those of pins. Chips that none of a
        group apart has are dealt out among it, anew each time."""
        problem, dealer = self.problem, np.random.default_rng(int(random[0]))
        allowed = np.ones((len(self.operations), problem.chips), dtype=bool)
        number = {v: i for i, v in enumerate(self.operations)}
        for v, i in number.items():
            if (chips := problem.allowed[v]) is not None:
                allowed[i] = [c in chips for c in range(problem.chips)]
        for group in problem.apart:
            members = [number[v] for v in group if v in number]
            dealt = dealer.integers(len(members), size=problem.chips) if members else np.zeros(0)
            for j, i in enumerate(members):
                dealt[best[i]] = j
            for j, i in enumerate(members):
                allowed[i] &= dealt == j
        return allowed

    def first(
        self, chips: Sequence[int] | IntArray, seed: int = 0, deadline: Deadline = Deadline()
    ) -> tuple[int, ...] | None:
        """A mapping that obeys C3 and C4, found from ``chips`` [n], which need obey C1 only; None where tries fail, or
        under pins."""
        if self.restricted:
            return None
        random = np.array([seed], dtype=np.uint64)
        start = np.asarray(chips, dtype=np.int64)[self.operations]
        moves = min(TRIES, EACH * len(self.operations) ** 2)
        for share, price, hot in product(LOOSE, PRICES, HOTTER):
            target = max(1, share * self.problem.least_ticks)
            found = self.attempt(start, target, Effort(hot, price, moves), random, deadline)
            if found is not None:
                return tuple(self.mapping(closed(found)).tolist())
            if not deadline.keep_going():
                break
        return None

    def attempt(
        self,
        start: IntArray,
        target: int,
        effort: Effort,
        random: NDArray[np.uint64],
        deadline: Deadline = Deadline(),
        levels: Levels = NO_LEVELS,
    ) -> IntArray | None:
        """One try from the mapping ``start`` (of the computing operations in topological order): one with an objective
        <= ``target``, which may leave chips empty, or None.
        """
        moves = effort.moves
        place, goal, heat = self.place(start), self.goal(target, effort.price), self.heat(target, effort, random)
        for done in range(0, moves, CHUNK):
            if not deadline.keep_going():
                return None
            if anneal(self.net, place, goal, levels, heat, min(CHUNK, moves - done)) == 0.0:
                return np.asarray(place.chip)
        return None

    def goal(self, target: int, price: float) -> Goal:
        """At most ``target`` ticks, and C4; a ``price`` for each pair of chips that breaks C3."""
        problem = self.problem
        pair = price * problem.has("C3") * self._mean() / target
        mode = ("period", "sum", "sum_forward").index(problem.cost_mode)
        return Goal(target, mode, problem.sram_bytes if problem.has("C4") else -1, pair, FLOW * pair)

    def heat(self, target: int, effort: Effort, random: NDArray[np.uint64]) -> Heat:
        """The temperatures of a try, from ``effort.hot`` to :data:`COLD`."""
        temperature = np.array([effort.hot * self._mean() / target])
        return Heat(temperature, (COLD / effort.hot) ** (1.0 / effort.moves), random)

    def place(self, chips: IntArray) -> Place:
        """The mapping ``chips`` of the computing operations in topological order, with what follows from it."""
        count, n = self.problem.chips, len(self.operations)
        work, load, moved, weights, boundary = np.zeros((5, count), dtype=np.int64)
        senders, ancestors = np.zeros((2, count), dtype=np.uint64)
        flows = np.zeros((count, count), dtype=np.int64)
        held = np.zeros((len(self.net.shared_bytes), count), dtype=np.int64)
        seen, marked = np.zeros(count + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
        sums = (work, load, moved, weights, boundary, np.zeros(count), senders, flows, held)
        place = Place(chips.copy(), *sums, seen, ancestors, marked)
        fill(self.net, place)
        return place

    def _mean(self) -> float:
        """The mean length of an operation in ticks (1 where all take no time)."""
        return max(1.0, self.problem.total_ticks / len(self.operations))

    def mapping(self, chips: IntArray) -> IntArray:
        """Chip per operation of the problem, -1 where not computing."""
        mapping = np.full(self.problem.n, -1, dtype=np.int64)
        mapping[self.operations] = chips
        return mapping


def closed(numbers: IntArray) -> IntArray:
    """The ``numbers`` 0, 1, … in their order, without gaps."""
    found: IntArray = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return found


def _net(problem: RingProblem, operations: list[int]) -> Net:
    """The problem's arrays, its computing operations in the order of ``operations``."""
    on = incidence(problem, operations)
    return Net(
        problem.ticks[operations],
        problem.weight_bytes[operations],
        *on.made,
        *on.reads,
        *on.shared,
        *on.readers,
        producer=on.producer,
        link=on.ticks,
        bytes=on.bytes,
        shared_bytes=on.shared_bytes,
        allowed=np.zeros((0, 0), dtype=bool),
    )
