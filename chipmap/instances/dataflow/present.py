"""Which readers of a tensor could read the layout for which another one has paid.

The rules are those of ``docs/families/dataflow-exchanges.md``, "What is present".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.layouts import Changes, End, change_ns
from chipmap.instances.dataflow.options import kinds, ticks_of
from chipmap.instances.dataflow.parts import BY_HEADS, apart_by_samples, has, head_groups, needed_by_heads, read_share
from chipmap.instances.dataflow.plans import shared_by_plans
from chipmap.instances.dataflow.rates import dram_rate
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import Layout, reads_operand, taken_layout
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.instances.dataflow.workload import Kernel, Scheme

IntArray = NDArray[np.int64]


class Need(NamedTuple):
    """The layout in which a kernel reads a tensor, the share of it that a chip needs, the experts of which it is or the
    groups of chips with heads of their own (0: neither), and whether it is of heads that aren't rows of all
    ``samples``."""

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
        if self.layout == "HR":
            return (self.experts, self.share) == (other.experts, other.share)
        return has(self.share, other.share, degrees.tensor)


def need(instance: DataflowInstance, degrees: Degrees, maker: Kernel, reader: Kernel, scheme: Scheme) -> Need:
    """What ``reader`` needs of ``maker``'s output under ``scheme``."""
    layout = taken_layout(reader, scheme, instance.mode, maker)
    if layout == "RR":
        return Need(layout, Fraction(1))
    share = read_share(reader, scheme, instance.mode, degrees.tensor, routed(instance, degrees))
    if layout == "HR":
        return Need(layout, share, head_groups(reader, degrees.tensor))
    if layout == "SR" and (scheme == "OUTER" or scheme in BY_HEADS):
        share = max(share if scheme == "OUTER" else Fraction(0), needed_by_heads(maker, reader, scheme, degrees.tensor))
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
    changes: Callable[[int, int], Changes],
) -> tuple[Shared, ...]:
    """The tensors of which one reader's layout may have that of a later one in it, where that one ever pays a change.

    ``readers`` of each kernel are in the order of their places, ``schemes`` those of each kernel's options, and
    ``changes`` prices changes of layout. Tensors that are alike share arrays.
    """
    known: dict[object, Any] = shared_by_plans(instance).setdefault("shared", {})
    found, kernels, kind = list[Shared](), instance.workload.kernels, kinds(instance)
    at = degrees, instance.task.samples
    for u, own in enumerate(readers):
        if len(own) > 1 and any(changes(u, v).any for v in own[1:]):
            ends = ((kind[v], schemes[v], reads_operand(kernels[v], kernels[u])) for v in own)
            key = at, kind[u], schemes[u], *ends
            if key not in known:
                layouts = known.setdefault((at, kind[u]), _Layouts(instance, degrees, kernels[u]))
                known[key] = _shared(layouts, u, own, schemes)
            one: Shared | None = known[key]
            if one is not None:
                found.append(one._replace(maker=u, readers=tuple(own)))
    return tuple(found)


class _Layouts:
    """The layouts in which any kernel reads what ``maker``, or one that is alike, makes: worked out once each."""

    def __init__(self, instance: DataflowInstance, degrees: Degrees, maker: Kernel) -> None:
        self.instance, self.degrees, self.maker, self.kind = instance, degrees, maker, kinds(instance)
        self.numbers: dict[Need, int] = {}
        self.listed: list[tuple[Need, Copy]] = []
        self.read: dict[object, list[int]] = {}
        self.pairs: dict[tuple[int, int], bool] = {}

    def needs(self, u: int, v: int, schemes: Sequence[Scheme]) -> list[int]:
        """The number of the layout that kernel v needs of what u makes, a kernel like ``maker``, under each scheme."""
        kernels = self.instance.workload.kernels
        key = self.kind[v], tuple(schemes), reads_operand(kernels[v], kernels[u])
        if key not in self.read:
            self.read[key] = [
                self._number(need(self.instance, self.degrees, kernels[u], kernels[v], s)) for s in schemes
            ]
        return self.read[key]

    def _number(self, one: Need) -> int:
        if one not in self.numbers:
            self.numbers[one] = len(self.numbers)
            self.listed.append((one, copy_of(self.instance, self.maker, one)))
        return self.numbers[one]

    def covers(self, a: int, b: int) -> bool:
        """Whether the layout of one number has that of another in it."""
        if (a, b) not in self.pairs:
            self.pairs[a, b] = self.listed[a][0].covers(self.listed[b][0], self.degrees)
        return self.pairs[a, b]


def _shared(
    layouts: _Layouts, maker: int, readers: Sequence[int], schemes: Sequence[Sequence[Scheme]]
) -> Shared | None:
    """The tensor of ``maker`` with its ``readers`` in the order of their places, of which ``schemes`` are the options;
    None where no reader's layout has that of a later one in it."""
    instance, degrees, kernels = layouts.instance, layouts.degrees, layouts.instance.workload.kernels
    numbers: dict[int, int] = {}
    needs = [[numbers.setdefault(one, len(numbers)) for one in layouts.needs(maker, v, schemes[v])] for v in readers]
    covers = np.array([[layouts.covers(a, b) for b in numbers] for a in numbers], dtype=np.bool_)
    before = np.zeros(len(numbers), dtype=np.bool_)
    useful = False
    for own in needs:
        useful = useful or bool(covers[before][:, own].any())
        before[own] = True
    if not useful:
        return None
    copies = tuple(layouts.listed[one][1] for one in numbers)
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
