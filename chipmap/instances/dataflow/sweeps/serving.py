"""The shipped sweep of DFModel's figure 20: Llama3 8B on 16 SN40L, tensor against pipeline parallelism."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.shipped import DECODE, PREFILL, PUBLISHED, RESIDUAL
from chipmap.instances.dataflow.sweeps.parts import Json, choice, sweep

_SN40L: Json = {"chip": "sn40l", "memory_gbps": 1638.4, "link_gbps": 50.0, "latency_ns": 150.0, "batch": 16_384}
#: In the published runs Add2 leaves its rows split, so that a chip hands a share on to the next stage.
_RUNS = {**PUBLISHED, "schemes": {**PUBLISHED["schemes"], "Add2": "M"}}
_SPLITS = [
    choice(
        f"{tensor} x {16 // tensor}",
        sizes=[tensor, 16 // tensor],
        degrees={"tensor": tensor, "pipeline": 16 // tensor, "dimensions": ["tensor", "pipeline"]},
    )
    for tensor in (16, 8, 4, 2, 1)
]


def _serving(notes: str, prefill: Json, decode: Json, **parameters: Any) -> Json:
    steps = [choice("prefill", **PREFILL, **prefill), choice("decode", **DECODE, **decode)]
    axes = {"step": steps, "TP x PP": _SPLITS}
    return sweep(notes, axes, "dataflow-llama", **{**_SN40L, "model": "llama3-8b", **parameters})


#: Tokens of a prompt and of an output; a step is counted as the last one, after all other tokens.
_PROMPT, _OUTPUT = 2048, 512
_STEPS = [
    choice("prefill", step="prefill", purpose="prefill", tokens=_PROMPT),
    choice("decode", step="decode", purpose="decode", context=_PROMPT + _OUTPUT - 1),
]
#: Groups inside a box of eight, joined by its rails.
_GROUPS = [choice(str(n), sizes=[n, 1], degrees={"tensor": n, "dimensions": ["tensor", "data"]}) for n in (1, 2, 4, 8)]
_SAMPLES = [choice(str(n), batch=n, micro_batch=n) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)]

SERVING: dict[str, Json] = {
    "dataflow/serving": _serving(
        "DFModel, figure 20: Llama3 8B as it is on 16 SN40L, without overlap", {}, {}, **RESIDUAL, overlap=False
    ),
    "dataflow/serving-published": _serving(
        "DFModel, figure 20: the published runs' input", {"cache_kernels": False}, {"cache_kernels": True}, **_RUNS
    ),
    "dataflow/serving-groups": sweep(
        "Llama3 70B on H100, prompts of 2,048 and outputs of 512 tokens: prefill and decode on groups of their own",
        {"step": _STEPS, "chips": _GROUPS, "samples": _SAMPLES},
        "dataflow-llama",
        **{"model": "llama3-70b", "machine": "h100-sxm", "ends": True},
    ),
}
