"""Mamba: layers of a gated, selective state-space model.

Source: Gu and Dao, *Mamba*, 2023 (section 3.4; the 130M model: 24 layers of width 768, state 16, expansion 2, a
convolution of 4 places).
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators import transformer as parts
from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.graph import OperationGraph


def mamba(
    *,
    layers: Count = 8,
    hidden: Size = 768,
    expansion: Count = 2,
    state: Count = 16,
    window: Count = 4,
    sequence: Count = 64,
    batch: Size = 1,
    vocabulary: Size = 50280,
    decomposed: bool = True,
    word_bytes: WordBytes = 2,
    head: Literal["shared", "none"] = "shared",
) -> OperationGraph:
    """Embedding, ``layers`` layers, a final norm, and a head that shares the word table or none.

    A layer's state x (inner width · state numbers) follows x' = decay · x + entry for each token. ``decomposed``: token
    by token, with three operators each, as an export of a loop shows it; else all tokens at once by cumulative sums.
    """
    net = Network(f"mamba-{layers}x{hidden}", word_bytes, "Gu and Dao 2023, exported operator by operator")
    ids = net.input("input_ids", (batch, sequence), INDEX_BYTES)
    table = net.parameter("embeddings.word", vocabulary, hidden)
    x = parts.embedding(net, ids, table)
    inner = expansion * hidden
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            y = _mixer(net, parts.rms_norm(net, x, name="norm"), inner, state, window, decomposed)
            x = net.elementwise("add", x, parts.projection(net, y, hidden, name="output"))
    return net.graph(parts.head(net, parts.rms_norm(net, x, name="final"), table, head))


def _mixer(net: Network, x: Value, inner: int, state: int, window: int, decomposed: bool) -> Value:
    batch, sequence, hidden = x.shape
    rank = -(-hidden // 16)
    wide = net.permute(parts.projection(net, x, 2 * inner, name="input"), 0, 2, 1)
    u, gate = (net.view("slice", wide, (batch, inner, sequence), dim=1) for _ in range(2))
    with net.scope("convolution"):
        reads = (u, net.parameter("weight", inner, 1, window), net.parameter("bias", inner))
        y = net.convolution(*reads, shape=(batch, inner, sequence + window - 1), groups=inner)
        u = net.elementwise("silu", net.view("slice", y, (batch, inner, sequence), dim=2))
    tokens = net.permute(u, 0, 2, 1)
    chosen = parts.projection(net, tokens, rank + 2 * state, name="selection")
    step, b, c = (net.view("split", chosen, (batch, sequence, n)) for n in (rank, state, state))
    step = net.elementwise("softplus", parts.projection(net, step, inner, bias=True, name="step"))
    with net.scope("scan"):
        rates = net.elementwise("neg", net.elementwise("exp", net.parameter("rates", inner, state)))
        full = (batch, sequence, inner, state)
        narrow = net.view("unsqueeze", step, (batch, sequence, inner, 1))
        decay = net.elementwise("exp", net.op("mul", narrow, rates, shape=full))
        entry = net.op("mul", narrow, net.view("unsqueeze", b, (batch, sequence, 1, state)), shape=full)
        entry = net.op("mul", entry, net.view("unsqueeze", tokens, (batch, sequence, inner, 1)), shape=full)
        y = (_steps if decomposed else _at_once)(net, decay, entry, c)
    skip = net.elementwise("mul", tokens, net.parameter("skip", inner))
    y = net.elementwise("add", net.view("view", y, skip.shape), skip)
    return net.elementwise("mul", y, net.elementwise("silu", net.permute(gate, 0, 2, 1)))


def _steps(net: Network, decay: Value, entry: Value, c: Value) -> Value:
    """Token by token: x' = decay · x + entry, y = x' · c."""
    batch, sequence, inner, state = decay.shape
    x = net.op("zeros", shape=(batch, inner, state))
    made = []
    for t in range(sequence):
        with net.scope(f"token.{t}"):
            one, add = (net.view("select", part, x.shape, dim=1, index=t) for part in (decay, entry))
            x = net.elementwise("add", net.elementwise("mul", one, x), add)
            row = net.view("select", c, (batch, state, 1), dim=1, index=t)
            made.append(net.product("bmm", x, row))
    return net.op("stack", *made, shape=(batch, sequence, inner, 1), dim=1)


def _at_once(net: Network, decay: Value, entry: Value, c: Value) -> Value:
    """All tokens: with D the running product of decays, x = D · cumulative sum of entry / D; y = x · c."""
    batch, sequence, inner, state = decay.shape
    running = net.elementwise("exp", net.elementwise("cumsum", net.elementwise("log", decay), dim=1))
    x = net.elementwise("mul", running, net.elementwise("cumsum", net.elementwise("div", entry, running), dim=1))
    flat = net.view("view", x, (batch * sequence, inner, state))
    y = net.product("bmm", flat, net.view("view", c, (batch * sequence, state, 1)))
    return net.view("view", y, (batch, sequence, inner, 1))
