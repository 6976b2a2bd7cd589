"""The ring policy: a network that proposes a distribution over chips for every operation of a graph.

After "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 4.1:

* *Feature network*: GraphSAGE layers with mean aggregation, apart for producers and readers,
  h'_v = h_v + ReLU(W [norm(h_v), mean of norm(h_u) over producers u, mean over readers]); h = (h_v) [n, width].
* *Policy network* (two layers), in T rounds of refinement (eq. 7): p(y^(t) | h, y^(t-1)) for all operations at once.
  What it sees of y^(t-1): the operation's chip, the mean distance to its producers' and readers' chips, and the work on
  its chip; nothing of it in the first round.
* *Logits*: ℓ_vc = prior_vc + Σ_k a_vk cos(π k (c + 1/2) / C), with a_v the policy network's :data:`MOST_CHIPS` numbers.
  The cosines of the first C numbers span all of R^C, so that one network serves every C up to :data:`MOST_CHIPS`, and
  those that are left out there (k >= C) count as 0. The last layer starts at zero: an untrained policy is the prior.
* *Prior* (ours, not the paper's): ℓ_vc = −((C · position(v) − c − 1/2) / 0.7)² / 2: chips in the order of the work. In
  the paper's recipe it is 0.

Nothing depends on how operations are numbered: a permutation of them permutes the distributions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chipmap.learned.features import COLUMNS, Graph, position, table

#: Means over neighbours are products of dense matrices up to so many operations: faster there than sums by index.
DENSE = 256
#: The most chips that a policy is made for.
MOST_CHIPS = 64
#: Width of the prior in chips: 0.5 to 1.0 differed by less than the seeds.
PRIOR_WIDTH = 0.7
#: What the policy network sees of the assignment before: chip as cosines, distances to producers and readers, work.
CHIP_COSINES = 8
SEEN = CHIP_COSINES + 4


class Arrays(NamedTuple):
    """A graph for the networks, with ``chips`` C.

    ``features`` [n, F]; ``edges`` [2, m] (producer, reader); ``producers`` and ``readers`` [n, 1]: how many, at
    least 1; ``has`` [2, n, 1]: 1 for operations with producers, and with readers; ``share`` [n] of all work;
    ``prior`` [n, C] logits; ``basis`` [C, C] cosines. ``mean`` [2, n, n], for graphs of up to :data:`DENSE`
    operations, else nothing: the matrices that make an operation's mean over producers and over readers.
    """

    chips: int
    features: Tensor
    edges: Tensor
    producers: Tensor
    readers: Tensor
    has: Tensor
    share: Tensor
    prior: Tensor
    basis: Tensor
    mean: Tensor | None = None


def arrays(graph: Graph, chips: int, prior: bool = True) -> Arrays:
    """The graph as tensors. Raises ValueError for more than :data:`MOST_CHIPS` chips."""
    if not 0 < chips <= MOST_CHIPS:
        raise ValueError(f"the policy is made for 1 to {MOST_CHIPS} chips, not {chips}")
    edges = torch.as_tensor(graph.edges.T.copy(), dtype=torch.int64)
    degree = torch.stack([torch.bincount(edges[side], minlength=graph.n)[:, None].float() for side in (1, 0)])
    mean = None
    if graph.n <= DENSE:
        mean = torch.zeros(2, graph.n, graph.n)
        for side in (0, 1):
            mean[side].index_put_((edges[1 - side], edges[side]), torch.ones(()), accumulate=True)
        mean /= degree.clamp(min=1.0)
    away = position(graph)[:, None] * chips - 0.5 - np.arange(chips)
    logits = -((away / PRIOR_WIDTH) ** 2) / 2 if prior else np.zeros((graph.n, chips))
    centre = (np.arange(chips) + 0.5) / chips
    basis = np.cos(np.pi * np.arange(chips)[:, None] * centre)
    return Arrays(
        chips=chips,
        features=torch.as_tensor(table(graph), dtype=torch.float32),
        edges=edges,
        producers=degree[0].clamp(min=1.0),
        readers=degree[1].clamp(min=1.0),
        has=degree.clamp(max=1.0),
        share=torch.as_tensor(graph.work / max(1.0, graph.work.sum()), dtype=torch.float32),
        prior=torch.as_tensor(logits, dtype=torch.float32),
        basis=torch.as_tensor(basis, dtype=torch.float32),
        mean=mean,
    )


def from_producers(graph: Arrays, values: Tensor) -> Tensor:
    """[..., n, d]: the mean of ``values`` over each operation's producers; 0 without any."""
    if graph.mean is not None:
        return graph.mean[0] @ values
    return _mean(values, graph.edges[0], graph.edges[1], graph.producers)


def from_readers(graph: Arrays, values: Tensor) -> Tensor:
    """[..., n, d]: the mean of ``values`` over each operation's readers; 0 without any."""
    if graph.mean is not None:
        return graph.mean[1] @ values
    return _mean(values, graph.edges[1], graph.edges[0], graph.readers)


def _mean(values: Tensor, source: Tensor, target: Tensor, degree: Tensor) -> Tensor:
    return torch.zeros_like(values).index_add(-2, target, values.index_select(-2, source)) / degree


class Sage(nn.Module):
    """One GraphSAGE layer of the feature network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(3 * width, width)

    def forward(self, graph: Arrays, values: Tensor) -> Tensor:
        """[n, width] → [n, width]."""
        own = self.norm(values)
        joined = torch.cat((own, from_producers(graph, own), from_readers(graph, own)), dim=-1)
        return values + torch.relu(self.linear(joined))


class RingPolicy(nn.Module):
    """Feature and policy network; the paper's sizes are 8 layers of 128."""

    def __init__(self, layers: int = 8, width: int = 128) -> None:
        super().__init__()
        self.first = nn.Linear(len(COLUMNS), width)
        self.layers = nn.ModuleList(Sage(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width + SEEN, width)
        self.last = nn.Linear(width, MOST_CHIPS)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def embed(self, graph: Arrays) -> Tensor:
        """h [n, width]."""
        values = torch.relu(self.first(graph.features))
        for layer in self.layers:
            values = layer(graph, values)
        embedded: Tensor = self.norm(values)
        return embedded

    def logits(self, graph: Arrays, embedded: Tensor, before: Tensor | None, count: int = 1) -> Tensor:
        """[b, n, C] logits given the assignments ``before`` [b, n] of the last round (None: first; ``count`` = b)."""
        state = self._seen(graph, before) if before is not None else embedded.new_zeros(1, len(embedded), SEEN)
        joined = torch.cat((embedded.expand(len(state), -1, -1), state), dim=-1)
        coefficients: Tensor = self.last(torch.relu(self.hidden(joined)))
        found = graph.prior + coefficients[..., : graph.chips] @ graph.basis
        return found if before is not None else found.expand(count, -1, -1)

    def _seen(self, graph: Arrays, before: Tensor) -> Tensor:
        """[b, n, SEEN] of an assignment [b, n]."""
        place = (before.float() + 0.5) / graph.chips
        cosines = torch.cos(torch.pi * torch.arange(CHIP_COSINES) * place[..., None])
        here = place[..., None]
        back = from_producers(graph, here) - here * graph.has[0]
        ahead = from_readers(graph, here) - here * graph.has[1]
        work = torch.zeros(len(before), graph.chips).index_put(
            (torch.arange(len(before))[:, None].expand_as(before), before),
            graph.share.expand(len(before), -1),
            accumulate=True,
        )
        load = work.gather(1, before)[..., None] * graph.chips
        return torch.cat((cosines, back * graph.chips, ahead * graph.chips, load, torch.ones_like(load)), dim=-1)
