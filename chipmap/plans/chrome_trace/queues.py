"""Tracks on which pieces of work follow each other without a pause, told in ticks that may be shorter than a ns.

Viewers count in whole ns. So a piece begins and ends at the last whole ns before its ticks, and pieces that follow each
other in ticks do so in ns as well; ``ticks`` among an event's facts are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chipmap.instances.trace_events import Event, arrow, counter, span, tracks


@dataclass(frozen=True)
class Piece:
    """A piece of work: what it is called, its kind, its ticks, and what else is said of it."""

    name: str
    kind: str
    ticks: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Queues:
    """A process of a trace: a track per name, and ``end`` [track], in ticks, of what is on it so far."""

    process: int
    title: str
    names: list[str]
    ticks_per_ns: int
    end: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Every track begins at 0."""
        self.end = [0] * len(self.names)

    def named(self) -> Iterator[Event]:
        """The names of the tracks."""
        return tracks(self.process, self.title, enumerate(self.names))

    def put(self, track: int, pieces: Iterable[Piece]) -> Iterator[Event]:
        """The pieces, one after the other behind what the track has."""
        for piece in pieces:
            yield self.at(track, self.end[track], piece)
            self.end[track] += piece.ticks

    def at(self, track: int, start: int, piece: Piece) -> Event:
        """One piece where it begins, in ticks."""
        begin, end = (ticks // self.ticks_per_ns for ticks in (start, start + piece.ticks))
        facts = {"ticks": piece.ticks, **piece.facts}
        return span(piece.name, piece.kind, (self.process, track), begin, end - begin, **facts)

    def flow(self, name: str, key: str, begins: tuple[int, int], ends: tuple[int, int]) -> Iterator[Event]:
        """An arrow from (track, ticks) within an event to where another one begins."""
        (a, out), (b, into) = ((track, ticks // self.ticks_per_ns) for track, ticks in (begins, ends))
        return arrow(name, key, (self.process, a, out), (self.process, b, into))

    def level(self, name: str, at: int, size: int) -> Event:
        """Bytes from ``at`` ticks on."""
        return counter(name, self.process, at // self.ticks_per_ns, bytes=size)
