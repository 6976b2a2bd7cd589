"""A schedule in time: operations on devices, transfers, and the chain that sets the step time.

**Critical chain.** From the operation that ends last, go back to what it waited for: an input made on the same device,
a transfer that brought an input, or the operation that kept its device busy; of these the one that was over last. A
transfer waited for its producer or for a transfer that held one of its channels. So on to time 0. The pieces of the
chain, which are work, transfers, rests of devices and channels, and waits that nothing of this explains (a search may
put off an operation for the sake of memory), fill the time from 0 to T1 without overlap.

Any schedule is taken, whoever made it: what is behind what is seen from its times alone.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.offload import as_placed
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.records import InputError


@dataclass(frozen=True)
class Move:
    """A transfer of storage ``storage`` between devices, from ``start`` to ``end``.

    It holds ``channels`` until ``free``.
    """

    storage: int
    source: int
    target: int
    start: int
    end: int
    free: int
    channels: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """A piece of the critical chain from ``start`` to ``end``.

    ``kind`` is ``compute`` (``operation`` runs), ``transfer`` (``move``, a position in ``Timeline.moves``), ``rest``
    (the device of ``operation``, or the channels of ``move``, rest behind it) or ``wait`` (nothing that is seen).
    ``behind`` says what it waited for: ``input`` (on the same device), ``transfer``, ``device`` (busy), ``channel``
    (busy), or nothing.
    """

    kind: str
    start: int
    end: int
    operation: int = -1
    move: int = -1
    behind: str = ""

    @property
    def time(self) -> int:
        """Its length in ns."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Timeline:
    """``device``, ``start`` and ``end`` of the N operations, and the transfers by their starts."""

    problem: PlacementProblem
    device: list[int]
    start: list[int]
    end: list[int]
    moves: tuple[Move, ...]

    @cached_property
    def total(self) -> int:
        """T1."""
        return max(self.end, default=0)

    @cached_property
    def last(self) -> int:
        """The operation that ends last, the first of several."""
        return min(range(len(self.end)), key=lambda v: (-self.end[v], v))

    @cached_property
    def queues(self) -> list[list[int]]:
        """The operations with p > 0 of each device, by their starts."""
        found: list[list[int]] = [[] for _ in range(self.problem.devices)]
        for v in sorted(range(len(self.start)), key=lambda v: (self.start[v], v)):
            if self.end[v] > self.start[v]:
                found[self.device[v]].append(v)
        return found

    @cached_property
    def channels(self) -> dict[int, list[int]]:
        """The transfers that hold each used channel, by their starts."""
        found: dict[int, list[int]] = {}
        for i, move in enumerate(self.moves):
            for c in move.channels:
                found.setdefault(c, []).append(i)
        return dict(sorted(found.items()))

    @cached_property
    def arrivals(self) -> dict[tuple[int, int], int]:
        """(storage, device) -> the transfer that brings it there."""
        return {(move.storage, move.target): i for i, move in enumerate(self.moves)}

    @cached_property
    def busy(self) -> list[int]:
        """How long each device computes, in ns."""
        return [sum(self.end[v] - self.start[v] for v in queue) for queue in self.queues]

    @cached_property
    def channel_names(self) -> dict[int, str]:
        """The names of the used channels."""
        return {c: self.problem.network.names[c] for c in self.channels}

    @cached_property
    def chain(self) -> tuple[Piece, ...]:
        """The critical chain, from time 0 on."""
        return _chain(self)

    def name(self, move: Move) -> str:
        """The name of the operation whose output a transfer carries."""
        return self.problem.names[int(self.problem.storages.producer[move.storage])]


def timeline(problem: PlacementProblem, solution: PlacementSolution) -> Timeline:
    """The schedule of ``solution`` in time; operations that fetch weights have the time of fetching in theirs.

    Raises :class:`InputError` where it is none of this instance: an operation without a known device or a start, or a
    transfer of an unknown tensor or to an unknown device.
    """
    problem, solution = as_placed(problem, solution)
    names, devices = problem.names, {name: d for d, name in enumerate(problem.device_names)}
    remedy = "Take a schedule of this very instance; `chipmap check` says more."
    device = problem.devices_of(solution).tolist()
    lacking = next((name for name in names if name not in solution.start), None)
    if lacking is not None:
        raise InputError(f"operation {lacking!r} has no start", "solution.start", remedy)
    place = {tensor: s for s, tensor in enumerate(problem.storages.tensor.tolist())}
    for i, one in enumerate(solution.transfers):
        if one.tensor not in place or one.to not in devices:
            raise InputError(f"tensor {one.tensor} to {one.to!r}", f"solution.transfers[{i}]", remedy)
    start = [solution.start[name] for name in names]
    time = problem.time.tolist()
    end = [s + time[v][d] for v, (s, d) in enumerate(zip(start, device, strict=True))]
    moves = [_move(problem, device, place[one.tensor], devices[one.to], one.start) for one in solution.transfers]
    return Timeline(problem, device, start, end, tuple(sorted(moves, key=lambda m: (m.start, m.storage, m.target))))


def _move(problem: PlacementProblem, device: list[int], s: int, target: int, start: int) -> Move:
    source, network = device[int(problem.storages.producer[s])], problem.network
    kind, held = int(network.kind[source, target]), tuple(network.held(source, target))
    end = start + (int(problem.storages.time[s, kind]) if kind >= 0 else 0)
    return Move(s, source, target, start, end, end + int(network.gap[source, target]), held)


def _chain(line: Timeline) -> tuple[Piece, ...]:
    """From the end of the step back to 0. What is on the way starts earlier each time, or is an input of the last."""
    if not line.start or not line.total:
        return ()
    found: list[Piece] = []
    v, m = line.last, -1
    while True:
        start, end = (line.start[v], line.end[v]) if m < 0 else (line.moves[m].start, line.moves[m].end)
        time, behind, u, n = _before_operation(line, v) if m < 0 else _before_move(line, m)
        found.append(Piece("compute" if m < 0 else "transfer", start, end, v if m < 0 else -1, m, behind))
        if time < start:
            found.append(Piece("wait", time, start))
        if u < 0 and n < 0:
            break
        over = line.end[u] if n < 0 else line.moves[n].end
        if over < time:
            found.append(Piece("rest", over, time, u, n))
        v, m = u, n
    return tuple(piece for piece in reversed(found) if piece.end > piece.start)


def _before_operation(line: Timeline, v: int) -> tuple[int, str, int, int]:
    """What operation v waited for: (when that was over, what it was, the operation or -1, the transfer or -1)."""
    problem, start, best = line.problem, line.start[v], (0, "", -1, -1)
    for s in problem.producers[v]:
        u = int(problem.storages.producer[s])
        n = line.arrivals.get((s, line.device[v]), -1)
        if line.device[u] == line.device[v]:
            one = (line.end[u], "input", u, -1)
        elif n >= 0:
            one = (line.moves[n].end, "transfer", -1, n)
        else:
            continue
        if best[0] <= one[0] <= start and (one[0] > best[0] or not best[1]):
            best = one
    queue = line.queues[line.device[v]]
    i = bisect_right(queue, (start, v), key=lambda u: (line.start[u], u)) - 1
    gap = int(problem.gap[line.device[v]])
    while i >= 0 and (queue[i] == v or line.end[queue[i]] + gap > start):
        i -= 1
    if i >= 0 and (line.end[queue[i]] + gap > best[0] or not best[1]):
        best = (line.end[queue[i]] + gap, "device", queue[i], -1)
    return best


def _before_move(line: Timeline, m: int) -> tuple[int, str, int, int]:
    """What a transfer waited for, likewise."""
    move, best = line.moves[m], (0, "", -1, -1)
    u = int(line.problem.storages.producer[move.storage])
    if line.end[u] <= move.start:
        best = (line.end[u], "input", u, -1)
    for c in move.channels if move.free > move.start else ():
        held = line.channels[c]
        i = held.index(m) - 1
        while i >= 0 and line.moves[held[i]].free == line.moves[held[i]].start:
            i -= 1
        if i >= 0 and best[0] < line.moves[held[i]].free <= move.start:
            best = (line.moves[held[i]].free, "channel", -1, held[i])
    return best
