"""Partitions of several styles: every style once, then those that the decoder likes best, and the best placement again
in phases of its own schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.simulation.simulator import NEVER
from chipmap.heuristics.placement.starts.partition import LARGE_GRAPH, Style, partition
from chipmap.heuristics.placement.starts.phases import middle, path_windows, phases
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.methods.placement.chain_state import ChainState

#: (phases, weight of work above a share) of each style, in the order in which they are tried.
STYLES = ((4, 2.0), (16, 4.0), (1, 4.0), (40, 2.0), (8, 2.0), (4, 4.0), (1, 2.0), (40, 4.0))
#: The order for large graphs: those that were best on most of five graphs of 30,000 to 52,000 operations first.
LARGE_STYLES = ((40, 2.0), (1, 4.0), (40, 4.0), (16, 4.0), (4, 4.0), (8, 2.0), (1, 2.0), (4, 2.0))
#: Styles that go on taking turns once all were tried.
BEST = 2
#: Operations from which on partitions go on from the best placement. On smaller graphs the search ends alike without.
LARGE = 5_000
#: Of partitions that go on from the best placement: phases in turn, the weight of work above a share, what is left out
#: of the fall of the temperature in turn, and the fewest moves for each operation.
AGAIN, WEIGHT, LATE, MOVES = (16, 8, 40, 4), 2.0, (0.4, 0.7, 0.55), 24


class Draw(NamedTuple):
    """A partition to be made: its kind among the starts, its style, and devices [N] that it goes on from, if any."""

    kind: str
    style: Style
    begin: IntArray | None = None


class Effort(NamedTuple):
    """What a partition begins from unless it goes on, its seed, when it must end, and its moves."""

    begin: IntArray
    seed: int
    deadline: Deadline
    moves: int


class Styles:
    """The styles of a problem's partitions, where the chain's state keeps the best one of each kind.

    ``going_on``: whether some go on from the best placement, if the graph is large enough.
    """

    def __init__(self, state: ChainState, deadline: Deadline, going_on: bool = True) -> None:
        quick = state.problem.operations >= LARGE_GRAPH
        self._state, self._going_on = state, going_on and state.problem.operations >= LARGE
        self._middle = middle(path_windows(state.problem) if quick else state.heads_and_tails(deadline))
        self._made = dict[str, list[Draw]]()
        self._number = dict[str, int]()
        self._again = 0
        self._before: tuple[int, int] | None = None  # the best placement before the last partition, if that went on

    def keep(self, left: PlacementProblem, units: Units, effort: Effort, draw: Draw | None = None) -> bool:
        """Make the next partition, or that of the ``draw``, and keep it; whether it is better than all before."""
        kind, style, begin = draw or self.next(left)
        first, seed, deadline, moves = effort
        if begin is not None:
            first, moves = begin, max(moves, MOVES * left.operations)
        return self._state.evaluate_and_keep(partition(left, units, first, seed, deadline, moves, style), kind=kind)

    def next(self, left: PlacementProblem) -> Draw:
        """The next partition of the problem, or of one with fewer devices ``left``.

        Each style has a turn. Then new partitions of the best two take turns, on larger graphs also with those that go
        on from the best placement; one that made this better is followed by another.
        """
        where = "partition" if left is self._state.problem else "partition, fewer devices"
        if where not in self._made:
            self._number[where] = 0
            self._made[where] = [
                Draw(f"{where}, {count} phases, {uneven:g}", Style(phases(left, self._middle, count), uneven))
                for count, uneven in (STYLES if left.operations < LARGE_GRAPH else LARGE_STYLES)
            ]
        number, draws = self._number[where], self._made[where]
        best = self._state.best
        if self._going_on and number >= len(draws) and left is self._state.problem and best is not None:
            if self._before is None or best[:2] < self._before:
                self._before = best[:2]
                return self.again()
            self._before = None
        self._number[where] += 1
        if number < len(draws):
            return draws[number]
        return sorted(draws, key=self._end)[number % BEST]

    def again(self) -> Draw:
        """A partition that goes on from the best placement, in phases by the middle of operations in its schedule."""
        state, problem, number = self._state, self._state.problem, self._again
        assert state.best is not None
        self._again += 1
        _, _, device, key = state.best
        with state.turns:
            state.placed(device, key, state.work)
            when = 2 * state.work.start + problem.time[np.arange(problem.operations), device]
        parts, late = phases(problem, when, AGAIN[number % len(AGAIN)]), LATE[number % len(LATE)]
        return Draw("partition, again", Style(parts, WEIGHT, late), device)

    def _end(self, draw: Draw) -> tuple[int, int]:
        """(bytes too many, step time) of the best partition of a kind, the most where there is none."""
        found = self._state.turned_starts.get(draw.kind)
        return found[:2] if found is not None else (NEVER, NEVER)
