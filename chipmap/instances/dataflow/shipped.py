"""The shipped instances: a name, the generator that makes it, and its parameters.

``dataflow/table6-…`` are the mappings of DFModel's table VI, ``dataflow/gpt3-1t-sn30-1024`` its case of GPT3 1T, all
with the sharding of the published runs. ``dataflow/llama3-8b-decode-sn40l-16`` and its prefill are its published runs
as well: no grouped queries and no gate, as its input has them, compute, memory and network one after the other. The
other workloads are the models as they are.
"""

from __future__ import annotations

from typing import Any

Entry = tuple[str, dict[str, Any]]

#: The published sharding: element-wise kernels on every chip, two sums per layer in each direction.
_FORWARD = {
    **dict.fromkeys(("Add_Prev", "LN1", "Dropout2", "Add1", "LN2", "Dropout3", "Add2"), "NONE"),
    **{"GeLU": "M", "Proj": "K", "FFN0": "M", "FFN1": "K"},
}
_BACKWARD = {
    **dict.fromkeys(("Loss_b", "Dropout3_b", "LN2_b", "Dropout2_b"), "NONE"),
    **{"GeLU_b": "M", "FFN1_b": "M", "FFN0_b": "K", "Proj_b": "M", "V_b": "K"},
}
PUBLISHED_SCHEMES = {**_FORWARD, **_BACKWARD}
_RING = {"tensor": 8, "dimensions": ["tensor"]}
_TORUS = {"tensor": 4, "data": 2, "dimensions": ["tensor", "data"]}
_RUNS = {"mode": "dfmodel", "all_reduce_factor": 2, "link_gbps": 50.0}
_TABLE6 = {**_RUNS, "memory_gbps": 100.0, "batch": 2304, "schemes": _FORWARD, "degrees": _RING}
_ON_TORUS = {"sizes": [4, 2], "degrees": _TORUS, "partitions": 4}
_VENDOR = [["Q", "K", "V"], ["MHA1", "Softmax", "MHA2", "Proj"], ["FFN0"], ["FFN1", "Add2"]]
_DFMODEL = [["Q", "K", "V"], ["MHA1", "MHA2"], ["Proj", "FFN0"], ["FFN1"]]


def _published(**parameters: Any) -> Entry:
    return "dataflow-gpt", {**_TABLE6, **parameters}


_PUBLISHED: dict[str, Entry] = {
    "table6-kbk-8x1": _published(fused=False, notes="DFModel, table VI: kernel by kernel"),
    "table6-vendor-8x1": _published(together=_VENDOR, notes="DFModel, table VI: the vendor's mapping, completed"),
    "table6-dfmodel-8x1": _published(
        together=_DFMODEL, partitions=4, exactly=True, notes="DFModel, table VI: its mapping on 8 chips in a ring"
    ),
    "table6-dfmodel-4x2": _published(
        **_ON_TORUS, exactly=True, notes="DFModel, table VI: its mapping on a 4 x 2 torus"
    ),
    "table6-free-8x1": _published(partitions=4, notes="at most four partitions instead of exactly four, no pins"),
    "table6-free-4x2": _published(**_ON_TORUS, notes="at most four partitions instead of exactly four, no pins"),
    "gpt3-175b-96-layers-8x1": _published(across_layers=True, notes="partitions may reach across layers"),
    "gpt3-1t-sn30-1024": (
        "dataflow-gpt",
        {
            **_RUNS,
            **{"hidden": 25_600, "heads": 160, "layers": 128, "backward": True, "batch": 3072, "partitions": 3},
            **{"chip": "sn30", "sizes": [8, 128], "memory_gbps": 300.0},
            "degrees": {"tensor": 8, "pipeline": 128, "dimensions": ["tensor", "pipeline"]},
            "schemes": PUBLISHED_SCHEMES,
            "notes": "DFModel, section VII: at most three partitions forward and three backward",
        },
    ),
}

_SN40L = {
    **{"chip": "sn40l", "sizes": [16], "degrees": {"tensor": 16, "dimensions": ["tensor"]}},
    **{"memory_gbps": 1638.4, "link_gbps": 50.0, "latency_ns": 150.0},
}
_ELEMENTS = ("Add_Prev", "Norm1", "Dropout2", "Add1", "Norm2", "Dropout3", "Add2")
_SHARDED = {**dict.fromkeys(_ELEMENTS, "NONE"), "GeLU": "M", "Proj": "K", "FFN0": "M", "FFN1": "K"}
#: What DFModel's serving runs have in common.
PUBLISHED: dict[str, Any] = {
    **{"model": "llama3-8b", "kv_heads": 32, "gated": False, "dropout": True, "schemes": _SHARDED},
    **{"mode": "dfmodel", "all_reduce_factor": 2, "partitions": 1, "overlap": False},
}
DECODE: dict[str, Any] = {"purpose": "decode", "step": "decode", "tokens": 1, "context": 4096}
PREFILL: dict[str, Any] = {"purpose": "prefill", "step": "prefill", "tokens": 4096}
_SN30 = {"chip": "sn30", "sizes": [32, 32], "degrees": {"tensor": 32, "data": 32, "dimensions": ["tensor", "data"]}}


#: What a layer hands to the next lies on every chip at both ends (a change of layout there would cost nothing).
RESIDUAL: dict[str, Any] = {"schemes": {"Add_Prev": "NONE", "Add2": "NONE"}}


def _llama(model: str, **parameters: Any) -> Entry:
    return "dataflow-llama", {**_SN40L, "model": model, **parameters}


_WORKLOADS: dict[str, Entry] = {
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
    "dlrm-793b-sn30-32x32": (
        "dataflow-dlrm",
        {**_SN30, "micro_batch": 512, "notes": "the model of DFModel, section VI-C"},
    ),
    "hpl-5m-sn30-32x32": ("dataflow-hpl", {**_SN30, "notes": "the matrix of DFModel, section VI-C"}),
    "fft-2e40-sn30-32x32": ("dataflow-fft", {**_SN30, "notes": "the transform of DFModel, section VI-C"}),
}

#: As TensorRT-LLM served them, in fp8 (``benchmarks/dataflow_static_batches.py``).
_FP8: dict[str, Any] = {**dict.fromkeys(("weight_format", "activation_format", "cache_format"), "fp8")}


def _engine(model: str, chips: int, batch: int, **parameters: Any) -> Entry:
    """All chips of a node as one group that runs the whole batch at once, kernel by kernel as an engine does."""
    where = {"machine": "h100-sxm", "sizes": [chips], "degrees": {"tensor": chips, "dimensions": ["tensor"]}}
    whole = {"sums": chips > 1, "batch": batch, "micro_batch": batch}
    return "dataflow-engine", {**where, **whole, **_FP8, "model": model, **parameters}


_ENGINES: dict[str, Entry] = {
    "llama3-70b-engine-decode-h100-8": _engine("llama3-70b", 8, 64, **DECODE, notes="as an engine fuses it"),
    "llama3-70b-engine-prefill-h100-4": _engine("llama3-70b", 4, 1, **PREFILL, notes="as an engine fuses it"),
    "llama3-8b-engine-decode-h100-1": _engine("llama3-8b", 1, 64, **DECODE, notes="as an engine fuses it"),
}

_TILES: dict[str, Entry] = {
    "gpt3-175b-tiles-8x1": _published(
        partitions=4, utilisation=None, tile_tokens=48, notes="kernels share tiles by the cycle formula"
    ),
    "gpt3-1t-tiles-sn30-1024": (
        "dataflow-gpt",
        {
            **_PUBLISHED["gpt3-1t-sn30-1024"][1],
            **{"partitions": None, "utilisation": None, "tile_tokens": 48},
            "notes": "kernels share tiles by the cycle formula; any number of partitions",
        },
    ),
}

_STAGES: dict[str, Entry] = {
    # five stages don't divide twelve layers
    "gpt3-175b-12-layers-8x5": _published(
        **{"layers": 12, "across_layers": True, "stages": "kernels", "sizes": [8, 5]},
        degrees={"tensor": 8, "pipeline": 5, "dimensions": ["tensor", "pipeline"]},
        notes="the first 12 layers of GPT3 175B in five stages of kernels",
    ),
    # a stage that keeps its weights in SRAM, or chips that read all of them for each sample
    "resnet50-8": (
        "dataflow-resnet",
        {"batch": 1024, "sram_bytes": 48 * 2**20, "memory_gbps": 1000.0, "link_gbps": 450.0},
    ),
}

_EXPERTS: dict[str, Entry] = {
    # not all of the layer fits the SRAM at a time
    "moe-3-experts": (
        "dataflow-moe",
        {
            **{"hidden": 256, "heads": 4, "inner": 512, "experts": 3, "active": 1, "tokens": 128, "layers": 2},
            **{"gated": False, "stacked": False, "sizes": [2], "degrees": {"tensor": 2, "dimensions": ["tensor"]}},
            "sram_bytes": 900_000,
        },
    ),
    "moe-8-experts": (
        "dataflow-moe",
        {
            "stacked": False,
            "batch": 64,
            "degrees": _RING,
            "notes": "sizes of Mixtral 8x7B (arXiv 2401.04088), plain attention",
        },
    ),
    "moe-64-experts": (
        "dataflow-moe",
        {
            **{"hidden": 8192, "heads": 64, "inner": 32_768, "experts": 64, "gated": False, "batch": 64},
            **{"stacked": False, "degrees": _RING},
            "notes": "sizes of GLaM's largest model (arXiv 2112.06905), two matrices per expert",
        },
    ),
}

_PLAIN = {"flop": 40_000_000, "output_bytes": 60_000, "weight_bytes": 90_000, "schemes": ["M", "NONE"]}
_HEAVY = {"flop": 200_000_000, "output_bytes": 30_000, "weight_bytes": 200_000, "schemes": ["M", "NONE"]}


def _gemm(rows: int, inner: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "gemm", "M": rows, "K": inner, "N": 64, "weights": True, **fields}


def _element(rows: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "elementwise", "M": rows, "N": 64, "flop_per_element": 4, **fields}


def _tiny(kernels: dict[str, dict[str, Any]], edges: str, **parameters: Any) -> Entry:
    pairs = [list(pair) for pair in edges.split()]
    small = {"sizes": [2], "memory_gbps": 100.0, "sram_bytes": 400_000, "batch": 4, "tokens": 64}
    return "dataflow-explicit", {"kernels": kernels, "edges": pairs, **small, **parameters}


_CHAIN = {"a": _PLAIN, "b": _HEAVY, "c": _PLAIN}
_MLP = {"a": _element(1024), "b": _gemm(2048, 1024), "c": _gemm(1024, 2048)}
_TENSOR = {"tensor": 2, "dimensions": ["tensor"]}

_TINY: dict[str, Entry] = {
    # fusion against SRAM
    "tiny-chain": _tiny(_CHAIN, "ab bc", sram_bytes=150_000),
    # one kernel's sum, or a layout change of the next one
    "tiny-sharding": _tiny(_MLP, "ab bc", mode="dfmodel", sram_bytes=10**8, degrees=_TENSOR),
    # the same with reduce-scatter
    "tiny-reduce-scatter": _tiny(_MLP, "ab bc", sram_bytes=10**8, degrees=_TENSOR),
    # a tensor with two readers, written once
    "tiny-multicast": _tiny({"a": _PLAIN, "b": _HEAVY, "c": _HEAVY}, "ab ac", sram_bytes=160_000, degrees=_TENSOR),
    # forward and backward
    "tiny-phases": _tiny({"a": _PLAIN, "b": _HEAVY, "x": {**_HEAVY, "phase": "backward"}}, "ab bx", partitions=1),
    # a tensor, a pipeline and a data dimension in every order
    "tiny-degrees": _tiny(_CHAIN, "ab bc", sizes=[2, 2], layers=2, sram_bytes=10**6),
    # weights read for each micro-batch, against the bubble of a pipeline
    "tiny-micro-batches": _tiny(
        _CHAIN,
        "ab bc",
        **{"layers": 2, "batch": 12, "sram_bytes": 300_000, "memory_gbps": 50.0, "link_gbps": 100.0},
        **{"degrees": {"pipeline": 2, "dimensions": ["pipeline"]}, "carries": [["c", "a"]], "micro_batch": None},
    ),
    # C2: kernel b doesn't fit
    "tiny-sram": _tiny(_CHAIN, "ab bc", sram_bytes=50_000),
    # C5: b lies between a and c
    "tiny-together": _tiny(_CHAIN, "ab bc", together=[["a", "c"], ["b"]]),
    # a gemm beside others on tiles of their own, or after them
    "tiny-tiles": _tiny(_MLP, "ab bc", sram_bytes=10**7, degrees=_TENSOR, utilisation=None, tile_tokens=16),
}

#: Name of the instance -> (name of its generator in the family's list, its parameters). One sample at a time, as in the
#: published runs, where the entry doesn't say otherwise (None: as many as is best).
SHIPPED: dict[str, Entry] = {
    f"dataflow/{name}": (generator, {"name": f"dataflow/{name}", "micro_batch": 1, **parameters})
    for name, (generator, parameters) in (
        _PUBLISHED | _WORKLOADS | _ENGINES | _TILES | _STAGES | _EXPERTS | _TINY
    ).items()
}
