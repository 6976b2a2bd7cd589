"""The records of family ``ring``: what is mapped (RingInstance) and a mapping (RingSolution).

The problem is stated in ``docs/families/ring.md``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from chipmap.instances.pinning import check_apart, near_name
from chipmap.instances.spread import check_spread
from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, Record, counted

CostMode = Literal["period", "sum", "sum_forward"]
Traffic = Literal["in_out", "twice_out"]
MemoryGrade = Literal["boundary", "full"]
Label = Literal["C1", "C2", "C3", "C4"]
#: Most chips of a package: beyond it the models' tables fit no machine.
MAX_CHIPS = 10_000
MAX_BYTES, MAX_NS = 10**18, 10**12


class Package(Record, frozen=True, kw_only=True):
    """The package: ``chips`` in a row, a link from each to the next only.

    Rates are per nanosecond (1 byte/ns = 1 GB/s, 1000 flop/ns = 1 TFLOP/s). ``link_bytes_per_ns`` null means that
    links cost nothing. ``efficiency`` is the share of the peak that a kind of operation reaches (1 where it is silent);
    ``launch_ns`` is added to every operation, ``hop_ns`` per link to a sample's latency only.
    """

    chips: int = 36
    sram_bytes: int = 32 * 1024 * 1024
    link_bytes_per_ns: float | None = 32.0
    hop_ns: float = 1000.0
    flop_per_ns: float = 4000.0
    sram_bytes_per_ns: float = 200.0
    launch_ns: float = 0.0
    efficiency: dict[str, float] = {}

    def check(self, where: str = "package") -> None:
        """Raise :class:`InputError` for counts, sizes and rates that make no sense."""
        if self.chips < 1:
            raise InputError(f"is {self.chips}", f"{where}.chips", "Give at least 1 chip.")
        if self.chips > MAX_CHIPS:
            raise InputError(f"is {self.chips}", f"{where}.chips", f"Give at most {MAX_CHIPS} chips.")
        for name, most in (("sram_bytes", MAX_BYTES), ("hop_ns", MAX_NS), ("launch_ns", MAX_NS)):
            if not 0 <= (value := getattr(self, name)) <= most:
                raise InputError(f"is {value:,}", f"{where}.{name}", f"Give 0 to {most:,}.")
        rates = {name: getattr(self, name) for name in ("flop_per_ns", "sram_bytes_per_ns", "link_bytes_per_ns")}
        rates |= {f"efficiency[{kind!r}]": share for kind, share in self.efficiency.items()}
        for name, rate in rates.items():
            if rate is not None and not 1e-9 <= rate <= 1e15:
                raise InputError(f"is {rate}", f"{where}.{name}", "Give 1e-9 to 1e15.")


class Pin(Record, frozen=True, kw_only=True):
    """Operation ``operation`` must run on chip ``chip``."""

    operation: str
    chip: int


class Forbidden(Record, frozen=True, kw_only=True):
    """Operation ``operation`` must not run on any of ``chips``."""

    operation: str
    chips: tuple[int, ...]


class RingInstance(Record, frozen=True, kw_only=True):
    """One problem: a graph, a package, and what is asked.

    ``cost_mode`` is what the period counts (page, T1 and T2); ``traffic`` how the bytes of an operation's roofline are
    counted: ``in_out`` = inputs + outputs + weights, ``twice_out`` = 2 · outputs + weights (published reference
    values use it). ``constraints`` names the constraints that are in force. ``time_ns`` gives measured times of
    operations (null: the roofline). ``pins``, ``together``, ``forbidden`` and ``apart`` (groups, no two operations of
    which share a chip) name operations with role ``compute``. ``memory_grade`` says what C4 counts: weights and
    ``boundary`` tensors, or ``full``: live activations and relay buffers too (page, C4). ``scopes``: the module of each
    of ``graph.operations`` (``blocks.0.attn``), where the file says it. ``states``: the operation that holds or reads
    each parameter and buffer, by the module's name of it (``blocks.0.attn.bias``); "" where none does. ``time_spread``:
    nine of ten measured periods are so many times those by ``time_ns``, from and to (empty: the times are measured).
    """

    schema: Literal["ring/1"] = "ring/1"
    name: str
    graph: OperationGraph
    package: Package = Package()
    objective: Literal["throughput"] = "throughput"
    cost_mode: CostMode = "period"
    traffic: Traffic = "in_out"
    constraints: tuple[Label, ...] = ("C1", "C2", "C3", "C4")
    time_ns: tuple[float | None, ...] | None = None
    pins: tuple[Pin, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    notes: str = ""
    memory_grade: MemoryGrade = "boundary"
    scopes: tuple[str, ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    states: dict[str, str] = {}
    time_spread: tuple[float, ...] = ()

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("memory_grade", "scopes", "apart", "states", "time_spread")

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude."""
        self.package.check()
        self.graph.check()
        if len(set(self.constraints)) != len(self.constraints):
            raise InputError("a constraint is named twice", "constraints", "Name each of C1 to C4 at most once.")
        if self.time_ns is not None:
            if len(self.time_ns) != len(self.graph.operations):
                held = counted(len(self.time_ns), "entry", "entries")
                what = f"has {held} for {counted(len(self.graph.operations), 'operation')}"
                raise InputError(what, "time_ns", "Give one time (or null) per operation, in their order.")
            for i, time in enumerate(self.time_ns):
                if time is not None and time < 0:
                    raise InputError(f"is {time}", f"time_ns[{i}]", "Times are 0 or more.")
        check_spread(self.time_spread)
        if len(self.scopes) not in (0, count := len(self.graph.operations)):
            what = f"has {counted(len(self.scopes), 'entry', 'entries')} for {counted(count, 'operation')}"
            raise InputError(what, "scopes", "Give the scope of each operation, in their order, or none.")
        known = {operation.name for operation in self.graph.operations} if self.states else set[str]()
        for state, name in self.states.items():
            if name and name not in known:
                what = f"no operation is called {name!r}"
                raise InputError(what, f"states[{state!r}]", "Use a name from graph.operations.")
        self._check_names()

    def _check_names(self) -> None:
        roles = {operation.name: operation.role for operation in self.graph.operations}
        named = [(f"pins[{i}].operation", pin.operation) for i, pin in enumerate(self.pins)]
        named += [(f"forbidden[{i}].operation", item.operation) for i, item in enumerate(self.forbidden)]
        for field, groups in (("together", self.together), ("apart", self.apart)):
            named += [(f"{field}[{i}][{j}]", op) for i, group in enumerate(groups) for j, op in enumerate(group)]
        for where, name in named:
            if name not in roles:
                raise InputError(f"no operation is called {name!r}", where, near_name(name, roles))
            if roles[name] != "compute":
                what = f"{name!r} has role {roles[name]!r} and is not placed"
                raise InputError(what, where, "Name the computing operation that makes or reads its data.")
        check_apart(self.apart)
        chips = [(f"pins[{i}].chip", pin.chip) for i, pin in enumerate(self.pins)]
        chips += [(f"forbidden[{i}].chips", chip) for i, item in enumerate(self.forbidden) for chip in item.chips]
        last = self.package.chips - 1
        for where, chip in chips:
            if not 0 <= chip <= last:
                raise InputError(f"chip {chip} does not exist", where, f"Chips run from 0 to {last} here.")


class RingSolution(Record, frozen=True, kw_only=True):
    """A mapping: ``chips[v]`` is the chip of operation v of the instance's graph, for every operation.

    Only computing operations have costs; a view, constant, input or dead operation is placed where it breaks no edge
    (:func:`chipmap.instances.ring.contraction.lift` does that).
    """

    schema: Literal["ring-solution/1"] = "ring-solution/1"
    instance: str = ""
    chips: tuple[int, ...]


def in_force(instance: RingInstance) -> frozenset[str]:
    """The labels that matter to ``instance``; C5 only in a run that has an oracle."""
    return frozenset(("C0", "C5", "T1", "T2", *instance.constraints))


def small(instance: RingInstance) -> bool:
    """Whether its kernels run as plain Python: all of the work is less than compiling or loading them."""
    return len(instance.graph.operations) <= 8 and instance.package.chips <= 8
