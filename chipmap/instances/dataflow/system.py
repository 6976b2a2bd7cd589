"""What it is mapped on: chips, their memories, and a network of up to three dimensions."""

from __future__ import annotations

from math import prod
from typing import Literal

from chipmap.records import InputError, Record

Topology = Literal["ring", "switch", "full"]


class Chip(Record, frozen=True, kw_only=True):
    """One chip: ``tiles`` arrays of ``lanes`` × ``stages`` multiply-adders at ``ghz``, and its SRAM.

    Peak: 2 · tiles · lanes · stages · ghz FLOP per nanosecond. ``fused`` says whether kernels can be fused into
    partitions (a dataflow architecture); otherwise every kernel is a partition of its own.
    """

    name: str = ""
    tiles: int
    lanes: int
    stages: int
    ghz: float
    sram_bytes: int
    fused: bool = True
    price_usd: float = 0.0
    watts: float = 0.0

    @property
    def flop_per_ns(self) -> float:
        """Peak FLOP per nanosecond (TFLOPS / 1000)."""
        return 2.0 * self.tiles * self.lanes * self.stages * self.ghz


class Memory(Record, frozen=True, kw_only=True):
    """A chip's DRAM: rate, capacity (null: never the limit), and what a GB/s costs."""

    name: str = ""
    bytes_per_ns: float
    capacity_bytes: int | None = None
    usd_per_gbps: float = 0.0
    watts_per_gbps: float = 0.0


class Dimension(Record, frozen=True, kw_only=True):
    """One network dimension: ``size`` chips in a ring, on a switch, or fully connected, with the rate of a link.

    ``latency_ns`` is added per step of a collective; ``ports`` counts what a chip pays for.
    """

    size: int
    topology: Topology = "ring"
    bytes_per_ns: float
    latency_ns: float = 0.0
    links_per_chip: float = 2.0
    usd_per_gbps: float = 0.0
    watts_per_gbps: float = 0.0


class System(Record, frozen=True, kw_only=True):
    """Equal chips in a network; the product of the dimensions' sizes is their number."""

    name: str
    chip: Chip
    memory: Memory
    network: tuple[Dimension, ...]

    @property
    def chips(self) -> int:
        """Number of chips."""
        return prod(dimension.size for dimension in self.network)

    def check(self) -> None:
        """Raise :class:`InputError` for counts and rates that make no sense."""
        if not 1 <= len(self.network) <= 3:
            raise InputError(f"has {len(self.network)} dimensions", "system.network", "Give one to three.")
        counts = {f"chip.{name}": getattr(self.chip, name) for name in ("tiles", "lanes", "stages", "sram_bytes")}
        counts |= {f"network[{i}].size": dimension.size for i, dimension in enumerate(self.network)}
        for where, count in counts.items():
            if not 1 <= count <= 10**15:
                raise InputError(f"is {count:,}", f"system.{where}", f"Give 1 to {10**15:,}.")
        rates = {"chip.ghz": self.chip.ghz, "memory.bytes_per_ns": self.memory.bytes_per_ns}
        rates |= {f"network[{i}].bytes_per_ns": dimension.bytes_per_ns for i, dimension in enumerate(self.network)}
        for where, rate in rates.items():
            if not 1e-9 <= rate <= 1e12:
                raise InputError(f"is {rate}", f"system.{where}", "Give 1e-9 to 1e12.")
        for i, dimension in enumerate(self.network):
            if not 0 <= dimension.latency_ns <= 1e12:
                raise InputError(f"is {dimension.latency_ns}", f"system.network[{i}].latency_ns", "Give 0 to 1e12.")
        capacity = self.memory.capacity_bytes
        if capacity is not None and not 1 <= capacity <= 10**18:
            raise InputError(f"is {capacity}", "system.memory.capacity_bytes", "Give 1 to 10**18, or null.")
