"""Encoder-decoder transformers: T5 and Whisper. Each decoder layer reads the encoder's last output.

Sources: Raffel et al., *Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer*, 2020 (T5
base: 12 + 12 layers of width 768, 12 heads, 3072 hidden units, biases of relative positions, no scale); Radford et al.,
*Robust Speech Recognition via Large-Scale Weak Supervision*, 2022 (Whisper small: 12 + 12 layers of width 768, 12
heads, two convolutions over 3,000 frames of 80 mel channels, 448 positions of the decoder).
"""

from __future__ import annotations

from chipmap.networks.generators import transformer as parts
from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes, require_divisible
from chipmap.networks.graph import OperationGraph


def t5(
    *,
    layers: Count = 12,
    hidden: Size = 768,
    heads: Count = 12,
    intermediate: Size = 3072,
    sequence: Size = 512,
    target: Size = 128,
    batch: Size = 1,
    vocabulary: Size = 32128,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """T5: ``layers`` encoder layers on ``sequence`` tokens, as many decoder layers on ``target`` tokens, a head.

    One table of relative positions per stack gives a bias that all of its layers read. The head shares the word table.
    """
    require_divisible("hidden", hidden, "heads", heads)
    net = Network(f"t5-{layers}x{hidden}", word_bytes, "Raffel et al. 2020, exported operator by operator")
    table = net.parameter("embeddings.word", vocabulary, hidden)
    stacks: list[Value] = []
    for stack, length in (("encoder", sequence), ("decoder", target)):
        with net.scope(stack):
            x = parts.embedding(net, net.input("ids", (batch, length), INDEX_BYTES), table)
            bias = _relative(net, length, heads)
            if stack == "decoder":
                bias = net.elementwise("add", bias, parts.causal_mask(net, 1, length))
            for i in range(layers):
                with net.scope(f"layer.{i}"):
                    x = _t5_attention(net, x, x, bias, heads, name="attention")
                    if stacks:
                        x = _t5_attention(net, x, stacks[0], None, heads, name="cross")
                    with net.scope("feedforward"):
                        y = parts.projection(net, parts.rms_norm(net, x, name="norm"), intermediate, name="up")
                        y = parts.projection(net, net.elementwise("relu", y), hidden, name="down")
                        x = net.elementwise("add", x, y)
            stacks.append(parts.rms_norm(net, x, name="final"))
    with net.scope("head"):
        scaled = net.elementwise("mul", stacks[1])
        return net.graph(parts.flat_product(net, scaled, net.permute(table, 1, 0)))


def whisper(
    *,
    layers: Count = 12,
    hidden: Size = 768,
    heads: Count = 12,
    expansion: Count = 4,
    frames: Size = 3000,
    channels: Size = 80,
    target: Size = 128,
    max_positions: Size = 448,
    batch: Size = 1,
    vocabulary: Size = 51865,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """Whisper: two convolutions halve the ``frames``; encoder and decoder of ``layers`` layers each, a shared head."""
    parts.require_shape(hidden, heads, target, max_positions)
    net = Network(f"whisper-{layers}x{hidden}", word_bytes, "Radford et al. 2022, exported operator by operator")
    with net.scope("encoder"):
        x = net.input("mel", (batch, channels, frames))
        for i, stride in enumerate((1, 2)):
            with net.scope(f"convolution.{i}"):
                reads = (x, net.parameter("weight", hidden, x.shape[1], 3), net.parameter("bias", hidden))
                shape = (batch, hidden, (x.shape[2] - 1) // stride + 1)
                x = net.elementwise("gelu", net.convolution(*reads, shape=shape, stride=stride))
        x = net.permute(x, 0, 2, 1)
        x = net.elementwise("add", x, net.parameter("positions", x.shape[1], hidden))
        for i in range(layers):
            with net.scope(f"layer.{i}"):
                x = _whisper_layer(net, x, None, None, heads, expansion)
        encoded = parts.layer_norm(net, x, name="final")
    with net.scope("decoder"):
        table = net.parameter("word", vocabulary, hidden)
        words = parts.embedding(net, net.input("ids", (batch, target), INDEX_BYTES), table)
        places = net.view("slice", net.parameter("positions", max_positions, hidden), (target, hidden), dim=0)
        x = net.elementwise("add", words, places)
        mask = parts.causal_mask(net, batch, target)
        for i in range(layers):
            with net.scope(f"layer.{i}"):
                x = _whisper_layer(net, x, encoded, mask, heads, expansion)
        x = parts.layer_norm(net, x, name="final")
        return net.graph(parts.flat_product(net, x, net.permute(table, 1, 0)))


def _relative(net: Network, length: int, heads: int) -> Value:
    """The bias [1, heads, length, length] of relative positions: rows of a table of 32, known before the run."""
    with net.scope("relative"):
        places = net.op("arange", shape=(length,), word_bytes=INDEX_BYTES)
        far = [net.view("unsqueeze", places, shape) for shape in ((1, length), (length, 1))]
        buckets = net.op("sub", *far, shape=(length, length), word_bytes=INDEX_BYTES)
        bias = parts.embedding(net, buckets, net.parameter("weight", 32, heads))
        return net.view("unsqueeze", net.permute(bias, 2, 0, 1), (1, heads, length, length))


def _t5_attention(net: Network, x: Value, other: Value, bias: Value | None, heads: int, *, name: str) -> Value:
    with net.scope(name):
        y = parts.rms_norm(net, x, name="norm")
        source = y if other is x else other
        query, key, value = (
            parts.split_heads(net, parts.projection(net, part, x.shape[-1], name=what), heads)
            for what, part in (("query", y), ("key", source), ("value", source))
        )
        y = parts.attention(net, query, key, value, bias, scaled=False, dropout=False)
        return net.elementwise("add", x, parts.projection(net, y, x.shape[-1], name="output"))


def _whisper_layer(
    net: Network, x: Value, encoded: Value | None, mask: Value | None, heads: int, expansion: int
) -> Value:
    hidden = x.shape[-1]
    for name, other in (("attention", None), ("cross", encoded)):
        if name == "cross" and encoded is None:
            continue
        with net.scope(name):
            y = parts.layer_norm(net, x, name="norm")
            source = y if other is None else other
            query, key, value = (
                parts.split_heads(net, parts.projection(net, part, hidden, bias=what != "key", name=what), heads)
                for what, part in (("query", y), ("key", source), ("value", source))
            )
            y = parts.attention(net, query, key, value, mask if other is None else None, dropout=False)
            x = net.elementwise("add", x, parts.linear(net, y, hidden, name="output"))
    with net.scope("feedforward"):
        y = parts.linear(net, parts.layer_norm(net, x, name="norm"), expansion * hidden, name="up")
        return net.elementwise("add", x, parts.linear(net, net.elementwise("gelu", y), hidden, name="down"))
