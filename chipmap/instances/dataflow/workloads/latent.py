"""Attention through a latent vector per token (multi-head latent attention), as kernels."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.workloads.layer import RMS_NORM, SOFTMAX, Layer


class Latent(NamedTuple):
    """Sizes: the latent of queries, that of keys and values, a head without positions, its part with positions."""

    query: int
    cache: int
    head: int
    rotary: int


def latent_attention(layer: Layer, hidden: int, heads: int, size: Latent, cached: int, word_bytes: int) -> None:
    """New tokens attend to ``cached`` ones and to themselves. Per token ``cache`` + ``rotary`` words are kept.

    Prefill makes keys and values of each head out of the latent. In a decode step (``cached``) queries go into the
    space of the latent instead, which then is key and value of all heads: ``MHA1`` fetches it, once for both products.
    Every chip makes the whole latent, as all heads read it. Source: DeepSeek-AI, *DeepSeek-V2* (2024), section 2.1.
    """
    words = size.cache + size.rotary
    seen, key = cached + layer.tokens, size.head + size.rotary
    layer.element("Add_Prev", hidden)
    layer.element("Norm1", hidden, "Add_Prev", statistics=RMS_NORM)
    layer.linear("Q_down", size.query, hidden, "Norm1")
    layer.linear("Q_up", key, size.query, "Q_down", outer=heads)
    layer.linear("KV_down", words, hidden, "Norm1", heads=1, schemes=("K", "NONE"))
    if not cached:
        layer.linear("K_up", size.head, size.cache, "KV_down", outer=heads)
        layer.linear("V_up", size.head, size.cache, "KV_down", outer=heads)
        layer.gemm("MHA1", seen, key, "Q_up", "K_up", "KV_down", outer=heads)
        layer.element("Softmax", seen, "MHA1", outer=heads, statistics=SOFTMAX)
        layer.gemm("MHA2", size.head, seen, "Softmax", "V_up", outer=heads)
        read = "MHA2"
    else:
        _per_head(layer, "Q_latent", heads, size.cache, size.head, words, "Q_up", word_bytes)
        fetch = {"fetch_bytes": cached * words * word_bytes, "fetch_outer": 1}
        layer.gemm("MHA1", seen, words, "Q_latent", "KV_down", outer=heads, **fetch)
        layer.element("Softmax", seen, "MHA1", outer=heads, statistics=SOFTMAX)
        layer.gemm("MHA2", size.cache, seen, "Softmax", "KV_down", outer=heads)
        _per_head(layer, "V_up", heads, size.head, size.cache, size.head, "MHA2", word_bytes)
        read = "V_up"
    layer.linear("Proj", hidden, heads * size.head, read)
    layer.element("Add1", hidden, "Proj", "Add_Prev")


def _per_head(
    layer: Layer, name: str, heads: int, rows: int, inner: int, output: int, read: str, word_bytes: int
) -> None:
    """A product with a matrix of each head, of that head's input: chips need their own heads of it only. ``output``
    words per head are handed on (rotary parts pass by)."""
    layer.add(
        name,
        "opaque",
        1,
        read,
        flop=2 * heads * rows * inner * layer.tokens,
        output_bytes=heads * output * layer.tokens * word_bytes,
        weight_bytes=heads * rows * inner * word_bytes,
        schemes=("M", "NONE"),
    )
