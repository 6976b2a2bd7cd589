"""A placement in time: the events of a Chrome trace.

One process has the step with the pieces of its critical chain, which add up to T1. Another one has a track per device:
operations, inside stretches of their scope without a pause. The last one has a track per channel with its transfers,
and arrows to where they are read first. Memory is a curve per device. What takes no time is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.instances.placement.timeline import Piece, Timeline
from chipmap.instances.trace_events import Event, arrow, counter, span, tracks
from chipmap.plans.device_map.placement import scope_of

#: The processes of a trace; the track of the step.
STEP, DEVICES, CHANNELS = 1, 2, 3
_WHOLE = 0


def events(line: Timeline, held: dict[str, list[tuple[int, int]]]) -> Iterator[Event]:
    """All events; ``held``: (ns, bytes) of each device's curve of memory."""
    problem = line.problem
    devices, title = problem.instance.system.devices, problem.instance.name
    yield from tracks(STEP, f"{title}: step", [(_WHOLE, "critical chain")])
    yield span("step", "step", (STEP, _WHOLE), 0, line.total)
    yield from (_piece(line, piece) for piece in line.chain)
    yield from tracks(DEVICES, "devices", ((d, f"{one.name} ({one.kind})") for d, one in enumerate(devices)))
    for d, queue in enumerate(line.queues):
        yield from _operations(line, d, queue)
    for name, steps in held.items():
        yield from (counter(f"memory of {name}", DEVICES, time, bytes=size) for time, size in steps)
    tracks_of, names = _tracks(line)
    yield from tracks(CHANNELS, "channels", enumerate(names))
    for i in range(len(line.moves)):
        yield from _transfer(line, i, tracks_of[i])


def _piece(line: Timeline, piece: Piece) -> Event:
    """A piece of the chain."""
    names = line.problem.device_names
    if piece.move >= 0:
        move = line.moves[piece.move]
        what, where = line.name(move), f"{names[move.source]} -> {names[move.target]}"
    elif piece.operation >= 0:
        what, where = line.problem.names[piece.operation], names[line.device[piece.operation]]
    else:
        what, where = "wait", ""
    name = what if piece.kind in ("compute", "wait") else f"{piece.kind} {what}"
    return span(name, piece.kind, (STEP, _WHOLE), piece.start, piece.time, place=where, waited_for=piece.behind)


def _operations(line: Timeline, d: int, queue: list[int]) -> Iterator[Event]:
    """The operations of a device, inside stretches of one scope without a pause."""
    problem, critical = line.problem, {piece.operation for piece in line.chain if piece.kind == "compute"}
    scopes = [scope_of(problem, v) for v in queue]
    first = 0
    for i, v in enumerate(queue):
        last = i + 1 == len(queue) or scopes[i + 1] != scopes[i] or line.start[queue[i + 1]] != line.end[v]
        if last:
            if scopes[i] and i > first:
                begin = line.start[queue[first]]
                yield span(scopes[i], "scope", (DEVICES, d), begin, line.end[v] - begin, operations=i + 1 - first)
            for u in queue[first : i + 1]:
                kind = problem.instance.graph.operations[int(problem.position[u])].kind
                facts = {"operator": kind, "critical": u in critical}
                yield span(
                    problem.names[u], "compute", (DEVICES, d), line.start[u], line.end[u] - line.start[u], **facts
                )
            first = i + 1


def _tracks(line: Timeline) -> tuple[list[list[int]], list[str]]:
    """(the tracks of each transfer, the names of the tracks): its channels, or without any as many as it takes."""
    number = {c: i for i, c in enumerate(line.channels)}
    names, free = [line.channel_names[c] for c in number], dict[tuple[int, int], list[tuple[int, int]]]()
    found: list[list[int]] = []
    for move in line.moves:
        if move.channels:
            found.append([number[c] for c in move.channels])
            continue
        lanes = free.setdefault((move.source, move.target), [])
        lane = next((i for i, (_, end) in enumerate(lanes) if end <= move.start), len(lanes))
        if lane == len(lanes):
            devices = line.problem.device_names
            names.append(f"{devices[move.source]} -> {devices[move.target]} ({lane + 1})")
            lanes.append((len(names) - 1, 0))
        lanes[lane] = (lanes[lane][0], move.end)
        found.append([lanes[lane][0]])
    return found, names


def _transfer(line: Timeline, i: int, at: list[int]) -> Iterator[Event]:
    """A transfer on its tracks; arrows from its producer to it, and from it to the first that reads it."""
    move, problem = line.moves[i], line.problem
    if move.end <= move.start:
        return
    u, name = int(problem.storages.producer[move.storage]), line.name(move)
    facts = {"bytes": int(problem.storages.bytes[move.storage]), "to": problem.device_names[move.target]}
    for track in at:
        yield span(name, "transfer", (CHANNELS, track), move.start, move.end - move.start, **facts)
    here = (CHANNELS, at[0])
    if line.end[u] > line.start[u]:
        yield from arrow("sent", f"out{i}", (DEVICES, move.source, line.end[u] - 1), (*here, move.start))
    read = [v for v in problem.storages.read_by(move.storage) if line.device[v] == move.target]
    first = min((v for v in read if line.end[v] > line.start[v]), key=lambda v: (line.start[v], v), default=None)
    if first is not None:
        yield from arrow("read", f"in{i}", (*here, move.end - 1), (DEVICES, move.target, line.start[first]))
