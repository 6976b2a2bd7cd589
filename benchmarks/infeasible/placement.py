"""Pairs of family ``placement``: memory, the limit on the step and routes one unit apart, by the page.

- Static memory, and throughput in blocks: all devices of all operations, as times play no part.
- The limit on the step: all orders of operations and transfers, each begun as early as the constraints that are kept
  allow. The step rises with every start, so that the best schedule is among them.
- Memory over time on one device: all orders, as nothing is sent and one operation runs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product
from random import Random
from typing import Any

from benchmarks.infeasible.pairs import Labels, Pair, by_candidates
from chipmap.instances.placement import Device, DeviceClass, Links, Pin, PlacementInstance, Route, System, Task
from chipmap.networks.graph import Operation, OperationGraph, Tensor

COMPLETE = ("auto", "mip", "cpsat")
OTHERS = ("bounds", "starts", "search", "ideals")


def made(
    rows: list[tuple[int, int, int]],
    edges: list[tuple[int, int]],
    devices: int,
    memory: int | None,
    links: Links | None,
    **rest: Any,
) -> PlacementInstance:
    """Operations of (ns, bytes of weights, bytes of output) on equal devices."""
    operations = [Operation(name=f"v{v}", kind="op", weight_bytes=weights) for v, (_, weights, _) in enumerate(rows)]
    tensors = [
        Tensor(producer=v, readers=tuple(b for a, b in edges if a == v), bytes=size)
        for v, (_, _, size) in enumerate(rows)
    ]
    machines = tuple(Device(name=f"d{d}", kind="gpu", memory_bytes=memory) for d in range(devices))
    system = System(classes=(DeviceClass(name="gpu"),), devices=machines, links=links, routes=rest.pop("routes", ()))
    instance = PlacementInstance(
        name="pair",
        task=Task(**rest.pop("task", {})),
        graph=OperationGraph.checked("pair", operations, tensors),
        system=system,
        time_ns={"gpu": tuple(float(time) for time, _, _ in rows)},
        **rest,
    )
    instance.check()
    return instance


def _rows(random: Random, count: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    rows = [(random.randint(1, 9), random.randint(0, 9), random.randint(0, 9)) for _ in range(count)]
    edges = [(u, v) for v in range(count) for u in range(v) if random.random() < 0.5]
    return rows, edges


def _devices_of(instance: PlacementInstance) -> Iterator[tuple[int, ...]]:
    """All devices of all operations that keep to the pins."""
    names = [device.name for device in instance.system.devices]
    pinned = {pin.operation: names.index(pin.device) for pin in instance.pins}
    for devices in product(range(len(names)), repeat=len(instance.graph.operations)):
        if all(pinned.get(op.name, d) == d for op, d in zip(instance.graph.operations, devices, strict=True)):
            yield devices


def static(instance: PlacementInstance, devices: tuple[int, ...]) -> Labels:
    """What devices break of C1, C3 (no route), C6 (rule ``static``) and C7, whatever the times."""
    graph, names = instance.graph, [device.name for device in instance.system.devices]
    number = {operation.name: v for v, operation in enumerate(graph.operations)}
    found = set[str]()
    if any(len({devices[number[name]] for name in group}) > 1 for group in instance.together):
        found.add("C1")
    pairs = {(devices[t.producer], devices[v]) for t in graph.tensors for v in t.readers}
    if instance.task.objective == "step_time" and instance.system.links is None:
        routes = {(names.index(route.source), names.index(route.target)) for route in instance.system.routes}
        if any(a != b and (a, b) not in routes for a, b in pairs):
            found.add("C3")
    for d, device in enumerate(instance.system.devices):
        held = sum(op.weight_bytes for v, op in enumerate(graph.operations) if devices[v] == d)
        for t in graph.tensors:  # made there, or received once
            here = devices[t.producer] == d or any(devices[v] == d for v in t.readers)
            held += t.bytes if here else 0
        if device.memory_bytes is not None and held > device.memory_bytes:
            found.add("C6")
    if instance.task.contiguous:
        orders = permutations(range(len(names)))
        if not any(all(order.index(a) <= order.index(b) for a, b in pairs) for order in orders):
            found.add("C7")
    return frozenset(found)


def _with_memory(instance: PlacementInstance, size: int) -> PlacementInstance:
    devices = tuple(device.replace(memory_bytes=size) for device in instance.system.devices)
    return instance.replace(system=instance.system.replace(devices=devices))


def _by_memory(random: Random, what: str) -> Pair | None:
    """Static memory with groups, pins and missing routes, or blocks."""
    count, devices = random.randint(3, 5), random.choice((2, 2, 3))
    rows, edges = _rows(random, count)
    together = (tuple(f"v{v}" for v in sorted(random.sample(range(count), 2))),) if random.random() < 0.4 else ()
    pins = (Pin(operation=f"v{random.randrange(count)}", device="d0"),) if random.random() < 0.3 else ()
    fields: dict[str, Any] = {"together": together, "pins": pins}
    if what == "blocks":
        task = {"objective": "throughput", "memory": "static", "contiguous": True}
        near = made(rows, edges, devices, 10**6, Links(bytes_per_ns=1.0), task=task, **fields)
    else:
        task, links = {"memory": "static"}, Links(bytes_per_ns=1.0)
        if random.random() < 0.5:
            names = [f"d{d}" for d in range(devices)]
            ways = [(a, b) for a in names for b in names if a != b and random.random() < 0.5]
            fields["routes"] = tuple(Route(source=a, target=b, bytes_per_ns=1.0) for a, b in ways)
            links = None  # type: ignore[assignment]
        near = made(rows, edges, devices, 10**6, links, task=task, **fields)
    listed = list(_devices_of(near))
    low, high = 0, sum(a + b for _, a, b in rows) + 1
    if all(static(_with_memory(near, high), one) for one in listed):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = any(not static(_with_memory(near, middle), one) for one in listed)
        low, high = (low, middle) if found else (middle, high)
    if low == 0:
        return None
    tight = _with_memory(near, low)
    in_force = {"C1", "C6", "C7"} if what == "blocks" else {"C1", "C2", "C3", "C4", "C5", "C6"}
    contradict = by_candidates(static(tight, one) for one in listed)
    return Pair(what, tight, _with_memory(near, high), frozenset(in_force), contradict)


def shortest(instance: PlacementInstance, kept: Labels) -> int:
    """The least T1 in ns where the labels in ``kept`` of C1 to C5 hold. Links are of kind ``pair`` or ``bus``."""
    graph, links = instance.graph, instance.system.links
    assert links is not None and links.bytes_per_ns == 1.0
    time = [int(instance.time_ns["gpu"][v] or 0) for v in range(len(graph.operations))]
    number = {operation.name: v for v, operation in enumerate(graph.operations)}
    best = 10**9
    for devices in _devices_of(instance):
        if "C1" in kept and any(len({devices[number[name]] for name in group}) > 1 for group in instance.together):
            continue
        sent = [(t, d) for t in graph.tensors for d in sorted({devices[v] for v in t.readers} - {devices[t.producer]})]
        jobs = [("run", v) for v in range(len(time))] + [("send", i) for i in range(len(sent))]
        for order in permutations(jobs):
            free: dict[Any, int] = {}
            end: dict[Any, int] = {}
            for job in order:
                kind, i = job
                resource: tuple[str | int, ...] | None
                if kind == "run":
                    resource, length, needs = (("device", devices[i]) if "C4" in kept else None), time[i], []
                    for t in graph.tensors:
                        if i in t.readers and devices[t.producer] == devices[i] and "C2" in kept:
                            needs.append(("run", t.producer))
                        elif i in t.readers and devices[t.producer] != devices[i] and "C3" in kept:
                            needs.append(("send", next(j for j, own in enumerate(sent) if own == (t, devices[i]))))
                else:
                    tensor, d = sent[i]
                    a = devices[tensor.producer]
                    channel = ("channel", a) if links.kind == "bus" else ("channel", a, d)
                    resource, length = (channel if "C5" in kept else None), tensor.bytes
                    needs = [("run", tensor.producer)] if "C3" in kept else []
                if any(need not in end for need in needs):
                    break
                start = max([0, *(end[need] for need in needs), free.get(resource, 0) if resource else 0])
                end[job] = start + length
                if resource and length:
                    free[resource] = end[job]
            else:
                best = min(best, max(end["run", v] for v in range(len(time))))
    return best


def _by_limit(random: Random) -> Pair:
    """The least step of three operations on one or two devices."""
    rows, edges = _rows(random, 3)
    devices = random.choice((1, 2, 2))
    together = (("v0", random.choice(("v1", "v2"))),) if random.random() < 0.4 else ()
    pins = (Pin(operation="v1", device=f"d{devices - 1}"),) if random.random() < 0.4 else ()
    links = Links(kind=random.choice(("pair", "bus")), bytes_per_ns=1.0)
    free = made(rows, edges, devices, None, links, task={"memory": "none"}, together=together, pins=pins)
    every = frozenset(("C1", "C2", "C3", "C4", "C5"))
    least = cache(lambda kept: shortest(free, kept & every))
    limit = least(every)
    tight, near = (free.replace(task=free.task.replace(limit_ns=value)) for value in (limit - 1, limit))
    return Pair("limit", tight, near, every, lambda labels: least(labels & every) > limit - 1)


def _by_peak(random: Random) -> Pair | None:
    """The least memory over time of three to five operations on one device."""
    rows, edges = _rows(random, random.randint(3, 5))
    near = made(rows, edges, 1, 10**6, Links(bytes_per_ns=1.0), task={"memory": "live"})
    valid = [
        order for order in permutations(range(len(rows))) if all(order.index(a) < order.index(b) for a, b in edges)
    ]
    weights = sum(row[1] for row in rows)
    least = weights + min(_peak(rows, edges, order) for order in valid)
    if least == 0:
        return None

    def contradict(labels: Labels) -> bool:
        """Without C2, readers needn't wait, and outputs rest while they are made only; without C4 this is no more."""
        if "C6" not in labels:
            return False
        if "C2" in labels:  # two operations at a time hold no less than one after the other
            return True
        return weights + max(size for _, _, size in rows) > least - 1

    labels = frozenset(("C2", "C3", "C4", "C5", "C6"))
    return Pair("memory over time", _with_memory(near, least - 1), _with_memory(near, least), labels, contradict)


def _peak(rows: list[tuple[int, int, int]], edges: list[tuple[int, int]], order: tuple[int, ...]) -> int:
    """The most bytes of outputs at a time: each from its operation to the end of its last reader."""
    most = 0
    for now in range(len(order)):
        held = 0
        for u, (_, _, size) in enumerate(rows):
            last = max([order.index(u), *(order.index(b) for a, b in edges if a == u)])
            held += size if order.index(u) <= now <= last else 0
        most = max(most, held)
    return most


def pair(random: Random) -> Pair | None:
    """A pair of some kind."""
    what = random.choice(("static memory", "static memory", "blocks", "limit", "limit", "memory over time"))
    if what == "limit":
        return _by_limit(random)
    return _by_peak(random) if what == "memory over time" else _by_memory(random, what)
