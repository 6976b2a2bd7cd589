"""Systems by name, and those in files.

=====================  =================================================================================================
name                   what
=====================  =================================================================================================
``p100-pcie``          P100: 9.3 TFLOP/s of which 0.7 are reached, 732 GB/s of which 0.8, 5 µs per operation, 16 GiB; a
                       channel per ordered pair at 11 GB/s and 25 µs
``p100-nvlink``        the same at 18 GB/s and 10 µs
``placeto``            Placeto's simulator: one outgoing channel per device at 7.6 GB/s, which rests 25 µs behind a
                       transfer; devices rest 5.7 µs behind an operation
``cpu-p100-pcie``      first a CPU (1 TFLOP/s of which 0.5, 100 GB/s of which 0.8, 1 µs per operation, 256 GiB), then
                       P100
``p100-v100-pcie``     P100 and V100 (15.7 TFLOP/s of which 0.7, 900 GB/s of which 0.8) by turns
=====================  =================================================================================================

The machines of family ``dataflow`` are systems too (``h100-sxm``, ``tpu-v5p`` …): peaks and rates of their data sheets,
and links of kind ``duplex`` at the rate of a chip in the first dimension of its network.

A file may name the class of a device so, or ``p100``, ``v100``, ``cpu``, without writing it among its classes.

A number behind the name says how many devices there are (``p100-nvlink-4``); without one there are two.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from chipmap.instances.dataflow.machines import MACHINES
from chipmap.instances.placement.system import MAX_DEVICES, Device, DeviceClass, Links, System
from chipmap.instances.system_files import plain_system
from chipmap.records import InputError, choices
from chipmap.records.fields import from_json

P100 = DeviceClass(name="p100", flop_per_ns=6510.0, memory_bytes_per_ns=585.6, launch_ns=5000.0)
V100 = DeviceClass(name="v100", flop_per_ns=10990.0, memory_bytes_per_ns=720.0, launch_ns=5000.0)
PLACETO = DeviceClass(name="gpu", flop_per_ns=6510.0, memory_bytes_per_ns=585.6, gap_ns=5700)
CPU = DeviceClass(name="cpu", flop_per_ns=500.0, memory_bytes_per_ns=80.0, launch_ns=1000.0, pays_transfers=False)
PCIE = Links(kind="pair", latency_ns=25_000.0, bytes_per_ns=11.0)
#: name -> (the class of the first device, those of the others by turns, the links).
PRESETS: dict[str, tuple[DeviceClass, tuple[DeviceClass, ...], Links]] = {
    "p100-pcie": (P100, (P100,), PCIE),
    "p100-nvlink": (P100, (P100,), Links(kind="pair", latency_ns=10_000.0, bytes_per_ns=18.0)),
    "placeto": (PLACETO, (PLACETO,), Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000)),
    "cpu-p100-pcie": (CPU, (P100,), PCIE),
    "p100-v100-pcie": (P100, (V100, P100), PCIE),
}
MEMORY, HOST_MEMORY = 16 * 2**30, 256 * 2**30
#: The number of devices where none is given.
DEVICES = 2


def preset(name: str, devices: int = DEVICES, memory_bytes: int | None = MEMORY) -> System:
    """So many devices of a preset; a CPU has its own memory."""
    if name not in PRESETS and name not in MACHINES:
        raise InputError(f"no system is called {name!r}", "system", choices(name, [*PRESETS, *MACHINES]))
    if not 1 <= devices <= MAX_DEVICES:
        raise InputError(f"has {devices} devices", "system", f"Give 1 to {MAX_DEVICES}.")
    if name in MACHINES:
        return _of_machine(name, devices)
    first, others, links = PRESETS[name]
    kinds = [first, *(others[i % len(others)] for i in range(devices - 1))]
    machines, count = [], 0
    for kind in kinds:
        if kind is CPU:
            machines.append(Device(name="cpu", kind=kind.name, memory_bytes=HOST_MEMORY))
        else:
            machines.append(Device(name=f"gpu{count}", kind=kind.name, memory_bytes=memory_bytes))
            count += 1
    return System(
        classes=tuple(kind for i, kind in enumerate(kinds) if kind not in kinds[:i]),
        devices=tuple(machines),
        links=links,
    )


def system(text: str) -> System:
    """The system in a file, or that of a name such as ``p100-pcie`` or ``p100-nvlink-4``.

    A file holds the ``system`` of an instance as JSON, or an instance, whose system is taken.
    """
    if os.path.exists(text):
        return _read(text)
    known = {**PRESETS, **MACHINES}
    found = re.fullmatch(r"(.+?)(?:-(\d{1,3}))?", text)
    name, devices = (text, None) if text in known else (found[1], found[2]) if found else ("", None)
    if name not in known:
        remedy = f"Names are {', '.join(known)}, with -4 behind them for four devices."
        raise InputError(f"no file and no system is called {text!r}", "--system", remedy)
    try:
        return preset(name, int(devices or DEVICES))
    except InputError as error:
        raise InputError(error.what, "--system", error.remedy) from None


def _of_machine(name: str, devices: int) -> System:
    """So many chips of a shipped machine, all joined at the rate of a chip in its first dimension."""
    machine = MACHINES[name]
    chip, link = machine.chip, machine.network[0]
    kind = DeviceClass(
        name=name,
        flop_per_ns=chip.flop_per_ns,
        memory_bytes_per_ns=machine.memory.reached,
        launch_ns=chip.launch_ns,
    )
    memory = machine.memory.capacity_bytes
    return System(
        classes=(kind,),
        devices=tuple(Device(name=f"{chip.name}-{i}", kind=name, memory_bytes=memory) for i in range(devices)),
        links=Links(kind="duplex", latency_ns=link.latency_ns, bytes_per_ns=link.bytes_per_ns),
    )


def _read(path: str) -> System:
    plain = plain_system(path, "placement")
    found: System = from_json(System, msgspec.json.encode(_with_classes(plain, path)), path)
    try:
        found.check()
    except InputError as error:
        raise InputError(error.what, f"{path}: {error.where}", error.remedy) from None
    return found


def _with_classes(plain: dict[str, Any], path: str) -> dict[str, Any]:
    """``plain`` with the classes of devices that are shipped machines, and their memory where the file says none.

    Raises :class:`InputError` for a class that is neither in the file nor shipped.
    """
    devices, classes = plain.get("devices"), plain.get("classes", [])
    if not isinstance(devices, list) or not isinstance(classes, list):
        return plain
    own = {one.get("name") for one in classes if isinstance(one, dict)}
    added: dict[str, DeviceClass] = {}
    made: list[Any] = []
    for i, device in enumerate(devices):
        name = device.get("class") if isinstance(device, dict) else None
        if not isinstance(name, str) or name in own:
            made.append(device)
            continue
        shipped = _shipped(name)
        if shipped is None:
            remedy = (
                "Name a machine (`chipmap info machines`), or write the class under `classes`: "
                f'{{"name": "{name[:40]}", "flop_per_ns": "65TFLOP/s", "memory_bytes_per_ns": "300GB/s"}}.'
            )
            raise InputError(f"no class is called {name!r}", f"{path}: devices[{i}].class", remedy)
        added[name], memory = shipped
        made.append({"memory_bytes": memory, **device})
    return {**plain, "devices": made, "classes": [*classes, *map(msgspec.to_builtins, added.values())]}


def _shipped(name: str) -> tuple[DeviceClass, int | None] | None:
    """A class of devices by its name, and the memory of a device of it; None where none is called so."""
    if name in MACHINES:
        found = _of_machine(name, 1)
        return found.classes[0], found.devices[0].memory_bytes
    kind = next((one for one in (P100, V100, CPU) if one.name == name), None)
    return None if kind is None else (kind, HOST_MEMORY if kind is CPU else MEMORY)
