"""The shipped instances of further workloads: Llama in service, GPT3 100T, DLRM, HPL and FFT.

``dataflow/llama3-8b-decode-sn40l-16`` and its prefill are DFModel's published runs: no grouped queries and no gate, as
its input has them, compute, memory and network one after the other. The others are the models as they are.
"""

from __future__ import annotations

from typing import Any

Entry = tuple[str, dict[str, Any]]

_RING = {"degrees": {"tensor": 16, "dimensions": ["tensor"]}}
_SN40L = {"chip": "sn40l", "sizes": [16], "memory_gbps": 1638.4, "link_gbps": 50.0, "latency_ns": 150.0, **_RING}
_ELEMENTS = ("Add_Prev", "Norm1", "Dropout2", "Add1", "Norm2", "Dropout3", "Add2")
_SHARDED = {**dict.fromkeys(_ELEMENTS, "NONE"), "GeLU": "M", "Proj": "K", "FFN0": "M", "FFN1": "K"}
#: What DFModel's serving runs have in common.
PUBLISHED: dict[str, Any] = {
    **{"model": "llama3-8b", "kv_heads": 32, "gated": False, "dropout": True, "schemes": _SHARDED},
    **{"mode": "dfmodel", "all_reduce_factor": 2, "partitions": 1, "overlap": False},
}
DECODE: dict[str, Any] = {"purpose": "decode", "step": "decode", "tokens": 1, "context": 4096}
PREFILL: dict[str, Any] = {"purpose": "prefill", "step": "prefill", "tokens": 4096}
_TORUS = {"chip": "sn30", "sizes": [32, 32], "degrees": {"tensor": 32, "data": 32, "dimensions": ["tensor", "data"]}}


#: What a layer hands to the next lies on every chip at both ends (a change of layout there would cost nothing).
RESIDUAL: dict[str, Any] = {"schemes": {"Add_Prev": "NONE", "Add2": "NONE"}}


def _llama(model: str, **parameters: Any) -> Entry:
    return "dataflow-llama", {**_SN40L, "model": model, **parameters}


WORKLOAD_ENTRIES: dict[str, Entry] = {
    "llama3-8b-decode-sn40l-16": _llama(
        **PUBLISHED | DECODE, cache_kernels=True, notes="DFModel, section VIII-A: 1,188 tokens/s"
    ),
    "llama3-8b-prefill-sn40l-16": _llama(**PUBLISHED | PREFILL, notes="DFModel, section VIII-A: prefill"),
    "llama3-8b-decode-sn40l-16-physical": _llama("llama3-8b", **DECODE, **RESIDUAL, notes="as it is"),
    "llama3-70b-decode-sn40l-16": _llama("llama3-70b", **DECODE, **RESIDUAL),
    "llama3-405b-decode-sn40l-16": _llama("llama3-405b", **DECODE, **RESIDUAL),
    "llama-68m-decode-sn40l-16": _llama("llama-68m", **DECODE, **RESIDUAL),
    "gpt3-100t-sn40l-1024": (
        "dataflow-gpt",
        {
            **{"hidden": 160_000, "heads": 1000, "layers": 330, "backward": True, "batch": 1024},
            **{"chip": "sn40l", "sizes": [512, 2], "memory_gbps": 1000.0},
            "degrees": {"tensor": 512, "pipeline": 2, "dimensions": ["tensor", "pipeline"]},
            "notes": "the model of DFModel, section VIII-C",
        },
    ),
    "dlrm-793b-sn30-32x32": ("dataflow-dlrm", {**_TORUS, "notes": "the model of DFModel, section VI-C"}),
    "hpl-5m-sn30-32x32": ("dataflow-hpl", {**_TORUS, "notes": "the matrix of DFModel, section VI-C"}),
    "fft-2e40-sn30-32x32": ("dataflow-fft", {**_TORUS, "notes": "the transform of DFModel, section VI-C"}),
}
