"""What the segments of a window share: DRAM's rate, and the links on the way to DRAM and between chiplets.

Statement: ``docs/families/multimodel.md`` ("What chiplets share"). A link has two directions, each a *channel* here.
Each chiplet's own channels from and to DRAM follow: of C chiplets and n links, link i is the channels 2 · i and
2 · i + 1, those from DRAM to chiplet c and back are 2 · n + 2 · c and 2 · n + 2 · c + 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.multimodel.instance import Module, MultiInstance
from chipmap.records.decimals import exact

#: Segments of a window: model, first and last layer, chiplet (all positions).
Segments = Sequence[tuple[int, int, int, int]]


@dataclass(frozen=True, eq=False)
class Sharing:
    """The bytes of an instance, and where they go.

    ``dram`` and ``link``: bytes per ns, None where not shared. By model [L], bytes of the batch: ``read`` where a range
    begins with the layer, ``sent`` behind it; ``weights`` once. ``reads`` and ``writes``: channels from and to DRAM by
    chiplet. ``channel``: that of (from, to).
    """

    dram: Fraction | None
    link: Fraction | None
    read: tuple[NDArray[np.int64], ...]
    sent: tuple[NDArray[np.int64], ...]
    weights: tuple[NDArray[np.int64], ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    channel: dict[tuple[int, int], int]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.channel) + 2 * len(self.reads)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """The rates that are shared."""
        return tuple(rate for rate in (self.dram, self.link) if rate is not None)

    @property
    def bytes(self) -> int:
        """An upper limit on the bytes of any channel, and of DRAM, in all windows together."""
        return sum(int(one.sum()) for own in (self.read, self.sent, self.weights) for one in own)

    @property
    def most(self) -> int:
        """An upper limit in ns on the shared times of all windows, however many run something."""
        layers = sum(len(own) for own in self.read)
        return sum(math.ceil(self.bytes / rate) + layers for rate in self.rates)

    @property
    def least(self) -> int:
        """A lower bound in ns on the shared times of all windows: first inputs, last outputs and weights once."""
        into = sum(int(read[0] + weights.sum()) for read, weights in zip(self.read, self.weights, strict=True))
        out = sum(int(sent[-1]) for sent in self.sent)
        found = [math.ceil((into + out) / self.dram)] if self.dram is not None else []
        if self.link is not None:
            for amount, ways in ((into, self.reads), (out, self.writes)):
                ends = {way[-1] for way in ways}
                found.append(math.ceil(amount / len(ends) / self.link))
        return max(found, default=0)

    def amounts(self, window: Segments) -> Iterator[tuple[int, int, int]]:
        """(chiplet, bytes read from DRAM, bytes written there) of each segment."""
        ranges: dict[int, list[int]] = {}
        for m, first, last, _ in window:
            own = ranges.setdefault(m, [first, last])
            own[0], own[1] = min(own[0], first), max(own[1], last)
        for m, first, last, c in window:
            read = int(self.weights[m][first : last + 1].sum())
            read += int(self.read[m][first]) if first == ranges[m][0] else 0
            yield c, read, int(self.sent[m][last]) if last == ranges[m][1] else 0

    def time(self, window: Segments) -> int:
        """V, the shared time of a window in ns; 0 of an empty one."""
        amounts = list(self.amounts(window))
        found = [0]
        if self.dram is not None:
            found.append(math.ceil(sum(read + written for _, read, written in amounts) / self.dram))
        if self.link is not None:
            found.append(math.ceil(max(self.loads(window, amounts)) / self.link))
        return max(found)

    def loads(self, window: Segments, amounts: Sequence[tuple[int, int, int]]) -> list[int]:
        """Bytes by channel."""
        found = [0] * self.channels
        for c, read, written in amounts:
            for channel in self.reads[c]:
                found[channel] += read
            for channel in self.writes[c]:
                found[channel] += written
        behind = {(m, first): c for m, first, _, c in window}
        for m, _, last, c in window:
            if (m, last + 1) in behind:
                found[self.channel.get((c, behind[m, last + 1]), 0)] += int(self.sent[m][last])
        return found


def sharing_of(instance: MultiInstance) -> Sharing | None:
    """What the segments of a window share; None where they share nothing."""
    module = instance.module
    rates = module.shared_dram_bytes_per_ns, module.shared_link_bytes_per_ns
    if rates == (None, None):
        return None
    dram, link = (None if rate is None else exact(rate) for rate in rates)
    models = instance.models
    read = tuple(np.array([one.batch * layer.in_bytes for layer in one.layers], dtype=np.int64) for one in models)
    sent = tuple(np.array([one.batch * layer.out_bytes for layer in one.layers], dtype=np.int64) for one in models)
    weights = tuple(np.array([layer.weight_bytes for layer in one.layers], dtype=np.int64) for one in models)
    at = {chiplet.name: c for c, chiplet in enumerate(module.chiplets)}
    channel: dict[tuple[int, int], int] = {}
    for i, (a, b) in enumerate(module.links):
        channel[at[a], at[b]], channel[at[b], at[a]] = 2 * i, 2 * i + 1
    own = len(channel)
    ways = routes(module)
    reads = tuple((*(channel[b, a] for a, b in pairwise(way)), own + 2 * way[-1]) for way in ways)
    writes = tuple((*(channel[a, b] for a, b in pairwise(way)), own + 2 * way[-1] + 1) for way in ways)
    return Sharing(dram, link, read, sent, weights, reads, writes, channel)


def routes(module: Module) -> list[list[int]]:
    """The chiplets from each one to DRAM: each next one is linked, a hop nearer, and along x before y."""
    at = {chiplet.name: c for c, chiplet in enumerate(module.chiplets)}
    near: list[list[int]] = [[] for _ in at]
    for a, b in module.links:
        near[at[a]].append(at[b])
        near[at[b]].append(at[a])
    chiplets, found = module.chiplets, []
    for c in range(len(chiplets)):
        way = [c]
        while nearer := [d for d in near[way[-1]] if chiplets[d].hops == chiplets[way[-1]].hops - 1]:
            way.append(min(nearer, key=lambda d: (chiplets[d].y != chiplets[way[-1]].y, d)))
        found.append(way)
    return found
