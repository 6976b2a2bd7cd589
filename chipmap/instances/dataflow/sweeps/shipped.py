"""The shipped sweeps: DFModel's design-space exploration, by its text and as published, its memory sweep and its
3D-memory sweep."""

from __future__ import annotations

from chipmap.instances.dataflow.sweeps.parts import TILED, Json, choice, gpt, networks, sweep
from chipmap.instances.dataflow.sweeps.published import WORKLOADS, published
from chipmap.instances.dataflow.sweeps.serving import SERVING

_CHIPS = [
    choice("H100", chip="h100", sram_bytes=TILED),
    choice("TPU v4", chip="tpu-v4", sram_bytes=TILED),
    choice("SN30", chip="sn30"),
    choice("WSE-2", chip="wse-2"),
]
#: 1,024 chips; a box of DGX-1 is a ring of 8, one of DGX-2 a switch of 16, a group of the dragonfly all pairs of 32.
_SIZES = [8, 16, 8], [32, 32], [8, 128], [16, 64]
#: DGX boxes are joined by their four and eight InfiniBand ports of 100 Gbit/s, whatever the links inside.
_UPLINKS = {"DGX-1": 50.0, "DGX-2": 100.0}
_NETWORKS = networks([32, 32], *_SIZES, uplinks=_UPLINKS)
#: The degrees of the published run of GPT3 1T, 8 chips a layer and 128 stages, and their likes for the other networks.
_FIXED = networks([8, 128], *_SIZES, uses=("tensor", "pipeline", "data"), uplinks=_UPLINKS)
_TECHNOLOGIES = [
    choice(f"{memory} & {link}", memory=memory.lower(), link=link.lower())
    for memory in ("DDR", "HBM")
    for link in ("PCIe", "NVLink")
]
_WORKLOADS = [
    choice("GPT3 1T", generator="dataflow-gpt", **gpt("gpt3-1t", backward=True, batch=3072)),
    choice("DLRM 793B", generator="dataflow-dlrm", batch=65_536, micro_batch=64),
    choice("HPL 5M", generator="dataflow-hpl", batch=1024),
    choice("FFT 2^40", generator="dataflow-fft", batch=1024),
]


def _systems(notes: str, workloads: list[Json], networks: list[Json]) -> Json:
    axes = {"workload": workloads, "chip": _CHIPS, "network": networks, "technology": _TECHNOLOGIES}
    return sweep(notes, axes, mode="dfmodel")


_TABLE6 = ("table6-kbk-8x1", "table6-vendor-8x1", "table6-dfmodel-8x1", "table6-dfmodel-4x2")
_MEMORIES = {
    "SRAM MiB": [choice(str(mib), sram_bytes=mib * 2**20) for mib in (150, 300, 500)],
    "mapping": [choice("dataflow", fused=True), choice("kernel by kernel", fused=False, sram_bytes=TILED)],
    "DRAM GB/s": [choice(str(rate), memory_gbps=float(rate)) for rate in (100, 300, 600)],
}
#: An SN40L has room for 2,080 units: tiles that compute, or 512 KiB of SRAM. Per cent of it -> the tiles.
_TILES = {share: 2080 * share // 100 for share in range(20, 90, 10)}
_STACKED = {
    "memory": [
        choice(label, memory_gbps=rate) for label, rate in (("2D DDR", 100.0), ("2.5D HBM", 1000.0), ("3D", 100_000.0))
    ],
    "compute": [
        choice(f"{share}%", {"system.chip.tiles": tiles}, sram_bytes=(2080 - tiles) * 2**19)
        for share, tiles in _TILES.items()
    ],
}

SWEEPS: dict[str, Json] = {
    "dataflow/table6": sweep(
        "DFModel, table VI and figure 18: four mappings of GPT3 175B on eight SN10",
        {"mapping": [{"label": one, "instance": f"dataflow/{one}"} for one in _TABLE6]},
    ),
    "dataflow/dse-80-fixed": _systems(
        "GPT3 1T on the 80 systems, one choice of degrees for each network", _WORKLOADS[:1], _FIXED
    ),
    "dataflow/sram-dram": sweep(
        "DFModel, figure 19: GPT3 175B on eight chips of 300 TFLOP/s, nine memory systems",
        _MEMORIES,
        "dataflow-gpt",
        **gpt("gpt3-175b", mode="dfmodel", batch=2304, sizes=[4, 2], link_gbps=25.0),
    ),
    "dataflow/3d-memory": sweep(
        "DFModel, figure 22: training GPT3 100T on 1,024 SN40L, from 20% to 80% of the chip for compute",
        _STACKED,
        "dataflow-gpt",
        **gpt("gpt3-100t", mode="dfmodel", backward=True, batch=1024, chip="sn40l", sizes=[1024], link_gbps=900.0),
    ),
    "dataflow/dse-80": _systems(
        "DFModel, section VI-C: 80 systems of 1,024 chips, four workloads, all degrees (figures 10 to 17)",
        _WORKLOADS,
        _NETWORKS,
    ),
    **SERVING,
    **{f"dataflow/dse-{workload}-published": published(workload) for workload in WORKLOADS},
}
