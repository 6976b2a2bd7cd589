"""The machine of family ``placement``: classes of devices, devices, and the routes between them.

Shorthands of ``links`` stand for a route from each device to each other one; :func:`routes_of` writes them out.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from chipmap.records import InputError, Record

#: Most devices of a system: sets of devices are kept in 64 bits.
MAX_DEVICES = 64
#: Times, latencies and gaps stay below this many ns, sizes below this many bytes.
MAX_NS, MAX_BYTES = 10**12, 10**15

LinkKind = Literal["none", "pair", "bus", "duplex", "host"]


class DeviceClass(Record, frozen=True, kw_only=True):
    """What devices of one class can do. Rates are per nanosecond (1 byte/ns = 1 GB/s, 1000 flop/ns = 1 TFLOP/s).

    ``efficiency`` is the share of the peak that a kind of operation reaches (1 where it is silent). ``launch_ns`` is
    added to every operation. ``gap_ns``: how long a device rests after an operation. ``supports`` names the kinds of
    operations that it can run (null: all). ``pays_transfers`` false: in objective ``throughput`` transfers cost this
    class nothing, as a host's memory.
    """

    name: str
    flop_per_ns: float = 1000.0
    memory_bytes_per_ns: float = 100.0
    launch_ns: float = 0.0
    efficiency: dict[str, float] = {}
    gap_ns: int = 0
    supports: tuple[str, ...] | None = None
    pays_transfers: bool = True


class Device(Record, frozen=True, kw_only=True):
    """A device of a class (``class`` in JSON). ``memory_bytes`` null: unlimited. ``host``: the switch it hangs on."""

    name: str
    kind: str = msgspec.field(name="class")
    memory_bytes: int | None = None
    host: str = "host"


class Route(Record, frozen=True, kw_only=True):
    """The way from device ``source`` to ``target``: ⌈latency + bytes / rate⌉ ns (rate null: no cost per byte).

    A transfer holds all of ``channels`` while it lasts and ``gap_ns`` longer; a channel holds one transfer at a time.
    """

    source: str
    target: str
    latency_ns: float = 0.0
    bytes_per_ns: float | None = None
    channels: tuple[str, ...] = ()
    gap_ns: int = 0


class Links(Record, frozen=True, kw_only=True):
    """A route from each device to each other one, all with the same latency, rate and gap.

    ==========  ===========================================================
    ``kind``    channels of the route from a to b
    ==========  ===========================================================
    ``none``    none: any number of transfers at a time
    ``pair``    one per ordered pair
    ``bus``     one outgoing channel of a
    ``duplex``  the outgoing engine of a and the incoming engine of b
    ``host``    the switch of a (``Device.host``), and that of b if another
    ==========  ===========================================================
    """

    kind: LinkKind = "pair"
    latency_ns: float = 0.0
    bytes_per_ns: float | None = None
    gap_ns: int = 0


class System(Record, frozen=True, kw_only=True):
    """Classes, devices, and how these are joined: by ``links``, by single ``routes``, which come first, or by neither.

    Without a route no tensor gets from one device to the other.
    """

    classes: tuple[DeviceClass, ...]
    devices: tuple[Device, ...]
    links: Links | None = None
    routes: tuple[Route, ...] = ()

    def check(self, where: str = "system") -> None:
        """Raise :class:`InputError` for names, counts and rates that make no sense."""
        if not self.devices:
            raise InputError("there is no device", f"{where}.devices", "Give at least one.")
        if len(self.devices) > MAX_DEVICES:
            raise InputError(f"has {len(self.devices)} devices", f"{where}.devices", f"Give at most {MAX_DEVICES}.")
        _unique([one.name for one in self.classes], f"{where}.classes")
        _unique([one.name for one in self.devices], f"{where}.devices")
        for i, one in enumerate(self.classes):
            here = f"{where}.classes[{i}]"
            check_rate(one.flop_per_ns, f"{here}.flop_per_ns")
            check_rate(one.memory_bytes_per_ns, f"{here}.memory_bytes_per_ns")
            for kind, share in one.efficiency.items():
                check_rate(share, f"{here}.efficiency[{kind!r}]")
            _span(one.launch_ns, f"{here}.launch_ns")
            _span(one.gap_ns, f"{here}.gap_ns")
        known = [one.name for one in self.classes]
        for i, device in enumerate(self.devices):
            if device.kind not in known:
                what = f"no class is called {device.kind!r}"
                raise InputError(what, f"{where}.devices[{i}].class", f"Classes here: {', '.join(known) or 'none'}.")
            if device.memory_bytes is not None and not 0 <= device.memory_bytes <= MAX_BYTES:
                what = f"is {device.memory_bytes}"
                raise InputError(what, f"{where}.devices[{i}].memory_bytes", f"Give 0 to {MAX_BYTES:,}, or null.")
        self._check_routes(where)

    def _check_routes(self, where: str) -> None:
        listed: list[tuple[str, Links | Route]] = [(f"{where}.routes[{i}]", one) for i, one in enumerate(self.routes)]
        if self.links is not None:
            listed.append((f"{where}.links", self.links))
        for here, one in listed:
            _span(one.latency_ns, f"{here}.latency_ns")
            _span(one.gap_ns, f"{here}.gap_ns")
            if one.bytes_per_ns is not None:
                check_rate(one.bytes_per_ns, f"{here}.bytes_per_ns")
        names, seen = {device.name for device in self.devices}, set[tuple[str, str]]()
        for i, route in enumerate(self.routes):
            here = f"{where}.routes[{i}]"
            for name in (route.source, route.target):
                if name not in names:
                    raise InputError(f"no device is called {name!r}", here, "Use a name from system.devices.")
            if route.source == route.target:
                raise InputError(f"{route.source!r} has a route to itself", here, "Leave it out: it costs nothing.")
            if (route.source, route.target) in seen:
                what = f"there are two routes from {route.source!r} to {route.target!r}"
                raise InputError(what, here, "Name each ordered pair once.")
            seen.add((route.source, route.target))
            if len(set(route.channels)) < len(route.channels):
                raise InputError("a channel is named twice", f"{here}.channels", "Name each once.")


def routes_of(system: System) -> dict[tuple[str, str], Route]:
    """The route from each device to each other one that it can send to, by their names."""
    found = {(route.source, route.target): route for route in system.routes}
    links = system.links
    for a in system.devices if links is not None else ():
        for b in system.devices:
            if a.name != b.name and (a.name, b.name) not in found:
                assert links is not None
                found[a.name, b.name] = Route(
                    source=a.name,
                    target=b.name,
                    latency_ns=links.latency_ns,
                    bytes_per_ns=links.bytes_per_ns,
                    channels=_channels(links.kind, a, b),
                    gap_ns=links.gap_ns,
                )
    return found


def _channels(kind: LinkKind, a: Device, b: Device) -> tuple[str, ...]:
    if kind == "pair":
        return (f"{a.name} -> {b.name}",)
    if kind == "bus":
        return (f"out of {a.name}",)
    if kind == "duplex":
        return (f"out of {a.name}", f"into {b.name}")
    if kind == "host":
        return (a.host,) if a.host == b.host else (a.host, b.host)
    return ()


def _unique(names: list[str], where: str) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"{name!r} is named twice", f"{where}[{i}].name", "Give each a name of its own.")


def check_rate(value: float, where: str) -> None:
    if not 1e-9 <= value <= 1e12:
        raise InputError(f"is {value}", where, "Give 1e-9 to 1e12.")


def _span(value: float, where: str) -> None:
    if not 0 <= value <= MAX_NS:
        raise InputError(f"is {value}", where, f"Give 0 to {MAX_NS:,} ns.")
