"""The shipped machines: chips, memories and networks of data sheets (``docs/families/dataflow-machines.md``).

Peaks are those without sparsity. A link's rate is what a chip sends, as much again comes in. What data sheets don't
say is left out: kernels start at once, and kernels and transfers reach all of the peak and of the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chipmap.instances.dataflow.profiles import PROFILED
from chipmap.instances.dataflow.system import Chip, Dimension, Memory, System
from chipmap.records import InputError, choices, counted

MIB, GB = 2**20, 10**9


@dataclass(frozen=True)
class Machine:
    """A chip with its memory, the dimensions of a network of them with their usual sizes, and where that is stated.

    ``network`` are the first dimensions; where more are asked for, they are like the ``outer`` one (None: there is
    none).
    """

    chip: Chip
    memory: Memory
    network: tuple[Dimension, ...]
    outer: Dimension | None
    source: str

    def system(self, name: str, sizes: Sequence[int] = ()) -> System:
        """So many chips in each dimension (none given: as usual). Raises :class:`InputError` for too many of them."""
        dimensions = list(self.network[: len(sizes) or None])
        if len(sizes) > len(dimensions):
            more = len(sizes) - len(dimensions)
            if self.outer is None:
                what = f"names {counted(len(sizes), 'dimension')}, {name} has {len(dimensions)}"
                raise InputError(what, "sizes", "Give fewer, or state a system of your own.")
            dimensions += [self.outer] * more
        pairs = zip(dimensions, sizes or [one.size for one in dimensions], strict=True)
        network = tuple(one.replace(size=size) for one, size in pairs)
        shape = "x".join(str(one.size) for one in network)
        return System(name=f"{name}-{shape}", chip=self.chip, memory=self.memory, network=network)


def _gpu(name: str, peaks: dict[str, float], vector: float, sram: int, watts: float, **fields: Any) -> Chip:
    """A chip that runs kernel by kernel and streams weights; its one peak is that of bf16."""
    both: dict[str, Any] = {"fused": False, "streams": True, "watts": watts, "sram_bytes": sram, **fields}
    return Chip.make(name=name, tflops=peaks["bf16"], peaks=peaks, vector_tflops=vector or None, **both)


def _nvlink(chip: Chip, memory: Memory, size: int, link: float, rail: float, source: str) -> Machine:
    """``size`` GPUs on NVLink switches; any number of these on rails, a network card each."""
    outer = Dimension(size=1, topology="switch", bytes_per_ns=rail, links_per_chip=1.0)
    inner = Dimension(size=size, topology="switch", bytes_per_ns=link, links_per_chip=1.0)
    return Machine(chip, memory, (inner,), outer, source)


def _tpu(
    name: str, tflops: float, int8: float, sram: int, memory: Memory, sizes: Sequence[int], axis: float, source: str
) -> Machine:
    """A torus in which a chip sends ``axis`` bytes per nanosecond along each axis, both directions together."""
    ring = tuple(Dimension(size=size, topology="ring", bytes_per_ns=axis) for size in sizes)
    return Machine(_gpu(name, {"bf16": tflops, "int8": int8}, 0.0, sram, 0.0), memory, ring, None, source)


def _hbm(rate: float, gigabytes: int) -> Memory:
    return Memory(name="HBM", bytes_per_ns=rate, capacity_bytes=gigabytes * GB)


def _told(rate: float, mebibytes: int) -> Memory:
    """With the bytes that the device itself tells of: "80 GB" of an A100 are 80 GiB."""
    return Memory(name="HBM", bytes_per_ns=rate, capacity_bytes=mebibytes * MIB)


def _tensor_cores(tf32: float, half: float, eight: float | None, int8: float, **more: float) -> dict[str, float]:
    found = {"tf32": tf32, "bf16": half, "fp16": half, "int8": int8, **more}
    return found if eight is None else {**found, "fp8": eight}


_A100 = _gpu("A100", _tensor_cores(156.0, 312.0, None, 624.0, int4=1248.0, fp64=19.5), 19.5, 40 * MIB, 400.0)
_H100 = _gpu("H100", _tensor_cores(494.7, 989.4, 1978.9, 1978.9, fp64=66.9), 66.9, 50 * MIB, 700.0)
_BLACKWELL = _tensor_cores(1250.0, 2500.0, 5000.0, 5000.0, fp6=5000.0, fp4=10_000.0, fp64=40.0)
_B200 = _gpu("B200", _BLACKWELL, 80.0, 126 * MIB, 1200.0)
_MI300X = _gpu("MI300X", _tensor_cores(653.7, 1307.4, 2614.9, 2614.9, fp32=163.4, fp64=163.4), 163.4, 256 * MIB, 750.0)
_GAUDI = _gpu("Gaudi 3", {"bf16": 1835.0, "fp8": 1835.0}, 28.7, 96 * 10**6, 900.0)
_SN40L = Chip(name="SN40L", tflops=638.0, peaks={"bf16": 638.0}, sram_bytes=520 * MIB)
_WSE = Chip(name="WSE-3", tflops=15_625.0, peaks={"fp16": 15_625.0}, sram_bytes=44 * GB, watts=23_000.0)

_NV = "NVIDIA data sheets"
_CLOUD = "Google, Cloud TPU documentation"
_ISCA = "SRAM: Jouppi et al., TPU v4, ISCA 2023"

#: The machines by name.
MACHINES: dict[str, Machine] = {
    "a100-40gb": _nvlink(_A100, _told(1555.0, 40_960), 8, 300.0, 25.0, f"{_NV}: A100 (2021), DGX A100"),
    "a100-80gb": _nvlink(_A100, _told(2039.0, 81_920), 8, 300.0, 25.0, f"{_NV}: A100 (2021), DGX A100"),
    "h100-sxm": _nvlink(
        _H100, _told(3350.0, 81_559), 8, 450.0, 50.0, f"{_NV}: H100 (2023), H100 white paper, DGX H100"
    ),
    "h800-sxm": _nvlink(
        _H100.replace(name="H800"),
        _told(3350.0, 81_559),
        8,
        200.0,
        50.0,
        f"{_NV}: H100 (2023), of which an H800 has NVLink of 400 GB/s; network: DeepSeek-V3 report (2024), section 3.1",
    ),
    "h200": _nvlink(_H100.replace(name="H200"), _hbm(4800.0, 141), 8, 450.0, 50.0, f"{_NV}: H200 (2023), DGX H200"),
    "b200-nvl72": _nvlink(_B200, _hbm(8000.0, 186), 72, 900.0, 50.0, f"{_NV}: GB200 NVL72 (2024), a 72nd of it"),
    "mi300x": Machine(
        _MI300X,
        _hbm(5300.0, 192),
        (Dimension(size=8, topology="full", bytes_per_ns=64.0, links_per_chip=7.0),),
        Dimension(size=1, topology="switch", bytes_per_ns=50.0, links_per_chip=1.0),
        "AMD, Instinct MI300X data sheet (2023) and MI300X platform data sheet",
    ),
    "tpu-v4": _tpu("TPU v4", 275.0, 275.0, 160 * MIB, _hbm(1200.0, 32), (4, 4, 4), 100.0, f"{_CLOUD}; {_ISCA}"),
    "tpu-v5e": _tpu("TPU v5e", 197.0, 393.0, 128 * MIB, _hbm(819.0, 16), (4, 4), 100.0, _CLOUD),
    "tpu-v5p": _tpu("TPU v5p", 459.0, 918.0, 128 * MIB, _hbm(2765.0, 95), (4, 4, 4), 200.0, _CLOUD),
    "tpu-v6e": _tpu("TPU v6e", 918.0, 1836.0, 128 * MIB, _hbm(1600.0, 32), (4, 4), 200.0, _CLOUD),
    "gaudi-3": Machine(
        _GAUDI,
        _hbm(3700.0, 128),
        (Dimension(size=8, topology="full", bytes_per_ns=75.0, links_per_chip=7.0),),
        Dimension(size=1, topology="switch", bytes_per_ns=75.0, links_per_chip=1.0),
        "Intel, Gaudi 3 AI accelerator white paper (2024)",
    ),
    "sn40l": Machine(
        _SN40L,
        _hbm(1600.0, 64),
        (Dimension(size=16, topology="ring", bytes_per_ns=50.0, latency_ns=150.0),),
        None,
        "SambaNova, SN40L at Hot Chips 2024; links: DFModel's published run",
    ),
    "wse-3": Machine(
        _WSE,
        Memory(name="MemoryX", bytes_per_ns=150.0),
        (Dimension(size=1, topology="switch", bytes_per_ns=150.0, links_per_chip=1.0),),
        None,
        "Cerebras, WSE-3 data sheet and Hot Chips 2024; input and output: CS-3 system, 1.2 Tb/s",
    ),
}


def machine(name: str, sizes: Sequence[int] = ()) -> System:
    """The shipped machine of this name with ``sizes`` chips in its dimensions (none given: as usual).

    With ``-typical`` or ``-calibrated`` behind it, of one that has such a profile, measured costs and shares are added
    to its data sheet (:mod:`chipmap.instances.dataflow.profiles`). Raises :class:`InputError` for an unknown name, or
    for more dimensions than the machine has.
    """
    if name in PROFILED:
        plain, profile = PROFILED[name]
        return profile.on(MACHINES[plain].system(name, sizes))
    if name not in MACHINES:
        raise InputError(f"no machine is called {name!r}", "machine", choices(name, [*MACHINES, *PROFILED]))
    return MACHINES[name].system(name, sizes)
