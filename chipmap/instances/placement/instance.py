"""The records of family ``placement``: what is placed (PlacementInstance) and a placement (PlacementSolution).

The problem is stated in ``docs/families/placement.md``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from chipmap.instances.pinning import check_apart, near_name
from chipmap.instances.placement.system import MAX_BYTES, MAX_NS, System, check_rate
from chipmap.instances.spread import check_spread
from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, Record, counted

Objective = Literal["step_time", "throughput"]
MemoryRule = Literal["live", "static", "none"]
WeightsRule = Literal["replicate", "variable"]
#: The most micro-batches of a step.
MAX_MICRO_BATCHES = 10**6
#: The most FLOP of an operation.
MAX_FLOP = 10**18


class Task(Record, frozen=True, kw_only=True):
    """What is asked.

    ``limit_ns``: the most that T1 may be. ``contiguous`` (C7) and ``overlap`` (a device computes and transfers at the
    same time) belong to objective ``throughput``; with C7 C6 counts what ``micro_batches`` under way hold (1F1B).
    ``fetch_bytes_per_ns``: the rate at which an operation may fetch its weights from the host (null: none does).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("micro_batches", "fetch_bytes_per_ns")

    objective: Objective = "step_time"
    memory: MemoryRule = "live"
    weights: WeightsRule = "replicate"
    limit_ns: int | None = None
    contiguous: bool = False
    overlap: bool = False
    micro_batches: int = 1
    fetch_bytes_per_ns: float | None = None


class Pin(Record, frozen=True, kw_only=True):
    """Operation ``operation`` must run on ``device``."""

    operation: str
    device: str


class Forbidden(Record, frozen=True, kw_only=True):
    """Operation ``operation`` must run on none of ``devices``."""

    operation: str
    devices: tuple[str, ...]


class PlacementInstance(Record, frozen=True, kw_only=True):
    """One problem: a graph, a system and the task.

    ``time_ns``: measured times of the operations, by class, in the order of ``graph.operations`` (null: the roofline).
    ``transfer_ns``: measured times of sending each of ``graph.tensors``, over whatever route (null: by the route).
    ``together``: groups of operations that share a device; ``apart``: groups, no two operations of which share one.
    ``backward``: operations that C7 says nothing of.
    ``scopes``: the module of each of ``graph.operations`` (``blocks.0.attn``), where the file says it. ``states``: the
    operation that holds or reads each parameter and buffer, by the module's name of it (``blocks.0.attn.bias``); ""
    where none does. ``module_classes``: the class of a module, by its path, where the file says it. ``word_bytes``:
    bytes of a number, as most parameters have it; a training step goes by it. ``time_spread``: nine of ten measured
    objectives are so many times those by ``time_ns``, from and to (empty: the times are measured).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("scopes", "states", "word_bytes", "apart", "module_classes", "time_spread"),
    )

    schema: Literal["placement/1"] = "placement/1"
    name: str
    task: Task = Task()
    graph: OperationGraph
    system: System
    time_ns: dict[str, tuple[float | None, ...]] = {}
    transfer_ns: tuple[float | None, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    pins: tuple[Pin, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    backward: tuple[str, ...] = ()
    notes: str = ""
    scopes: tuple[str, ...] = ()
    states: dict[str, str] = {}
    word_bytes: int = 4
    apart: tuple[tuple[str, ...], ...] = ()
    module_classes: dict[str, str] = {}
    time_spread: tuple[float, ...] = ()

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude."""
        self.graph.check()
        self.system.check()
        self._check_task()
        self._check_sizes()
        self._check_times()
        self._check_names()
        self._check_devices()

    def _check_task(self) -> None:
        task = self.task
        if task.objective == "throughput":
            if task.memory == "live":
                what = "memory rule 'live' needs starts, which objective 'throughput' has none of"
                raise InputError(what, "task.memory", "Set task.memory to static or none: --set task.memory=static")
            if task.limit_ns is not None:
                remedy = "Leave it out: --set task.limit_ns=null"
                raise InputError("limits T1, which is not in force", "task.limit_ns", remedy)
            if self.system.routes:
                what = "objective 'throughput' charges a tensor the same wherever it goes"
                raise InputError(what, "system.routes", _as_links(self.system))
            if self.system.links is None and len(self.system.devices) > 1:
                what = "objective 'throughput' lets every device send to every other one"
                raise InputError(what, "system.links", _as_links(self.system))
        self._check_micro_batches()
        self._check_fetching()
        for name in ("contiguous", "overlap") if task.objective == "step_time" else ():
            if getattr(task, name):
                other = "--set task.objective=throughput --set task.memory=static"
                remedy = f"Leave it out: --set task.{name}=false or {other}"
                raise InputError("has no meaning for step_time", f"task.{name}", remedy)
        if task.limit_ns is not None and not 0 <= task.limit_ns <= MAX_NS:
            raise InputError(f"is {task.limit_ns}", "task.limit_ns", f"Give 0 to {MAX_NS:,} ns.")

    def _check_micro_batches(self) -> None:
        task, where = self.task, "task.micro_batches"
        if not 1 <= task.micro_batches <= MAX_MICRO_BATCHES:
            raise InputError(f"is {task.micro_batches}", where, f"Give 1 to {MAX_MICRO_BATCHES:,}.")
        if task.micro_batches > 1 and not (task.objective == "throughput" and task.contiguous):
            what = "counts by stages, which are blocks (C7) of objective throughput"
            settings = "--set task.objective=throughput --set task.memory=static --set task.contiguous=true"
            raise InputError(what, where, f"Ask for them: {settings}, or leave it at 1.")

    def _check_fetching(self) -> None:
        task, where, off = self.task, "task.fetch_bytes_per_ns", "Leave it out: --set task.fetch_bytes_per_ns=null"
        if task.fetch_bytes_per_ns is None:
            return
        check_rate(task.fetch_bytes_per_ns, where)
        if task.memory == "none":
            raise InputError("saves memory, which memory rule 'none' doesn't count", where, off)
        if task.weights == "variable":
            what = "is for weights that an operation holds alone; with task.weights=variable they are operations"
            raise InputError(what, where, off)

    def _check_sizes(self) -> None:
        for i, operation in enumerate(self.graph.operations):
            if operation.flop > MAX_FLOP:
                raise InputError(f"is {operation.flop}", f"graph.operations[{i}].flop", f"Give at most {MAX_FLOP:,}.")
            if max(operation.weight_bytes, operation.moved_bytes or 0) > MAX_BYTES:
                what = f"{operation.name!r} has more than {MAX_BYTES:,} bytes"
                raise InputError(what, f"graph.operations[{i}]", "Give sizes in bytes.")
        for i, tensor in enumerate(self.graph.tensors):
            if tensor.bytes > MAX_BYTES:
                raise InputError(f"is {tensor.bytes}", f"graph.tensors[{i}].bytes", f"Give at most {MAX_BYTES:,}.")

    def _check_times(self) -> None:
        known = [one.name for one in self.system.classes]
        check_spread(self.time_spread)
        if not 1 <= self.word_bytes <= 64:
            raise InputError(f"is {self.word_bytes}", "word_bytes", "Give 1 to 64 bytes.")
        given = [("transfer_ns", self.transfer_ns, len(self.graph.tensors), "tensors")] if self.transfer_ns else []
        if len(self.scopes) not in (0, count := len(self.graph.operations)):
            what = f"has {counted(len(self.scopes), 'entry', 'entries')} for {counted(count, 'operation')}"
            raise InputError(what, "scopes", "Give the scope of each operation, in their order, or none.")
        for kind, times in self.time_ns.items():
            if kind not in known:
                what = f"no class is called {kind!r}"
                raise InputError(what, "time_ns", f"Classes here: {', '.join(known)}.")
            given.append((f"time_ns[{kind!r}]", times, len(self.graph.operations), "operations"))
        for where, times, count, what in given:
            if len(times) != count:
                remedy = f"Give one time (or null) for each of the {what}, in their order."
                held = counted(len(times), "entry", "entries")
                raise InputError(f"has {held} for {counted(count, what.removesuffix('s'))}", where, remedy)
            for i, time in enumerate(times):
                if time is not None and not 0 <= time <= MAX_NS:
                    raise InputError(f"is {time}", f"{where}[{i}]", f"Give 0 to {MAX_NS:,} ns.")

    def _check_names(self) -> None:
        roles = {operation.name: operation.role for operation in self.graph.operations}
        devices = {device.name for device in self.system.devices}
        named = [(f"pins[{i}].operation", pin.operation) for i, pin in enumerate(self.pins)]
        named += [(f"forbidden[{i}].operation", one.operation) for i, one in enumerate(self.forbidden)]
        for field, groups in (("together", self.together), ("apart", self.apart)):
            named += [(f"{field}[{i}][{j}]", name) for i, group in enumerate(groups) for j, name in enumerate(group)]
        named += [(f"backward[{i}]", name) for i, name in enumerate(self.backward)]
        placed = {"compute", "constant"} if self.task.weights == "variable" else {"compute"}
        for where, name in named:
            if name not in roles:
                raise InputError(f"no operation is called {name!r}", where, near_name(name, roles))
            if roles[name] not in placed:
                what = f"{name!r} has role {roles[name]!r} and is not placed"
                raise InputError(what, where, "Name the computing operation that makes or reads its data.")
        for state, name in self.states.items():
            if name and name not in roles:
                what = f"no operation is called {name!r}"
                raise InputError(what, f"states[{state!r}]", "Use a name from graph.operations.")
        asked = [(f"pins[{i}].device", pin.device) for i, pin in enumerate(self.pins)]
        asked += [(f"forbidden[{i}].devices", name) for i, one in enumerate(self.forbidden) for name in one.devices]
        for where, name in asked:
            if name not in devices:
                raise InputError(f"no device is called {name!r}", where, "Use a name from system.devices.")

    def _check_devices(self) -> None:
        """Each operation has a device, and operations that must share one have one in common."""
        pinned: dict[str, str] = {}
        for i, pin in enumerate(self.pins):
            if pinned.setdefault(pin.operation, pin.device) != pin.device:
                what = f"{pin.operation!r} is pinned to {pinned[pin.operation]!r} already"
                raise InputError(what, f"pins[{i}]", "Leave out one of the two pins.")
        allowed = allowed_devices(self)
        if self.together or not all(allowed.values()):  # what no output depends on is left out, and needs no device
            devices, needed = {device.name for device in self.system.devices}, self.graph.needed()
            left_out = (one.name for one, is_needed in zip(self.graph.operations, needed, strict=True) if not is_needed)
            allowed |= {name: devices for name in left_out if name in allowed}
        for i, operation in enumerate(self.graph.operations):
            if operation.name in allowed and not allowed[operation.name]:
                what = f"no device can run {operation.name!r} (kind {operation.kind!r}), by classes, pins and forbidden"
                raise InputError(what, f"graph.operations[{i}]", "Give a class that supports it, or free it.")
        self._check_groups(allowed, pinned)

    def _check_groups(self, allowed: dict[str, set[str]], pinned: dict[str, str]) -> None:
        """Groups with an operation in common share a device, so that they count as one."""
        number: dict[str, int] = {}
        members: dict[int, list[str]] = {}
        common: dict[int, set[str]] = {}
        for i, group in enumerate(self.together):
            met = sorted({number[name] for name in group if name in number})
            whole = [name for k in met for name in members.pop(k)]
            fresh = [name for name in group if name not in number]
            sets = [common.pop(k) for k in met] + [allowed[name] for name in fresh]
            number |= dict.fromkeys([*whole, *fresh], i)
            members[i] = [*whole, *dict.fromkeys(fresh)]
            common[i] = set.intersection(*sets) if sets else {device.name for device in self.system.devices}
            if not common[i]:
                pins = sorted(f"{name!r} to {pinned[name]!r}" for name in members[i] if name in pinned)
                what = "its operations have no device in common" + (f" ({', '.join(pins)} are pinned)" if pins else "")
                if set(members[i]) != set(group):
                    what = f"with the groups that share operations with it, {what}"
                raise InputError(what, f"together[{i}]", "Split the group, or allow one device to all of it.")
        self._check_apart(number | {name: -1 - i for i, name in enumerate(allowed.keys() - number.keys())}, pinned)

    def _check_apart(self, number: dict[str, int], pinned: dict[str, str]) -> None:
        """No two of a group are in one group of ``together`` (``number``), or pinned to one device."""
        check_apart(self.apart)
        for i, names in enumerate(self.apart):
            for what, places in (("share a group of together", number), ("are pinned to one device", pinned)):
                met: dict[object, str] = {}
                for name in names:
                    if (other := met.setdefault(places.get(name, name), name)) != name:
                        remedy = "Take one of them out of it, or free it."
                        raise InputError(f"{other!r} and {name!r} are to be apart, but {what}", f"apart[{i}]", remedy)


class Transfer(Record, frozen=True, kw_only=True):
    """Tensor ``tensor`` (position in ``graph.tensors``) leaves its producer's device for device ``to`` at ``start``."""

    tensor: int
    to: str
    start: int


class PlacementSolution(Record, frozen=True, kw_only=True):
    """A placement: the device of each operation; with objective ``step_time`` all starts in ns as well.

    ``devices`` and ``start`` are by operation, ``transfers`` in any order. ``keys``: the rule of the decoder's keys,
    where devices alone were given and it made the starts. ``fetched``: operations whose weights live on the host.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("keys", "fetched")

    schema: Literal["placement-solution/1"] = "placement-solution/1"
    instance: str = ""
    devices: dict[str, str]
    start: dict[str, int] = {}
    transfers: tuple[Transfer, ...] = ()
    keys: str = ""
    fetched: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """How the starts were made, where the plan had none."""
        return f"a plan of devices: its starts are the decoder's, by {self.keys}" if self.keys else ""


def allowed_devices(instance: PlacementInstance) -> dict[str, set[str]]:
    """The devices that each operation may run on, by class, pins and forbidden devices (computing operations, and with
    weights rule ``variable`` constants)."""
    supports = {one.name: one.supports for one in instance.system.classes}
    roles = {"compute", "constant"} if instance.task.weights == "variable" else {"compute"}
    by_kind: dict[str | None, set[str]] = {}
    found: dict[str, set[str]] = {}
    for operation in instance.graph.operations:
        if operation.role not in roles:
            continue
        key = operation.kind if operation.role == "compute" else None
        if key not in by_kind:
            by_kind[key] = {
                device.name
                for device in instance.system.devices
                if key is None or (kinds := supports[device.kind]) is None or key in kinds
            }
        found[operation.name] = by_kind[key]
    for pin in instance.pins:
        found[pin.operation] = found[pin.operation] & {pin.device}
    for one in instance.forbidden:
        found[one.operation] = found[one.operation] - set(one.devices)
    return found


def in_force(instance: PlacementInstance) -> frozenset[str]:
    """The labels that matter: by objective; C6 unless the memory rule is ``none``; C7 with ``task.contiguous``."""
    task = instance.task
    memory = {"C6"} if task.memory != "none" else set[str]()
    if task.objective == "throughput":
        return frozenset({"C0", "C1", "T2"} | memory | ({"C7"} if task.contiguous else set()))
    return frozenset({"C0", "C1", "C2", "C3", "C4", "C5", "T1"} | memory)


def small(instance: PlacementInstance) -> bool:
    """Whether its kernels run as plain Python: all of the work is less than compiling or loading them."""
    return len(instance.graph.operations) <= 8 and len(instance.system.devices) <= 4


def _as_links(system: System) -> str:
    """What replaces single routes, or none: links as slow as the slowest of them."""
    rates = [route.bytes_per_ns for route in system.routes if route.bytes_per_ns is not None]
    latency = max((route.latency_ns for route in system.routes), default=0.0)
    links = {"latency_ns": latency, **({"bytes_per_ns": min(rates)} if rates else {})}
    text = msgspec.json.encode(links).decode()
    return f"Give links as slow as the slowest: --set system.routes=[] --set 'system.links={text}'"
