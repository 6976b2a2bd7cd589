"""The shipped chips, memories and links, and systems made of them.

Chips: DFModel, table V and section VI-C, with the tile counts, clock rates and SRAM sizes of its published inputs;
prices in US dollars, powers in watts.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.system import Chip, Dimension, Memory, System, Topology
from chipmap.records import InputError

CHIPS: dict[str, Chip] = {
    "h100": Chip(
        name="H100",
        tiles=1056,
        lanes=16,
        stages=16,
        ghz=1.837,
        sram_bytes=118_489_090,
        fused=False,
        price_usd=33_000.0,
        watts=750.0,
    ),
    "a100": Chip(name="A100", tiles=432, lanes=16, stages=16, ghz=1.41, sram_bytes=41_943_040, fused=False),
    "tpu-v4": Chip(
        name="TPU v4",
        tiles=8,
        lanes=128,
        stages=128,
        ghz=1.05,
        sram_bytes=167_772_160,
        fused=False,
        price_usd=4_475.0,
        watts=170.6,
    ),
    "sn10": Chip(name="SN10", tiles=640, lanes=32, stages=6, ghz=1.25, sram_bytes=335_544_320),
    "sn30": Chip(
        name="SN30",
        tiles=1280,
        lanes=32,
        stages=6,
        ghz=1.25,
        sram_bytes=671_088_640,
        price_usd=16_522.0,
        watts=444.7,
    ),
    "sn40l": Chip(name="SN40L", tiles=1040, lanes=32, stages=6, ghz=1.6, sram_bytes=545_259_520),
    "wse-2": Chip(
        name="WSE-2",
        tiles=853_776,
        lanes=4,
        stages=1,
        ghz=1.1,
        sram_bytes=41_964_010_000,
        price_usd=3_025_964.0,
        watts=20_298.0,
    ),
}

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
    name: str = "",
    memory: str = "",
    link: str = "",
) -> System:
    """``chip`` (a key of ``CHIPS``) in a network of these sizes, all dimensions with the same links.

    ``topology`` is that of every dimension, or one for each; ``memory`` and ``link`` (keys of ``MEMORIES`` and
    ``LINKS``) stand in for the rates, with their prices and powers.
    """
    for what, key, known in (("chip", chip, CHIPS), ("memory", memory, MEMORIES), ("link", link, LINKS)):
        if key not in known and (key or what == "chip"):
            raise InputError(f"no {what} is called {key!r}", what, f"Choose from {', '.join(known)}.")
    topologies: list[Topology] = [topology] * len(sizes) if isinstance(topology, str) else list(topology)  # type: ignore[list-item]
    if len(topologies) != len(sizes):
        what = f"names {len(topologies)} topologies for {len(sizes)} dimensions"
        raise InputError(what, "topology", "Give one for all, or one for each of sizes.")
    rate, dollars, watts = LINKS[link] if link else (link_gbps, 0.0, 0.0)
    network = tuple(
        Dimension(
            size=size,
            topology=one,
            bytes_per_ns=rate,
            latency_ns=latency_ns,
            usd_per_gbps=dollars,
            watts_per_gbps=watts,
        )
        for size, one in zip(sizes, topologies, strict=True)
    )
    shape = "x".join(map(str, sizes))
    return System(
        name=name or f"{chip}-{shape}",
        chip=CHIPS[chip],
        memory=MEMORIES[memory] if memory else Memory(bytes_per_ns=memory_gbps),
        network=network,
    )
