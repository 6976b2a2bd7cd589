"""BERT: a stack of bidirectional transformer layers.

Source: Devlin et al., *BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding*, 2019
(section 3; BERT-large: 24 layers, hidden size 1024, 16 heads). The operators are those of an eager implementation
exported to core ATen.
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators import transformer as parts
from chipmap.networks.generators.builder import BOOL_BYTES, INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.graph import OperationGraph


def bert_encoder(
    *,
    layers: Count = 24,
    hidden: Size = 1024,
    heads: Count = 16,
    expansion: Count = 4,
    sequence: Size = 512,
    batch: Size = 1,
    vocabulary: Size = 30522,
    max_positions: Size = 512,
    word_bytes: WordBytes = 2,
    head: Literal["pooler", "pretraining"] = "pooler",
) -> OperationGraph:
    """BERT's embeddings, ``layers`` encoder layers and pooler; BERT-large by default.

    A layer has 20 computing operators: 6 matrix products with weights (4 · hidden² and 2 · expansion · hidden²
    multiply-adds per token), 2 batched products (2 · sequence · hidden), softmax, GELU, scaling, mask, 2 residual sums,
    2 layer norms and 4 copies (dropout, and the context before its projection). ``max_positions`` is the number of
    rows of the position table. With ``head`` ``pretraining`` the heads of masked-word and next-sentence prediction
    follow (the first multiplies by the word table).
    """
    parts.require_shape(hidden, heads, sequence, max_positions)
    net = Network(f"bert-{layers}x{hidden}", word_bytes, "Devlin et al. 2019, exported operator by operator")
    ids = net.input("input_ids", (batch, sequence), INDEX_BYTES)
    table = net.parameter("embeddings.word", vocabulary, hidden)
    x, mask = _embeddings(net, ids, table, max_positions)
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            x = _layer(net, x, mask, heads, expansion)
    with net.scope("pooler"):
        first = net.view("select", x, (batch, hidden), dim=1, index=0)
        pooled = net.elementwise("tanh", parts.linear(net, first, hidden, name="dense"))
    if head == "pooler":
        return net.graph(pooled, x)
    with net.scope("prediction"):
        y = net.elementwise("gelu", parts.linear(net, x, hidden, name="dense"))
        y = parts.layer_norm(net, y, name="norm")
        words = net.permute(table, 1, 0)
        words = parts.flat_product(net, y, words, net.parameter("bias", vocabulary))
    return net.graph(words, parts.linear(net, pooled, 2, name="next_sentence"))


def _embeddings(net: Network, ids: Value, table: Value, max_positions: int) -> tuple[Value, Value]:
    """Sum of word, segment and position embeddings, normalised; and the additive mask (which lets everything pass)."""
    batch, sequence = ids.shape
    hidden = table.shape[-1]
    with net.scope("embeddings"):
        segments = net.parameter("segment_ids", 1, max_positions, word_bytes=INDEX_BYTES)
        places = net.parameter("position_ids", 1, max_positions, word_bytes=INDEX_BYTES)
        place = net.view("slice", places, (1, sequence))
        segments = net.view("expand", segments, segments.shape)
        segment = net.op("gather", segments, place, shape=(1, sequence), word_bytes=INDEX_BYTES)
        segment = net.view("expand", segment, (batch, sequence))
        words = parts.embedding(net, ids, table)
        kinds = parts.embedding(net, segment, net.parameter("segment", 2, hidden))
        x = net.elementwise("add", words, kinds)
        x = net.elementwise("add", x, parts.embedding(net, place, net.parameter("position", max_positions, hidden)))
        x = net.elementwise("clone", parts.layer_norm(net, x, name="norm"))
    with net.scope("mask"):
        rows = parts.along(net, parts.positions(net, sequence), 2)
        allowed = net.op("ge", rows, shape=rows.shape, word_bytes=BOOL_BYTES)
        return x, parts.additive_mask(net, allowed, batch, sequence)


def _layer(net: Network, x: Value, mask: Value, heads: int, expansion: int) -> Value:
    hidden = x.shape[-1]
    with net.scope("attention"):
        query, key, value = (
            parts.split_heads(net, parts.linear(net, x, hidden, name=name), heads) for name in ("query", "key", "value")
        )
        y = parts.linear(net, parts.attention(net, query, key, value, mask), hidden, name="output")
        y = net.elementwise("add", net.elementwise("clone", y), x)
        x = parts.layer_norm(net, y, name="norm")
    with net.scope("feedforward"):
        y = net.elementwise("gelu", parts.linear(net, x, expansion * hidden, name="up"))
        y = parts.linear(net, y, hidden, name="down")
        y = net.elementwise("add", net.elementwise("clone", y), x)
        return parts.layer_norm(net, y, name="norm")
