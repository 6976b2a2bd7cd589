"""A Llama's layer as an inference engine runs it: 11 kernels over several chips, nine on one (page, "Layers as engines
run them").

Engines make queries, keys and values in one product, and the gate beside the FFN's first. Rotation, scores, softmax,
values and the new entries of the cache are one kernel of attention; sums lie in the norms behind them. Sources: vLLM's
``models/llama.py``; TensorRT-LLM's attention plugin.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.layer import RMS_NORM, Count, Layer, Repeats, WordBytes
from chipmap.instances.dataflow.workloads.llama import sized, usual_tokens

#: How an engine splits its kernels over chips: heads and rows, then terms; norms and the last sum run on every chip.
_SPLIT = {"QKV": "M", "Attend": "OUTER", "Proj": "K", "FFN0": "M", "SiLU": "M", "GeLU": "M", "FFN1": "K"}


def engine_network(
    model: Literal["", "llama-68m", "llama3-8b", "llama3-70b", "llama3-405b"] = "llama3-8b",
    hidden: Count | None = None,
    heads: Count | None = None,
    kv_heads: Count | None = None,
    ffn: Count | None = None,
    layers: Repeats | None = None,
    step: Literal["prefill", "decode"] = "decode",
    tokens: Count | None = None,
    context: Annotated[int, Meta(ge=0, le=10_000_000)] = 4096,
    gated: bool = True,
    word_bytes: WordBytes = 2,
    sums: bool = True,
) -> Workload:
    """Llama layers as an inference engine fuses them, with the sizes of ``model``, of which those that are given
    replace its own: a prefill of ``tokens`` tokens, or a decode step of as many after ``context`` others.

    Each kernel has the scheme of the engine. With ``sums`` each product that is split by its terms has its sum over
    chips as a kernel behind it, as no other kernel runs meanwhile: a product without FLOP and weights whose parts are
    added up.
    """
    size = sized(model, (hidden, heads, kv_heads, ffn, layers, 0))
    layer, cached = Layer(tokens or usual_tokens(step)), context if step == "decode" else 0
    _attention(layer, size.heads, size.kv_heads, size.hidden // size.heads, (cached, word_bytes))
    act = "SiLU" if gated else "GeLU"
    layer.element("Norm2", size.hidden, _summed(layer, "Proj", size.hidden, "Attend", sums), statistics=RMS_NORM)
    layer.linear("FFN0", (1 + gated) * size.ffn, size.hidden, "Norm2")
    layer.element(act, size.ffn, "FFN0", flop_per_element=1 + gated)
    layer.element("Add2", size.hidden, _summed(layer, "FFN1", size.ffn, act, sums, size.hidden))
    kernels = (one.replace(schemes=(_SPLIT.get(one.name, _other(one.name)),)) for one in layer.kernels)
    return Workload(
        name=f"{model or f'llama-{size.hidden}-{size.layers}'}-engine-{step}",
        kernels=tuple(kernels),
        edges=tuple(layer.edges),
        carries=(("Add2", "Norm1"),),
        layers=size.layers,
        word_bytes=word_bytes,
        tokens=layer.tokens,
    )


def _attention(layer: Layer, heads: int, kv_heads: int, head: int, cache: tuple[int, int]) -> None:
    """Norm, QKV and the attention of ``cache``: cached tokens, and bytes of a word of them. It takes 2 · heads · head ·
    tokens · (2 · cached + tokens) FLOP, both products without masked scores; scores are never written."""
    hidden, tokens, (cached, word_bytes) = heads * head, layer.tokens, cache
    fetch = 2 * kv_heads * head * cached * word_bytes
    work = {"flop": 2 * hidden * tokens * (2 * cached + tokens), "fetch_bytes": fetch}
    if fetch and kv_heads < heads:
        work["fetch_outer"] = kv_heads
    layer.element("Norm1", hidden, statistics=RMS_NORM)
    layer.linear("QKV", (heads + 2 * kv_heads) * head, hidden, "Norm1")
    layer.gemm("Attend", head, cached + tokens, "QKV", outer=heads, **work)


def _summed(layer: Layer, name: str, inner: int, read: str, sums: bool, hidden: int | None = None) -> str:
    """A product that is split by its terms, and its sum over chips; the name of what makes its whole output."""
    rows = hidden or inner
    if not sums:
        layer.linear(name, rows, inner, read)
        return name
    layer.linear(name, rows, inner, read, output_bytes=0)
    layer.linear(f"Sum_{name}", rows, rows, name, flop=0, weight_bytes=0)
    return f"Sum_{name}"


def _other(name: str) -> Literal["K", "NONE"]:
    return "K" if name.startswith("Sum_") else "NONE"
