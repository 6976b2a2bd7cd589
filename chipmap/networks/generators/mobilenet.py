"""MobileNet, first and second version: convolutions split into one per channel and one per pixel.

Sources: Howard et al., *MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications*, 2017
(table 1); Sandler et al., *MobileNetV2: Inverted Residuals and Linear Bottlenecks*, 2018 (table 2).
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import batch_norm, classifier, convolution
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.graph import OperationGraph

#: First version: channels and stride of each pair of convolutions.
PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
#: Second version: expansion, channels, blocks and the first block's stride of each stage.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet(
    *,
    version: Literal[1, 2] = 1,
    percent: Size = 100,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """MobileNet on ``image`` × ``image`` pixels, its channels ``percent`` of the paper's (in multiples of 8).

    Its activation is ReLU cut at 6 (``hardtanh`` among the core operators).
    """
    net = Network(f"mobilenet{version}-{percent}", word_bytes, "Howard et al. 2017, Sandler et al. 2018")

    def wide(channels: int) -> int:
        return max(8, round(channels * percent / 800) * 8)

    x = _unit(net, net.input("image", (batch, 3, image, image)), wide(32), 3, 2, name="stem")
    if version == 1:
        for i, (channels, stride) in enumerate(PAIRS):
            x = _unit(net, x, x.shape[1], 3, stride, groups=x.shape[1], name=f"pair.{i}.depthwise")
            x = _unit(net, x, wide(channels), 1, name=f"pair.{i}.pointwise")
        return net.graph(classifier(net, x, classes))
    for s, (expansion, channels, blocks, stride) in enumerate(STAGES):
        for i in range(blocks):
            with net.scope(f"stage.{s}.block.{i}"):
                x = _inverted(net, x, expansion, wide(channels), stride if i == 0 else 1)
    x = _unit(net, x, max(1280, wide(1280)), 1, name="head")
    return net.graph(classifier(net, x, classes))


def _unit(
    net: Network,
    x: Value,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    cut: bool = True,
    name: str,
) -> Value:
    """Convolution, batch norm and (``cut``) the activation."""
    with net.scope(name):
        y = batch_norm(net, convolution(net, x, channels, kernel, stride, groups=groups, name="conv"), name="norm")
        return net.elementwise("hardtanh", y, min_val=0.0, max_val=6.0) if cut else y


def _inverted(net: Network, x: Value, expansion: int, channels: int, stride: int) -> Value:
    """Wider, per channel, narrower; then the sum with the input where shapes allow."""
    y = _unit(net, x, expansion * x.shape[1], 1, name="expand") if expansion > 1 else x
    y = _unit(net, y, y.shape[1], 3, stride, groups=y.shape[1], name="depthwise")
    y = _unit(net, y, channels, 1, cut=False, name="project")
    return net.elementwise("add", x, y) if x.shape == y.shape else y
