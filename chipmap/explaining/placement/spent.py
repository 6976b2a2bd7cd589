"""What a step's time is spent on, as two sums that are T1 to the nanosecond.

- The **critical chain** (:mod:`chipmap.instances.placement.timeline`) goes from piece to piece that held up the next:
  operations, transfers, rests, and waits without a cause that is seen. Where a device was busy, it goes on with the
  operation that kept it busy. So it says what would have to be shorter.
- The **path of data** goes back from the operation that ends last to the input that came last, and so on to an
  operation without inputs. What doesn't compute or transfer on it waits: for a device or a channel that was busy with
  something else, for one that rested, or without a cause that is seen. So it says what the data waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise

from chipmap.instances.placement.timeline import Piece, Timeline


@dataclass(frozen=True)
class StepTimeSpent:
    """A step's time in ns by what it is spent on; all of it together is T1.

    ``device``, ``channel``: waiting for one that is busy with something else. ``rest``: for one that rests behind
    something. ``idle``: nothing of this is seen to be in the way.
    """

    compute: int = 0
    transfer: int = 0
    device: int = 0
    channel: int = 0
    rest: int = 0
    idle: int = 0

    @property
    def total(self) -> int:
        """T1."""
        return sum(getattr(self, one.name) for one in fields(self))

    @property
    def waiting(self) -> int:
        """What neither computes nor transfers."""
        return self.total - self.compute - self.transfer


@dataclass(frozen=True)
class Stretch:
    """A part of the path of data from ``start`` to ``end``: ``kind`` is a field of :class:`StepTimeSpent`.

    ``operation``: the one that runs, or that waits for its device. ``move``: the transfer, likewise (a position in
    ``Timeline.moves``).
    """

    kind: str
    start: int
    end: int
    operation: int = -1
    move: int = -1


def spent(parts: Iterable[Stretch | Piece]) -> StepTimeSpent:
    """The sums of a path of data, or of a critical chain."""
    sums = Counter[str]()
    for one in parts:
        sums["idle" if one.kind == "wait" else one.kind] += one.end - one.start
    return StepTimeSpent(**sums)


def path_of_data(line: Timeline) -> tuple[Stretch, ...]:
    """The path of data of a valid schedule, from time 0 to T1; parts without length are left out."""
    return tuple(sorted((one for one in _path(line) if one.end > one.start), key=lambda one: one.start))


def _path(line: Timeline) -> Iterator[Stretch]:
    """All parts, from the end on, waits in any order."""
    if not line.end:
        return
    v = line.last
    while v >= 0:
        yield Stretch("compute", line.start[v], line.end[v], v)
        ready, u, m = _last_input(line, v)
        yield from _for_device(line, v, ready)
        if m >= 0:
            yield Stretch("transfer", line.moves[m].start, line.moves[m].end, move=m)
            yield from _for_channels(line, m, line.end[u])
        v = u


def _last_input(line: Timeline, v: int) -> tuple[int, int, int]:
    """(when the last input of operation v is there, its producer, the transfer that brings it); -1: none."""
    found = (0, -1, -1)
    for s in line.problem.producers[v]:
        u = int(line.problem.storages.producer[s])
        m = -1 if line.device[u] == line.device[v] else line.arrivals[s, line.device[v]]
        found = max(found, (line.end[u] if m < 0 else line.moves[m].end, u, m))
    return found


def _for_device(line: Timeline, v: int, ready: int) -> Iterator[Stretch]:
    """What keeps operation v from ``ready`` to its start."""
    queue, at, until = line.queues[line.device[v]], ready, line.start[v]
    gap = int(line.problem.gap[line.device[v]])
    first = max(0, bisect_right(queue, ready, key=lambda u: line.start[u]) - 1)
    for u in queue[first:]:
        if line.start[u] >= until:
            break
        for kind, low, high in (("device", line.start[u], line.end[u]), ("rest", line.end[u], line.end[u] + gap)):
            low, high = max(at, low), min(until, high)
            if low < high:
                yield from (Stretch("idle", at, low, v), Stretch(kind, low, high, v))
                at = high
    yield Stretch("idle", at, until, v)


def _for_channels(line: Timeline, m: int, ready: int) -> Iterator[Stretch]:
    """What keeps transfer m from ``ready`` to its start: at each time a busy channel counts before one that rests."""
    until, spans = line.moves[m].start, list[tuple[str, int, int]]()
    for c in line.moves[m].channels if ready < until else ():
        for other in (line.moves[i] for i in line.channels[c] if i != m):
            if other.start < until and other.free > ready:
                spans += [("channel", other.start, other.end), ("rest", other.end, other.free)]
    marks = sorted({ready, until, *(t for _, low, high in spans for t in (low, high) if ready < t < until)})
    for low, high in pairwise(marks):
        kinds = {kind for kind, begin, end in spans if begin <= low and high <= end}
        yield Stretch("channel" if "channel" in kinds else "rest" if kinds else "idle", low, high, move=m)
