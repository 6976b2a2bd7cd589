"""The shipped chips, memories and links, and systems made of them.

Chips: DFModel, table V and section VI-C, with the tile counts, clock rates and SRAM sizes of its published inputs;
prices in US dollars, powers in watts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chipmap.instances.dataflow.system import Chip, Dimension, Memory, System, Topology
from chipmap.records import InputError, choices, counted

#: Name, tiles, lanes, stages, GHz, bytes of SRAM, whether kernels are fused, US dollars, watts.
_CHIPS: dict[str, tuple[Any, ...]] = {
    "h100": ("H100", 1056, 16, 16, 1.837, 118_489_090, False, 33_000.0, 750.0),
    "a100": ("A100", 432, 16, 16, 1.41, 41_943_040, False, 0.0, 0.0),
    "tpu-v4": ("TPU v4", 8, 128, 128, 1.05, 167_772_160, False, 4_475.0, 170.6),
    "sn10": ("SN10", 640, 32, 6, 1.25, 335_544_320, True, 0.0, 0.0),
    "sn30": ("SN30", 1280, 32, 6, 1.25, 671_088_640, True, 16_522.0, 444.7),
    "sn40l": ("SN40L", 1040, 32, 6, 1.6, 545_259_520, True, 0.0, 0.0),
    "wse-2": ("WSE-2", 853_776, 4, 1, 1.1, 41_964_010_000, True, 3_025_964.0, 20_298.0),
}
_FIELDS = ("name", "tiles", "lanes", "stages", "ghz", "sram_bytes", "fused", "price_usd", "watts")
CHIPS = {key: Chip(**dict(zip(_FIELDS, row, strict=True))) for key, row in _CHIPS.items()}

#: Rates of section VI-C's text, and (with a number) of the published runs.
MEMORIES: dict[str, Memory] = {
    "ddr": Memory(name="DDR", bytes_per_ns=200.0, usd_per_gbps=1.0, watts_per_gbps=0.16248),
    "hbm": Memory(name="HBM", bytes_per_ns=3000.0, usd_per_gbps=1.0, watts_per_gbps=0.05624),
    "ddr-300": Memory(name="DDR", bytes_per_ns=300.0, usd_per_gbps=1.0, watts_per_gbps=0.16248),
    "hbm-3072": Memory(name="HBM", bytes_per_ns=3072.0, usd_per_gbps=1.0, watts_per_gbps=0.05624),
}

#: Gigabytes per second of a link, and dollars and watts per GB/s of it.
LINKS: dict[str, tuple[float, float, float]] = {
    "pcie": (25.0, 2.0, 0.052),
    "nvlink": (900.0, 2.0, 0.0104),
    "pcie-50": (50.0, 2.0, 0.052),
    "nvlink-450": (450.0, 2.0, 0.0104),
}


def system(
    chip: str,
    sizes: Sequence[int],
    *,
    memory_gbps: float = 200.0,
    link_gbps: float = 25.0,
    topology: Topology | Sequence[Topology] = "ring",
    latency_ns: float = 0.0,
    memory: str = "",
    link: str = "",
) -> System:
    """``chip`` (a key of ``CHIPS``) in a network of these sizes, all dimensions with the same links.

    ``topology`` is that of every dimension, or one for each; ``memory`` and ``link`` (keys of ``MEMORIES`` and
    ``LINKS``) stand in for the rates, with their prices and powers.
    """
    for what, key, known in (("chip", chip, CHIPS), ("memory", memory, MEMORIES), ("link", link, LINKS)):
        if key not in known and (key or what == "chip"):
            raise InputError(f"no {what} is called {key!r}", what, choices(key, known))
    topologies: list[Topology] = [topology] * len(sizes) if isinstance(topology, str) else list(topology)  # type: ignore[list-item]
    if len(topologies) != len(sizes):
        what = f"names {counted(len(topologies), 'topology', 'topologies')} for {counted(len(sizes), 'dimension')}"
        raise InputError(what, "topology", "Give one for all, or one for each of sizes.")
    rate, dollars, watts = LINKS[link] if link else (link_gbps, 0.0, 0.0)
    costs: dict[str, Any] = {
        "bytes_per_ns": rate,
        "latency_ns": latency_ns,
        "usd_per_gbps": dollars,
        "watts_per_gbps": watts,
    }
    network = tuple(Dimension(size=size, topology=one, **costs) for size, one in zip(sizes, topologies, strict=True))
    return System(
        name=f"{chip}-{'x'.join(map(str, sizes))}",
        chip=CHIPS[chip],
        memory=MEMORIES[memory] if memory else Memory(bytes_per_ns=memory_gbps),
        network=network,
    )
