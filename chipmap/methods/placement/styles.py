"""Partitions of several styles: every style once, then those that the decoder likes best."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.simulation.simulator import NEVER
from chipmap.heuristics.placement.starts.partition import LARGE_GRAPH, Style
from chipmap.heuristics.placement.starts.phases import middle, path_windows, phases
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.methods.placement.chain_state import ChainState

#: (phases, weight of work above a share) of each style, in the order in which they are tried.
STYLES = ((4, 2.0), (16, 4.0), (1, 4.0), (40, 2.0), (8, 2.0), (4, 4.0), (1, 2.0), (40, 4.0))
#: The order for large graphs: those that were best on most of five graphs of 30,000 to 52,000 operations first.
LARGE_STYLES = ((40, 2.0), (1, 4.0), (40, 4.0), (16, 4.0), (4, 4.0), (8, 2.0), (1, 2.0), (4, 2.0))
#: Styles that go on taking turns once all were tried.
BEST = 2


class Draw(NamedTuple):
    """A partition to be made: its kind among the starts, and its style."""

    kind: str
    style: Style


class Styles:
    """The styles of a problem's partitions, where the chain's state keeps the best one of each kind."""

    def __init__(self, state: ChainState, deadline: Deadline) -> None:
        quick = state.problem.operations >= LARGE_GRAPH
        self._state = state
        self._middle = middle(path_windows(state.problem) if quick else state.heads_and_tails(deadline))
        self._made = dict[str, list[Draw]]()
        self._number = dict[str, int]()

    def next(self, left: PlacementProblem) -> Draw:
        """The next partition of the problem, or of one with fewer devices ``left``."""
        where = "partition" if left is self._state.problem else "partition, fewer devices"
        if where not in self._made:
            self._number[where] = 0
            self._made[where] = [
                Draw(f"{where}, {count} phases, {uneven:g}", Style(phases(left, self._middle, count), uneven))
                for count, uneven in (STYLES if left.operations < LARGE_GRAPH else LARGE_STYLES)
            ]
        number, draws = self._number[where], self._made[where]
        self._number[where] += 1
        if number < len(draws):
            return draws[number]
        return sorted(draws, key=self._end)[number % BEST]

    def _end(self, draw: Draw) -> tuple[int, int]:
        """(bytes too many, step time) of the best partition of a kind, the most where there is none."""
        found = self._state.turned_starts.get(draw.kind)
        return found[:2] if found is not None else (NEVER, NEVER)
