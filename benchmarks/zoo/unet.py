"""The U-Net of a latent diffusion model (Rombach et al. 2022, appendix E), which ``transformers`` lacks.

Written from the paper's description. With the default sizes it has the 859,520,964 parameters of Stable Diffusion 1's
U-Net: 320 channels, times 1, 2, 4 and 4 on four levels of half the resolution each, two residual blocks a level,
transformer blocks with cross-attention to 77 tokens of 768 features on the three finer levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Sizes:
    """Sizes of a U-Net; ``attending``: on how many of the finest levels transformer blocks stand."""

    latent: int = 4
    channels: int = 320
    factors: tuple[int, ...] = (1, 2, 4, 4)
    blocks: int = 2
    attending: int = 3
    heads: int = 8
    context: int = 768
    groups: int = 32


class ResidualBlock(nn.Module):
    """Two normalised convolutions with the time added between them, and a way past them."""

    def __init__(self, inputs: int, outputs: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm_in, self.conv_in = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm_out, self.conv_out = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.past = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The block's result for the image ``x`` [batch, channel, y, x] and the embedded time."""
        hidden = self.conv_in(functional.silu(self.norm_in(x)))
        hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        return self.past(x) + self.conv_out(functional.silu(self.norm_out(hidden)))


class Attention(nn.Module):
    """Attention of ``width`` features to a context (to itself without one)."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = nn.Linear(context, width, bias=False), nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """Attention from ``x`` to ``context``, each [batch, token, feature]."""
        split = [
            made.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for made in (self.query(x), self.key(context), self.value(context))
        ]
        return self.out(functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """On the pixels as tokens: self-attention, cross-attention, a gated feed-forward network."""

    def __init__(self, width: int, context: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm, self.enter, self.leave = nn.GroupNorm(groups, width), *(nn.Conv2d(width, width, 1) for _ in "io")
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, width, heads), Attention(width, context, heads)
        self.widen, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """The block's result for the image ``x`` and the context [batch, token, feature]."""
        tokens = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        normed = self.norms[0](tokens)
        tokens = tokens + self.own(normed, normed)
        tokens = tokens + self.cross(self.norms[1](tokens), context)
        wide, gate = self.widen(self.norms[2](tokens)).chunk(2, dim=-1)
        tokens = tokens + self.narrow(wide * functional.gelu(gate))
        return x + self.leave(tokens.transpose(1, 2).unflatten(2, x.shape[2:]))


class Upsample(nn.Module):
    """Nearest neighbours at twice the resolution, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` at twice the resolution."""
        return self.conv(functional.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    """The noise in a latent image, given the time and a context (a text's features)."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Sizes()
        base, time = sizes.channels, 4 * sizes.channels
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))

        def stage(inputs: int, outputs: int, level: int) -> nn.ModuleList:
            attends = level < sizes.attending
            own = [TransformerBlock(outputs, sizes.context, sizes.heads, sizes.groups)] if attends else []
            return nn.ModuleList([ResidualBlock(inputs, outputs, time, sizes.groups), *own])

        self.enter = nn.Conv2d(sizes.latent, base, 3, padding=1)
        widths, width, last = [base], base, len(sizes.factors) - 1
        self.down: Any = nn.ModuleList()
        for level, factor in enumerate(sizes.factors):
            for _ in range(sizes.blocks):
                self.down.append(stage(width, base * factor, level))
                width = base * factor
                widths.append(width)
            if level < last:
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, stride=2, padding=1)]))
                widths.append(width)
        self.middle: Any = nn.ModuleList([*stage(width, width, 0), ResidualBlock(width, width, time, sizes.groups)])
        self.up: Any = nn.ModuleList()
        for level, factor in reversed(list(enumerate(sizes.factors))):
            for block in range(sizes.blocks + 1):
                made = stage(width + widths.pop(), base * factor, level)
                width = base * factor
                if level and block == sizes.blocks:
                    made.append(Upsample(width))
                self.up.append(made)
        self.leave = nn.Sequential(nn.GroupNorm(sizes.groups, base), nn.SiLU(), nn.Conv2d(base, sizes.latent, 3, 1, 1))

    def forward(self, latent: Tensor, time: Tensor, context: Tensor) -> Tensor:
        """``latent`` [batch, channel, y, x], ``time`` [batch], ``context`` [batch, token, feature]."""
        half = self.sizes.channels // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32, device=time.device) * (-math.log(10000) / half))
        angles = time[:, None].float() * rates[None]
        embedded = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))

        def through(stage: Any, x: Tensor) -> Tensor:
            for part in stage:
                if isinstance(part, ResidualBlock):
                    x = part(x, embedded)
                else:
                    x = part(x, context) if isinstance(part, TransformerBlock) else part(x)
            return x

        x = self.enter(latent)
        kept = [x]
        for stage in self.down:
            x = through(stage, x)
            kept.append(x)
        x = through(self.middle, x)
        for stage in self.up:
            x = through(stage, torch.cat([x, kept.pop()], dim=1))
        made: Tensor = self.leave(x)
        return made
