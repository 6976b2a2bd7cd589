"""Family ``placement`` once more, from its page alone: the labels that a solution breaks, its value, what devices hold.

It imports nothing but the records (``tests/placement/test_page.py`` reads its imports), so that an error of the checker
shows as a difference. Plain loops over all pairs, and memory at every nanosecond at which anything happens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.system import Device, DeviceClass, Route


@dataclass
class Storage:
    """A tensor's bytes: who makes and who reads them."""

    tensor: int
    maker: int
    bytes: int
    readers: set[int] = field(default_factory=set)
    output: bool = False


class Page:
    """What the page says of an instance."""

    def __init__(self, instance: PlacementInstance) -> None:
        self.instance, self.task = instance, instance.task
        graph = self.graph = instance.graph
        self.ops, self.tensors = graph.operations, graph.tensors
        self.variable = self.task.weights == "variable"
        self.device: dict[str, Device] = {one.name: one for one in instance.system.devices}
        self.kind: dict[str, DeviceClass] = {one.name: one for one in instance.system.classes}
        needed = self._needed()
        roles = ("compute", "constant") if self.variable else ("compute",)
        self.placed = [v for v, one in enumerate(self.ops) if one.role in roles and v in needed]
        self.at = {one.name: v for v, one in enumerate(self.ops)}
        self.storages: list[Storage] = []
        self.replicated: list[tuple[int, set[int]]] = []  # bytes of a constant, and its readers
        self._store()

    def _needed(self) -> set[int]:
        """Operations with a path to an output; all where nothing is one."""
        found = {one.producer for one in self.tensors if one.output}
        if not found:
            return set(range(len(self.ops)))
        while True:
            more = {one.producer for one in self.tensors if found & set(one.readers)} - found
            if not more:
                return found
            found |= more

    def behind(self, t: int) -> set[int]:
        """The tensors whose bytes tensor ``t`` is: itself, or what the view that makes it reads."""
        maker = self.tensors[t].producer
        if self.ops[maker].role != "view":
            return {t}
        return {origin for s, one in enumerate(self.tensors) if maker in one.readers for origin in self.behind(s)}

    def _store(self) -> None:
        for t, tensor in enumerate(self.tensors):
            role = self.ops[tensor.producer].role
            readers = {
                v
                for s, one in enumerate(self.tensors)
                if t in self.behind(s)
                for v in one.readers
                if v in self.placed and self.ops[v].role == "compute"
            }
            output = any(one.output and t in self.behind(s) for s, one in enumerate(self.tensors))
            if tensor.producer in self.placed and role != "view":
                self.storages.append(Storage(t, tensor.producer, tensor.bytes, readers, output))
            elif role == "constant" and readers:
                self.replicated.append((tensor.bytes, readers))

    def time(self, v: int, device: str) -> int:
        """p(v, d)."""
        one, kind = self.ops[v], self.kind[self.device[device].kind]
        if one.role == "constant":
            return 0
        measured = self.instance.time_ns.get(kind.name, [None] * len(self.ops))[v]
        if measured is not None:
            return math.ceil(written(measured))
        moved = one.moved_bytes
        if moved is None:
            touched = [t for t in self.tensors if v in t.readers or t.producer == v]
            moved = one.weight_bytes + sum(t.bytes for t in touched)
        rate = written(kind.flop_per_ns) * written(kind.efficiency.get(one.kind, 1.0))
        return math.ceil(max(one.flop / rate, moved / written(kind.memory_bytes_per_ns)) + written(kind.launch_ns))

    def fetch(self, v: int) -> int:
        """p of fetching an operation's weights."""
        return math.ceil(self.ops[v].weight_bytes / written(self.task.fetch_bytes_per_ns or 0))

    def route(self, a: str, b: str) -> Route | None:
        """The route from one device to another."""
        for one in self.instance.system.routes:
            if (one.source, one.target) == (a, b):
                return one
        links = self.instance.system.links
        if links is None:
            return None
        hosts = (self.device[a].host, self.device[b].host)
        channels = {
            "none": (),
            "pair": (f"{a} -> {b}",),
            "bus": (f"out of {a}",),
            "duplex": (f"out of {a}", f"into {b}"),
            "host": tuple(dict.fromkeys(hosts)),
        }[links.kind]
        late, rate, gap = links.latency_ns, links.bytes_per_ns, links.gap_ns
        return Route(source=a, target=b, latency_ns=late, bytes_per_ns=rate, channels=channels, gap_ns=gap)

    def send(self, storage: Storage, route: Route) -> int:
        """c of a storage over a route."""
        measured = self.instance.transfer_ns[storage.tensor] if self.instance.transfer_ns else None
        if measured is not None:
            return math.ceil(written(measured))
        moved = storage.bytes / written(route.bytes_per_ns) if route.bytes_per_ns is not None else Fraction(0)
        return math.ceil(written(route.latency_ns) + moved)

    def may_run(self, v: int, device: str) -> bool:
        """Whether class, pins and forbidden devices let an operation run on a device."""
        one, kinds = self.ops[v], self.kind[self.device[device].kind].supports
        if one.role == "compute" and kinds is not None and one.kind not in kinds:
            return False
        if any(pin.operation == one.name and pin.device != device for pin in self.instance.pins):
            return False
        return not any(no.operation == one.name and device in no.devices for no in self.instance.forbidden)


def written(value: float) -> Fraction:
    """A number as it is written."""
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Verdict:
    """Labels of broken constraints; the objective in ns, and the most bytes of each device (where these have a value);
    whether a route is missing, so that C6 means nothing."""

    broken: frozenset[str]
    objective: int | None = None
    peaks: dict[str, int] = field(default_factory=dict)
    routes: bool = True


class Judge:
    """A solution on its page."""

    def __init__(self, page: Page, solution: PlacementSolution) -> None:
        self.page, self.solution = page, solution
        self.timed = page.task.objective == "step_time"

    def verdict(self) -> Verdict:
        """All that the page says of it."""
        page, task = self.page, self.page.task
        if not self._whole():
            return Verdict(frozenset({"C0"}))
        self.on = {v: self.solution.devices[page.ops[v].name] for v in page.placed}
        self.fetched = {v for v in page.placed if page.ops[v].name in self.solution.fetched}
        self.p = {v: page.time(v, self.on[v]) + (page.fetch(v) if v in self.fetched else 0) for v in page.placed}
        self.start = {v: self.solution.start[page.ops[v].name] for v in page.placed} if self.timed else {}
        self.end = {v: at + self.p[v] for v, at in self.start.items()}
        needed = {(one.tensor, d): one for one in page.storages for d in self.away(one)} if self.timed else {}
        sent = [(one.tensor, one.to) for one in self.solution.transfers]
        if sorted(sent) != sorted(needed):
            return Verdict(frozenset({"C0"}))
        self.moves = [(needed[one.tensor, one.to], one.to, one.start) for one in self.solution.transfers]
        rules = {"C1": self.together()}
        if self.timed:
            rules |= {"C0": self.in_time(), "C2": self.order(), "C3": self.transfers()}
            rules |= {"C4": self.devices(), "C5": self.channels()}
            objective = max(self.end.values(), default=0)
        else:
            rules |= {"C7": self.contiguous()} if task.contiguous else {}
            objective = self.load()
        peaks = self.peaks() if task.memory != "none" else {}
        limits = {name: one.memory_bytes for name, one in page.device.items()}
        rules["C6"] = all((limit := limits[name]) is None or most <= limit for name, most in peaks.items())
        routes = all(page.route(self.on[one.maker], d) is not None for one, d, _ in self.moves)
        return Verdict(frozenset(label for label, fine in rules.items() if not fine), objective, peaks, routes)

    def away(self, storage: Storage) -> set[str]:
        return {self.on[v] for v in storage.readers} - {self.on[storage.maker]}

    def _whole(self) -> bool:
        """Whether just the placed operations have a device that they may have, and a start."""
        page, names = self.page, {self.page.ops[v].name for v in self.page.placed}
        if set(self.solution.devices) != names or set(self.solution.start) != (names if self.timed else set()):
            return False
        able = {page.ops[v].name for v in page.placed if page.task.fetch_bytes_per_ns and page.ops[v].weight_bytes}
        if len(set(self.solution.fetched)) < len(self.solution.fetched) or not set(self.solution.fetched) <= able:
            return False
        known = all(device in page.device for device in self.solution.devices.values())
        return known and all(page.may_run(page.at[name], d) for name, d in self.solution.devices.items())

    def in_time(self) -> bool:
        limit, starts = self.page.task.limit_ns, [*self.start.values(), *(at for _, _, at in self.moves)]
        return min(starts, default=0) >= 0 and (limit is None or max(self.end.values(), default=0) <= limit)

    def together(self) -> bool:
        groups = ([self.page.at[name] for name in group] for group in self.page.instance.together)
        return all(len({self.on[v] for v in group if v in self.on}) <= 1 for group in groups)

    def order(self) -> bool:
        pairs = [(one.maker, v) for one in self.page.storages for v in one.readers]
        return all(self.start[v] >= self.end[u] for u, v in pairs if self.on[u] == self.on[v])

    def took(self, storage: Storage, to: str) -> int | None:
        """c of a transfer; None without a route."""
        route = self.page.route(self.on[storage.maker], to)
        return None if route is None else self.page.send(storage, route)

    def transfers(self) -> bool:
        for one, to, at in self.moves:
            c = self.took(one, to)
            if c is None or at < self.end[one.maker]:
                return False
            if any(self.start[v] < at + c for v in one.readers if self.on[v] == to):
                return False
        return True

    def devices(self) -> bool:
        for u, v in combinations([v for v in self.on if self.p[v] > 0], 2):
            gap = self.page.kind[self.page.device[self.on[u]].kind].gap_ns
            apart = self.start[v] >= self.end[u] + gap or self.start[u] >= self.end[v] + gap
            if self.on[u] == self.on[v] and not apart:
                return False
        return True

    def channels(self) -> bool:
        held = list[tuple[str, int, int]]()
        for one, to, at in self.moves:
            route, c = self.page.route(self.on[one.maker], to), self.took(one, to)
            if route is not None and c is not None and c + route.gap_ns > 0:
                held += [(channel, at, at + c + route.gap_ns) for channel in route.channels]
        return all(a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1] for a, b in combinations(held, 2))

    def peaks(self) -> dict[str, int]:
        """The most bytes that each device holds at a time."""
        page, static = self.page, self.page.task.memory == "static" or not self.timed
        rest, spans = dict.fromkeys(page.device, 0), list[tuple[str, int, int, int]]()
        last = max(self.end.values(), default=0)
        for v in page.placed:
            size = page.ops[v].weight_bytes
            if v not in self.fetched:
                rest[self.on[v]] += size
            elif not static:
                spans.append((self.on[v], self.start[v], self.end[v], size))
        for d in page.device if static else ():
            rest[d] += max((page.ops[v].weight_bytes for v in self.fetched if self.on[v] == d), default=0)
        for size, readers in page.replicated:
            for device in {self.on[v] for v in readers}:
                rest[device] += size
        for one in page.storages:
            home, away = self.on[one.maker], self.away(one)
            if static:
                for device in {home} | away:
                    rest[device] += one.bytes * (self.waiting(device) if self.kept(one, device) else 1)
                continue
            arrivals = {to: (at, at + (self.took(one, to) or 0)) for s, to, at in self.moves if s is one}
            for device in away:
                until = max(self.end[v] for v in one.readers if self.on[v] == device)
                spans.append((device, arrivals[device][0], until, one.bytes))
            if page.ops[one.maker].role == "constant":
                rest[home] += one.bytes
                continue
            ends = [self.end[one.maker], *(self.end[v] for v in one.readers if self.on[v] == home)]
            until = last if one.output else max(*ends, *(end for _, end in arrivals.values()), 0)
            spans.append((home, self.start[one.maker], until, one.bytes))
        moments = {0, *(first for _, first, _, _ in spans)}
        return {
            d: rest[d] + max(sum(b for e, s, t, b in spans if e == d and s <= now < t) for now in moments) for d in rest
        }

    def kept(self, one: Storage, device: str) -> bool:
        """Whether a forward operation's storage waits on the device for a backward operation."""
        back = set(self.page.instance.backward)
        later = [v for v in one.readers if self.page.ops[v].name in back and self.on[v] == device]
        made = self.page.ops[one.maker]
        return made.name not in back and made.role != "constant" and bool(later)

    def waiting(self, device: str) -> int:
        """Micro-batches under way on a device: devices on the longest path of forward reads from it on."""
        back = set(self.page.instance.backward)
        ways = [
            (self.on[one.maker], self.on[v])
            for one in self.page.storages
            for v in one.readers
            if self.page.ops[one.maker].name not in back and self.page.ops[v].name not in back
        ]
        paths = [[device]]
        for path in paths:
            paths += [[*path, b] for a, b in {way for way in ways if way[0] == path[-1] and way[1] not in path}]
        return min(self.page.task.micro_batches, max(map(len, paths)))

    def contiguous(self) -> bool:
        """Whether the devices have an order in which everything is read from the own or an earlier one."""
        page, back = self.page, set(self.page.instance.backward)
        pairs = {
            (self.on[one.maker], self.on[v])
            for one in page.storages
            for v in one.readers
            if page.ops[one.maker].name not in back and page.ops[v].name not in back
        }
        return any(all(order.index(a) <= order.index(b) for a, b in pairs) for order in permutations(page.device))

    def load(self) -> int:
        """T2."""
        page, most = self.page, 0
        for name, device in page.device.items():
            work = sum(self.p[v] for v in page.placed if self.on[v] == name)
            sent = 0
            for one in page.storages if page.kind[device.kind].pays_transfers else ():
                away = self.away(one)
                if name in away or (away and self.on[one.maker] == name):
                    other = self.on[one.maker] if name in away else min(away)
                    route = page.route(name, other)
                    assert route is not None
                    sent += page.send(one, route)
            most = max(most, max(work, sent) if page.task.overlap else work + sent)
        return most
