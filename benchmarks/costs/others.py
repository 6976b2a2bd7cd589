"""Networks of kinds that learned costs weren't developed with: plain PyTorch with random weights (extra ``torch``).

They were written after the model, and are predicted by the networks of :mod:`.networks` and the sweep. An
architecture that is among these (the name before the dash) is predicted by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional

from benchmarks.costs.files import Making

Maker = Callable[[], tuple[nn.Module, tuple[int, ...]]]


def _conv(read: int, made: int, window: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU."""
    made_by = nn.Conv2d(read, made, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(made_by, nn.BatchNorm2d(made), nn.ReLU())


class Sum(nn.Module):
    """A module's result and what it read (through ``skip``), added."""

    def __init__(self, inner: nn.Module, skip: nn.Module | None = None) -> None:
        super().__init__()
        self.inner, self.skip = inner, skip or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum."""
        made: torch.Tensor = self.inner(x) + self.skip(x)
        return made


class Last(nn.Module):
    """Layer norm over the channels of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The normed image, channels second."""
        made: torch.Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return made


def _convnext(widths: tuple[int, ...], depth: int) -> nn.Sequential:
    """Patches, then depthwise windows of 7 with two 1 × 1 (after Liu et al. 2022)."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), Last(widths[0])]
    for i, width in enumerate(widths):
        if i:
            layers += [Last(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
        for _ in range(depth):
            deep = nn.Conv2d(width, width, 7, 1, 3, groups=width)
            wide = [nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)]
            layers.append(Sum(nn.Sequential(deep, Last(width), *wide)))
    return nn.Sequential(*layers)


class Windows(nn.Module):
    """Attention within windows of places (after Liu et al. 2021), on an image."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.norm, self.read, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.after = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU())
        self.last = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two sums: what the windows say, and a network of two layers."""
        batch, width, side, _ = x.shape
        w, n = self.window, side // self.window
        rows = x.reshape(batch, width, n, w, n, w).permute(0, 2, 4, 3, 5, 1).reshape(batch * n * n, w * w, width)
        q, k, v = self.read(self.norm(rows)).reshape(len(rows), w * w, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        told = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows.shape)
        rows = rows + self.out(told)
        rows = rows + self.last(self.after(rows))
        return rows.reshape(batch, n, n, w, w, width).permute(0, 5, 1, 3, 2, 4).reshape(x.shape)


def _swin(widths: tuple[int, ...], depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4)]
    for i, width in enumerate(widths):
        if i:
            layers.append(nn.Conv2d(widths[i - 1], width, 2, 2))
        layers += [Windows(width, width // 32, 7) for _ in range(depth)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down with poolings, up with transposed convolutions, and what was there joined (Ronneberger et al. 2015)."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        sizes = [width * 2**i for i in range(levels)]
        pairs = list(zip([3, *sizes], sizes, strict=False))
        self.down = nn.ModuleList(nn.Sequential(_conv(a, b), _conv(b, b)) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in sizes[-2::-1])
        self.joined = nn.ModuleList(nn.Sequential(_conv(2 * n, n), _conv(n, n)) for n in sizes[-2::-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of all places."""
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, joined, old in zip(self.up, self.joined, kept[-2::-1], strict=True):
            x = joined(torch.cat([up(x), old], 1))
        return x


class Mamba(nn.Module):
    """A selective scan behind a short depthwise convolution (after Gu & Dao 2023), by cumulative sums."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.norm, self.read = nn.LayerNorm(width), nn.Linear(width, 4 * width, bias=False)
        self.near = nn.Conv1d(2 * width, 2 * width, 4, padding=3, groups=2 * width)
        self.of = nn.Linear(2 * width, 2 * states + width // 16, bias=False)
        self.step, self.out = nn.Linear(width // 16, 2 * width), nn.Linear(2 * width, width, bias=False)
        self.states = states
        self.rate = nn.Parameter(torch.rand(2 * width, states))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of what was read and what the scan made."""
        u, gate = self.read(self.norm(x)).chunk(2, -1)
        u = functional.silu(self.near(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        b, c, low = self.of(u).split([self.states, self.states, x.shape[2] // 16], -1)
        step = functional.softplus(self.step(low))
        decay = (-step.unsqueeze(-1) * self.rate * 0.01).cumsum(1)
        held = ((step * u).unsqueeze(-1) * b.unsqueeze(2) * torch.exp(-decay)).cumsum(1) * torch.exp(decay)
        made = (held * c.unsqueeze(2)).sum(-1)
        told: torch.Tensor = x + self.out(made * functional.silu(gate))
        return told


def _resnext(width: int, depth: int, group: int) -> nn.Sequential:
    """Bottlenecks with grouped windows (after Xie et al. 2017)."""
    layers: list[nn.Module] = [_conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    read = width
    for i in range(4):
        inner, made = width * 2**i, 2 * width * 2**i
        for j in range(depth):
            stride = 2 if i and not j else 1
            inside = nn.Sequential(_conv(read, inner, 1), _conv(inner, inner, 3, stride, inner // group))
            block = nn.Sequential(*inside, nn.Conv2d(inner, made, 1, bias=False), nn.BatchNorm2d(made))
            skip = nn.Conv2d(read, made, 1, stride, bias=False) if read != made or stride > 1 else None
            layers += [Sum(block, skip), nn.ReLU()]
            read = made
    return nn.Sequential(*layers)


def _convmixer(width: int, depth: int, patch: int, window: int) -> nn.Sequential:
    """Patches, then depthwise windows and 1 × 1 (after Trockman & Kolter 2022)."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, patch, patch), nn.GELU(), nn.BatchNorm2d(width)]
    for _ in range(depth):
        deep = nn.Conv2d(width, width, window, 1, window // 2, groups=width)
        layers.append(Sum(nn.Sequential(deep, nn.GELU(), nn.BatchNorm2d(width))))
        layers += [nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers)


def _vgg(width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    read = 3
    for i in range(4):
        made = width * 2**i
        layers += [_conv(read, made), _conv(made, made), nn.MaxPool2d(2)]
        read = made
    return nn.Sequential(*layers, nn.Flatten(1), nn.Linear(read * 49, 512), nn.ReLU(), nn.Linear(512, 100))


class Branches(nn.Module):
    """Windows of 1, 3, 5 and a pooling beside each other (after Szegedy et al. 2015)."""

    def __init__(self, read: int, made: int) -> None:
        super().__init__()
        three = nn.Sequential(_conv(read, made // 2, 1), _conv(made // 2, made))
        five = nn.Sequential(_conv(read, made // 8, 1), _conv(made // 8, made // 4, 5))
        pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv(read, made // 4, 1))
        self.ways = nn.ModuleList([_conv(read, made // 2, 1), three, five, pooled])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All channels joined: twice ``made``."""
        return torch.cat([way(x) for way in self.ways], 1)


def _inception(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [_conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    read = width
    for i in range(3):
        for _ in range(depth):
            layers.append(Branches(read, width * 2**i))
            read = 2 * width * 2**i
        layers.append(nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*layers)


class Shuffled(nn.Module):
    """Half of the channels pass, the others take a depthwise window (after Ma et al. 2018); then they are mixed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        n = width // 2
        deep = nn.Sequential(nn.Conv2d(n, n, 3, 1, 1, groups=n, bias=False), nn.BatchNorm2d(n))
        self.inner = nn.Sequential(_conv(n, n, 1), deep, _conv(n, n, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        kept, x = x.chunk(2, 1)
        joined = torch.stack([kept, self.inner(x)], 2)
        return joined.flatten(1, 2)


def _shuffle(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [_conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    read = 24
    for i in range(3):
        made = width * 2**i
        layers += [_conv(read, read, 3, 2, read), _conv(read, made, 1), *(Shuffled(made) for _ in range(depth))]
        read = made
    return nn.Sequential(*layers)


OTHERS: dict[str, Maker] = {
    "convnext-a": lambda: (_convnext((40, 80, 160, 320), 2), (1, 3, 160, 160)),
    "convnext-b": lambda: (_convnext((80, 160, 320), 3), (1, 3, 192, 192)),
    "swin-a": lambda: (_swin((64, 128, 256), 2), (1, 3, 112, 112)),
    "swin-b": lambda: (_swin((96, 192), 3), (1, 3, 224, 224)),
    "unet-a": lambda: (UNet(16, 4), (1, 3, 96, 96)),
    "unet-b": lambda: (UNet(24, 4), (1, 3, 160, 160)),
    "mamba-a": lambda: (nn.Sequential(*(Mamba(128, 8) for _ in range(4))), (1, 64, 128)),
    "mamba-b": lambda: (nn.Sequential(*(Mamba(256, 16) for _ in range(4))), (1, 96, 256)),
    "resnext-a": lambda: (_resnext(64, 2, 8), (1, 3, 128, 128)),
    "resnext-b": lambda: (_resnext(96, 3, 24), (1, 3, 160, 160)),
    "convmixer-a": lambda: (_convmixer(192, 5, 8, 5), (1, 3, 128, 128)),
    "convmixer-b": lambda: (_convmixer(320, 6, 7, 9), (1, 3, 168, 168)),
    "vgg-a": lambda: (_vgg(24), (1, 3, 112, 112)),
    "vgg-b": lambda: (_vgg(40), (2, 3, 112, 112)),
    "inception-a": lambda: (_inception(48, 2), (1, 3, 128, 128)),
    "inception-b": lambda: (_inception(64, 3), (1, 3, 192, 192)),
    "shuffle-a": lambda: (_shuffle(96, 3), (1, 3, 160, 160)),
    "shuffle-b": lambda: (_shuffle(128, 4), (4, 3, 160, 160)),
}


def programs() -> Iterator[Making]:
    """All of them."""
    for name, make in OTHERS.items():
        yield Making(name, 0, make)
