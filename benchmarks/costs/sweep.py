"""A sweep of convolutions and poolings over shapes: chains of random layers, exported (extra ``torch``).

Each chain draws its places, channels, windows, groups and strides by itself, and none is taken from a network. Between
convolutions stands what usually does: a batch norm, an activation, a pooling. So each finds its input in the caches as
it would in a network. Chains from number :data:`PLAIN` on also have patches, whose stride is their window, and groups
of usual widths that make as many channels as they read. Their places and layers are other ones. Chains from number
:data:`RARE` on have the sorts that the others have fewest of: groups of whole vectors, and 1 × 1 with a stride.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import nn

from benchmarks.costs.files import Making

#: Chains, those without patches, and those before rare sorts.
COUNT, PLAIN, RARE = 200, 80, 140
#: FLOP of a convolution at most, bytes of its input or result at most, and layers.
MOST_FLOP, MOST_BYTES, LAYERS = 200_000_000, 4_000_000, 24
SIDES = (7, 8, 12, 14, 16, 20, 28, 32, 48, 56, 80, 112)
#: How often a convolution is 1 × 1, dense, of one channel in each group, of several.
KINDS = {"point": 10, "dense": 7, "depthwise": 5, "grouped": 4}
#: The same behind the plain chains, with patches and groups of a usual width; their sides, and layers of a chain.
MORE_KINDS = {"point": 3, "dense": 2, "depthwise": 2, "even": 5, "patch": 5}
MORE_SIDES, MORE_LAYERS, LEAST_SIDE = (28, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224), 16, 3
#: The same of rare sorts: groups of multiples of 16 and of 8 channels, and 1 × 1 with a stride.
RARE_KINDS = {"16": 6, "8": 3, "strided": 3, "point": 2}
RARE_SIDES = (7, 8, 10, 14, 16, 20, 28, 32, 40, 56, 64, 80)
PATCHES, WIDTHS = (2, 2, 4, 4, 7, 8, 14, 16), (4, 8, 16, 24, 32, 48, 64)
#: The share of convolutions before a batch norm, an activation, a pooling, a padding.
NORMED, ACTIVE, POOLED, PADDED = 0.8, 0.8, 0.2, 0.1


class Chain(nn.Module):
    """Layers one after the other, from an input of ``shape`` [batch, channels, side, side]."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = draw = random.Random(seed)
        self.kinds, sides, layers = (KINDS, SIDES, LAYERS) if seed < PLAIN else (MORE_KINDS, MORE_SIDES, MORE_LAYERS)
        if seed >= RARE:
            self.kinds, sides = RARE_KINDS, RARE_SIDES
        side, channels, batch = draw.choice(sides), self.channels(3, 512), draw.choice((1, 1, 1, 2, 4))
        while 4 * batch * channels * side**2 > MOST_BYTES:
            channels = max(1, channels // 2)
        self.shape = (batch, channels, side, side)
        self.layers = nn.ModuleList()
        while len(self.layers) < layers and side >= (1 if seed < PLAIN else LEAST_SIDE):
            made = self.convolution(batch, channels, side)
            side, channels = (side + 2 * made.padding[0] - made.kernel_size[0]) // made.stride[0] + 1, made.out_channels
            self.layers.append(made)
            if draw.random() < NORMED:
                self.layers.append(nn.BatchNorm2d(channels))
            if draw.random() < ACTIVE:
                self.layers.append(draw.choice((nn.ReLU, nn.SiLU, nn.GELU))())
            if draw.random() < POOLED and side > 4:
                window, stride = draw.choice((2, 3)), draw.choice((1, 1, 2))
                self.layers.append(draw.choice((nn.MaxPool2d, nn.AvgPool2d))(window, stride, window // 2))
                side = (side + 2 * (window // 2) - window) // stride + 1
            if draw.random() < PADDED:
                self.layers.append(nn.ZeroPad2d((0, 1, 0, 1)))
                side += 1

    def channels(self, low: int, high: int) -> int:
        """A number of channels: mostly of eights, evenly by its logarithm."""
        drawn = round(low * (high / low) ** self.draw.random())
        return drawn if self.draw.random() < 0.15 else max(8, 8 * round(drawn / 8))

    def convolution(self, batch: int, read: int, side: int) -> nn.Conv2d:
        """A layer for so many channels and places."""
        kind = self.draw.choices(list(self.kinds), list(self.kinds.values()))[0]
        if kind == "patch":
            return self.patches(batch, read, side)
        if kind == "even":
            return self.even(read, side)
        if kind in RARE_KINDS and kind != "point":
            return self.rare(kind, batch, read, side)
        window = min(side, 1 if kind == "point" else self.draw.choice((2, 3, 3, 3, 3, 4, 5, 7)))
        stride = self.draw.choice((1, 1, 1, 1, 1, 1, 2, window)) if side > 7 else 1
        padding = window // 2 if stride < window or window == 1 else 0
        bias = self.draw.random() < 0.5
        if kind == "depthwise":
            return nn.Conv2d(read, read, window, stride, padding, groups=read, bias=bias)
        fits = [g for g in range(2, read // 4 + 1) if read % g == 0] if kind == "grouped" else []
        groups = self.draw.choice(fits) if fits else 1
        places = batch * (side // stride) ** 2
        most = min(MOST_FLOP * groups // (2 * places * read * window**2), MOST_BYTES // (4 * places))
        made = max(groups, min(self.channels(16, 1024), most) // groups * groups)
        return nn.Conv2d(read, made, window, stride, padding, groups=groups, bias=bias)

    def patches(self, batch: int, read: int, side: int) -> nn.Conv2d:
        """A layer whose stride is its window."""
        window = min(side, self.draw.choice(PATCHES))
        places = batch * (side // window) ** 2
        most = min(MOST_FLOP // (2 * places * read * window**2), MOST_BYTES // (4 * read * window**2))
        made = max(1, min(self.channels(16, 768), most))
        return nn.Conv2d(read, made, window, window, bias=self.draw.random() < 0.5)

    def even(self, read: int, side: int) -> nn.Conv2d:
        """A layer with groups of a usual width, which makes as many channels as it reads."""
        width = self.draw.choice([w for w in WIDTHS if read % w == 0 and w < read] or [1])
        window, stride = self.draw.choice((3, 3, 5)), self.draw.choice((1, 1, 1, 2))
        if side < window:
            window, stride = 1, 1
        padding, bias = window // 2, self.draw.random() < 0.3
        return nn.Conv2d(read, read, window, stride, padding, groups=read // width, bias=bias)

    def rare(self, kind: str, batch: int, read: int, side: int) -> nn.Conv2d:
        """A 1 × 1 with a stride; or groups of whole vectors, behind a 1 × 1 where the channels don't divide so."""
        places, bias = batch * side**2, self.draw.random() < 0.3
        most = min(MOST_FLOP // (2 * places * read), MOST_BYTES // (4 * places))
        if kind == "strided":
            return nn.Conv2d(read, max(1, min(self.channels(16, 1024), most)), 1, 2, bias=bias)
        vector = int(kind)
        widths = [w for w in range(vector, min(read, 65), vector) if read % w == 0 and (vector == 16 or w % 16)]
        widths = [w for w in widths if 100 * places * read * w <= MOST_FLOP]  # of 5 × 5, twice as many channels
        if not widths:
            width = vector * self.draw.choice((1, 1, 3, 2 if vector == 16 else 1))
            groups = max(2, min(round(2 * 16 ** self.draw.random()), most // width))
            return nn.Conv2d(read, width * groups, 1, bias=bias)
        width, window = self.draw.choice(widths), min(side, self.draw.choice((3, 3, 3, 5)))
        made = read // width * width * self.draw.choice((1, 1, 1, 2) if read < 512 else (1,))
        stride = self.draw.choice((1, 1, 1, 2)) if side > 7 else 1
        return nn.Conv2d(read, made, window, stride, window // 2, groups=read // width, bias=bias)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """What the last layer makes."""
        for layer in self.layers:
            image = layer(image)
        return image


def programs() -> Iterator[Making]:
    """All chains."""
    for number in range(COUNT):
        yield Making(f"sweep-{number:03d}", number, partial(_chain, number))


def _chain(number: int) -> tuple[nn.Module, Sequence[int]]:
    chain = Chain(number)
    return chain, chain.shape
