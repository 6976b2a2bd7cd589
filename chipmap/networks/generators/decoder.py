"""Decoder-only language models with RMS norm, rotary positions, grouped queries and a gated feed-forward network.

Sources: Touvron et al., *Llama*, 2023; the published configurations of Llama 3.2 1B (the defaults), Qwen2 0.5B and
Qwen3-Embedding 0.6B. The operators are those of an eager implementation exported to core ATen.
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators import transformer as parts
from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes, require, require_divisible
from chipmap.networks.graph import OperationGraph


def decoder(
    *,
    layers: Count = 16,
    hidden: Size = 2048,
    heads: Count = 32,
    kv_heads: Count = 8,
    head_width: Size = 64,
    intermediate: Size = 8192,
    sequence: Size = 512,
    batch: Size = 1,
    vocabulary: Size = 128256,
    style: Literal["llama", "qwen2", "qwen3"] = "llama",
    word_bytes: WordBytes = 2,
    head: Literal["shared", "own", "none"] = "shared",
) -> OperationGraph:
    """Embedding, ``layers`` decoder layers, a final norm, and a head.

    A layer multiplies by hidden · head_width · 2 · (heads + kv_heads) + 3 · hidden · intermediate weights per token.
    ``style``: in ``qwen2`` queries, keys and values have biases, in ``qwen3`` queries and keys are normalised per head.
    The head is a product with the word table (``shared``) or with weights of its ``own``; ``none`` leaves it
    out.
    """
    require_divisible("heads", heads, "kv_heads", kv_heads)
    require(head_width % 2 == 0, f"is {head_width}", "head_width", "Rotary positions turn pairs: give an even number.")
    net = Network(f"decoder-{layers}x{hidden}", word_bytes, "Touvron et al. 2023, exported operator by operator")
    ids = net.input("input_ids", (batch, sequence), INDEX_BYTES)
    table = net.parameter("embeddings.word", vocabulary, hidden)
    x = parts.embedding(net, ids, table)
    mask = parts.causal_mask(net, batch, sequence)
    turns = _turns(net, sequence, head_width)
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            y = parts.rms_norm(net, x, name="attention.norm")
            with net.scope("attention"):
                query, key, value = (
                    parts.split_heads(
                        net, parts.projection(net, y, n * head_width, bias=style == "qwen2", name=name), n
                    )
                    for name, n in (("query", heads), ("key", kv_heads), ("value", kv_heads))
                )
                if style == "qwen3":
                    query = parts.rms_norm(net, query, name="query_norm")
                    key = parts.rms_norm(net, key, name="key_norm")
                query, key = (_turned(net, part, turns) for part in (query, key))
                key, value = (_repeated(net, part, heads) for part in (key, value))
                y = parts.attention(net, query, key, value, mask, dropout=False)
                x = net.elementwise("add", x, parts.projection(net, y, hidden, name="output"))
            y = parts.rms_norm(net, x, name="feedforward.norm")
            with net.scope("feedforward"):
                gate = net.elementwise("silu", parts.projection(net, y, intermediate, name="gate"))
                y = net.elementwise("mul", gate, parts.projection(net, y, intermediate, name="up"))
                x = net.elementwise("add", x, parts.projection(net, y, hidden, name="down"))
    return net.graph(parts.head(net, parts.rms_norm(net, x, name="final"), table, head))


def _turns(net: Network, sequence: int, width: int) -> tuple[Value, Value]:
    """Cosines and sines of the rotary angles, [1, 1, sequence, width]: known before the network runs."""
    with net.scope("rotary"):
        places = net.view("unsqueeze", parts.positions(net, sequence), (sequence, 1))
        half = net.op("mul", places, net.parameter("frequencies", width // 2), shape=(sequence, width // 2))
        angles = net.op("cat", half, half, shape=(sequence, width), dim=-1)
        cosine, sine = (net.elementwise(kind, angles) for kind in ("cos", "sin"))
        return tuple(net.view("unsqueeze", x, (1, 1, sequence, width)) for x in (cosine, sine))  # type: ignore[return-value]


def _turned(net: Network, x: Value, turns: tuple[Value, Value]) -> Value:
    """x · cos + (−x₂, x₁) · sin for the halves x₁, x₂ of each head."""
    with net.scope("rotary"):
        half = (*x.shape[:-1], x.shape[-1] // 2)
        first, second = (net.view("slice", x, half, dim=3) for _ in range(2))
        other = net.op("cat", net.elementwise("neg", second), first, shape=x.shape, dim=-1)
        return net.elementwise("add", net.elementwise("mul", x, turns[0]), net.elementwise("mul", other, turns[1]))


def _repeated(net: Network, x: Value, heads: int) -> Value:
    """[b, kv, s, d] with each head copied for the queries of its group: [b, heads, s, d]."""
    batch, kept, sequence, width = x.shape
    if kept == heads:
        return x
    wide = (batch, kept, heads // kept, sequence, width)
    apart = net.view("expand", net.view("unsqueeze", x, (batch, kept, 1, sequence, width)), wide)
    return net.view("view", net.op("clone", apart, shape=wide), (batch, heads, sequence, width))
