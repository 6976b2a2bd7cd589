"""A sweep of shapes by which an operator's ways differ: chains of single operators, exported (extra ``torch``).

:mod:`.sweep` and :mod:`.operators` draw steps that follow from one shape. Here each step draws its own shape, and reads
as many of the last result's numbers as it needs. Rows that are mixed are short or long, last or not. Windows overlap or
don't, over one channel or some. Products are of many thin pairs, whose operands lie in order or not. Attention has
masks, heads that share their keys, or other lengths. None is taken from a network.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.costs.files import Making

#: Chains, their steps, numbers of a tensor at least and at most, FLOP of a product at most.
COUNT, STEPS, LEAST, MOST, MOST_FLOP = 60, 24, 2_000, 500_000, 100_000_000
#: The first seed: other chains have those below.
FIRST = 1000
Step = Callable[[Tensor], Tensor]

#: What mixes one axis, by name, from a tensor and the axis.
ROWS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": lambda x, axis: functional.softmax(x, axis),
    "max": lambda x, axis: torch.max(x, axis)[0],
    "min": lambda x, axis: torch.min(x, axis)[0],
    "amax": lambda x, axis: x.amax(axis),
    "sum": lambda x, axis: x.sum(axis),
    "mean": lambda x, axis: x.mean(axis),
    "var": lambda x, axis: x.var(axis, unbiased=False),
    "argmax": lambda x, axis: x.argmax(axis).float(),
    "norm": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
    "log_softmax": lambda x, axis: functional.log_softmax(x, axis),
    "cumsum": lambda x, axis: x.cumsum(axis) * 0.01,
    "flip": lambda x, axis: x.flip(axis),
    "roll": lambda x, axis: x.roll(1, axis),
    "joined": lambda x, axis: torch.cat([x, x], axis),
    "stacked": lambda x, axis: torch.stack([x, x], axis),
    "repeated": lambda x, axis: x.repeat_interleave(2, axis),
    "tiled": lambda x, axis: x.repeat(*[2 if one == axis else 1 for one in range(x.dim())]),
    "top": lambda x, axis: x.topk(min(4, x.shape[axis]), axis)[0],
}
#: How often a step is one of these.
WAYS = {
    "mixed": 8,
    "softmax": 2,
    "normed": 2,
    "looked": 3,
    "overlapped": 4,
    "first": 2,
    "line": 3,
    "pairs": 4,
    "attended": 4,
    "thin": 3,
    "pooled": 2,
    "turned": 2,
}


class Shapes(nn.Module):
    """Steps one after the other on [numbers]: each takes as many of them as it needs."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.draw = random.Random(FIRST + number)
        self.held = nn.ModuleList()
        self.steps: list[tuple[tuple[int, ...], Step]] = []
        for _ in range(STEPS):
            way = self.draw.choices(list(WAYS), list(WAYS.values()))[0]
            self.steps.append(getattr(self, way)())
        self.shape = (max(self._count(shape) for shape, _ in self.steps),)

    @staticmethod
    def _count(shape: Sequence[int]) -> int:
        count = 1
        for size in shape:
            count *= size
        return count

    def between(self, low: float, high: float) -> int:
        """A whole number, evenly by its logarithm."""
        return max(1, round(low * (max(high, low) / low) ** self.draw.random()))

    def size(self) -> int:
        """Numbers of a tensor."""
        return self.between(LEAST, MOST)

    def keep(self, module: nn.Module) -> nn.Module:
        """The module, of which parameters are exported."""
        self.held.append(module)
        return module

    def rows(self, short: int = 3, long: int = 1024) -> tuple[tuple[int, ...], int]:
        """A shape [before, row, behind] and the axis of its rows, 1; often the last."""
        size, row = self.size(), self.between(short, long)
        behind = 1 if self.draw.random() < 0.5 else self.between(2, 512)
        before = max(1, size // (row * behind))
        return ((before, row), 1) if behind == 1 else ((before, row, behind), 1)

    def mixed(self) -> tuple[tuple[int, ...], Step]:
        """What mixes one axis."""
        call = ROWS[self.draw.choice(list(ROWS))]
        shape, axis = self.rows()
        return shape, lambda x: call(x, axis)

    def softmax(self) -> tuple[tuple[int, ...], Step]:
        """Softmax of heads' rows."""
        row = self.between(4, 256)
        shape = (1, self.between(1, 16), max(1, self.size() // row // 4), row)
        return shape, lambda x: functional.softmax(x, -1)

    def normed(self) -> tuple[tuple[int, ...], Step]:
        """A normalisation over short or long rows, or over groups of channels."""
        row = 8 * self.between(1, 128)
        shape: tuple[int, ...] = (1, max(1, self.size() // row), row)
        if self.draw.random() < 0.7:
            norm = self.keep(nn.LayerNorm(row))
            return shape, lambda x: norm(x)
        channels, side = 8 * self.between(1, 48), self.between(4, 64)
        groups = self.keep(nn.GroupNorm(self.draw.choice((1, 2, 4, 8)), channels))
        return (1, channels, side, side), lambda x: groups(x)

    def looked(self) -> tuple[tuple[int, ...], Step]:
        """A look-up along some axis."""
        shape, axis = self.rows(8, 512)
        at = torch.tensor([self.draw.randrange(shape[axis]) for _ in range(self.between(4, shape[axis]))])
        kind = self.draw.choice(("select", "index", "gather", "embedding"))
        if kind == "select":
            return shape, lambda x: x.index_select(axis, at)
        if kind == "index":
            return shape, lambda x: x[:, at]
        if kind == "embedding":
            wide = 4 * self.between(1, 128)
            held = self.keep(nn.Embedding(self.between(8, 2048), wide))
            many = torch.randint(0, held.num_embeddings, (1, self.between(16, max(17, MOST // wide))))
            return (1,), lambda x: held(many) + x
        along = [1] * len(shape)
        along[axis] = -1
        of = [*shape]
        of[axis] = len(at)
        return shape, lambda x: x.gather(axis, at.reshape(along).expand(of))

    def overlapped(self) -> tuple[tuple[int, ...], Step]:
        """A convolution whose window is larger than its stride of 2 or more, over few channels."""
        window = self.draw.choice((3, 4, 5, 7, 8, 11, 12, 16))
        stride = self.draw.choice([s for s in (2, 3, 4, 5, 6, 8, 10, 12) if s < window])
        read, side = self.draw.choice((1, 1, 2, 3, 4, 16, 32)), self.between(window + 1, 224)
        while read * side**2 > MOST:
            side = max(window, side // 2)
        places = ((side - window) // stride + 1) ** 2
        made = max(8, min(8 * self.between(1, 64), MOST_FLOP // (2 * places * read * window**2) // 8 * 8))
        layer = self.keep(nn.Conv2d(read, made, window, stride, self.draw.choice((0, 0, window // 2))))
        return (1, read, side, side), lambda x: layer(x)

    def first(self) -> tuple[tuple[int, ...], Step]:
        """A convolution of an image of one or three channels."""
        read, window = self.draw.choice((1, 3, 3, 3)), self.draw.choice((3, 3, 5, 7))
        stride, side = self.draw.choice((1, 2, 2, 4)), 8 * self.between(4, 28)
        made = 8 * self.between(1, 12 if stride > 1 else 6)
        layer = self.keep(nn.Conv2d(read, made, window, stride, window // 2, bias=self.draw.random() < 0.5))
        return (1, read, side, side), lambda x: layer(x)

    def line(self) -> tuple[tuple[int, ...], Step]:
        """A convolution along one axis: of sound, of tokens."""
        window = self.draw.choice((1, 2, 3, 3, 5, 7, 10, 15, 31))
        stride, read = self.draw.choice((1, 1, 2, 3, 5)), self.draw.choice((1, 8, 32, 64, 128, 256))
        places = self.between(2 * window + 16, max(2 * window + 17, min(MOST // read, 20_000)))
        groups = self.draw.choice((1, 1, read, max(1, read // 16)))
        most = MOST_FLOP * groups // (2 * read * window * (places // stride + 1))
        made = read if groups == read else max(1, min(8 * self.between(2, 48), most) // groups) * groups
        layer = self.keep(nn.Conv1d(read, made, window, stride, window // 2, groups=groups))
        return (1, read, places), lambda x: layer(x)

    def pairs(self) -> tuple[tuple[int, ...], Step]:
        """Products of many pairs of matrices, as attention has them that isn't fused: operands in order or turned."""
        many, heads = self.between(1, 128), self.draw.choice((1, 2, 4, 8))
        tokens, wide = self.between(4, 256), 4 * self.between(1, 24)
        while many * heads * tokens * max(wide, tokens) > 2 * MOST:
            many, tokens = max(1, many // 2), max(2, tokens // 2)
        turned, second = self.draw.random() < 0.6, self.draw.random() < 0.5
        shape = (many, tokens, heads, wide) if turned else (many, heads, tokens, wide)

        def multiplied(x: Tensor) -> Tensor:
            x = x.transpose(1, 2) if turned else x
            if second:
                both = x[..., :1].expand(-1, -1, -1, x.shape[2]) * 0.5
                return torch.matmul(both, x)
            return torch.matmul(x, x.transpose(-1, -2)) / x.shape[-1]

        return shape, multiplied

    def attended(self) -> tuple[tuple[int, ...], Step]:
        """Attention with a mask or without, with other keys or the same, of as many heads or one."""
        heads, tokens, wide = self.draw.choice((1, 2, 3, 4, 6, 8, 12)), self.between(16, 512), 8 * self.between(1, 16)
        batch = self.draw.choice((1, 1, 1, 4, 16))
        while batch * heads * tokens * max(tokens, wide) > 2 * MOST:
            batch, tokens = max(1, batch // 2), max(8, tokens // 2)
        way = self.draw.choice(("plain", "causal", "added", "hidden", "shared", "shorter"))
        added = torch.randn(1, 1, tokens, tokens)
        hidden = torch.ones(1, 1, tokens, tokens, dtype=torch.bool).tril()

        def attend(x: Tensor) -> Tensor:
            q = x.transpose(1, 2)
            call = functional.scaled_dot_product_attention
            if way == "shared":
                return call(q, q[:, :1], q[:, :1], attn_mask=hidden)
            if way == "shorter":
                return call(q, q[:, :, : max(1, tokens // 8)], q[:, :, : max(1, tokens // 8)])
            if way == "causal":
                return call(q, q, q, is_causal=True)
            return call(q, q, q, attn_mask={"added": added, "hidden": hidden}.get(way))

        return (batch, tokens, heads, wide), attend

    def thin(self) -> tuple[tuple[int, ...], Step]:
        """Features of features: few or many of them, of few or many tokens."""
        read, tokens = 4 * self.between(2, 256), self.between(1, 4096)
        tokens = max(1, min(tokens, MOST // read))
        most = min(MOST_FLOP // (2 * read * tokens), MOST // max(read, tokens))
        layer = self.keep(nn.Linear(read, max(4, min(4 * self.between(1, 256), most)), self.draw.random() < 0.7))
        return (1, tokens, read), lambda x: layer(x)

    def pooled(self) -> tuple[tuple[int, ...], Step]:
        """Windows of space: means, largest, joined rows, other sizes."""
        side, window = self.between(7, 112), self.draw.choice((2, 3, 5, 7))
        channels, stride = max(1, min(8 * self.between(1, 32), MOST // side**2)), self.draw.choice((1, 2, 2, 3))
        kind = self.draw.choice(("max", "average", "adaptive", "unfold", "bilinear", "padded"))
        calls: dict[str, Step] = {
            "max": lambda x: functional.max_pool2d(x, window, stride, window // 2),
            "average": lambda x: functional.avg_pool2d(x, window, stride, window // 2),
            "adaptive": lambda x: functional.adaptive_avg_pool2d(x, max(1, side // 3)),
            "unfold": lambda x: functional.unfold(x[:, :8], window, padding=window // 2, stride=stride),
            "bilinear": lambda x: functional.interpolate(x, size=(max(1, side * 3 // 2),) * 2, mode="bilinear"),
            "padded": lambda x: functional.pad(x, (1, 1, 1, 1)),
        }
        return (1, channels, side, side), calls[kind]

    def turned(self) -> tuple[tuple[int, ...], Step]:
        """A copy in another order, or a sum with one that lies so."""
        axes = [self.between(2, 64) for _ in range(3)]
        axes[self.draw.randrange(3)] = max(1, self.size() // (axes[0] * axes[1]))
        while self._count(axes) > MOST:
            axes = [max(1, one // 2) for one in axes]
        order = self.draw.choice(((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1)))
        if self.draw.random() < 0.6:
            return tuple(axes), lambda x: x.permute(order).contiguous()
        return tuple(axes), lambda x: x.permute(order) + 1.0

    def forward(self, numbers: Tensor) -> Tensor:
        """What the last step makes."""
        x = numbers
        for shape, step in self.steps:
            count = self._count(shape)
            given = x.flatten() if x.numel() >= count else numbers
            x = step(given[:count].view(shape))
        return x


def programs() -> Iterator[Making]:
    """All chains."""
    for number in range(COUNT):
        yield Making(f"shapes-{number:03d}", FIRST + number, partial(_chain, number))


def _chain(number: int) -> tuple[nn.Module, Sequence[int]]:
    chain = Shapes(number)
    return chain, chain.shape
