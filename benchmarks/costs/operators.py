"""A sweep of all other operators over shapes: chains of random steps on tokens or images (extra ``torch``).

:mod:`.sweep` has convolutions. A chain here draws its shape, its steps and their operands by itself, and none is taken
from a network: sums and products with numbers, vectors, columns and earlier results; activations; normalisations;
sums and means; copies that turn, roll, flip, pad, join or pick; products of matrices; attention; transforms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.costs.files import Making

#: Chains, their steps, bytes of a tensor at least and at most, FLOP of a product at most.
COUNT, STEPS, LEAST_BYTES, MOST_BYTES, MOST_FLOP = 100, 20, 4_000, 4_000_000, 200_000_000
#: The share of chains on images.
IMAGES = 0.4
Step = Callable[[Tensor, Tensor], Tensor]

ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "clamp": lambda x: x.clamp(-1.0, 6.0),
    "exp": lambda x: torch.exp(-x.abs()),
    "log": lambda x: torch.log1p(x.abs()),
    "square": lambda x: x.pow(2.0),
    "cube": lambda x: x.clamp(-2.0, 2.0).pow(3.0),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.pow(2) + 1.0),
    "neg": torch.neg,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "softmax": lambda x: functional.softmax(x, -1),
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "sum": lambda x: x * x.sum(-1, keepdim=True).tanh(),
    "sum_first": lambda x: x + x.sum(1, keepdim=True).tanh(),
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "mean_first": lambda x: x - x.mean(1, keepdim=True),
    "amax": lambda x: x - x.amax(-1, keepdim=True),
    "var": lambda x: x * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1.0),
    "cumsum": lambda x: x.cumsum(1).tanh(),
    "cumsum_last": lambda x: x.cumsum(-1).tanh(),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(3, 1),
    "roll_two": lambda x: x.roll((1, 2), (-2, -1)),
    "fft": lambda x: torch.fft.fftn(x, dim=(-2, -1)).real * 0.01,
    "turned": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "turned_last": lambda x: x.transpose(-2, -1).contiguous().transpose(-2, -1).contiguous(),
    "halves": lambda x: torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
    "gated": lambda x: torch.cat([x.chunk(2, 1)[0] * x.chunk(2, 1)[1].sigmoid()] * 2, 1) if x.shape[1] % 2 == 0 else -x,
    "joined": lambda x: torch.cat([x, x.neg()], 1)[:, : x.shape[1]],
    "stacked": lambda x: torch.stack([x, x.neg()], 2).flatten(1, 2)[:, : x.shape[1]].contiguous(),
    "padded": lambda x: functional.pad(x, (0, 1, 1, 0))[..., 1:, :-1],
    "padded_first": lambda x: functional.pad(x, (0, 0) * (x.dim() - 2) + (1, 1))[:, 1:-1],
    "padded_nothing": lambda x: functional.pad(x, (0, 0, 0, 0)),
}


class Mix(nn.Module):
    """Steps one after the other, from an input [batch, tokens, width] or [batch, channels, side, side]."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = draw = random.Random(seed)
        most = LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** draw.random()
        self.batch, self.image = draw.choice((1, 1, 1, 2, 4)), draw.random() < IMAGES
        self.width = min(8 * round(2 * 64 ** draw.random()), max(8, int(most / 4 / self.batch / 8) // 8 * 8))
        places = max(2, int(most / 4 / self.batch / self.width))
        side = max(2, round(places**0.5))
        self.shape = (self.batch, self.width, side, side) if self.image else (self.batch, places, self.width)
        self.held = nn.ModuleList()
        self.steps: list[Step] = []
        now = torch.zeros(self.shape)
        while len(self.steps) < STEPS:
            step = self.step(now)
            with torch.no_grad():
                made = step(now, torch.zeros(self.shape))
            if 4 * made.numel() <= MOST_BYTES and min(made.shape[1:]) > 1:
                self.steps.append(step)
                now = made

    def step(self, x: Tensor) -> Step:
        """A step for results of this shape."""
        ways = (self.alone, self.alone, self.alone, self.sums, self.sums, self.normed, self.picked)
        own = (self.pooled, self.pooled, self.wider) if self.image else (self.product, self.product, self.attention)
        return self.draw.choice((*ways, *own))(x)

    def alone(self, _: Tensor) -> Step:
        """A function of the last result alone."""
        call = ALONE[self.draw.choice(list(ALONE))]
        return lambda x, _: call(x)

    def sums(self, x: Tensor) -> Step:
        """A sum or product with a number, a vector, a column, a matrix, or the first of all."""
        call = self.draw.choice((torch.add, torch.add, torch.sub, torch.mul, torch.mul, torch.div, torch.maximum))
        shapes = {
            "vector": (x.shape[-1],),
            "column": (x.shape[1], *[1] * (x.dim() - 2)),
            "matrix": tuple(x.shape[1:]),
        }
        other = self.draw.choice(["number", "first", "first", *shapes])
        if other == "first" and tuple(x.shape) == self.shape:
            return lambda x, first: call(x, first.abs() + 1.0) if call is torch.div else call(x, first)
        if other in shapes:
            self.held.append(nn.ParameterList([nn.Parameter(1.0 + torch.rand(shapes[other]))]))
            operand: nn.Parameter = self.held[-1][0]
            return lambda x, _: call(x, operand)
        number = self.draw.choice((0.5, 1.5, 2.0))
        return lambda x, _: x.clamp_min(number) if call is torch.maximum else call(x, number)

    def normed(self, x: Tensor) -> Step:
        """A normalisation over the last or the second axis, or by roots of mean squares."""
        kind = self.draw.choice(("layer", "layer", "group", "root", "batch"))
        if kind == "root":
            return lambda x, _: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        width = x.shape[1]
        groups = self.draw.choice([g for g in (1, 2, 4, 8, 16, 32) if width % g == 0])
        norm = {
            "layer": nn.LayerNorm(x.shape[-1]),
            "group": nn.GroupNorm(groups, width),
            "batch": (nn.BatchNorm2d if self.image else nn.BatchNorm1d)(width),
        }[kind]
        self.held.append(norm)
        return lambda x, _: norm(x)

    def picked(self, x: Tensor) -> Step:
        """What a mask or places choose."""
        at = torch.randperm(x.shape[1])
        mask = torch.rand(x.shape[1:]) < 0.5
        part = self.draw.choice((mask, mask[..., :1], mask[:1]))
        count = len(self.held)
        self.register_buffer(f"at{len(self.steps)}x{count}", at)
        kind = self.draw.choice(("index", "select", "filled", "where", "gather"))
        if kind == "index":
            return lambda x, _: x[:, at]
        if kind == "select":
            return lambda x, _: x.index_select(1, at)
        if kind == "filled":
            return lambda x, _: x.masked_fill(part, -1.0)
        if kind == "where":
            return lambda x, _: torch.where(part, x, x.neg())
        return lambda x, _: x.gather(1, at.reshape(1, -1, *[1] * (x.dim() - 2)).expand(x.shape))

    def product(self, x: Tensor) -> Step:
        """Features of features, or of tokens among themselves."""
        batch, tokens, width = x.shape
        if self.draw.random() < 0.7 or tokens > 1024:
            most = min(MOST_FLOP / (2 * batch * tokens * width), MOST_BYTES / 4 / max(width, batch * tokens))
            made = max(8, min(8 * round(2 * 96 ** self.draw.random()), int(most) // 8 * 8))
            linear = nn.Linear(width, made, bias=self.draw.random() < 0.7)
            self.held.append(linear)
            return lambda x, _: linear(x)
        return lambda x, _: torch.matmul(torch.matmul(x, x.transpose(1, 2)) / x.shape[-1], x)

    def attention(self, x: Tensor) -> Step:
        """Attention of some heads."""
        width = x.shape[2]
        if x.shape[1] > 1024:
            return self.alone(x)
        heads = self.draw.choice([h for h in (1, 2, 4, 8) if width % (4 * h) == 0] or [1])

        def attend(x: Tensor, _: Tensor) -> Tensor:
            q = x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
            return functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(x.shape)

        return attend

    def pooled(self, x: Tensor) -> Step:
        """A pooling, or an image with more places."""
        side, window, stride = x.shape[-1], self.draw.choice((2, 3, 3, 5, 7)), self.draw.choice((1, 1, 2, 2, 3))
        kind = self.draw.choice(("max", "average", "adaptive", "nearest", "bilinear", "shuffle"))
        window = min(window, side)
        if kind in ("max", "average"):
            call = functional.max_pool2d if kind == "max" else functional.avg_pool2d
            return lambda x, _: call(x, window, stride, window // 2)
        if kind == "adaptive":
            return lambda x, _: x * functional.adaptive_avg_pool2d(x, 1)
        if kind == "shuffle":
            groups = 4 if x.shape[1] % 4 == 0 else 1
            return lambda x, _: x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)
        if side < 3:
            return self.alone(x)
        return lambda x, _: functional.interpolate(x, scale_factor=2, mode=kind)

    def wider(self, x: Tensor) -> Step:
        """A transposed convolution, or channels of channels."""
        read, places = x.shape[1], x.shape[0] * x.shape[2] ** 2
        window = self.draw.choice((1, 2, 2, 3, 4))
        most = min(MOST_FLOP / (2 * places * read * window**2), MOST_BYTES / 4 / read / window**2)
        made = max(8, min(8 * round(2 * 32 ** self.draw.random()), int(most) // 8 * 8))
        back = nn.ConvTranspose2d(read, made, window, 2, max(0, window // 2 - 1))
        layer = nn.Conv2d(read, made, 1) if window == 1 else back
        self.held.append(layer)
        return lambda x, _: layer(x)

    def forward(self, first: Tensor) -> Tensor:
        """What the last step makes."""
        x = first
        for step in self.steps:
            x = step(x, first)
        return x


def programs() -> Iterator[Making]:
    """All chains."""
    for number in range(COUNT):
        yield Making(f"mix-{number:03d}", number, partial(_chain, number))


def _chain(number: int) -> tuple[nn.Module, Sequence[int]]:
    chain = Mix(number)
    return chain, chain.shape
