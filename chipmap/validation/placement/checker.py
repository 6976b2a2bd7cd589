"""The independent checker of family ``placement``: what ``docs/families/placement.md`` says, label by label.

Plain loops over the records, and sums over arrays where a graph is large. It imports no simulator, cost function, model
or heuristic, so that nothing judges itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from chipmap.certificate import Certificate
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.validation.certify import Finding, certify
from chipmap.validation.placement.facts import Facts, facts_of
from chipmap.validation.placement.memory import Move, Placed


def check(instance: PlacementInstance, solution: PlacementSolution) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``; wrong devices or transfers leave terms undefined."""
    facts = facts_of(instance)
    broken: dict[str, Iterable[Finding]] = {"C0": list(c0_domain(facts, solution))}
    if any(unit != "ns" for _, _, unit, _ in broken["C0"]):  # times out of bounds leave the rest well defined
        return certify(instance, solution, broken)
    placed, task = Placed(facts, solution), instance.task
    broken["C1"] = c1_together(placed)
    if task.memory != "none":
        broken["C6"] = c6_memory(placed)
    if task.objective == "throughput":
        if task.contiguous:
            broken["C7"] = c7_contiguous(placed)
        terms = {"T2": t2_load(placed)}
    else:
        broken |= {"C2": c2_order(placed), "C3": c3_transfer(placed)}
        broken |= {"C4": c4_device(placed), "C5": c5_channel(placed)}
        terms = {"T1": t1_step(placed)}
    figures = {"devices": float(len(set(placed.device.values())))}
    figures["sent_bytes"] = float(placed.sent_bytes)
    if task.memory != "none":
        figures |= {f"peak_bytes {name}": float(peak.bytes) for name, peak in placed.peaks.items()}
    (objective,) = terms.values()
    said = {"figures": figures, "headline": solution.remark}
    return certify(instance, solution, broken, objective=objective, terms=terms, **said)


def c0_domain(facts: Facts, solution: PlacementSolution) -> Iterator[Finding]:
    """Each placed operation on an allowed device; with step time, starts from 0 on and exactly the needed transfers."""
    names, allowed = {facts.names[v] for v in facts.placed}, facts.allowed
    timed, wrong = facts.instance.task.objective == "step_time", False
    for what, given in (("device", solution.devices), ("start", solution.start)):
        wanted = names if what == "device" or timed else set[str]()
        for name in sorted(wanted - given.keys()):
            wrong = True
            yield name, 1, "operations", f"operation {name!r} has no {what}"
        for name in sorted(given.keys() - wanted):
            wrong = True
            yield name, 1, "operations", f"{name!r} has a {what}, but is not placed (or has none in this objective)"
    devices, starts = solution.devices, solution.start
    for name in sorted(name for name, device in devices.items() if name in names and device not in allowed[name]):
        wrong = True
        yield name, 1, "operations", f"operation {name!r} is on {devices[name]!r}, which can't run it or must not"
    for name in sorted(name for name, start in starts.items() if start < 0 and name in names):
        yield name, -starts[name], "ns", f"operation {name!r} starts at {starts[name]} ns"
    for name in _not_fetchable(facts, solution):
        wrong = True
        yield name, 1, "operations", f"{name!r} has no weights that the task lets it fetch, or is named twice"
    if not wrong:
        yield from _wrong_transfers(facts, solution)
        yield from _late(facts, solution)


def _not_fetchable(facts: Facts, solution: PlacementSolution) -> Iterator[str]:
    """What a solution fetches, but can't: operations without weights, all where the task has no rate, repetitions."""
    offload, seen = facts.instance.task.fetch_bytes_per_ns is not None, set[str]()
    able = {facts.names[v] for v in facts.placed if offload and facts.graph.operations[v].weight_bytes > 0}
    for name in solution.fetched:
        if name not in able or name in seen:
            yield name
        seen.add(name)


def _wrong_transfers(facts: Facts, solution: PlacementSolution) -> Iterator[Finding]:
    needed, names = set[tuple[int, str]](), list(facts.devices)
    if facts.instance.task.objective == "step_time":
        on = facts.numbered(solution.devices[facts.names[v]] for v in facts.placed)
        pairs = facts.crossing(on).tolist()
        needed = {(facts.storages[pair // len(names)].tensor, names[pair % len(names)]) for pair in pairs}
    seen = set[tuple[int, str]]()
    for i, transfer in enumerate(solution.transfers):
        key = (transfer.tensor, transfer.to)
        if key not in needed or key in seen:
            why = "is sent twice" if key in seen else "is not needed there, or is no tensor of a placed operation"
            yield f"transfers[{i}]", 1, "transfers", f"tensor {transfer.tensor} to {transfer.to!r} {why}"
        if transfer.start < 0:
            yield f"transfers[{i}]", -transfer.start, "ns", f"a transfer starts at {transfer.start} ns"
        seen.add(key)
    for tensor, device in sorted(needed - seen):
        producer = facts.names[facts.graph.tensors[tensor].producer]
        what = f"tensor {tensor} of {producer!r} is read on {device!r}, but not sent there"
        yield producer, 1, "transfers", what


def _late(facts: Facts, solution: PlacementSolution) -> Iterator[Finding]:
    limit, fetched = facts.instance.task.limit_ns, set(solution.fetched)
    for v in facts.placed if limit is not None else ():
        assert limit is not None
        name = facts.names[v]
        end = solution.start[name] + facts.time(v, solution.devices[name])
        end += facts.fetch(v) if name in fetched else 0
        if end > limit:
            yield name, end - limit, "ns", f"operation {name!r} ends at {end} ns, the limit is {limit} ns"


def c1_together(placed: Placed) -> Iterator[Finding]:
    """The operations of a group on one device; no two of a group in ``apart`` on one."""
    position = {name: v for v, name in enumerate(placed.facts.names)}
    for i, group in enumerate(placed.facts.instance.together):
        used = {placed.device[v]: v for name in group if (v := position[name]) in placed.device}
        if len(used) > 1:
            where = ", ".join(f"{placed.facts.names[v]!r} on {device!r}" for device, v in sorted(used.items()))
            yield f"together[{i}]", len(used) - 1, "devices", f"a group is spread over {len(used)} devices: {where}"
    for i, group in enumerate(placed.facts.instance.apart):
        on: dict[str, list[str]] = {}
        for name in dict.fromkeys(group):
            if position[name] in placed.device:
                on.setdefault(placed.device[position[name]], []).append(name)
        for device, here in sorted(on.items()):
            if len(here) > 1:
                what = f"{', '.join(map(repr, here))} share device {device!r}, but are to be apart"
                yield f"apart[{i}]", len(here) - 1, "operations", what


def c2_order(placed: Placed) -> Iterator[Finding]:
    """A reader on its producer's device starts when the producer has ended, or later."""
    for one in placed.facts.storages:
        for v in one.readers:
            u = one.producer
            early = placed.end[u] - placed.start[v]
            if placed.device[u] == placed.device[v] and early > 0:
                names = placed.facts.names
                what = f"{names[v]!r} starts at {placed.start[v]} ns on {placed.device[v]!r}, but it reads {names[u]!r}"
                yield names[v], early, "ns", f"{what}, which ends at {placed.end[u]} ns"


def c3_transfer(placed: Placed) -> Iterator[Finding]:
    """A transfer has a route and starts at its producer's end or later; readers there start at its end or later."""
    names = placed.facts.names
    for move in placed.moves:
        u = move.storage.producer
        what = f"tensor {move.storage.tensor} of {names[u]!r}"
        if move.end is None:
            yield names[u], 1, "routes", f"{what} is read on {move.target!r}, to which {move.source!r} has no route"
            continue
        if move.start < placed.end[u]:
            early = placed.end[u] - move.start
            yield names[u], early, "ns", f"{what} leaves {move.source!r} at {move.start} ns, before {placed.end[u]} ns"
        for v in move.storage.readers:
            if placed.device[v] == move.target and placed.start[v] < move.end:
                early = move.end - placed.start[v]
                text = f"{names[v]!r} starts at {placed.start[v]} ns on {move.target!r}, before {what} is there"
                yield names[v], early, "ns", f"{text} ({move.end} ns)"


def c4_device(placed: Placed) -> Iterator[Finding]:
    """A device runs one operation at a time, and rests for its class's gap behind each."""
    names = placed.facts.names
    on: dict[str, list[tuple[int, int]]] = {name: [] for name in placed.facts.devices}
    for v, start in placed.start.items():
        if placed.busy[v]:
            on[placed.device[v]].append((start, v))
    for name, device in placed.facts.devices.items():
        gap = placed.facts.classes[device.kind].gap_ns
        for (_, u), (start, v) in pairwise(sorted(on[name])):
            free = placed.end[u] + gap
            if start < free:
                what = f"{names[v]!r} starts at {start} ns on {name!r}, which is busy with {names[u]!r}"
                yield f"{name}, {names[v]}", free - start, "ns", f"{what} up to {free} ns"


def c5_channel(placed: Placed) -> Iterator[Finding]:
    """A channel holds one transfer at a time, for its time and the route's gap."""
    held: dict[str, list[tuple[int, int, Move]]] = {}
    for move in placed.moves:
        route = placed.facts.routes.get((move.source, move.target))
        if route is not None and move.end is not None and move.end + route.gap_ns > move.start:
            for channel in route.channels:
                held.setdefault(channel, []).append((move.start, move.end + route.gap_ns, move))
    for channel, listed in held.items():
        listed.sort(key=lambda one: (one[0], one[1], one[2].storage.tensor))
        for (_, free, before), (start, _, move) in pairwise(listed):
            if start < free:
                what = f"tensor {move.storage.tensor} to {move.target!r} starts at {start} ns on channel {channel!r}"
                yield channel, free - start, "ns", f"{what}, which tensor {before.storage.tensor} holds up to {free} ns"


def c6_memory(placed: Placed) -> Iterator[Finding]:
    """At no time a device holds more bytes than it has."""
    for name, one in placed.peaks.items():
        limit = placed.facts.devices[name].memory_bytes
        if limit is not None and one.bytes > limit:
            what = f"{name!r} holds {one.bytes} bytes at {one.at} ns, it has {limit}; the largest: {one.text}"
            yield name, one.bytes - limit, "bytes", what


def c7_contiguous(placed: Placed) -> Iterator[Finding]:
    """The devices can be ordered such that forward operations read from their own or an earlier device."""
    facts = placed.facts
    backward = {v for v, name in enumerate(facts.names) if name in set(facts.instance.backward)}
    after: dict[str, set[str]] = {name: set() for name in facts.devices}
    for one in facts.storages:
        for v in one.readers:
            a, b = placed.device[one.producer], placed.device[v]
            if a != b and not {one.producer, v} & backward:
                after[a].add(b)
    left = set(after)
    while first := {name for name in left if not any(name in after[other] for other in left)}:
        left -= first
    if left:
        what = f"{', '.join(sorted(left))} read from each other in a circle: they are no blocks, one after the other"
        yield "devices", len(left), "devices", what


def t1_step(placed: Placed) -> int:
    """The last end of an operation, in ns."""
    return max(placed.end.values(), default=0)


def t2_load(placed: Placed) -> int:
    """The most that a device computes and transfers per sample, in ns."""
    facts = placed.facts
    work, sent = dict.fromkeys(facts.devices, 0), dict.fromkeys(facts.devices, 0)
    for v in facts.placed:
        work[placed.device[v]] += placed.busy[v]
    for one in facts.storages:
        home = placed.device[one.producer]
        for name in (away := placed.targets(one)):
            sent[name] += facts.send(one, facts.routes[home, name])
        if away:
            sent[home] += facts.send(one, facts.routes[home, away[0]])
    for name, device in facts.devices.items():
        if not facts.classes[device.kind].pays_transfers:
            sent[name] = 0
    overlap = facts.instance.task.overlap
    return max(max(work[name], sent[name]) if overlap else work[name] + sent[name] for name in facts.devices)
