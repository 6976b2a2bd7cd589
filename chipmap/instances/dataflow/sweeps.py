"""The shipped sweeps: DFModel's design-space exploration, its memory sweep and its 3D-memory sweep."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.gpt import GPT

#: No tensor or weight is too large for chips that run kernel by kernel: they read operands tile by tile as they go.
_TILED = 10**15
_CHIPS: list[dict[str, Any]] = [
    {"label": "H100", "parameters": {"chip": "h100", "sram_bytes": _TILED}},
    {"label": "TPU v4", "parameters": {"chip": "tpu-v4", "sram_bytes": _TILED}},
    {"label": "SN30", "parameters": {"chip": "sn30"}},
    {"label": "WSE-2", "parameters": {"chip": "wse-2"}},
]


def _network(label: str, sizes: list[int], *topology: str) -> dict[str, Any]:
    return {"label": label, "parameters": {"sizes": sizes, "topology": list(topology)}}


#: 1,024 chips; a box of DGX-1 is a ring of 8, one of DGX-2 a switch of 16, a group of the dragonfly all pairs of 32.
_NETWORKS = [
    _network("2D torus", [32, 32], "ring", "ring"),
    _network("3D torus", [8, 16, 8], "ring", "ring", "ring"),
    _network("dragonfly", [32, 32], "full", "full"),
    _network("DGX-1", [8, 128], "ring", "switch"),
    _network("DGX-2", [16, 64], "switch", "switch"),
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

SWEEPS: dict[str, dict[str, Any]] = {
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
}
