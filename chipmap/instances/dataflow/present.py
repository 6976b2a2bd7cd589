"""Which readers of a tensor could read the layout for which another one has paid.

The rules are those of ``docs/families/dataflow-exchanges.md``, "What is present".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.layouts import End, change_ns
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.parts import apart_by_samples, has, heads_share, parts
from chipmap.instances.dataflow.plans import shared_by_plans
from chipmap.instances.dataflow.rates import dram_rate
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import Layout, taken_layout
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme

IntArray = NDArray[np.int64]


class Need(NamedTuple):
    """The layout in which a kernel reads a tensor, the share of it that a chip needs, the experts of which it is (0: it
    isn't), and whether it is of heads that aren't rows of all ``samples``."""

    layout: Layout
    share: Fraction
    experts: int = 0
    samples: bool = False

    def covers(self, other: Need, degrees: Degrees) -> bool:
        """Whether a chip that has this part of a tensor has the ``other``."""
        if self.layout == "RR":
            return other.layout != "EE" or degrees.expert == 1
        if (self.layout, self.samples) != (other.layout, other.samples):
            return False
        if self.layout == "EE":
            return self.experts == other.experts
        return has(self.share, other.share, degrees.tensor)


def need(instance: DataflowInstance, degrees: Degrees, maker: Kernel, reader: Kernel, scheme: Scheme) -> Need:
    """What ``reader`` needs of ``maker``'s output under ``scheme``."""
    layout = taken_layout(reader, scheme, instance.mode, maker)
    if layout == "RR":
        return Need(layout, Fraction(1))
    share = parts(reader, scheme, instance.mode, degrees.tensor, routed(instance, degrees)).work
    if layout == "SR" and scheme == "OUTER":
        share = max(share, heads_share(maker, degrees.tensor))
        return Need(layout, share, samples=apart_by_samples(maker, "OUTER", degrees.tensor))
    return Need(layout, share, reader.experts if layout == "EE" else 0)


class Copy(NamedTuple):
    """A tensor in a layout for which a reader paid, on one chip: picoseconds of DRAM to move it once, bytes of a
    buffer, and bytes."""

    dram: int
    buffer: int
    size: int


class Shared(NamedTuple):
    """A tensor with several readers of which one may use what another paid for.

    ``maker`` makes it for the ``readers``, in the order of their places. Under option o, reader k needs the layout
    numbered ``needs[k][o]``; ``covers`` [layouts, layouts] says which layout has another in it, and ``copies`` what
    each takes on a chip. ``supplies[k]`` [the maker's options, the reader's]: whether reader k, if it pays, has the
    tensor for others afterwards.
    """

    maker: int
    readers: tuple[int, ...]
    needs: tuple[IntArray, ...]
    covers: NDArray[np.bool_]
    copies: tuple[Copy, ...]
    supplies: tuple[NDArray[np.bool_], ...]


def exchanges_sums(instance: DataflowInstance, degrees: Degrees, maker: End, reader: End) -> bool:
    """Whether a reader adds up copies of tokens where experts made them, as exchanging the sums takes less than to have
    the copies."""
    if maker[1] != "E" or not maker[0].active:
        return False
    apart = structs.replace(maker[0], active=0), maker[1]  # of no number of copies anything is known
    return change_ns(instance, degrees, maker, reader) < change_ns(instance, degrees, apart, reader)


def copy_of(instance: DataflowInstance, maker: Kernel, one: Need) -> Copy:
    """What a tensor takes on a chip in this layout, rounded up as tensors are."""
    size, task = output_bytes(maker, instance) * one.share, instance.task
    moved = ticks_of(size / dram_rate(instance.system.memory))
    buffer = size * task.tile_tokens / (instance.workload.tokens * task.samples)
    return Copy(moved, math.ceil(buffer), math.ceil(size))


def shared_tensors(
    instance: DataflowInstance,
    degrees: Degrees,
    readers: Sequence[Sequence[int]],
    schemes: Sequence[Sequence[Scheme]],
    converts: Callable[[int, int, int, int], int],
) -> tuple[Shared, ...]:
    """The tensors of which one reader's layout may have that of a later one in it, where that one ever pays a change.

    ``readers`` of each kernel are in the order of their places, ``schemes`` those of each kernel's options, and
    ``converts`` prices changes of layout.
    """

    def pays(u: int, v: int) -> bool:
        return any(converts(u, v, s, t) for s in range(len(schemes[u])) for t in range(len(schemes[v])))

    known = shared_by_plans(instance).setdefault("shared", {})
    found = list[Shared | None]()
    for u, own in enumerate(readers):
        if len(own) > 1 and any(pays(u, v) for v in own[1:]):
            key = u, *own, *(schemes[v] for v in (u, *own)), degrees, instance.task.samples
            if key not in known:
                known[key] = _shared(instance, degrees, u, own, schemes)
            found.append(known[key])
    return tuple(one for one in found if one is not None)


def _shared(
    instance: DataflowInstance,
    degrees: Degrees,
    maker: int,
    readers: Sequence[int],
    schemes: Sequence[Sequence[Scheme]],
) -> Shared | None:
    """The tensor of ``maker`` with its ``readers`` in the order of their places, of which ``schemes`` are the options;
    None where no reader's layout has that of a later one in it."""
    kernels = instance.workload.kernels
    numbers: dict[Need, int] = {}
    needs = [
        [
            numbers.setdefault(need(instance, degrees, kernels[maker], kernels[v], one), len(numbers))
            for one in schemes[v]
        ]
        for v in readers
    ]
    covers = np.array([[a.covers(b, degrees) for b in numbers] for a in numbers], dtype=np.bool_)
    before = np.zeros(len(numbers), dtype=np.bool_)
    useful = False
    for own in needs:
        useful = useful or bool(covers[before][:, own].any())
        before[own] = True
    if not useful:
        return None
    copies = tuple(copy_of(instance, kernels[maker], one) for one in numbers)
    ends = [[(kernels[v], one) for one in schemes[v]] for v in (maker, *readers)]
    return Shared(
        maker=maker,
        readers=tuple(readers),
        needs=tuple(np.array(own, dtype=np.int64) for own in needs),
        covers=covers,
        copies=copies,
        supplies=tuple(
            np.array([[not exchanges_sums(instance, degrees, a, b) for b in own] for a in ends[0]], dtype=np.bool_)
            for own in ends[1:]
        ),
    )
