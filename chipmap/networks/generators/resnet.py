"""ResNet: convolutional networks with identity shortcuts.

Source: He et al., *Deep Residual Learning for Image Recognition*, 2016 (table 1), in the usual variant whose
bottlenecks stride in their 3 × 3 convolution.
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import classifier, max_pool, relu, unit
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.graph import OperationGraph

#: Blocks per stage; from 50 layers on they are bottlenecks.
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(
    *,
    depth: Literal[18, 34, 50, 101, 152] = 50,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """ResNet of ``depth`` layers on ``image`` × ``image`` pixels.

    A basic block is two 3 × 3 convolutions, a bottleneck 1 × 1, 3 × 3, 1 × 1 (four times as wide at its end), each with
    a batch norm; then the sum with the shortcut (a 1 × 1 convolution with batch norm where the shape changes) and ReLU.
    """
    net = Network(f"resnet{depth}", word_bytes, "He et al. 2016, exported operator by operator")
    x = net.input("image", (batch, 3, image, image))
    with net.scope("stem"):
        x = max_pool(net, relu(net, unit(net, x, 64, 7, 2)))
    block = _basic if depth < 50 else bottleneck
    for stage, blocks in enumerate(STAGES[depth]):
        for i in range(blocks):
            with net.scope(f"stage.{stage}.block.{i}"):
                x = block(net, x, 64 * 2**stage, 2 if stage and not i else 1)
    return net.graph(classifier(net, x, classes))


def _basic(net: Network, x: Value, channels: int, stride: int) -> Value:
    y = relu(net, unit(net, x, channels, 3, stride, name="1"))
    return _joined(net, x, unit(net, y, channels, 3, name="2"), stride)


def bottleneck(net: Network, x: Value, channels: int, stride: int) -> Value:
    """A block of 1 × 1, 3 × 3 and 1 × 1 convolutions, four times as wide at its end, with its shortcut."""
    y = relu(net, unit(net, x, channels, 1, name="1"))
    y = relu(net, unit(net, y, channels, 3, stride, name="2"))
    return _joined(net, x, unit(net, y, 4 * channels, 1, name="3"), stride)


def _joined(net: Network, x: Value, y: Value, stride: int) -> Value:
    """ReLU of the sum of what a block made, ``y``, and the shortcut from its input, ``x``."""
    if x.shape != y.shape:
        x = unit(net, x, y.shape[1], 1, stride, name="_shortcut")
    return relu(net, net.elementwise("add", y, x))
