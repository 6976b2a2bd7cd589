"""The networks of GDP: graph embedding, placement network, and parameter superposition (sections 3.1 to 3.3).

* *Embedding* (eq. 2 and 3): m_v = max over v's producers and readers u of σ(W h_u + b), 0 where there is none;
  h'_v = ReLU(f [h_v, m_v]). The features are made as wide by one dense layer first.
* *Placement network*: blocks of attention and dense layers over the operations in topological order, in segments. A
  segment attends to itself and to the segment before it, whose states pass no gradient (Transformer-XL). There are no
  positions: within a segment, operations are a set. All segments of a block are computed at once, since a block
  reads the states that enter it alone; the result is that of one segment after the other.
* *Superposition* (eq. 4): c(x) = 1 + tanh(W · block(x)), from one more block on the embedding x, is what the input
  of each dense layer is multiplied by. W starts at zero.
* *Logits* of unit i on device d: prior_id + Σ_k a_ik cos(π k (d + 1/2) / D), with a_i the mean of its operations'
  numbers. The first D cosines span all of R^D, so that one network serves every D. The last layer starts at zero: an
  untrained policy is the prior.

Memory and time grow with operations · segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from chipmap.learned.placement.scene import ALL_COLUMNS, MOST_DEVICES, Scene
from chipmap.learned.ring.recipe import require_within
from chipmap.records import InputError, Record


class Sizes(Record, frozen=True, kw_only=True):
    """Sizes of the networks; without ``attention`` a block is its dense layers alone, and without ``superposition``
    c is 1."""

    schema: str = "placement-policy/1"
    layers: int = 3
    blocks: int = 2
    width: int = 32
    heads: int = 4
    segment: int = 128
    attention: bool = True
    superposition: bool = True

    def check(self) -> None:
        """Raise :class:`InputError` for sizes that make no network."""
        limits = (("layers", 0, 64), ("blocks", 0, 64), ("width", 1, 1024), ("heads", 1, 64), ("segment", 1, 4096))
        require_within(self, limits)
        if self.width % self.heads:
            raise InputError(f"is {self.width} for {self.heads} heads", "width", "Give a multiple of heads.")


class Arrays(NamedTuple):
    """``features`` [n, F]; ``edges`` [2, 2m]: each edge in both directions; ``order`` [n]; ``unit`` [n]; ``members``
    [units, 1]: how many operations; ``prior`` [units, D]; ``basis`` [D, D]."""

    features: Tensor
    edges: Tensor
    order: Tensor
    unit: Tensor
    members: Tensor
    prior: Tensor
    basis: Tensor


def arrays(scene: Scene) -> Arrays:
    """The scene as tensors."""
    devices, edges = scene.problem.devices, scene.graph.edges
    centre = (np.arange(devices) + 0.5) / devices
    unit = torch.as_tensor(scene.unit)
    return Arrays(
        features=torch.as_tensor(scene.features, dtype=torch.float32),
        edges=torch.as_tensor(np.concatenate((edges, edges[:, ::-1])).T.copy(), dtype=torch.int64),
        order=torch.as_tensor(scene.graph.order),
        unit=unit,
        members=torch.bincount(unit, minlength=scene.units)[:, None].float(),
        prior=torch.as_tensor(scene.prior, dtype=torch.float32),
        basis=torch.as_tensor(np.cos(np.pi * np.arange(devices)[:, None] * centre), dtype=torch.float32),
    )


class Embedding(nn.Module):
    """One iteration of the graph embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.join = nn.Linear(width, width), nn.Linear(2 * width, width)

    def forward(self, values: Tensor, edges: Tensor) -> Tensor:
        """[n, width] → [n, width]."""
        sent = torch.sigmoid(self.message(values)).index_select(0, edges[0])
        # σ is above 0, so that a maximum with 0 is that of the neighbours, and 0 without any
        target = edges[1][:, None].expand_as(sent)
        most = torch.zeros_like(values).scatter_reduce(0, target, sent, "amax")
        joined: Tensor = torch.relu(self.join(torch.cat((values, most), dim=-1)))
        return joined


class Block(nn.Module):
    """Attention to the own segment and the one before, then two dense layers; both with what they read added."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.sizes = sizes
        if sizes.attention:
            self.before = nn.LayerNorm(width)
            self.query, self.pair, self.out = (nn.Linear(width, size) for size in (width, 2 * width, width))
        self.norm, self.dense, self.back = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, values: Tensor, scale: Tensor | None = None) -> Tensor:
        """[n, width] in topological order → [n, width]; ``scale`` [n, width]: c."""
        if self.sizes.attention:
            values = values + self._attended(_scaled(self.before(values), scale))
        inner = torch.relu(self.dense(_scaled(self.norm(values), scale)))
        found: Tensor = values + self.back(inner)
        return found

    def _attended(self, values: Tensor) -> Tensor:
        n, width = values.shape
        length = min(self.sizes.segment, n)
        count = -(-n // length)
        filled = functional.pad(values, (0, 0, 0, count * length - n)).view(count, length, width)
        before = torch.cat((torch.zeros_like(filled[:1]), filled[:-1].detach()))
        there = torch.arange(count * length).view(count, 1, length) < n
        known = torch.cat((torch.arange(count).view(-1, 1, 1).expand(-1, 1, length) > 0, there), dim=-1)
        query = self._heads(self.query(filled))
        key, value = self.pair(torch.cat((before, filled), dim=1)).chunk(2, dim=-1)
        mixed = functional.scaled_dot_product_attention(
            query, self._heads(key), self._heads(value), attn_mask=known[:, None]
        )
        found: Tensor = self.out(mixed.transpose(1, 2).reshape(count * length, width)[:n])
        return found

    def _heads(self, values: Tensor) -> Tensor:
        count, length, width = values.shape
        return values.view(count, length, self.sizes.heads, width // self.sizes.heads).transpose(1, 2)


class PlacementPolicy(nn.Module):
    """Logits of units on devices."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        sizes.check()
        width, self.sizes = sizes.width, sizes
        self.first = nn.Linear(len(ALL_COLUMNS), width)
        self.embedding = nn.ModuleList(Embedding(width) for _ in range(sizes.layers))
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, MOST_DEVICES)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        if sizes.superposition:
            self.condition, self.scale = Block(sizes), nn.Linear(width, width)
            nn.init.zeros_(self.scale.weight)
            nn.init.zeros_(self.scale.bias)

    def embed(self, graph: Arrays) -> Tensor:
        """x [n, width]; nothing depends on how operations are numbered."""
        values = torch.relu(self.first(graph.features))
        for layer in self.embedding:
            values = layer(values, graph.edges)
        return values

    def forward(self, graph: Arrays) -> Tensor:
        """[units, D] logits."""
        values = self.embed(graph)[graph.order]
        scale = 1.0 + torch.tanh(self.scale(self.condition(values))) if self.sizes.superposition else None
        for block in self.blocks:
            values = block(values, scale)
        numbers = self.last(_scaled(self.norm(values), scale))[:, : graph.prior.shape[1]]
        mean = numbers.new_zeros(len(graph.prior), numbers.shape[1]).index_add(0, graph.unit[graph.order], numbers)
        logits: Tensor = graph.prior + (mean / graph.members) @ graph.basis
        return logits


def _scaled(values: Tensor, scale: Tensor | None) -> Tensor:
    return values if scale is None else values * scale
