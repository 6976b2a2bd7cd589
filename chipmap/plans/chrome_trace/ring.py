"""A ring mapping in time: the period on all chips and links, and one sample on its way, as events of a Chrome trace.

In the period each chip works for one sample and each link carries one sample's tensors; the fullest track is the
objective (with what a chip sends and receives, in the cost modes that count that). The sample goes from chip to chip:
work, transfers over the link, a hop; its end is the certificate's ``latency_ns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.loads import loads, terms
from chipmap.instances.ring.problem import TICKS_PER_NS, RingProblem, Storage, ring_problem
from chipmap.instances.trace_events import Event
from chipmap.plans.chrome_trace.queues import Piece, Queues
from chipmap.records.decimals import exact

#: The processes of the trace.
PERIOD, CHIPS, LINKS, SAMPLE = 1, 2, 3, 4


def events(instance: RingInstance, solution: RingSolution) -> Iterator[Event]:
    """All events of a valid mapping."""
    problem, chips = ring_problem(instance), solution.chips
    period, used = max(terms(problem, chips)), sorted({chips[v] for v in _computing(problem)})
    whole = Queues(PERIOD, f"{instance.name}: period", ["period"], TICKS_PER_NS)
    yield from whole.named()
    yield whole.at(0, 0, Piece("period", "period", period))
    yield from _chips(problem, chips, used)
    links = [c for c in range(max(used, default=0)) if _crossing(problem, chips, c)]
    queues = Queues(LINKS, "links", [f"link {c} -> {c + 1}" for c in links], TICKS_PER_NS)
    yield from queues.named()
    for track, c in enumerate(links):
        yield from queues.put(track, (_transfer(problem, s) for s in _crossing(problem, chips, c)))
    yield from _sample(problem, chips, used)


def _computing(problem: RingProblem) -> list[int]:
    """The computing operations in topological order."""
    return [v for v in problem.order if problem.computing[v]]


def _crossing(problem: RingProblem, chips: tuple[int, ...], link: int) -> list[Storage]:
    """The storages that cross a link, to their farthest reader."""
    return [s for s in problem.storages if chips[s.producer] <= link < max(chips[v] for v in s.readers)]


def _work(problem: RingProblem, v: int) -> Piece:
    operation = problem.instance.graph.operations[v]
    return Piece(operation.name, "compute", int(problem.ticks[v]), {"operator": operation.kind})


def _transfer(problem: RingProblem, storage: Storage, what: str = "transfer") -> Piece:
    name = problem.instance.graph.operations[storage.producer].name
    return Piece(name if what == "transfer" else f"{what} {name}", what, storage.ticks, {"bytes": storage.bytes})


def _chips(problem: RingProblem, chips: tuple[int, ...], used: list[int]) -> Iterator[Event]:
    """A track per chip: its operations, and what it pays for transfers; its memory as a level."""
    queues = Queues(CHIPS, "chips", [f"chip {c}" for c in used], TICKS_PER_NS)
    yield from queues.named()
    held = loads(problem, chips).memory_bytes.tolist()
    for track, c in enumerate(used):
        yield from queues.put(track, _received(problem, chips, c))
        yield from queues.put(track, (_work(problem, v) for v in _computing(problem) if chips[v] == c))
        yield from queues.put(track, _sent(problem, chips, c))
        yield queues.level(f"memory of chip {c}", 0, held[c])


def _received(problem: RingProblem, chips: tuple[int, ...], c: int) -> list[Piece]:
    """What a chip pays for storages that come in: those made elsewhere that it reads, or all on the link before it."""
    found: list[Storage] = []
    if problem.cost_mode == "sum":
        found = [s for s in problem.storages if chips[s.producer] != c and c in {chips[v] for v in s.readers}]
    elif problem.cost_mode == "sum_forward" and c:
        found = _crossing(problem, chips, c - 1)
    return [_transfer(problem, s, "receive") for s in found]


def _sent(problem: RingProblem, chips: tuple[int, ...], c: int) -> list[Piece]:
    """What a chip pays for storages that go out."""
    found: list[Storage] = []
    if problem.cost_mode == "sum":
        found = [s for s in problem.storages if chips[s.producer] == c and {chips[v] for v in s.readers} != {c}]
    elif problem.cost_mode == "sum_forward":
        found = _crossing(problem, chips, c)
    return [_transfer(problem, s, "send") for s in found]


def _sample(problem: RingProblem, chips: tuple[int, ...], used: list[int]) -> Iterator[Event]:
    """One sample: chip after chip, with the links between. Arrows lead from who makes a tensor to its transfer, and
    from there to the first that reads it."""
    names = [f"chip {c}" for c in used] + [f"link {c} -> {c + 1}" for c in range(max(used, default=0))]
    queues, start, number = Queues(SAMPLE, "one sample", names, TICKS_PER_NS), dict[int, int](), 0
    yield from queues.named()
    now, hop = Fraction(0), exact(problem.instance.package.hop_ns) * TICKS_PER_NS
    arriving: dict[int, list[tuple[Storage, int, int]]] = {}
    for c in range(max(used, default=-1) + 1):
        if c in used:
            track = used.index(c)
            queues.end[track] = int(now)
            for v in (v for v in _computing(problem) if chips[v] == c):
                start[v] = queues.end[track]
                yield from queues.put(track, [_work(problem, v)])
            now += queues.end[track] - int(now)
            for storage, link, begun in arriving.get(c, ()):
                number += 1
                first = min((start[v] for v in storage.readers if chips[v] == c), default=queues.end[track])
                yield from queues.flow("read", f"in{number}", (link, begun), (track, first))
        track = len(used) + c
        crossing = _crossing(problem, chips, c)
        queues.end[track : track + 1] = [int(now)] if crossing else queues.end[track : track + 1]
        for storage in crossing:
            begun = queues.end[track]
            yield from queues.put(track, [_transfer(problem, storage)])
            for reader in sorted({chips[v] for v in storage.readers} & {c + 1}):
                arriving.setdefault(reader, []).append((storage, track, begun))
            if chips[storage.producer] == c:
                number += 1
                made = (used.index(c), start[storage.producer])
                yield from queues.flow("sent", f"out{number}", made, (track, begun))
            now += storage.ticks
        now += hop if c in used and c != used[-1] else 0
