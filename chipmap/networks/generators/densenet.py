"""DenseNet: convolutional networks in which every layer of a block reads all earlier ones.

Source: Huang et al., *Densely Connected Convolutional Networks*, 2017 (table 1, DenseNet-BC).
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import (
    average_pool,
    batch_norm,
    classifier,
    convolution,
    max_pool,
    relu,
    unit,
)
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.graph import OperationGraph

#: Layers per block, growth rate and channels of the stem.
SHAPES = {
    121: ((6, 12, 24, 16), 32, 64),
    161: ((6, 12, 36, 24), 48, 96),
    169: ((6, 12, 32, 32), 32, 64),
    201: ((6, 12, 48, 32), 32, 64),
}


def densenet(
    *,
    depth: Literal[121, 161, 169, 201] = 121,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """DenseNet of ``depth`` layers on ``image`` × ``image`` pixels.

    A layer concatenates the outputs of the block so far, then batch norm, ReLU, 1 × 1 convolution to 4 · growth
    channels, batch norm, ReLU, 3 × 3 convolution to ``growth`` channels. Between blocks a 1 × 1 convolution and an
    average pool halve channels and size.
    """
    blocks, growth, channels = SHAPES[depth]
    net = Network(f"densenet{depth}", word_bytes, "Huang et al. 2017, exported operator by operator")
    x = net.input("image", (batch, 3, image, image))
    with net.scope("stem"):
        x = max_pool(net, relu(net, unit(net, x, channels, 7, 2)))
    for b, layers in enumerate(blocks):
        if b:
            with net.scope(f"transition.{b - 1}"):
                x = _normalised_convolution(net, x, x.shape[1] // 2, 1, name="")
                x = average_pool(net, x)
        with net.scope(f"block.{b}"):
            x = _block(net, x, layers, growth)
    with net.scope("final"):
        x = relu(net, batch_norm(net, x, name="norm"))
    return net.graph(classifier(net, x, classes))


def _block(net: Network, x: Value, layers: int, growth: int) -> Value:
    made = [x]
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            y = _normalised_convolution(net, _joined(net, made), 4 * growth, 1, name="1")
            made.append(_normalised_convolution(net, y, growth, 3, name="2"))
    return _joined(net, made)


def _normalised_convolution(net: Network, x: Value, channels: int, kernel: int, *, name: str) -> Value:
    y = relu(net, batch_norm(net, x, name=f"norm{name}"))
    return convolution(net, y, channels, kernel, name=f"conv{name}")


def _joined(net: Network, parts: list[Value]) -> Value:
    batch, _, height, width = parts[0].shape
    return net.op("cat", *parts, shape=(batch, sum(part.shape[1] for part in parts), height, width), dim=1)
