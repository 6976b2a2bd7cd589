"""What a system costs and draws: its chips, DRAM, links and switch ports.

The counts of links and ports are those of DFModel's published inputs (`docs/sweeps.md`, "Price and power").
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chipmap.instances.dataflow.system import System

#: Dollars and watts of a switch port per GB/s of its link.
PORT_USD, PORT_WATTS = 24.0, 0.052


class Bill(NamedTuple):
    """US dollars, or watts, of a whole system."""

    chips: float
    memory: float
    links: float
    ports: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.chips + self.memory + self.links + self.ports


class Wiring(NamedTuple):
    """Links and switch ports of one network dimension, over the whole system."""

    links: int
    ports: int


def wiring(system: System, dimension: int) -> Wiring:
    """Links and ports of dimension i of sizes s, with P chips in all.

    A ring closes through two ports: P links, 2 · P / s_i ports. On a switch and fully connected, what the dimensions
    before i hold is one box with one uplink, of which there are g = P / (s_0 … s_(i-1)): a switch takes g links and g
    ports; all pairs take g · (s_i - 1) links, and s_i ports for each box from the second dimension on.
    """
    sizes = [one.size for one in system.network]
    chips, size = math.prod(sizes), sizes[dimension]
    boxes = chips // math.prod(sizes[:dimension])
    topology = system.network[dimension].topology
    if size == 1:
        return Wiring(0, 0)
    if topology == "ring":
        return Wiring(chips, 2 * chips // size)
    if topology == "switch":
        return Wiring(boxes, boxes)
    return Wiring(boxes * (size - 1), boxes * size if dimension > 0 else 0)


def bills(system: System) -> tuple[Bill, Bill]:
    """The price in US dollars and the power in watts of ``system``."""
    chip, memory, count = system.chip, system.memory, system.chips
    wires = [(wiring(system, i), one) for i, one in enumerate(system.network)]
    ports = sum(wire.ports * one.bytes_per_ns for wire, one in wires)

    def bill(each: float, per_gbps: str, port: float) -> Bill:
        links = sum(wire.links * one.bytes_per_ns * getattr(one, per_gbps) for wire, one in wires)
        return Bill(count * each, count * memory.bytes_per_ns * getattr(memory, per_gbps), links, port * ports)

    return bill(chip.price_usd, "usd_per_gbps", PORT_USD), bill(chip.watts, "watts_per_gbps", PORT_WATTS)
