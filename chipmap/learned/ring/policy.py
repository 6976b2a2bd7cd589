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

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chipmap.learned.features import COLUMNS, Floats, Graph, Integers, position, table

#: The most chips that a policy is made for.
MOST_CHIPS = 64
#: Width of the prior in chips: 0.5 to 1.0 differed by less than the seeds.
PRIOR_WIDTH = 0.7
#: What the policy network sees of the assignment before: chip as cosines, distances to producers and readers, work.
CHIP_COSINES = 8
SEEN = CHIP_COSINES + 4


class Sums(NamedTuple):
    """A sparse matrix by its rows: row i is Σ_k ``weights``[k] · row ``sources``[k], k from ``starts``[i] to
    ``starts``[i + 1]."""

    sources: Tensor
    starts: Tensor
    weights: Tensor

    def of(self, values: Tensor) -> Tensor:
        """The matrix times ``values`` [rows, d]."""
        found: Tensor = nn.functional.embedding_bag(
            self.sources,
            values.contiguous(),
            self.starts,
            mode="sum",
            per_sample_weights=self.weights,
            include_last_offset=True,
        )
        return found


class Arrays(NamedTuple):
    """A graph for the networks, with ``chips`` C.

    ``features`` [n, F]; ``around`` [3n, n]: rows 3v, 3v + 1 and 3v + 2 make operation v's own values, their mean over
    its producers and over its readers; ``back`` [n, 3n] is its transpose; ``has`` [2, n, 1]: 1 for operations with
    producers, and with readers; ``share`` [n] of all work, ``position`` [n] in it; ``prior`` [n, C] logits; ``basis``
    [C, C] cosines.
    """

    chips: int
    features: Tensor
    around: Sums
    back: Sums
    has: Tensor
    share: Tensor
    position: Tensor
    prior: Tensor
    basis: Tensor


def arrays(graph: Graph, chips: int, prior: bool = True) -> Arrays:
    """The graph as tensors. Raises ValueError for more than :data:`MOST_CHIPS` chips."""
    if not 0 < chips <= MOST_CHIPS:
        raise ValueError(f"the policy is made for 1 to {MOST_CHIPS} chips, not {chips}")
    n, own = graph.n, np.arange(graph.n)
    producer, reader = graph.edges[:, 0], graph.edges[:, 1]
    degree = np.stack([np.bincount(side, minlength=n) for side in (reader, producer)])
    row = np.concatenate((3 * own, 3 * reader + 1, 3 * producer + 2))
    column = np.concatenate((own, producer, reader))
    weight = np.concatenate((np.ones(n), 1.0 / degree[0][reader], 1.0 / degree[1][producer]))
    place = torch.as_tensor(position(graph))
    centre = (np.arange(chips) + 0.5) / chips
    basis = np.cos(np.pi * np.arange(chips)[:, None] * centre)
    return Arrays(
        chips=chips,
        features=torch.as_tensor(table(graph), dtype=torch.float32),
        around=_sums(row, column, weight, 3 * n),
        back=_sums(column, row, weight, n),
        has=torch.as_tensor(degree.clip(max=1)[..., None], dtype=torch.float32),
        share=torch.as_tensor(graph.work / max(1.0, graph.work.sum()), dtype=torch.float32),
        position=place,
        prior=spread(place, chips) if prior else torch.zeros(graph.n, chips),
        basis=torch.as_tensor(basis, dtype=torch.float32),
    )


def spread(position: Tensor, chips: int, reach: float = 1.0) -> Tensor:
    """[n, C] logits of the prior for operations at ``position`` [n] on the first share ``reach`` of the chips."""
    away = position[:, None] * (chips * reach) - 0.5 - torch.arange(chips)
    return (-((away / PRIOR_WIDTH) ** 2) / 2).float()


def _sums(row: Integers, column: Integers, weight: Floats, rows: int) -> Sums:
    """A matrix of so many rows by its entries."""
    order = np.lexsort((column, row))
    return Sums(
        sources=torch.as_tensor(column[order].astype(np.int32)),
        starts=torch.as_tensor(np.searchsorted(row[order], np.arange(rows + 1)).astype(np.int32)),
        weights=torch.as_tensor(weight[order].astype(np.float32)),
    )


class _Around(torch.autograd.Function):
    """``around`` times values, with ``back`` times the gradient: PyTorch's own gradient of such sums is far slower."""

    @staticmethod
    def forward(context: Any, values: Tensor, graph: Arrays) -> Tensor:
        """[n, d] → [3n, d]."""
        context.back = graph.back
        return graph.around.of(values.detach())

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """[3n, d] → [n, d]."""
        return context.back.of(gradient), None


def around(graph: Arrays, values: Tensor) -> Tensor:
    """[n, 3, d] of ``values`` [n, d]: an operation's own, and the means over its producers and over its readers (0
    without any)."""
    found: Tensor = _Around.apply(values, graph)  # type: ignore[no-untyped-call]
    return found.view(len(values), 3, values.shape[-1])


class Sage(nn.Module):
    """One GraphSAGE layer of the feature network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(3 * width, width)

    def forward(self, graph: Arrays, values: Tensor) -> Tensor:
        """[n, width] → [n, width]."""
        own = self.norm(values)
        return values + torch.relu(self.linear(around(graph, own).flatten(1)))


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

    def logits(
        self, graph: Arrays, embedded: Tensor, before: Tensor | None, count: int = 1, prior: Tensor | None = None
    ) -> Tensor:
        """[b, n, C] logits given the assignments ``before`` [b, n] of the last round (None: first; ``count`` = b).

        A row of -1 in ``before`` is none. ``prior`` [b, n, C] stands in for the graph's.
        """
        state = self._seen(graph, before) if before is not None else embedded.new_zeros(1, len(embedded), SEEN)
        joined = torch.cat((embedded.expand(len(state), -1, -1), state), dim=-1)
        coefficients: Tensor = self.last(torch.relu(self.hidden(joined)))
        found = (graph.prior if prior is None else prior) + coefficients[..., : graph.chips] @ graph.basis
        return found if before is not None or prior is not None else found.expand(count, -1, -1)

    def _seen(self, graph: Arrays, before: Tensor) -> Tensor:
        """[b, n, SEEN] of assignments [b, n]; 0 of those that are -1."""
        there, before = (before >= 0)[..., None], before.clamp(min=0)
        place = (before.float() + 0.5) / graph.chips
        cosines = torch.cos(torch.pi * torch.arange(CHIP_COSINES) * place[..., None])
        here, back, ahead = around(graph, place.T).permute(1, 2, 0)[..., None]
        back, ahead = back - here * graph.has[0], ahead - here * graph.has[1]
        work = torch.zeros(len(before), graph.chips).index_put(
            (torch.arange(len(before))[:, None].expand_as(before), before),
            graph.share.expand(len(before), -1),
            accumulate=True,
        )
        load = work.gather(1, before)[..., None] * graph.chips
        seen = torch.cat((cosines, back * graph.chips, ahead * graph.chips, load, torch.ones_like(load)), dim=-1)
        return seen * there
