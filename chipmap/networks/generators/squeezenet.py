"""SqueezeNet: modules that squeeze to few channels and expand by 1 × 1 and 3 × 3 convolutions side by side.

Source: Iandola et al., *SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size*, 2016
(table 1), with pools of 3 × 3 padded so that sizes halve; the simple bypass of its figure 2 if asked for.
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import convolution, max_pool, relu
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.graph import OperationGraph

#: Channels of the squeezed tensor, per module; each side of a module expands to four times as many.
SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)
#: Modules that a pool follows, and those that a bypass spans.
POOLED, BYPASSED = (2, 6), (1, 3, 5, 7)


def squeezenet(
    *,
    bypass: bool = False,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """SqueezeNet on ``image`` × ``image`` pixels."""
    net = Network("squeezenet", word_bytes, "Iandola et al. 2016, exported operator by operator")
    x = net.input("image", (batch, 3, image, image))
    x = max_pool(net, relu(net, convolution(net, x, 96, 7, 2, bias=True, name="stem")))
    for i, squeezed in enumerate(SQUEEZED):
        with net.scope(f"fire.{i}"):
            y = _fire(net, x, squeezed)
            x = net.elementwise("add", x, y) if bypass and i in BYPASSED else y
        if i in POOLED:
            x = max_pool(net, x)
    x = relu(net, convolution(net, x, classes, 1, bias=True, name="classifier"))
    mean = net.op("mean", x, shape=(batch, classes, 1, 1), dim=[2, 3], keepdim=True)
    return net.graph(net.view("view", mean, (batch, classes)))


def _fire(net: Network, x: Value, squeezed: int) -> Value:
    x = relu(net, convolution(net, x, squeezed, 1, bias=True, name="squeeze"))
    sides = [relu(net, convolution(net, x, 4 * squeezed, k, bias=True, name=f"expand{k}")) for k in (1, 3)]
    return net.op("cat", *sides, shape=(x.shape[0], 8 * squeezed, *x.shape[2:]), dim=1)
