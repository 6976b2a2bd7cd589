"""The changes of a placement instance that ``explain`` tries: more devices, faster links, more memory, fewer demands.

Each is an instance of its own. A placement of the instance is one of each instance that only allows more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.placement.system import MAX_BYTES, MAX_DEVICES, Device, Links, Route, System, routes_of
from chipmap.records import counted
from chipmap.records.text import listed

#: Gives latency and rate (None: no cost per byte) for those that are.
Ends = Callable[[float, float | None], tuple[float, float | None]]
#: Pins, groups and forbidden devices that are left out one by one; more of them only all together.
EACH = 4


class PlacementTrial(NamedTuple):
    """A change: its ``kind``, in words, what ``--set`` takes for it (where that can say it), the changed instance."""

    kind: str
    what: str
    setting: str
    instance: PlacementInstance


def changes(problem: PlacementProblem, infeasible: bool) -> list[PlacementTrial]:
    """All changes that are tried; ``infeasible``: of an instance without a placement."""
    instance = problem.instance
    found = [*_devices(instance), *([] if infeasible else _links(instance)), *_memory(problem), *_task(instance)]
    return [*found, *_sites(instance, infeasible)]


def _devices(instance: PlacementInstance) -> Iterator[PlacementTrial]:
    """One more device of each class, linked to all others."""
    system = instance.system
    kinds = list(dict.fromkeys(device.kind for device in system.devices))
    linked = system.links is not None or instance.task.objective == "step_time"
    for kind in kinds if len(system.devices) < MAX_DEVICES and linked else ():
        what = "one more device" + (f" of class {kind!r}" if len(kinds) > 1 else "")
        yield PlacementTrial("devices", what, "", instance.replace(system=with_device(system, kind)))


def with_device(system: System, kind: str) -> System:
    """One more device of class ``kind``, with the most memory of its class.

    Where ``links`` join the devices, they join it as well. Where single routes do, it gets one to and from each other
    device, with the least latency and gap and the greatest rate that there are, and a channel of its own: no place for
    it is better.
    """
    like, names = [one for one in system.devices if one.kind == kind], {one.name for one in system.devices}
    name = next(f"more{i}" for i in range(len(names) + 1) if f"more{i}" not in names)
    sizes = [one.memory_bytes for one in like]
    most = None if None in sizes else max(one for one in sizes if one is not None)
    new = Device(name=name, kind=kind, memory_bytes=most, host=like[0].host)
    routes = system.routes
    if system.links is None and (known := list(routes_of(system).values())):
        rates = [route.bytes_per_ns for route in known]
        fields = {
            "latency_ns": min(route.latency_ns for route in known),
            "bytes_per_ns": None if None in rates else max(rate for rate in rates if rate is not None),
            "gap_ns": min(route.gap_ns for route in known),
        }
        for one in system.devices:
            for a, b in ((one.name, name), (name, one.name)):
                routes = (*routes, Route(source=a, target=b, channels=(f"{a} -> {b}",), **fields))  # type: ignore[arg-type]
    return system.replace(devices=(*system.devices, new), routes=routes)


def _links(instance: PlacementInstance) -> Iterator[PlacementTrial]:
    """Twice the rate, half the latency, and transfers that cost nothing."""
    system, measured = instance.system, instance.transfer_ns
    joined: list[Links | Route] = [*system.routes, *([system.links] if system.links is not None else [])]
    if len(system.devices) < 2 or not joined:
        return
    if measured or any(one.bytes_per_ns is not None for one in joined):
        rate = system.links.bytes_per_ns if system.links is not None else None
        plain = rate is not None and not measured and not system.routes
        what = "measured transfers in half their times" if measured else "links at twice the rate"
        faster = instance.replace(
            system=_changed(system, lambda latency, rate: (latency, None if rate is None else 2 * rate)),
            transfer_ns=tuple(None if time is None else time / 2 for time in measured),
        )
        yield PlacementTrial(
            "links", what, f"system.links.bytes_per_ns={json.dumps(2 * rate)}" if plain and rate else "", faster
        )
    if not measured and any(one.latency_ns for one in joined):
        plain = system.links is not None and not system.routes
        setting = f"system.links.latency_ns={json.dumps(system.links.latency_ns / 2)}" if system.links and plain else ""
        sooner = instance.replace(system=_changed(system, lambda latency, rate: (latency / 2, rate)))
        yield PlacementTrial("links", "links of half the latency", setting, sooner)
    free = _changed(system, lambda latency, rate: (0.0, None), gap=0)
    none = tuple(None if time is None else 0.0 for time in measured)
    yield PlacementTrial("links", "transfers that take no time", "", instance.replace(system=free, transfer_ns=none))


def _changed(system: System, of: Ends, gap: int | None = None) -> System:
    """The system with other latencies and rates (and gaps, if one is given) of its links and routes."""

    def fields(latency: float, rate: float | None, rest: int) -> dict[str, object]:
        latency, rate = of(latency, rate)
        return {"latency_ns": latency, "bytes_per_ns": rate, "gap_ns": rest if gap is None else gap}

    links = system.links
    if links is not None:
        links = links.replace(**fields(links.latency_ns, links.bytes_per_ns, links.gap_ns))
    routes = tuple(one.replace(**fields(one.latency_ns, one.bytes_per_ns, one.gap_ns)) for one in system.routes)
    return system.replace(links=links, routes=routes)


def _memory(problem: PlacementProblem) -> Iterator[PlacementTrial]:
    """Twice the memory, and no limit, unless all there is fits on each device."""
    instance = problem.instance
    if not memory_may_bind(problem):
        return
    devices = instance.system.devices
    twice = tuple(
        one if one.memory_bytes is None else one.replace(memory_bytes=min(MAX_BYTES, 2 * one.memory_bytes))
        for one in devices
    )
    setting = f"system.devices.0.memory_bytes={twice[0].memory_bytes}" if len(devices) == 1 else ""
    yield PlacementTrial(
        "memory", "twice the memory", setting, instance.replace(system=instance.system.replace(devices=twice))
    )
    free = instance.replace(task=instance.task.replace(memory="none"))
    yield PlacementTrial("memory", "without the limit of memory (C6)", "task.memory=none", free)


def all_bytes(problem: PlacementProblem) -> int:
    """All that a device could ever hold: weights, replicated copies and every storage."""
    copies = sum(size for size, _ in problem.copies)
    return int(problem.weights.sum()) + int(problem.storages.bytes.sum()) + copies


def memory_may_bind(problem: PlacementProblem) -> bool:
    """Whether some device is too small for everything at once."""
    limits = problem.memory[problem.memory >= 0]
    return problem.instance.task.memory != "none" and bool((limits < all_bytes(problem)).any())


def _task(instance: PlacementInstance) -> Iterator[PlacementTrial]:
    """Without the limit on T1, with faster fetching, without C7, with transfers beside computing."""
    task = instance.task
    if task.limit_ns is not None:
        yield _tasked(instance, "without the limit on T1", "limit_ns", None)
    if task.fetch_bytes_per_ns is not None:
        rate = 2 * task.fetch_bytes_per_ns
        yield _tasked(instance, "weights fetched at twice the rate", "fetch_bytes_per_ns", rate)
    if task.contiguous:
        yield _tasked(instance, "without blocks one after the other (C7)", "contiguous", False)
    if task.objective == "throughput" and not task.overlap and len(instance.system.devices) > 1:
        yield _tasked(instance, "transfers beside computing", "overlap", True)


def _tasked(instance: PlacementInstance, what: str, field: str, value: object) -> PlacementTrial:
    changed = instance.replace(task=instance.task.replace(**{field: value}))
    return PlacementTrial("task", what, f"task.{field}={json.dumps(value)}", changed)


def _sites(instance: PlacementInstance, infeasible: bool) -> Iterator[PlacementTrial]:
    """Without pins and forbidden devices; where there is no placement, also without `together` and with all routes."""
    fields = ("pins", "forbidden", "apart", *(("together",) if infeasible else ()))
    words = {"pins": "pin", "forbidden": "entry of forbidden devices", "together": "group of task together"}
    words |= {"apart": "group that is to be apart"}
    for name in fields:
        entries = getattr(instance, name)
        for i in range(len(entries)) if 1 < len(entries) <= EACH else ():
            left = instance.replace(**{name: (*entries[:i], *entries[i + 1 :])})
            yield PlacementTrial("sites", f"without {_entry(name, entries[i])}", "", left)
        if entries:
            what = _entry(name, entries[0]) if len(entries) == 1 else f"all of {counted(len(entries), words[name])}"
            yield PlacementTrial("sites", f"without {what}", f"{name}=[]", instance.replace(**{name: ()}))
    system = instance.system
    missing = len(routes_of(system)) < len(system.devices) * (len(system.devices) - 1)
    if infeasible and missing:
        new = [
            Route(source=a.name, target=b.name)
            for a in system.devices
            for b in system.devices
            if a.name != b.name and (a.name, b.name) not in routes_of(system)
        ]
        joined = instance.replace(system=system.replace(routes=(*system.routes, *new)))
        yield PlacementTrial("links", "with routes between all devices that have none", "", joined)


def _entry(name: str, entry: object) -> str:
    if name == "pins":
        return f"the pin of {entry.operation!r} to {entry.device!r}"  # type: ignore[attr-defined]
    if name == "forbidden":
        return f"the forbidden devices of {entry.operation!r}"  # type: ignore[attr-defined]
    if name == "apart":
        return f"keeping {listed(entry)} apart"  # type: ignore[arg-type]
    first, *_, last = entry  # type: ignore[misc]
    return f"the group of {first!r} and {last!r}"  # type: ignore[has-type]
