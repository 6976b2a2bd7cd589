"""The 80 systems as DFModel's published runs have them: rates, shapes, degrees and partitions of their input files.

They differ from the text of section VI-C. Memories have 300 and 3,072 GB/s, links 50 and 450 with an all-reduce that
counts twice. GPT3 1T runs on 8 chips a layer and 128 stages (64 and two replicas on the 3D torus), with NVLink inside
the first dimension only; the others on replicas alone, with NVLink everywhere. WSE-2 has all kernels in one partition,
backward ones too, so that they are marked forward here (mode ``dfmodel`` counts both phases alike), and its transfers
between stages bind nothing, so that it carries none. SN30 fuses kernels for GPT3 only. HPL has n = 2^20 and its first
64 steps, on WSE-2 5 · 2^20 in 64. DLRM's weight updates, kernels of their own there, are part of the backward ones.
"""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.shipped import PUBLISHED_SCHEMES
from chipmap.instances.dataflow.workloads.gpt import GPT

#: No tensor or weight is too large for chips that run kernel by kernel: they read operands tile by tile as they go.
TILED = 10**15
#: Key -> label in tables, generator, parameters.
WORKLOADS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt3": (
        "GPT3 1T",
        "dataflow-gpt",
        {
            **dict(zip(("hidden", "heads", "layers"), GPT["gpt3-1t"], strict=True)),
            **{"backward": True, "batch": 3072, "schemes": PUBLISHED_SCHEMES},
        },
    ),
    "dlrm": ("DLRM 793B", "dataflow-dlrm", {"batch": 512 * 1024, "micro_batch": 512}),
    "hpl": ("HPL 5M", "dataflow-hpl", {"batch": 1024, "n": 2**20, "steps": 64}),
    "fft": ("FFT 2^40", "dataflow-fft", {"batch": 1024}),
}
#: The first backward kernel, and all kernels.
_BACKWARD = {"gpt3": (18, 41), "dlrm": (20, 40)}
_TORI = {
    "gpt3": ([8, 128], [8, 64, 2]),
    "dlrm": ([32, 32], [8, 8, 16]),
    "hpl": ([32, 32], [4, 8, 32]),
    "fft": ([32, 32], [8, 8, 16]),
}
_NVLINK_INSIDE = {"system.network.0.bytes_per_ns": 450.0, "system.network.0.watts_per_gbps": 0.0104}


def _networks(workload: str) -> list[dict[str, Any]]:
    flat, deep = _TORI[workload]
    boxes = [32, 32] if workload == "hpl" else [8, 128]
    shapes = (
        ("2D torus", flat, ("ring", "ring")),
        ("3D torus", deep, ("ring", "ring", "ring")),
        ("dragonfly", flat, ("full", "full")),
        ("DGX-1", boxes, ("ring", "switch")),
        ("DGX-2", boxes, ("switch", "switch")),
    )
    return [
        {
            "label": label,
            "parameters": {"sizes": sizes, "topology": list(topology), "degrees": _degrees(workload, sizes)},
        }
        for label, sizes, topology in shapes
    ]


def _degrees(workload: str, sizes: list[int]) -> dict[str, Any]:
    if workload != "gpt3":
        return {"data": 1024, "dimensions": ["data"] * len(sizes)}
    uses = ("tensor", "pipeline", "data")[: len(sizes)]
    return {**dict(zip(uses, sizes, strict=True)), "dimensions": list(uses)}


def _chips(workload: str) -> list[dict[str, Any]]:
    alone = {"sram_bytes": TILED, "fused": False}
    first, count = _BACKWARD.get(workload, (0, 0))
    whole = {f"workload.kernels.{i}.phase": "forward" for i in range(first, count)}
    carried: dict[str, Any] = {"workload.carries": []} if workload == "gpt3" else {}
    steps: dict[str, Any] = {"n": 5 * 2**20, "block": 81_920, "steps": None} if workload == "hpl" else {}
    return [
        {"label": "H100", "parameters": {"chip": "h100", **alone}},
        {"label": "TPU v4", "parameters": {"chip": "tpu-v4", **alone}},
        {"label": "SN30", "parameters": {"chip": "sn30", **({"partitions": 3} if workload == "gpt3" else alone)}},
        {
            "label": "WSE-2",
            "parameters": {"chip": "wse-2", "sram_bytes": TILED, "partitions": 1, **steps},
            "set": {**whole, **carried},
        },
    ]


def _technologies(workload: str) -> list[dict[str, Any]]:
    inside = workload == "gpt3"
    return [
        {
            "label": f"{memory} & {link}",
            "parameters": {"memory": rate, "link": "nvlink-450" if link == "NVLink" and not inside else "pcie-50"},
            "set": _NVLINK_INSIDE if link == "NVLink" and inside else {},
        }
        for memory, rate in (("DDR", "ddr-300"), ("HBM", "hbm-3072"))
        for link in ("PCIe", "NVLink")
    ]


def published(workload: str) -> dict[str, Any]:
    """The sweep of a workload (a key of ``WORKLOADS``)."""
    label, generator, parameters = WORKLOADS[workload]
    return {
        "schema": "sweep/1",
        "notes": f"{label} on the 80 systems: rates, shapes, degrees and partitions of DFModel's published runs",
        "parameters": {"mode": "dfmodel", "all_reduce_factor": 2},
        "axes": [
            {"name": "workload", "choices": [{"label": label, "generator": generator, "parameters": parameters}]},
            {"name": "chip", "choices": _chips(workload)},
            {"name": "network", "choices": _networks(workload)},
            {"name": "technology", "choices": _technologies(workload)},
        ],
    }
