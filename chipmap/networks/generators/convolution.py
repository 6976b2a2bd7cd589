"""The parts of convolutional networks for inference, as core ATen operators on values [batch, channels, height, width].

Batch norm stays an operator of its own, as in an exported graph.
"""

from __future__ import annotations

from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.transformer import linear


def convolution(
    net: Network,
    x: Value,
    channels: int,
    kernel: int,
    stride: int = 1,
    bias: bool = False,
    *,
    name: str,
    groups: int = 1,
) -> Value:
    """A square convolution padded by (kernel - 1) / 2: 2 · kernel² · channels in / groups · elements made FLOP."""
    batch, width_in, height, width = x.shape
    with net.scope(name):
        reads = [x, net.parameter("weight", channels, width_in // groups, kernel, kernel)]
        reads += [net.parameter("bias", channels)] if bias else []
        shape = (batch, channels, *_strided((height, width), stride))
        return net.convolution(*reads, shape=shape, stride=stride, groups=groups)


def upsample(net: Network, x: Value, channels: int, *, name: str) -> Value:
    """A 2 × 2 transposed convolution of stride 2: 2 · 4 · channels in · channels out FLOP per element position read."""
    batch, width_in, height, width = x.shape
    with net.scope(name):
        weight = net.parameter("weight", width_in, channels, 2, 2)
        bias = net.parameter("bias", channels)
        shape = (batch, channels, 2 * height, 2 * width)
        return net.convolution(x, weight, bias, shape=shape, stride=2, transposed=True)


def batch_norm(net: Network, x: Value, *, name: str) -> Value:
    """Normalisation by stored statistics: scale, shift, mean and variance per channel are its weights."""
    with net.scope(name):
        reads = (net.parameter(part, x.shape[1]) for part in ("weight", "bias", "mean", "variance"))
        y = net.op("_native_batch_norm_legit_no_training", x, *reads, shape=x.shape)
        return net.view("getitem", y, x.shape)


def unit(
    net: Network, x: Value, channels: int, kernel: int, stride: int = 1, *, norm: bool = True, name: str = ""
) -> Value:
    """A convolution and its batch norm; without ``norm`` the convolution alone, with a bias."""
    y = convolution(net, x, channels, kernel, stride, not norm, name=f"conv{name}")
    return batch_norm(net, y, name=f"norm{name}") if norm else y


def relu(net: Network, x: Value) -> Value:
    """max(x, 0)."""
    return net.elementwise("relu", x)


def max_pool(net: Network, x: Value) -> Value:
    """Maximum over windows of stride 2; the positions of the maxima are made too and nothing reads them."""
    shape = (*x.shape[:2], *_strided(x.shape[2:], 2))
    y = net.op("max_pool2d_with_indices", x, shape=shape, unread=((shape, INDEX_BYTES),))
    return net.view("getitem", y, shape)


def average_pool(net: Network, x: Value) -> Value:
    """Mean over windows of 2 × 2."""
    return net.op("avg_pool2d", x, shape=(*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2))


def classifier(net: Network, x: Value, classes: int) -> Value:
    """Mean over all positions, then one linear layer."""
    batch, channels = x.shape[:2]
    with net.scope("classifier"):
        mean = net.op("mean", x, shape=(batch, channels, 1, 1), dim=[2, 3], keepdim=True)
        return linear(net, net.view("view", mean, (batch, channels)), classes, name="linear")


def _strided(sizes: tuple[int, ...], stride: int) -> tuple[int, ...]:
    return tuple((size - 1) // stride + 1 for size in sizes)
