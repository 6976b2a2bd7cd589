"""U-Net: an encoder and a decoder of convolutions, with a skip connection at every level.

Source: Ronneberger et al., *U-Net: Convolutional Networks for Biomedical Image Segmentation*, 2015 (figure 1), with
padded convolutions, so that sizes halve exactly.
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import convolution, max_pool, relu, upsample
from chipmap.networks.generators.parameters import Count, Size, WordBytes, require_divisible
from chipmap.networks.graph import OperationGraph


def unet(
    *,
    levels: Count = 4,
    channels: Size = 64,
    image: Size = 256,
    batch: Size = 1,
    image_channels: Size = 1,
    classes: Size = 2,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """U-Net with ``levels`` halvings of an ``image`` × ``image`` picture; ``channels`` at full size, doubled per level.

    Each level is two 3 × 3 convolutions with ReLU; on the way up a 2 × 2 transposed convolution, joined with what the
    same level made on the way down.
    """
    require_divisible("image", image, "2^levels", 2**levels)
    net = Network(f"unet-{levels}x{channels}", word_bytes, "Ronneberger et al. 2015, padded convolutions")
    x = net.input("image", (batch, image_channels, image, image))
    skips = []
    for level in range(levels):
        with net.scope(f"down.{level}"):
            skips.append(_twice(net, x, channels * 2**level))
            x = max_pool(net, skips[-1])
    with net.scope("bottom"):
        x = _twice(net, x, channels * 2**levels)
    for level in reversed(range(levels)):
        with net.scope(f"up.{level}"):
            width = channels * 2**level
            up = upsample(net, x, width, name="upsample")
            joined = net.op("cat", skips[level], up, shape=(batch, 2 * width, *up.shape[2:]), dim=1)
            x = _twice(net, joined, width)
    with net.scope("output"):
        return net.graph(convolution(net, x, classes, 1, bias=True, name="conv"))


def _twice(net: Network, x: Value, channels: int) -> Value:
    for name in ("conv1", "conv2"):
        x = relu(net, convolution(net, x, channels, 3, bias=True, name=name))
    return x
