"""A recurrent language model: embedding, stacked LSTM layers unrolled over the sequence, linear head.

Source: Hochreiter and Schmidhuber, *Long Short-Term Memory*, 1997, in the form of Zaremba et al., *Recurrent Neural
Network Regularization*, 2014 (equations 1 to 6), decomposed as PyTorch does it: the input's share of the gates is one
product for the whole sequence, then each step adds the state's share.
"""

from __future__ import annotations

from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.generators.transformer import embedding, linear
from chipmap.networks.graph import OperationGraph


def rnn(
    *,
    layers: Count = 4,
    hidden: Size = 512,
    sequence: Count = 16,
    batch: Size = 8,
    vocabulary: Size = 10000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """A language model of ``layers`` LSTM layers over ``sequence`` steps.

    A step has 11 computing operators: the product of state and recurrent weights (8 · batch · hidden² FLOP), the sum
    with the input's share, three sigmoids, two tanh, three products and a sum. All steps of a layer read the same
    recurrent weights.
    """
    net = Network(f"rnn-{layers}x{hidden}", word_bytes, "Zaremba et al. 2014, LSTM decomposed operator by operator")
    ids = net.input("input_ids", (sequence, batch), INDEX_BYTES)
    x = embedding(net, ids, net.parameter("embedding.word", vocabulary, hidden))
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            x = _layer(net, x)
    return net.graph(linear(net, x, vocabulary, name="head"))


def _layer(net: Network, x: Value) -> Value:
    sequence, batch, hidden = x.shape
    share = linear(net, x, 4 * hidden, name="input_gates")
    weight = net.permute(net.parameter("recurrent.weight", 4 * hidden, hidden), 1, 0)
    bias = net.parameter("recurrent.bias", 4 * hidden)
    state, cell = (net.op("full", shape=(batch, hidden)) for _ in range(2))
    made = []
    for t in range(sequence):
        with net.scope(f"step.{t}"):
            own = net.view("select", share, (batch, 4 * hidden), dim=0, index=t)
            gates = net.elementwise("add", net.product("addmm", state, weight, bias), own)
            state, cell = _step(net, gates, cell)
            made.append(state)
    return net.op("cat", *made, shape=x.shape, dim=0)


def _step(net: Network, gates: Value, cell: Value) -> tuple[Value, Value]:
    """c' = σ(f) · c + σ(i) · tanh(g) and h' = σ(o) · tanh(c')."""
    chunks = net.view("split_with_sizes", gates, gates.shape)
    parts = [net.view("getitem", chunks, cell.shape) for _ in range(4)]
    enter, forget, out = (net.elementwise("sigmoid", parts[j]) for j in (0, 1, 3))
    fresh = net.elementwise("mul", enter, net.elementwise("tanh", parts[2]))
    cell = net.elementwise("add", net.elementwise("mul", forget, cell), fresh)
    return net.elementwise("mul", out, net.elementwise("tanh", cell)), cell
