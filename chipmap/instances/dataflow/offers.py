"""What stages a pipeline on groups of unequal chips can have, as numbers alone (page, "Unequal chips")."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
#: The picoseconds of a stage that can't be; no sum of times is so long.
NONE = 2**58


class Placed(NamedTuple):
    """A stage: its kind, by its number, and its layers."""

    kind: int
    layers: int


class Pipeline(NamedTuple):
    """Picoseconds of a batch, the stages in their order, and the least that any pipeline can take."""

    ticks: int
    stages: tuple[Placed, ...]
    least: int


class Offer(NamedTuple):
    """What stages there can be.

    ``ticks`` [kinds, layers + 1] are the picoseconds of a stage with so many layers (:data:`NONE`: it can't be),
    ``hops`` [kinds, kinds] those of a transfer from one kind to another. A stage of kind k takes ``takes[k]`` chips of
    group ``group[k]``, which has ``chips[group]``. ``asked`` [kinds, layers + 1] says for each stage which it may be;
    empty: any, and any number of stages. Each of ``rounds`` micro-batches takes ``fixed`` picoseconds besides.
    """

    ticks: IntArray
    hops: IntArray
    group: tuple[int, ...]
    takes: tuple[int, ...]
    chips: tuple[int, ...]
    asked: tuple[NDArray[np.bool_], ...]
    rounds: int
    fixed: int

    @property
    def layers(self) -> int:
        """Layers of the network."""
        return int(self.ticks.shape[1]) - 1

    @property
    def kinds(self) -> range:
        """The numbers of all kinds."""
        return range(self.ticks.shape[0])

    @property
    def most_stages(self) -> int:
        """The most stages that there can be."""
        return len(self.asked) or min(self.layers, sum(self.chips))

    def choices(self, stage: int) -> Iterator[Placed]:
        """What a stage, counted from 0, may be."""
        for kind in self.kinds:
            for layers in range(1, self.layers + 1):
                if self.ticks[kind, layers] < NONE and (not self.asked or self.asked[stage][kind, layers]):
                    yield Placed(kind, layers)

    def times(self, stages: tuple[Placed, ...]) -> list[int]:
        """Picoseconds of the stages and of the transfers between them."""
        sent = [int(self.hops[a.kind, b.kind]) for a, b in pairwise(stages)]
        return [*(int(self.ticks[one.kind, one.layers]) for one in stages), *sent]

    def batch(self, stages: tuple[Placed, ...]) -> int:
        """Picoseconds of the batch."""
        times = self.times(stages)
        return sum(times) + (self.rounds - 1) * max(times) + self.rounds * self.fixed
