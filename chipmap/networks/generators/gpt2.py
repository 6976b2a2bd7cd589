"""GPT-2: a stack of causal transformer layers with a language-model head.

Source: Radford et al., *Language Models are Unsupervised Multitask Learners*, 2019 (table 2; the smallest model: 12
layers, hidden size 768, 12 heads). The operators are those of an eager implementation exported to core ATen; GELU is
its tanh approximation, spelt out as 8 operators.
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators import transformer as parts
from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.graph import OperationGraph


def gpt2(
    *,
    layers: Count = 12,
    hidden: Size = 768,
    heads: Count = 12,
    expansion: Count = 4,
    sequence: Size = 512,
    batch: Size = 1,
    vocabulary: Size = 50257,
    max_positions: Size = 1024,
    word_bytes: WordBytes = 2,
    head: Literal["shared", "own", "none"] = "shared",
) -> OperationGraph:
    """GPT-2's embeddings, ``layers`` decoder layers (25 computing operators each) and head.

    A layer multiplies by 4 · hidden² + 2 · expansion · hidden² weights per token (queries, keys and values in one
    product). The head is a product with the word table (``shared``, as published) or with weights of its ``own``;
    ``none`` leaves it out.
    """
    parts.require_shape(hidden, heads, sequence, max_positions)
    net = Network(f"gpt2-{layers}x{hidden}", word_bytes, "Radford et al. 2019, exported operator by operator")
    ids = net.input("input_ids", (batch, sequence), INDEX_BYTES)
    with net.scope("embeddings"):
        table = net.parameter("word", vocabulary, hidden)
        places = net.parameter("position", max_positions, hidden)
        words = parts.embedding(net, net.view("view", ids, ids.shape), table)
        place = net.view("unsqueeze", parts.positions(net, sequence), (1, sequence))
        x = net.elementwise("add", words, parts.embedding(net, place, places))
        x = net.elementwise("clone", x)
    mask = parts.causal_mask(net, batch, sequence)
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            x = _layer(net, x, mask, heads, expansion)
    return net.graph(parts.head(net, parts.layer_norm(net, x, name="final"), table, head))


def _layer(net: Network, x: Value, mask: Value, heads: int, expansion: int) -> Value:
    hidden = x.shape[-1]
    with net.scope("attention"):
        y = _linear(net, parts.layer_norm(net, x, name="norm"), 3 * hidden, name="query_key_value")
        chunks = net.view("split_with_sizes", y, y.shape)
        query, key, value = (parts.split_heads(net, net.view("getitem", chunks, x.shape), heads) for _ in range(3))
        y = _linear(net, parts.attention(net, query, key, value, mask), hidden, name="output")
        x = net.elementwise("add", net.elementwise("clone", y), x)
    with net.scope("feedforward"):
        y = _linear(net, parts.layer_norm(net, x, name="norm"), expansion * hidden, name="up")
        y = _linear(net, _gelu_tanh(net, y), hidden, name="down")
        return net.elementwise("add", x, net.elementwise("clone", y))


def _linear(net: Network, x: Value, features: int, *, name: str) -> Value:
    """x · W + b: GPT-2 stores its weights untransposed."""
    with net.scope(name):
        weight = net.parameter("weight", x.shape[-1], features)
        return parts.flat_product(net, x, weight, net.parameter("bias", features))


def _gelu_tanh(net: Network, x: Value) -> Value:
    """x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    with net.scope("gelu"):
        half = net.elementwise("mul", x)
        cube = net.elementwise("mul", net.elementwise("pow", x))
        inner = net.elementwise("mul", net.elementwise("add", x, cube))
        return net.elementwise("mul", half, net.elementwise("add", net.elementwise("tanh", inner)))
