"""The shipped sweep of DFModel's figure 20: Llama3 8B on 16 SN40L, tensor against pipeline parallelism."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.shipped_workloads import DECODE, PREFILL, PUBLISHED, RESIDUAL

_SN40L = {"chip": "sn40l", "memory_gbps": 1638.4, "link_gbps": 50.0, "latency_ns": 150.0, "batch": 16_384}
#: In the published runs Add2 leaves its rows split, so that a chip hands a share on to the next stage.
_RUNS = {**PUBLISHED, "schemes": {**PUBLISHED["schemes"], "Add2": "M"}}
_STEPS = [
    {"label": "prefill", "parameters": {**PREFILL, "cache_kernels": False}},
    {"label": "decode", "parameters": {**DECODE, "cache_kernels": True}},
]
_SPLITS = [
    {
        "label": f"{16 // stages} x {stages}",
        "parameters": {
            "sizes": [16 // stages, stages],
            "degrees": {"tensor": 16 // stages, "pipeline": stages, "dimensions": ["tensor", "pipeline"]},
        },
    }
    for stages in (1, 2, 4, 8, 16)
]


def _sweep(notes: str, steps: list[dict[str, Any]], **parameters: Any) -> dict[str, Any]:
    return {
        "schema": "sweep/1",
        "notes": notes,
        "generator": "dataflow-llama",
        "parameters": {**_SN40L, "model": "llama3-8b", **parameters},
        "axes": [{"name": "step", "choices": steps}, {"name": "TP x PP", "choices": _SPLITS}],
    }


SERVING: dict[str, dict[str, Any]] = {
    "dataflow/serving": _sweep(
        "DFModel, figure 20: Llama3 8B as it is on 16 SN40L, without overlap",
        [{"label": "prefill", "parameters": PREFILL}, {"label": "decode", "parameters": DECODE}],
        **RESIDUAL,
        overlap=False,
    ),
    "dataflow/serving-published": _sweep("DFModel, figure 20: the published runs' input", _STEPS, **_RUNS),
}
