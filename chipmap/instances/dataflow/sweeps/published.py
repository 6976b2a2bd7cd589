"""The 80 systems as DFModel's published runs have them: rates, shapes, degrees and partitions of their input files.

They differ from the text of section VI-C. Memories have 300 and 3,072 GB/s, links 50 and 450 with an all-reduce that
counts twice. GPT3 1T runs on 8 chips a layer and 128 stages (64 and two replicas on the 3D torus), with NVLink inside
the first dimension only; the others on replicas alone, with NVLink everywhere. WSE-2 has all kernels in one partition,
backward ones too, so that they are marked forward here (mode ``dfmodel`` counts both phases alike), and its transfers
between stages bind nothing, so that it carries none. SN30 fuses kernels for GPT3 only. HPL has n = 2^20 and its first
64 steps, on WSE-2 5 · 2^20 in 64. DLRM's weight updates, kernels of their own there, are part of the backward ones.
"""

from __future__ import annotations

from chipmap.instances.dataflow.shipped import PUBLISHED_SCHEMES
from chipmap.instances.dataflow.sweeps.parts import TILED, Json, choice, gpt, networks, sweep

#: Key -> label in tables, generator, parameters.
WORKLOADS: dict[str, tuple[str, str, Json]] = {
    "gpt3": ("GPT3 1T", "dataflow-gpt", gpt("gpt3-1t", backward=True, batch=3072, schemes=PUBLISHED_SCHEMES)),
    "dlrm": ("DLRM 793B", "dataflow-dlrm", {"batch": 512 * 1024, "micro_batch": 512}),
    "hpl": ("HPL 5M", "dataflow-hpl", {"batch": 1024, "n": 2**20, "steps": 64}),
    "fft": ("FFT 2^40", "dataflow-fft", {"batch": 1024}),
}
#: The first backward kernel, and all kernels.
_BACKWARD = {"gpt3": (18, 41), "dlrm": (20, 40)}
#: Sizes of the networks, in their order in ``TOPOLOGIES``.
_SIZES = {
    "gpt3": ([8, 128], [8, 64, 2], [8, 128], [8, 128], [8, 128]),
    "dlrm": ([32, 32], [8, 8, 16], [32, 32], [8, 128], [8, 128]),
    "hpl": ([32, 32], [4, 8, 32], [32, 32], [32, 32], [32, 32]),
    "fft": ([32, 32], [8, 8, 16], [32, 32], [8, 128], [8, 128]),
}
_NVLINK_INSIDE: Json = {"system.network.0.bytes_per_ns": 450.0, "system.network.0.watts_per_gbps": 0.0104}


def _chips(workload: str) -> list[Json]:
    alone: Json = {"sram_bytes": TILED, "fused": False}
    first, count = _BACKWARD.get(workload, (0, 0))
    changes: Json = {f"workload.kernels.{i}.phase": "forward" for i in range(first, count)}
    changes |= {f"workload.kernels.{i}.parameters_of": "" for i in range(first, count)}
    if workload == "gpt3":
        changes["workload.carries"] = []
    steps: Json = {"n": 5 * 2**20, "block": 81_920, "steps": None} if workload == "hpl" else {}
    return [
        choice("H100", chip="h100", **alone),
        choice("TPU v4", chip="tpu-v4", **alone),
        choice("SN30", chip="sn30", **({"partitions": 3} if workload == "gpt3" else alone)),
        choice("WSE-2", changes, chip="wse-2", sram_bytes=TILED, partitions=1, **steps),
    ]


def _technologies(workload: str) -> list[Json]:
    inside: Json = _NVLINK_INSIDE if workload == "gpt3" else {}
    links: tuple[tuple[str, str, Json], ...] = (
        ("PCIe", "pcie-50", {}),
        ("NVLink", "pcie-50" if inside else "nvlink-450", inside),
    )
    return [
        choice(f"{memory} & {name}", changes, memory=rate, link=link)
        for memory, rate in (("DDR", "ddr-300"), ("HBM", "hbm-3072"))
        for name, link, changes in links
    ]


def published(workload: str) -> Json:
    """The sweep of a workload (a key of ``WORKLOADS``)."""
    label, generator, parameters = WORKLOADS[workload]
    uses = ("tensor", "pipeline", "data") if workload == "gpt3" else ("data",) * 3
    return sweep(
        f"{label} on the 80 systems: rates, shapes, degrees and partitions of DFModel's published runs",
        {
            "workload": [choice(label, generator=generator, **parameters)],
            "chip": _chips(workload),
            "network": networks(*_SIZES[workload], uses=uses),
            "technology": _technologies(workload),
        },
        mode="dfmodel",
        all_reduce_factor=2,
    )
