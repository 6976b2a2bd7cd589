"""CoaT: a pyramid of four sizes, serial blocks at each, then parallel blocks that exchange what three sizes made.

Source: Xu, Xu, Chang and Tu, *Co-Scale Conv-Attentional Image Transformers*, 2021 (sections 3 and 4, table 1: CoaT
Tiny has 152 channels and 8 heads at all four sizes, two serial blocks at each, six parallel ones, and 5.5 million
parameters).
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes, require, require_divisible
from chipmap.networks.generators.transformer import batched, flat_product, layer_norm, linear
from chipmap.networks.graph import OperationGraph

#: Side of a window of relative positions -> its share of the heads, in eighths.
_WINDOWS = {3: 2, 5: 3, 7: 3}
_SCALES = 4


class _Scale:
    """One of the four sizes, its side in places: tokens are a class token and side² places; the convolutions that its
    blocks share."""

    def __init__(self, net: Network, hidden: int, heads: int, side: int, name: str) -> None:
        self.net, self.heads, self.side, self.name = net, heads, side, name
        with net.scope(name):
            self.token = net.parameter("class", 1, 1, hidden)
            self.position = _depthwise(net, hidden, 3, "position")
            self.windows = []
            for window, share in _WINDOWS.items():
                channels = hidden * share // 8
                self.windows.append((channels, _depthwise(net, channels, window, f"window.{window}")))

    def picture(self, tokens: Value) -> Value:
        """Tokens [b, side², c] without the class token as a picture [b, c, side, side]."""
        batch, _, channels = tokens.shape
        return self.net.view("view", self.net.permute(tokens, 0, 2, 1), (batch, channels, self.side, self.side))

    def apart(self, x: Value) -> tuple[Value, Value]:
        """The class token, and the places as a picture."""
        batch, count, channels = x.shape
        token = self.net.view("slice", x, (batch, 1, channels), dim=1, start=0, end=1)
        places = self.net.view("slice", x, (batch, count - 1, channels), dim=1, start=1)
        return token, self.picture(places)

    def joined(self, token: Value, picture: Value) -> Value:
        """A class token and a picture as tokens."""
        batch, channels, height, width = picture.shape
        places = self.net.view("view", picture, (batch, channels, height * width))
        reads = token, self.net.permute(places, 0, 2, 1)
        return self.net.op("cat", *reads, shape=(batch, 1 + height * width, channels), dim=1)

    def placed(self, x: Value) -> Value:
        """Tokens with a depthwise convolution of their picture added."""
        with self.net.scope("position"):
            token, picture = self.apart(x)
            convolved = _by_channel(self.net, picture, *self.position)
            return self.joined(token, self.net.elementwise("add", convolved, picture))


def coat(
    *,
    hidden: Size = 152,
    heads: Count = 8,
    serial: Count = 2,
    parallel: Count = 6,
    expansion: Count = 4,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """CoaT with ``serial`` blocks of ``hidden`` channels at each of four sizes, then ``parallel`` ones over the last 3.

    Attention is factorised: softmax over the tokens of the keys, its product with the values, the queries times that,
    and a convolution of the values' picture, times the queries. Both are linear in the number of tokens.
    """
    require_divisible("hidden", hidden, "heads", heads)
    eighths = "Take a multiple of 8: windows of 3, 5 and 7 places have two, three and three eighths of the heads."
    require(heads % 8 == 0, f"is {heads}, not a multiple of 8", "heads", eighths)
    halved = "Take a multiple of 32: patches of 4 places are halved three times."
    require(image % 32 == 0, f"is {image}, not a multiple of 32", "image", halved)
    net = Network(f"coat-{serial}-{parallel}x{hidden}", word_bytes, "Xu et al. 2021, exported operator by operator")
    scales = [_Scale(net, hidden, heads, image // 4 // 2**i, f"scale.{i}") for i in range(_SCALES)]
    picture = net.input("image", (batch, 3, image, image))
    made = []
    for i, scale in enumerate(scales):
        with net.scope(scale.name):
            x = _patches(net, scale, picture, hidden, 4 if i == 0 else 2)
            for j in range(serial):
                with net.scope(f"block.{j}"):
                    x = scale.placed(x)
                    x = net.elementwise("add", x, _attention(net, scale, x))
                    with net.scope("mlp"):
                        weights = _mlp_weights(net, hidden, expansion)
                    x = _mlp(net, x, weights)
            made.append(x)
            picture = net.elementwise("clone", scale.apart(x)[1])
    made, scales = made[1:], scales[1:]
    for j in range(parallel):
        with net.scope(f"parallel.{j}"):
            made = _exchanged(net, scales, made, expansion)
    with net.scope("head"):
        ends = [layer_norm(net, x, name=f"norm.{i}") for i, x in enumerate(made)]
        tokens = [net.view("slice", x, (batch, 1, hidden), dim=1, start=0, end=1) for x in ends]
        stacked = net.op("cat", *tokens, shape=(batch, len(ends), hidden), dim=1)
        reads = stacked, net.parameter("weight", 1, len(ends), 1), net.parameter("bias", 1)
        mixed = net.convolution(*reads, shape=(batch, 1, hidden))
        return net.graph(linear(net, net.view("squeeze", mixed, (batch, hidden)), classes, name="linear"))


def _depthwise(net: Network, channels: int, kernel: int, name: str) -> tuple[Value, Value]:
    with net.scope(name):
        return net.parameter("weight", channels, 1, kernel, kernel), net.parameter("bias", channels)


def _by_channel(net: Network, x: Value, weight: Value, bias: Value) -> Value:
    """A convolution of each channel by itself, of the same size."""
    return net.convolution(x, weight, bias, shape=x.shape, groups=x.shape[1])


def _patches(net: Network, scale: _Scale, picture: Value, hidden: int, patch: int) -> Value:
    """The tokens of patches of a picture, after the class token."""
    batch = picture.shape[0]
    with net.scope("patches"):
        weight = net.parameter("conv.weight", hidden, picture.shape[1], patch, patch)
        reads = (picture, weight, net.parameter("conv.bias", hidden))
        x = net.convolution(*reads, shape=(batch, hidden, scale.side, scale.side), stride=patch)
        places = net.permute(net.view("view", x, (batch, hidden, scale.side**2)), 0, 2, 1)
        token = net.view("expand", scale.token, (batch, 1, hidden))
        normal = layer_norm(net, places, name="norm")
        return net.op("cat", token, normal, shape=(batch, 1 + scale.side**2, hidden), dim=1)


def _attention(net: Network, scale: _Scale, x: Value) -> Value:
    """Factorised attention of normalised tokens: queries · (softmax of keysᵀ · values) · scale + the windows' part."""
    batch, count, channels = x.shape
    heads, width = scale.heads, channels // scale.heads
    x = layer_norm(net, x, name="norm1")
    with net.scope("attention"):
        three = net.view("view", linear(net, x, 3 * channels, name="qkv"), (batch, count, 3, heads, width))
        three = net.permute(three, 2, 0, 3, 1, 4)
        each = (batch, heads, count, width)
        query, key, value = (net.view("select", three, each, dim=0, index=i) for i in range(3))
        weights = net.permute(net.elementwise("_softmax", key, dim=2), 0, 1, 3, 2)
        mixed = batched(net, query, batched(net, weights, value))
        mixed = net.elementwise("mul", mixed)
        both = net.elementwise("add", mixed, _windowed(net, scale, query, value))
        packed = net.elementwise("clone", net.permute(both, 0, 2, 1, 3))
        return linear(net, net.view("view", packed, (batch, count, channels)), channels, name="output")


def _windowed(net: Network, scale: _Scale, query: Value, value: Value) -> Value:
    """The queries times convolutions of the values' picture, in windows of a size for each group of heads."""
    batch, heads, count, width = value.shape
    side, places = scale.side, (batch, heads, count - 1, width)
    with net.scope("windows"):
        near = net.permute(net.view("slice", value, places, dim=2, start=1), 0, 1, 3, 2)
        picture = net.view("view", net.elementwise("clone", near), (batch, heads * width, side, side))
        parts = []
        for channels, kernel in scale.windows:
            part = net.view("slice", picture, (batch, channels, side, side), dim=1)
            parts.append(_by_channel(net, part, *kernel))
        joined = net.op("cat", *parts, shape=picture.shape, dim=1)
        convolved = net.permute(net.view("view", joined, (batch, heads, width, count - 1)), 0, 1, 3, 2)
        asked = net.view("slice", query, places, dim=2, start=1)
        return net.op("constant_pad_nd", net.elementwise("mul", asked, convolved), shape=value.shape, pad=[0, 0, 1, 0])


def _mlp_weights(net: Network, channels: int, expansion: int) -> list[tuple[Value, Value]]:
    sizes = ((expansion * channels, channels), (channels, expansion * channels))
    return [(net.parameter(f"{i}.weight", *size), net.parameter(f"{i}.bias", size[0])) for i, size in enumerate(sizes)]


def _mlp(net: Network, x: Value, weights: list[tuple[Value, Value]]) -> Value:
    """x + the feed-forward part of its normalised tokens."""
    y = layer_norm(net, x, name="norm2")
    with net.scope("mlp"):
        for i, (weight, bias) in enumerate(weights):
            y = flat_product(net, y, net.permute(weight, 1, 0), bias)
            y = net.elementwise("gelu", y) if i == 0 else y
    return net.elementwise("add", x, y)


def _resized(net: Network, source: _Scale, target: _Scale, x: Value) -> Value:
    """Tokens of one size as those of another: their picture interpolated, the class token as it is."""
    token, picture = source.apart(x)
    shape = (*picture.shape[:2], target.side, target.side)
    return target.joined(token, net.op("upsample_bilinear2d", picture, shape=shape))


def _exchanged(net: Network, scales: list[_Scale], tokens: list[Value], expansion: int) -> list[Value]:
    """A parallel block: attention at each size, brought to the other sizes and added there; one feed-forward part that
    all sizes share."""
    placed, own, made = [], [], []
    for scale, x in zip(scales, tokens, strict=True):
        with net.scope(scale.name):
            placed.append(scale.placed(x))
            own.append(_attention(net, scale, placed[-1]))
    with net.scope("mlp"):
        weights = _mlp_weights(net, tokens[0].shape[-1], expansion)
    for scale, x, total in zip(scales, placed, own, strict=True):
        with net.scope(scale.name):
            for other, y in zip(scales, own, strict=True):
                if other is not scale:
                    total = net.elementwise("add", total, _resized(net, other, scale, y))
            made.append(_mlp(net, net.elementwise("add", x, total), weights))
    return made
