"""The shipped sweeps: DFModel's design-space exploration, by its text and as published, its memory sweep and its
3D-memory sweep."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.sweeps.published import TILED, WORKLOADS, published
from chipmap.instances.dataflow.sweeps.serving import SERVING
from chipmap.instances.dataflow.systems import LINKS
from chipmap.instances.dataflow.workloads.gpt import GPT

_CHIPS: list[dict[str, Any]] = [
    {"label": "H100", "parameters": {"chip": "h100", "sram_bytes": TILED}},
    {"label": "TPU v4", "parameters": {"chip": "tpu-v4", "sram_bytes": TILED}},
    {"label": "SN30", "parameters": {"chip": "sn30"}},
    {"label": "WSE-2", "parameters": {"chip": "wse-2"}},
]


def _network(
    label: str, sizes: list[int], *topology: str, uses: tuple[str, ...] = (), uplink_gbps: float | None = None
) -> dict[str, Any]:
    parameters: dict[str, Any] = {"sizes": sizes, "topology": list(topology)}
    if uses:
        parameters["degrees"] = {**dict(zip(uses, sizes, strict=True)), "dimensions": list(uses)}
    if uplink_gbps is None:
        return {"label": label, "parameters": parameters}
    uplink = {"bytes_per_ns": uplink_gbps, "watts_per_gbps": LINKS["pcie"][2]}
    return {
        "label": label,
        "parameters": parameters,
        "set": {f"system.network.1.{field}": value for field, value in uplink.items()},
    }


#: 1,024 chips; a box of DGX-1 is a ring of 8, one of DGX-2 a switch of 16, a group of the dragonfly all pairs of 32.
#: DGX boxes are joined by their four and eight InfiniBand ports of 100 Gbit/s, whatever the links inside.
_NETWORKS = [
    _network("2D torus", [32, 32], "ring", "ring"),
    _network("3D torus", [8, 16, 8], "ring", "ring", "ring"),
    _network("dragonfly", [32, 32], "full", "full"),
    _network("DGX-1", [8, 128], "ring", "switch", uplink_gbps=50.0),
    _network("DGX-2", [16, 64], "switch", "switch", uplink_gbps=100.0),
]
#: The degrees of the published run of GPT3 1T, 8 chips a layer and 128 stages, and their likes for the other networks.
_FIXED = [
    _network("2D torus", [8, 128], "ring", "ring", uses=("tensor", "pipeline")),
    _network("3D torus", [8, 16, 8], "ring", "ring", "ring", uses=("tensor", "pipeline", "data")),
    _network("dragonfly", [32, 32], "full", "full", uses=("tensor", "pipeline")),
    _network("DGX-1", [8, 128], "ring", "switch", uplink_gbps=50.0, uses=("tensor", "pipeline")),
    _network("DGX-2", [16, 64], "switch", "switch", uplink_gbps=100.0, uses=("tensor", "pipeline")),
]
_TECHNOLOGIES = [
    {"label": f"{memory} & {link}", "parameters": {"memory": memory.lower(), "link": link.lower()}}
    for memory in ("DDR", "HBM")
    for link in ("PCIe", "NVLink")
]


def _gpt(name: str, **parameters: Any) -> dict[str, Any]:
    hidden, heads, layers = GPT[name]
    return {"hidden": hidden, "heads": heads, "layers": layers, **parameters}


_WORKLOADS = [
    {
        "label": "GPT3 1T",
        "generator": "dataflow-gpt",
        "parameters": _gpt("gpt3-1t", backward=True, batch=3072),
    },
    {"label": "DLRM 793B", "generator": "dataflow-dlrm", "parameters": {"batch": 65_536, "micro_batch": 64}},
    {"label": "HPL 5M", "generator": "dataflow-hpl", "parameters": {"batch": 1024}},
    {"label": "FFT 2^40", "generator": "dataflow-fft", "parameters": {"batch": 1024}},
]

_MIB = 2**20
_MAPPINGS = [
    {"label": "dataflow", "parameters": {"fused": True}},
    {"label": "kernel by kernel", "parameters": {"fused": False, "sram_bytes": TILED}},
]
#: An SN40L has room for 2,080 units: tiles that compute, or 512 KiB of SRAM.
_UNITS = 2080
_SHARES = [
    {
        "label": f"{share}%",
        "parameters": {"sram_bytes": (_UNITS - _UNITS * share // 100) * 2**19},
        "set": {"system.chip.tiles": _UNITS * share // 100},
    }
    for share in range(20, 90, 10)
]
_STACKED = [
    {"label": label, "parameters": {"memory_gbps": rate}}
    for label, rate in (("2D DDR", 100.0), ("2.5D HBM", 1000.0), ("3D", 100_000.0))
]
_TABLE6 = ("table6-kbk-8x1", "table6-vendor-8x1", "table6-dfmodel-8x1", "table6-dfmodel-4x2")

SWEEPS: dict[str, dict[str, Any]] = {
    "dataflow/table6": {
        "schema": "sweep/1",
        "notes": "DFModel, table VI and figure 18: four mappings of GPT3 175B on eight SN10",
        "axes": [
            {"name": "mapping", "choices": [{"label": one, "instance": f"dataflow/{one}"} for one in _TABLE6]},
        ],
    },
    "dataflow/dse-80-fixed": {
        "schema": "sweep/1",
        "notes": "GPT3 1T on the 80 systems, one choice of degrees for each network",
        "parameters": {"mode": "dfmodel"},
        "axes": [
            {"name": "workload", "choices": _WORKLOADS[:1]},
            {"name": "chip", "choices": _CHIPS},
            {"name": "network", "choices": _FIXED},
            {"name": "technology", "choices": _TECHNOLOGIES},
        ],
    },
    "dataflow/sram-dram": {
        "schema": "sweep/1",
        "notes": "DFModel, figure 19: GPT3 175B on eight chips of 300 TFLOP/s, nine memory systems",
        "generator": "dataflow-gpt",
        "parameters": _gpt("gpt3-175b", mode="dfmodel", batch=2304, sizes=[4, 2], link_gbps=25.0),
        "axes": [
            {
                "name": "SRAM MiB",
                "choices": [{"label": str(mib), "parameters": {"sram_bytes": mib * _MIB}} for mib in (150, 300, 500)],
            },
            {"name": "mapping", "choices": _MAPPINGS},
            {
                "name": "DRAM GB/s",
                "choices": [
                    {"label": str(rate), "parameters": {"memory_gbps": float(rate)}} for rate in (100, 300, 600)
                ],
            },
        ],
    },
    "dataflow/3d-memory": {
        "schema": "sweep/1",
        "notes": "DFModel, figure 22: training GPT3 100T on 1,024 SN40L, from 20% to 80% of the chip for compute",
        "generator": "dataflow-gpt",
        "parameters": _gpt(
            "gpt3-100t", mode="dfmodel", backward=True, batch=1024, chip="sn40l", sizes=[1024], link_gbps=900.0
        ),
        "axes": [{"name": "memory", "choices": _STACKED}, {"name": "compute", "choices": _SHARES}],
    },
    "dataflow/dse-80": {
        "schema": "sweep/1",
        "notes": "DFModel, section VI-C: 80 systems of 1,024 chips, four workloads, all degrees (figures 10 to 17)",
        "parameters": {"mode": "dfmodel"},
        "axes": [
            {"name": "workload", "choices": _WORKLOADS},
            {"name": "chip", "choices": _CHIPS},
            {"name": "network", "choices": _NETWORKS},
            {"name": "technology", "choices": _TECHNOLOGIES},
        ],
    },
    **SERVING,
    **{f"dataflow/dse-{workload}-published": published(workload) for workload in WORKLOADS},
}
