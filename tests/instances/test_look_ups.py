"""BERT-base on 36 chips: its period if the word table is read as a whole, and if only the rows of a text are read.

The periods were published for the network as PyTorch exports it. The network stands here a second time, operator by
operator as in that export, so that no PyTorch is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chipmap.instances.ring import Package, RingInstance
from chipmap.networks.generators import bert_encoder
from chipmap.networks.generators.builder import BOOL_BYTES, Network, Value
from chipmap.networks.graph import OperationGraph
from chipmap.run import SolveOptions
from chipmap.solve import solve

TOKENS, HIDDEN, LAYERS, HEADS, WORDS = 128, 768, 12, 12, 30522
ROWS = TOKENS * HIDDEN * 4
#: The shape of the heads apart.
APART = (1, HEADS, TOKENS, HIDDEN // HEADS)


def exported() -> OperationGraph:
    """BERT-base as exported with fused attention and dropout for 128 tokens, numbers of 4 bytes."""
    net = Network("bert-base", 4)
    ids = net.input("input_ids", (1, TOKENS), 8)
    x = net.op("embedding", net.parameter("words", WORDS, HIDDEN), ids, shape=(1, TOKENS, HIDDEN))
    for _ in range(2):  # rows of the tables of segments and positions, known beforehand
        x = net.op("add", x, net.op("full", shape=(1, TOKENS, HIDDEN)), shape=x.shape)
    x = net.view("dropout", norm(net, x), x.shape)
    mask = net.op("full", shape=(1, 1, 1, TOKENS), word_bytes=BOOL_BYTES)
    mask = net.view("expand", mask, (1, 1, TOKENS, TOKENS))
    for _ in range(LAYERS):
        parts = [linear(net, x, HIDDEN) for _ in range(3)]
        heads = [net.view("transpose", net.view("view", y, x.shape), APART) for y in parts]
        y = net.op("scaled_dot_product_attention", *heads, mask, shape=heads[0].shape)
        y = linear(net, net.view("reshape", net.view("transpose", y, y.shape), x.shape), HIDDEN)
        x = norm(net, net.elementwise("add", x, net.view("dropout", y, x.shape)))
        y = linear(net, net.elementwise("gelu", linear(net, x, 4 * HIDDEN)), HIDDEN)
        x = norm(net, net.elementwise("add", x, net.view("dropout", y, x.shape)))
    pooled = net.elementwise("tanh", linear(net, net.view("select", x, (1, HIDDEN)), HIDDEN))
    return net.graph(x, pooled)


def generated() -> OperationGraph:
    """The same network from its generator, at the level of core ATen."""
    return bert_encoder(layers=LAYERS, hidden=HIDDEN, heads=HEADS, sequence=TOKENS, word_bytes=4)


def linear(net: Network, x: Value, features: int) -> Value:
    """x W^T + b as one operator."""
    weight, bias = net.parameter("weight", features, x.shape[-1]), net.parameter("bias", features)
    return net.op("linear", x, weight, bias, shape=(*x.shape[:-1], features))


def norm(net: Network, x: Value) -> Value:
    """A layer norm as one operator."""
    return net.op("layer_norm", x, net.parameter("scale", HIDDEN), net.parameter("shift", HIDDEN), shape=x.shape)


def period_us(graph: OperationGraph) -> float:
    """The optimal period on 36 chips of 1 GB."""
    instance = RingInstance.make(name="x", graph=graph, package=Package(chips=36, sram_bytes=10**9))
    result = solve(instance, options=SolveOptions(time_limit=60, threads=1))
    assert result.status == "optimal"
    assert result.objective is not None
    return result.objective / 1e5


@pytest.mark.parametrize(
    ("network", "with_rows"), [(exported, 183.27452), (generated, 202.54209)], ids=["as exported", "core ATen"]
)
def test_a_text_reads_rows_of_the_word_table(network: Callable[[], OperationGraph], with_rows: float) -> None:
    graph = network()
    look_up = next(v for v, op in enumerate(graph.operations) if op.kind == "embedding" and op.role == "compute")
    operation = graph.operations[look_up]
    assert (operation.flop, operation.moved_bytes) == (TOKENS * HIDDEN, 8 * TOKENS + 2 * ROWS)
    assert operation.weight_bytes == 4 * WORDS * HIDDEN  # the table rests where it is read
    assert period_us(graph) == with_rows
    whole = list(graph.operations)
    whole[look_up] = operation.replace(moved_bytes=None)
    assert period_us(graph.replace(operations=whole)) == 470.78912
