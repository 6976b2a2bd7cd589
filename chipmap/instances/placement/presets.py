"""Devices by name.

``p100``: 9.3 TFLOP/s of which 0.7 are reached, 732 GB/s of which 0.8, 5 µs per operation, 16 GiB; over PCIe (11 GB/s
and 25 µs) or NVLink (18 GB/s and 10 µs). ``placeto``: Placeto's simulator, one outgoing channel per device at
7.6 GB/s that rests 25 µs behind a transfer, devices that rest 5.7 µs behind an operation.
"""

from __future__ import annotations

from chipmap.instances.placement.system import Device, DeviceClass, Links, System
from chipmap.records import InputError

P100 = DeviceClass(name="p100", flop_per_ns=6510.0, memory_bytes_per_ns=585.6, launch_ns=5000.0)
#: The classes of device and the links of each preset.
PRESETS: dict[str, tuple[DeviceClass, Links]] = {
    "p100-pcie": (P100, Links(kind="pair", latency_ns=25_000.0, bytes_per_ns=11.0)),
    "p100-nvlink": (P100, Links(kind="pair", latency_ns=10_000.0, bytes_per_ns=18.0)),
    "placeto": (
        DeviceClass(name="gpu", flop_per_ns=6510.0, memory_bytes_per_ns=585.6, gap_ns=5700),
        Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000),
    ),
}
MEMORY = 16 * 2**30


def preset(name: str, devices: int, memory_bytes: int | None = MEMORY) -> System:
    """So many devices of a preset."""
    if name not in PRESETS:
        raise InputError(f"no system is called {name!r}", "system", f"Choose from {', '.join(PRESETS)}.")
    kind, links = PRESETS[name]
    machines = tuple(Device(name=f"gpu{d}", kind=kind.name, memory_bytes=memory_bytes) for d in range(devices))
    return System(classes=(kind,), devices=machines, links=links)
