"""Layers of Llama3-8B as the measured ones run: few kernels, attention one of them; microseconds on any machine."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.h100.predicted import PLENTY, layer_of
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.system import System

HIDDEN, HEADS, KEYS, HEAD, FFN, WORDS, LAYERS = 4096, 32, 8, 128, 14_336, 128_256, 32
INNER, BOTH = HEADS * HEAD, 2 * KEYS * HEAD


class Asked(NamedTuple):
    """A measured layer: its name among the rows, samples, and tokens that each sees (a step: of all layers)."""

    name: str
    batch: int
    context: int
    step: bool = False


#: All that are measured; the parts of a layer that ran compiled are meant.
ASKED = (
    *(Asked("decode", batch, 2048) for batch in (1, 8, 64, 256)),
    *(Asked("decode", batch, 2048, True) for batch in (1, 8, 64, 256)),
    *(Asked("prefill", 1, tokens) for tokens in (512, 2048, 8192)),
    *(Asked("forward", 1, tokens) for tokens in (2048, 8192)),
    *(Asked("forward+backward", 1, tokens) for tokens in (2048, 8192)),
)


def _gemm(rows: int, terms: int, tokens: int, **more: Any) -> dict[str, Any]:
    return {"kind": "gemm", "M": rows, "K": terms, "N": tokens, "weights": True, **more}


def _element(rows: int, tokens: int) -> dict[str, Any]:
    return {"kind": "elementwise", "M": rows, "N": tokens}


def _attention(tokens: int, context: int, times: float = 1.0) -> dict[str, Any]:
    """Masked scores aren't counted; a cache is what doesn't come from this pass."""
    flop = int(times * 2 * INNER * tokens * (2 * context + tokens))
    fetch = BOTH * context * 2
    cached = {"fetch_bytes": fetch, "fetch_outer": KEYS} if context else {}
    return {"kind": "gemm", "outer": HEADS, "M": HEAD, "K": context + tokens, "N": tokens, "flop": flop, **cached}


def forward(tokens: int, context: int, joint: bool) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Kernels and edges of a layer's forward pass; ``joint``: products that read the same are one."""
    reads = {"QKV": INNER + BOTH} if joint else {"Q": INNER, "K": BOTH // 2, "V": BOTH // 2}
    ups = {"Up": 2 * FFN} if joint else {"Gate": FFN, "Up": FFN}
    kernels: dict[str, Any] = {
        "Norm1": _element(HIDDEN, tokens),
        **{name: _gemm(rows, HIDDEN, tokens) for name, rows in reads.items()},
        "Rotary": _element(INNER + BOTH // 2, tokens),
        "Attend": _attention(tokens, context),
        "Proj": _gemm(HIDDEN, INNER, tokens),
        "Norm2": _element(HIDDEN, tokens),
        **{name: _gemm(rows, HIDDEN, tokens) for name, rows in ups.items()},
        "Act": _element(FFN, tokens),
        "Down": _gemm(HIDDEN, FFN, tokens),
        "Add": _element(HIDDEN, tokens),
    }
    rotated, passed = (["QKV"], []) if joint else (["Q", "K"], ["V"])
    edges = [
        *(("Norm1", one) for one in reads),
        *((one, "Rotary") for one in rotated),
        *((one, "Attend") for one in passed),
        *(("Rotary", "Attend"), ("Attend", "Proj"), ("Proj", "Norm2")),
        *(("Norm2", one) for one in ups),
        *((one, "Act") for one in ups),
        *(("Act", "Down"), ("Down", "Add")),
    ]
    return kernels, edges


def backward(tokens: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Kernels and edges of the backward pass: two products for each, attention 2.5 times its FLOP."""
    shapes = {"Down": (HIDDEN, FFN), "Up": (FFN, HIDDEN), "Gate": (FFN, HIDDEN), "Proj": (HIDDEN, INNER)}
    shapes |= {"Q": (INNER, HIDDEN), "K": (BOTH // 2, HIDDEN), "V": (BOTH // 2, HIDDEN)}
    kernels: dict[str, Any] = {"Add_b": _element(HIDDEN, tokens)}
    for name, (rows, terms) in shapes.items():
        kernels[f"{name}_b"] = _gemm(terms, rows, tokens)
        kernels[f"{name}_u"] = {"kind": "gemm", "M": rows, "K": tokens, "N": terms, "update": True}
    kernels |= {
        "Act_b": _element(2 * FFN, tokens),
        "Norm2_b": _element(HIDDEN, tokens),
        "Attend_b": _attention(tokens, 0, 2.5),
        "Rotary_b": _element(INNER + BOTH // 2, tokens),
        "Norm1_b": _element(HIDDEN, tokens),
    }
    chains = "Add Down Act", "Act Up Norm2", "Act Gate Norm2", "Norm2 Proj Attend", "Attend Rotary Q Norm1"
    edges = set[tuple[str, str]]()
    for chain in (*chains, "Rotary K Norm1", "Attend V Norm1"):
        names = chain.split()
        edges |= {(f"{a}_b", f"{b}_b") for a, b in pairwise(names)}
        edges |= {(f"{a}_b", f"{b}_u") for a, b in pairwise(names) if b in shapes}
    return kernels, sorted(edges)


def us(asked: Asked, system: System) -> float:
    """Microseconds of the layer on one chip of ``system``; a step has embedding and head, and the costs of a step."""
    decode = asked.name == "decode"
    tokens, context = (1, asked.context - 1) if decode else (asked.context, 0)
    train = asked.name.startswith("forward")
    kernels, edges = forward(tokens, context, joint=not train)
    found = _layer(kernels, edges, asked.batch, tokens, system)
    if asked.name == "forward+backward":
        found += _layer(*backward(tokens), asked.batch, tokens, system)
    if not asked.step:
        return found
    head = {"Norm": _element(HIDDEN, 1), "Head": _gemm(WORDS, HIDDEN, 1)}
    return found * LAYERS + _layer(head, [("Norm", "Head")], asked.batch, 1, system) + system.step_ns / 1000


def _layer(kernels: dict[str, Any], edges: list[tuple[str, str]], batch: int, tokens: int, system: System) -> float:
    named = {"weight_format": "bf16", "activation_format": "bf16", "cache_format": "bf16"}
    made = explicit(
        kernels=kernels, edges=tuple(edges), tokens=tokens, word_bytes=2, machine=system, batch=batch,
        micro_batch=batch, utilisation=1.0, dram_bytes=PLENTY, purpose="prefill", **named,
    )  # fmt: skip
    return layer_of(made).us
