"""Annealing of mappings whose chips stand in levels, which obey C3 by construction: a start for local search.

Each chip has a level, and every flow between two chips leads from one level to the next. So no path of flows is longer
than another one between the same chips, and C3 holds; with one chip per level this is the rule of ``ring/path``. On
`layered`, 1,000 operations, 50 wide, there are mappings of this kind that :mod:`.search`, which pays for breaking C3,
doesn't find its way to.

The search starts with one chip per level. Level of an operation: the fewest flows that a walk against and along the
flows takes forward, from the operations at which the longest paths begin (:func:`widest`); where these are more levels
than chips, neighbouring ones are put together. The chips that levels leave over go, one at a time, to the level with
most work per chip. Moves: an operation goes to a chip of the level before, of its own level or of the next, along with
those that must then move as well: they go to the same chip where one level is asked of two flows, and to the chip that
the operation left where they would be two levels away.

A try anneals the excess of :mod:`.search` (without C3) towards a target below the best objective. After one that meets
it, chips without operations are dealt out anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.ring.local_search.levels_kernel import Levels
from chipmap.heuristics.ring.local_search.search import Effort, LocalSearch, closed
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.instances.units import components
from chipmap.networks.graph import neighbours

#: First temperatures of the tries, in turn, in operations of mean length over the target.
HOT = (0.3, 3.0, 1.0)
#: Moves of a first try: so many per pair of operations, so many at most; how often they are doubled, each time after a
#: round of tries that brought nothing.
EACH, FEWEST, DOUBLINGS = 40, 1_000_000, 1
#: The largest and smallest share by which a target lies below the best objective.
STEPS = (0.04, 0.005)


def widest(problem: RingProblem, operations: list[int]) -> IntArray:
    """A level for each of the ``operations`` (in topological order), such that every flow leads to the same or the next
    one.

    The greatest such levels where those operations at which the longest paths of a connected part begin have level 0:
    shortest distances when a flow has length 1 forward and 0 backward.
    """
    number, n = {v: i for i, v in enumerate(operations)}, len(operations)
    flows = [(number[u], number[v]) for u, v in problem.flows.tolist()]
    back = [(v, u) for u, v in flows]
    after, before = neighbours(n, flows), neighbours(n, back)
    height = [0] * n
    for u in reversed(range(n)):
        height[u] = max((height[v] + 1 for v in after[u]), default=0)
    level = np.full(n, -1, dtype=np.int64)
    part = components(n, flows + back)
    members = neighbours(n, ((part[u], u) for u in range(n)))
    for u in sorted(range(n), key=lambda u: -height[u]):
        if level[u] < 0:
            _spread([v for v in members[part[u]] if height[v] == height[u]], after, before, level)
    return level


def _spread(starts: list[int], after: list[list[int]], before: list[list[int]], level: IntArray) -> None:
    """Distances from ``starts``, flows forward 1, backward 0, into ``level``."""
    left, done = deque((0, u) for u in starts), set()
    while left:
        distance, u = left.popleft()
        if u in done:
            continue
        done.add(u)
        level[u] = distance
        left.extendleft((distance, v) for v in before[u] if v not in done)
        left.extend((distance + 1, v) for v in after[u] if v not in done)


class LevelSearch:
    """The search on one problem. Raises ValueError where it doesn't apply (as :class:`LocalSearch`), or where all
    operations have the same level.
    """

    def __init__(self, search: LocalSearch) -> None:
        if search.restricted:
            raise ValueError("levels know no pins, forbidden chips or groups apart")
        self.search, self.problem = search, search.problem
        self.widest = widest(self.problem, search.operations)
        if not self.widest.max(initial=0):
            raise ValueError("all operations have the same level")

    def improve(
        self,
        value: int,
        take: Callable[[tuple[int, ...]], bool],
        lower: int,
        seed: int = 0,
        deadline: Deadline = Deadline(),
    ) -> None:
        """Better and better mappings, each better than ``value`` and handed to ``take``.

        Ends when ``take`` says no, when the objective is ``lower``, the deadline has come, or a round of tries brought
        nothing after the last doubling.
        """
        random = np.array([seed], dtype=np.uint64)
        chip = level = self._merged()
        moves, step, failed = min(FEWEST, EACH * len(chip) ** 2), STEPS[0], 0
        lower = max(1, lower)  # targets are divided by
        for tries in count():
            if value <= lower or failed == len(HOT) * (DOUBLINGS + 1):
                return
            target = max(lower, value - max(1, int(step * value)))
            effort = Effort(HOT[tries % len(HOT)], 0.0, moves << failed // len(HOT))
            found = self._attempt(chip, level, target, effort, random, deadline)
            if found is None and not deadline.keep_going():
                return
            if found is None:
                step, failed = max(STEPS[1], step / 2), failed + 1
                continue
            chip, level = found
            mapping = self.search.mapping(chip)
            value, failed = max(terms(self.problem, np.maximum(mapping, 0))), 0
            if not take(tuple(mapping.tolist())):
                return

    def _merged(self) -> IntArray:
        """:func:`widest`, neighbouring levels put together where these are more than the chips."""
        level = self.widest
        chips = self.problem.chips
        if level.max() >= chips:
            ticks = np.bincount(level, weights=self.search.net.ticks)
            share = (np.cumsum(ticks) - ticks / 2) / max(1.0, ticks.sum())
            level = np.minimum((share * chips).astype(np.int64), chips - 1)[level]
        return closed(level)

    def _attempt(
        self,
        chip: IntArray,
        level: IntArray,
        target: int,
        effort: Effort,
        random: NDArray[np.uint64],
        deadline: Deadline,
    ) -> tuple[IntArray, IntArray] | None:
        """One try from a mapping ``chip`` and ``level`` per operation: one with an objective <= ``target``, or None."""
        of, chip = self._dealt(chip, level)
        levels = Levels(of, np.searchsorted(of, np.arange(of[-1] + 2)), np.zeros(len(chip), dtype=np.int64))
        found = self.search.attempt(chip, target, effort, random, deadline, levels)
        return None if found is None else (closed(found), closed(of[found]))

    def _dealt(self, chip: IntArray, level: IntArray) -> tuple[IntArray, IntArray]:
        """(the level of each of all chips, the mapping ``chip`` with the chips that it leaves over among them)."""
        of = np.zeros(int(chip.max()) + 1, dtype=np.int64)
        of[chip] = level
        has = np.bincount(of)
        work = np.bincount(level, weights=self.search.net.ticks)
        for _ in range(self.problem.chips - len(of)):
            has[(work / has).argmax()] += 1
        begin = np.cumsum(has) - has
        before = np.cumsum(np.bincount(of)) - np.bincount(of)
        return np.repeat(np.arange(len(has)), has), (chip + (begin - before)[level]).astype(np.int64)
