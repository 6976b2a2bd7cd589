"""A chain: a literal list of links that work one after the other on what they know of a problem.

A family's best method is such a list. A link has a name, a share of the time that is left when its turn comes, and a
function. It finds solutions and bounds, or learns something that later links use. One more start or bound is one more
line of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chipmap.deadline import Deadline, Stop
from chipmap.records import Record
from chipmap.result import Infeasibility
from chipmap.run import Run


@dataclass(frozen=True)
class Turn:
    """A link's turn: when it must hand over to the next, and where its finds go."""

    run: Run
    deadline: Deadline

    def solution(self, solution: Record, source: str) -> None:
        """Hand over a solution."""
        self.run.solution(solution, source)

    def bound(self, value: int, source: str) -> None:
        """Hand over a lower bound in ticks."""
        self.run.bound(value, source)

    def infeasible(self, *reasons: Infeasibility) -> None:
        """Hand over the proof that there is no solution."""
        self.run.infeasible(*reasons)

    def share(self, part: float) -> Turn:
        """The turn with ``part`` of the time that is left (all of it where there is no limit)."""
        return replace(self, deadline=self.deadline.share(part))


class Link(NamedTuple):
    """A part of a chain: ``work(state, turn)`` gets ``share`` of the time that is left when it begins."""

    name: str
    share: float
    work: Callable[[Any, Turn], Any]


def follow(links: Sequence[Link], state: Any, turn: Turn) -> None:
    """Do the links one after the other. Raises :class:`Stop` when the turn itself is over."""
    for link in links:
        turn.deadline.check()
        part = turn.share(link.share)
        try:
            link.work(state, part)
            part.deadline.keep_going()  # a compiled loop may have seen the time pass: the run hears it
        except Stop:
            turn.deadline.check()  # only the link's share is used up: the next one's turn
    turn.deadline.check()
