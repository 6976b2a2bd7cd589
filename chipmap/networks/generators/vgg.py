"""VGG: a chain of 3 × 3 convolutions, halved five times, with three linear layers at its end.

Source: Simonyan and Zisserman, *Very Deep Convolutional Networks for Large-Scale Image Recognition*, 2015 (table 1,
columns A, B, D and E), with a batch norm after each convolution if asked for.
"""

from __future__ import annotations

from typing import Literal

from chipmap.networks.generators.builder import Network
from chipmap.networks.generators.convolution import max_pool, relu, unit
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.generators.transformer import linear
from chipmap.networks.graph import OperationGraph

#: Convolutions per stage.
STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
CHANNELS = (64, 128, 256, 512, 512)


def vgg(
    *,
    depth: Literal[11, 13, 16, 19] = 16,
    norm: bool = False,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """VGG of ``depth`` layers with weights on ``image`` × ``image`` pixels."""
    net = Network(f"vgg{depth}", word_bytes, "Simonyan and Zisserman 2015, exported operator by operator")
    x = net.input("image", (batch, 3, image, image))
    for stage, (count, channels) in enumerate(zip(STAGES[depth], CHANNELS, strict=True)):
        with net.scope(f"stage.{stage}"):
            for i in range(count):
                x = relu(net, unit(net, x, channels, 3, norm=norm, name=f"{i}"))
            x = max_pool(net, x)
    x = net.view("view", x, (batch, x.elements // batch))
    for i, width in enumerate((4096, 4096)):
        x = relu(net, linear(net, x, width, name=f"classifier.{i}"))
    return net.graph(linear(net, x, classes, name="classifier.2"))
