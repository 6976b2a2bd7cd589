"""A chain: a literal list of links that work one after the other on what they know of a problem.

A family's best method is such a list. A link has a name, a share of the time that is left when its turn comes, and a
function. It finds solutions and bounds, or learns something that later links use. One more start or bound is one more
line of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chipmap.deadline import Awaited, Deadline, Stop, Unready
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

    @property
    def own_thread(self) -> bool:
        """Whether it is a turn in the run's own thread."""
        return True

    def meanwhile(self, awaited: Awaited) -> Turn:
        """The turn of what is done until a function is compiled: it ends then, too."""
        ended, before = self.deadline.ended, self.run.recall

        def ready() -> bool:
            return awaited.ready() or (before is not None and before())

        if self.own_thread:
            self.run.recall = ready
        return replace(self, deadline=replace(self.deadline, ended=lambda: "ready" if awaited.ready() else ended()))

    def share(self, part: float) -> Turn:
        """The turn with ``part`` of the time that is left (all of it where there is no limit)."""
        return replace(self, deadline=self.deadline.share(part))


class Link(NamedTuple):
    """A part of a chain: ``work(state, turn)`` gets ``share`` of the time that is left when it begins."""

    name: str
    share: float
    work: Callable[[Any, Turn], Any]


def follow(links: Sequence[Link], state: Any, turn: Turn) -> None:
    """Do the links one after the other. Raises :class:`Stop` when the turn itself is over.

    A link for which a function is still being compiled is passed over. Once that is done, the chain goes on from it:
    the link that has its turn then ends.
    """
    begin: int | None = 0
    while begin is not None:
        begin = _onwards(links, begin, state, turn)


def _onwards(links: Sequence[Link], begin: int, state: Any, turn: Turn) -> int | None:
    """Do the links from number ``begin`` on; the first that was passed over, once it can be done."""
    first, awaited, now = None, None, turn
    recall = turn.run.recall
    try:
        for number in range(begin, len(links)):
            now.deadline.check()
            try:
                _link(links[number], state, now)
            except Unready as missing:
                if missing.awaited is None:
                    raise
                if links[number].name not in turn.run.delayed:
                    turn.run.delayed.append(links[number].name)
                if awaited is None:
                    first, awaited, now = number, missing.awaited, turn.meanwhile(missing.awaited)
        if awaited is not None:
            turn.deadline.wait(awaited)
    except Stop as stop:
        if stop.limit != "ready" or awaited is None or not awaited.ready():
            raise
    finally:
        if turn.own_thread:
            turn.run.recall = recall
    if awaited is None:
        turn.deadline.check()
    return first


def _link(link: Link, state: Any, turn: Turn) -> None:
    part = turn.share(link.share)
    try:
        link.work(state, part)
        part.deadline.keep_going()  # a compiled loop may have seen the time pass: the run hears it
    except Stop:
        turn.deadline.check()  # only the link's share is used up: the next one's turn
