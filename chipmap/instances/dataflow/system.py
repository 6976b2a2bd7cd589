"""What it is mapped on: chips, their memories, and a network of up to five dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Literal

from chipmap.instances.dataflow.formats import Format
from chipmap.records import InputError, Record
from chipmap.records.decimals import exact

Topology = Literal["ring", "switch", "full"]
#: Network dimensions at most.
MOST_DIMENSIONS = 5


class Chip(Record, frozen=True, kw_only=True):
    """One chip: its peak in FLOP, its SRAM, and what it loses (page, "Chips").

    The peak is 2 · tiles · lanes · stages · ghz FLOP per nanosecond of ``tiles`` arrays of ``lanes`` × ``stages``
    multiply-adders, or ``tflops`` TFLOP/s where that is given; then the chip has no tiles that kernels could share.
    ``peaks`` are TFLOP/s by number format, for workloads that name theirs; ``vector_tflops`` those of element-wise
    kernels (null: the peak of all others). ``efficiency`` lists (FLOP, share): a kernel that isn't element-wise and has
    so many FLOP on a chip or more reaches that share of the peak (empty: all of it). Instead of it, ``blocks`` lists
    (rows, columns, share): the chip's ``units`` compute a product block by block, each at that share of the peak, after
    ``block_start`` terms of its sums. ``attention`` is such a list for products of two activations alone, and
    ``attention_cached`` for those that read a KV cache. ``launch_ns`` go by before each partition. ``streams``:
    weights stream through
    the SRAM in tiles, as on GPUs and TPUs, so that they take none of it and never stay there. ``fused`` says whether
    kernels can be fused into partitions (a dataflow architecture); otherwise every kernel is a partition of its own.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("tflops", "peaks", "vector_tflops", "efficiency", "launch_ns", "streams"),
        *("units", "blocks", "block_start", "attention", "attention_cached"),
    )

    name: str = ""
    tiles: int = 0
    lanes: int = 0
    stages: int = 0
    ghz: float = 0.0
    sram_bytes: int
    fused: bool = True
    price_usd: float = 0.0
    watts: float = 0.0
    tflops: float | None = None
    peaks: dict[Format, float] = {}
    vector_tflops: float | None = None
    efficiency: tuple[tuple[float, float], ...] = ()
    launch_ns: float = 0.0
    streams: bool = False
    units: int = 0
    blocks: tuple[tuple[int, int, float], ...] = ()
    block_start: int = 0
    attention: tuple[tuple[float, float], ...] = ()
    attention_cached: tuple[tuple[float, float], ...] = ()

    @property
    def flop_per_ns(self) -> float:
        """Peak FLOP per nanosecond (1000 times that in TFLOP/s)."""
        if self.tflops is not None:
            return 1000.0 * self.tflops
        return 2.0 * self.tiles * self.lanes * self.stages * self.ghz

    @property
    def counts_cycles(self) -> bool:
        """Whether its tiles say all of its speed, so that kernels may share them by cycles."""
        shares = self.efficiency or self.blocks or self.attention or self.attention_cached
        return self.tflops is None and self.vector_tflops is None and not self.peaks and not shares

    def check(self) -> None:
        """Raise :class:`InputError` for a chip without a peak, and for numbers that make no sense."""
        counts = {"sram_bytes": self.sram_bytes}
        rates: dict[str, float | None] = {"tflops": self.tflops, "vector_tflops": self.vector_tflops}
        rates |= {f"peaks.{name}": peak for name, peak in self.peaks.items()}
        if self.tflops is None:
            counts |= {name: getattr(self, name) for name in ("tiles", "lanes", "stages")}
            rates["ghz"] = self.ghz
        if (self.tflops is None) != any((self.tiles, self.lanes, self.stages, self.ghz)):
            what = "states no peak" if self.tflops is None else "states its peak twice"
            remedy = "Give tflops, or tiles, lanes, stages and ghz (0: none), not both."
            raise InputError(what, "system.chip", remedy)
        for where, count in counts.items():
            in_range(count, f"system.chip.{where}", 1, 10**15)
        for where, rate in rates.items():
            if rate is not None:
                in_range(rate, f"system.chip.{where}", 1e-9, 1e12)
        in_range(self.launch_ns, "system.chip.launch_ns", 0.0, 1e12)
        check_shares(self.efficiency, "system.chip.efficiency")
        check_shares(self.attention, "system.chip.attention")
        check_shares(self.attention_cached, "system.chip.attention_cached")
        _check_blocks(self)


class Memory(Record, frozen=True, kw_only=True):
    """A chip's DRAM: rate, the share of it that transfers reach (``efficiency``), capacity (null: never the limit), and
    what a GB/s costs.

    ``fetch_efficiency``: by format of a KV cache ("": any other) a list of (bytes, share): a kernel that fetches
    so many
    bytes on a chip, or more, reads them at that share of what transfers reach.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("efficiency", "fetch_efficiency")

    name: str = ""
    bytes_per_ns: float
    capacity_bytes: int | None = None
    usd_per_gbps: float = 0.0
    watts_per_gbps: float = 0.0
    efficiency: float = 1.0
    fetch_efficiency: dict[Format, tuple[tuple[float, float], ...]] = {}

    @property
    def reached(self) -> float:
        """Bytes per nanosecond that transfers reach."""
        return self.bytes_per_ns * self.efficiency


class Dimension(Record, frozen=True, kw_only=True):
    """One network dimension: ``size`` chips in a ring, on a switch, or fully connected, with the rate of a link.

    ``bytes_per_ns`` is what a chip sends, and receives besides. ``latency_ns`` is added per step of a collective,
    ``start_ns`` once for each collective or transfer; transfers reach the share ``efficiency`` of the rate;
    ``links_per_chip`` counts what a chip pays for. ``reduces``: the switch adds up what its chips send (page,
    "Sharding").
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("reduces", "start_ns", "efficiency")

    size: int
    topology: Topology = "ring"
    bytes_per_ns: float
    latency_ns: float = 0.0
    links_per_chip: float = 2.0
    usd_per_gbps: float = 0.0
    watts_per_gbps: float = 0.0
    reduces: bool = False
    start_ns: float = 0.0
    efficiency: float = 1.0

    @property
    def rate(self) -> Fraction:
        """Bytes per nanosecond that a chip's transfers reach, exactly as the two numbers are written."""
        return exact(self.bytes_per_ns) * exact(self.efficiency)


class Group(Record, frozen=True, kw_only=True):
    """Further chips of a class of their own, all in one network dimension (page, "Unequal chips")."""

    name: str
    chip: Chip
    memory: Memory
    network: Dimension


class Link(Record, frozen=True, kw_only=True):
    """What a chip sends to chips of other groups, and receives besides, and the latency of a transfer."""

    bytes_per_ns: float
    latency_ns: float = 0.0


class System(Record, frozen=True, kw_only=True):
    """Equal chips in a network; the product of the dimensions' sizes is their number.

    ``step_ns`` go by for each micro-batch of a replica, whatever its layers take (page, "Fixed costs"). ``notes``:
    where its numbers come from. ``others`` are groups of chips beside these, ``between`` the links from group to group
    (page, "Unequal chips").
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("step_ns", "notes", "others", "between")

    name: str
    chip: Chip
    memory: Memory
    network: tuple[Dimension, ...]
    step_ns: float = 0.0
    notes: str = ""
    others: tuple[Group, ...] = ()
    between: Link | None = None

    @property
    def chips(self) -> int:
        """Number of chips, those of other groups left out."""
        return prod(dimension.size for dimension in self.network)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its own chips as a group, which has the system's name, and the others."""
        own = Group(name=self.name, chip=self.chip, memory=self.memory, network=self.network[0])
        return (own, *self.others)

    @property
    def profiled(self) -> bool:
        """Whether it states costs or shares that no data sheet has."""
        return self.data_sheet() != self

    def data_sheet(self) -> System:
        """The same machine without launches, starts, shares of peaks and rates, and other costs that are measured; the
        latency of a dimension with a start or a share is one of them."""
        shares: dict[str, Any] = {"efficiency": (), "attention": (), "attention_cached": ()}
        chip = self.chip.replace(launch_ns=0.0, units=0, blocks=(), block_start=0, **shares)
        memory = self.memory.replace(efficiency=1.0, fetch_efficiency={})
        network = [
            one.replace(start_ns=0.0, efficiency=1.0, latency_ns=0.0) if one.start_ns or one.efficiency < 1 else one
            for one in self.network
        ]
        return self.replace(chip=chip, memory=memory, network=network, step_ns=0.0)

    def check(self) -> None:
        """Raise :class:`InputError` for counts and rates that make no sense."""
        if not 1 <= len(self.network) <= MOST_DIMENSIONS:
            raise InputError(f"has {len(self.network)} dimensions", "system.network", "Give one to five.")
        self.chip.check()
        in_range(self.memory.bytes_per_ns, "system.memory.bytes_per_ns", 1e-9, 1e12)
        in_range(self.memory.efficiency, "system.memory.efficiency", 1e-9, 1)
        in_range(self.step_ns, "system.step_ns", 0.0, 1e12)
        for named, table in self.memory.fetch_efficiency.items():
            check_shares(table, f"system.memory.fetch_efficiency.{named}")
        for i, dimension in enumerate(self.network):
            in_range(dimension.size, f"system.network[{i}].size", 1, 10**15)
            in_range(dimension.bytes_per_ns, f"system.network[{i}].bytes_per_ns", 1e-9, 1e12)
            in_range(dimension.latency_ns, f"system.network[{i}].latency_ns", 0, 1e12)
            in_range(dimension.efficiency, f"system.network[{i}].efficiency", 1e-9, 1)
            in_range(dimension.start_ns, f"system.network[{i}].start_ns", 0, 1e12)
            if dimension.reduces and dimension.topology != "switch":
                what = f"is true, but the dimension is a {dimension.topology}"
                raise InputError(what, f"system.network[{i}].reduces", "Only a switch adds up what its chips send.")
        capacity = self.memory.capacity_bytes
        if capacity is not None and not 1 <= capacity <= 10**18:
            raise InputError(f"is {capacity}", "system.memory.capacity_bytes", "Give 1 to 10**18, or null.")


def in_range(value: float, where: str, low: float, high: float) -> None:
    """Raise :class:`InputError` unless low <= ``value`` <= high."""
    if not low <= value <= high:
        shown = f"{value:,}" if isinstance(value, int) else f"{value}"
        raise InputError(f"is {shown}", where, f"Give {_words(low)} to {_words(high)}.")


def _words(number: float) -> str:
    """A number as the messages write it: 1,000 or 1e-9."""
    return f"{number:,}" if isinstance(number, int) else f"{number:g}".replace("e-0", "e-").replace("e+", "e")


def check_shares(table: Sequence[tuple[float, float]], where: str) -> None:
    """Raise :class:`InputError` unless amounts (FLOP, bytes) rise from line to line and shares don't fall: k times as
    much then takes k times as long at most, on which the choice of micro-batches rests."""
    for i, (amount, share) in enumerate(table):
        in_range(amount, f"{where}[{i}]", 0, 1e30)
        in_range(share, f"{where}[{i}]", 1e-9, 1)
        if i and not (table[i - 1][0] < amount and table[i - 1][1] <= share):
            what = f"({amount:g}, {share:g}) comes after ({table[i - 1][0]:g}, {table[i - 1][1]:g})"
            raise InputError(what, f"{where}[{i}]", "Let amounts rise from line to line, and shares never fall.")


def _check_blocks(chip: Chip) -> None:
    """Raise :class:`InputError` for blocks without units, beside ``efficiency``, or of sizes that make no sense. Blocks
    of two columns or more see to it that k times the samples take k times as long at most."""
    where = "system.chip.blocks"
    if bool(chip.blocks) != bool(chip.units) or (chip.block_start and not chip.blocks):
        what = f"lists {len(chip.blocks)} sizes, with {chip.units} units and block_start {chip.block_start}"
        raise InputError(what, where, "Give blocks and units together, or none of the three.")
    if chip.blocks and chip.efficiency:
        raise InputError("is given beside efficiency", where, "Give one of the two: blocks say the shares by shape.")
    if chip.blocks:
        in_range(chip.units, "system.chip.units", 1, 10**6)
    in_range(chip.block_start, "system.chip.block_start", 0, 10**6)
    for i, (rows, columns, share) in enumerate(chip.blocks):
        in_range(rows, f"{where}[{i}][0]", 2, 10**6)
        in_range(columns, f"{where}[{i}][1]", 2, 10**6)
        in_range(share, f"{where}[{i}][2]", 1e-9, 1)
