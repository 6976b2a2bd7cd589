"""What stages a pipeline on groups of unequal chips can have, as numbers alone (page, "Unequal chips").

Places are counted from the last stage, whose place is 0.
"""

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

    ``ticks`` [places, kinds, layers + 1] are the picoseconds of a stage with so many layers (:data:`NONE`: it can't
    be) in each of the last places, of which the first holds for all before, too; ``hops`` [kinds, kinds] those of a
    transfer between one kind and another, earlier kind first. A stage of kind k takes ``takes[k]`` chips of group
    ``group[k]``, which has ``chips[group]``. ``asked`` [kinds, layers + 1] says for each place which stage it may
    be; empty: any, and any number of stages. Each of ``rounds`` micro-batches takes ``fixed`` picoseconds besides.
    ``joined``: a stage takes part in the transfers to the next one, so that both together are its time.
    """

    ticks: IntArray
    hops: IntArray
    group: tuple[int, ...]
    takes: tuple[int, ...]
    chips: tuple[int, ...]
    asked: tuple[NDArray[np.bool_], ...]
    rounds: int
    fixed: int
    joined: bool = False

    @property
    def layers(self) -> int:
        """Layers of the network."""
        return int(self.ticks.shape[2]) - 1

    @property
    def kinds(self) -> range:
        """The numbers of all kinds."""
        return range(self.ticks.shape[1])

    @property
    def most_stages(self) -> int:
        """The most stages that there can be: each place up to them has some."""
        empty = (p for p in range(self.ticks.shape[0]) if self.at(p).min() >= NONE)
        return len(self.asked) or min(self.layers, sum(self.chips), *empty)

    def at(self, place: int) -> IntArray:
        """Picoseconds [kinds, layers + 1] of stages in a place."""
        found: IntArray = self.ticks[min(place, self.ticks.shape[0] - 1)]
        return found

    def choices(self, place: int) -> Iterator[Placed]:
        """What the stage in a place may be."""
        ticks = self.at(place)
        for kind in self.kinds:
            for layers in range(1, self.layers + 1):
                if ticks[kind, layers] < NONE and (not self.asked or self.asked[place][kind, layers]):
                    yield Placed(kind, layers)

    def times(self, stages: tuple[Placed, ...]) -> list[int]:
        """Picoseconds of all that a micro-batch passes one after the other: stages and transfers, or both together."""
        places = range(len(stages) - 1, -1, -1)
        each = [int(self.at(p)[one.kind, one.layers]) for p, one in zip(places, stages, strict=True)]
        sent = [int(self.hops[a.kind, b.kind]) for a, b in pairwise(stages)]
        return [a + b for a, b in zip(each, [*sent, 0], strict=True)] if self.joined else [*each, *sent]

    def batch(self, stages: tuple[Placed, ...]) -> int:
        """Picoseconds of the batch."""
        times = self.times(stages)
        return sum(times) + (self.rounds - 1) * max(times) + self.rounds * self.fixed
