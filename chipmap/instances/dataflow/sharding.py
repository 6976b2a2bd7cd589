"""Sharding schemes: what each costs, which layout it makes and takes, and what a change of layout costs.

Source: DFModel, section IV and its published inputs; ``docs/families/dataflow.md``, "Sharding". The token dimension of
activations is never sharded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Literal

import msgspec

from chipmap.instances.dataflow.instance import CostMode
from chipmap.instances.dataflow.parts import BY_HEADS, splits_tokens, sums_of_heads
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Exchange, Kernel, Scheme
from chipmap.records import InputError
from chipmap.records.decimals import exact

#: How a tensor lies on the chips of a tensor-parallel group: rows split, columns split, or replicated; or columns where
#: their experts are, on the chips of all replicas that share these; or samples; or rows of heads; or rows transposed.
Layout = Literal["SR", "RS", "RR", "EE", "BS", "HR", "TR"]
#: Schemes that leave sums over chips to be made.
SUMMED: tuple[Scheme, ...] = ("K", "K_RS", "K_N")
Collective = Literal["none", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"]

_MADE: dict[Scheme, Layout] = {
    **{"OUTER": "SR", "M": "SR", "N": "RS", "K": "RR", "K_RS": "SR", "K_N": "RS", "NONE": "RR", "E": "EE", "B": "BS"},
    **{"OUTER_M": "HR", "OUTER_K": "SR", "M_K": "TR", "K_M": "SR", "M_T": "TR"},
}
#: ``dfmodel`` lets a weight GEMM that is split by its outer dimension read split rows; its sums need whole ones.
_TAKEN_WITH_WEIGHTS: dict[CostMode, dict[Scheme, Layout]] = {
    "dfmodel": {"OUTER": "SR", "M": "RR", "K": "SR", "K_RS": "SR", "N": "RS", "NONE": "RR"},
    "physical": {
        **{"OUTER": "RR", "M": "RR", "K": "SR", "K_RS": "SR", "K_N": "SR", "N": "RS", "NONE": "RR", "E": "EE"}
    },
}


def schemes(kernel: Kernel, mode: CostMode) -> tuple[Scheme, ...]:
    """The schemes that ``kernel`` may have: OUTER where there is an outer dimension, else those of its kind.

    An opaque kernel doesn't say along what it could be split: without ``schemes`` it runs whole on every chip. K_RS, a
    K-split that ends in a reduce-scatter instead of an all-reduce, belongs to mode ``physical``, as N of a weight
    update, which makes some of its columns.
    """
    if kernel.schemes:
        return kernel.schemes
    if kernel.outer > 1:
        return ("OUTER",)
    if kernel.kind == "gemm":
        if mode == "dfmodel":
            return ("M", "K") if kernel.weights and not kernel.update else ("M",)
        return ("M", "N") if kernel.update else ("M", "K", "K_RS") if kernel.weights else ("M",)
    return ("M", "NONE") if kernel.kind == "elementwise" else ("NONE",)


def made_layout(kernel: Kernel, scheme: Scheme, mode: CostMode, chips: int) -> Layout:
    """The layout of the output: K leaves sums that an all-reduce makes whole everywhere, K_RS splits them by rows, K_N
    by columns; sums of heads may be whole as well."""
    return "RR" if sums_of_heads(kernel, scheme, mode, chips) == "all_reduce" else _MADE[scheme]


def reads_operand(kernel: Kernel, maker: Kernel) -> bool:
    """Whether ``maker`` makes the (outer · M) × K operand of a gemm of two activations, or what the forward kernel of
    a weight update has read."""
    return kernel.operand != "" and kernel.operand == maker.name


def taken_layout(kernel: Kernel, scheme: Scheme, mode: CostMode, maker: Kernel) -> Layout:
    """The layout in which the kernel reads what ``maker`` makes, an activation; without weights that of its own output.

    A gemm of two activations that splits tokens (mode ``physical``) needs all of its (outer · M) × K operand. Where
    nothing says which tensor that is, it reads both whole. Sums over tokens (K_N) read both by their tokens. A weight
    update of g xᵀ makes rows (M) of these rows of g and all of x, columns (N) of these rows of x and all of g; where
    nothing says which is x, it reads both by its own layout.
    """
    if kernel.kind != "gemm":
        return _MADE[scheme]
    if kernel.update and kernel.operand and mode == "physical" and scheme in ("M", "N"):
        return "SR" if reads_operand(kernel, maker) == (scheme == "N") else "RR"
    if scheme in ("M_K", "K_M"):
        return "SR" if scheme == "M_K" else "TR"
    if scheme in BY_HEADS:
        of_rows = scheme == "OUTER_K" and (maker.outer, maker.M) == (kernel.outer, kernel.K)
        return "HR" if of_rows else "SR"
    if kernel.weights:
        return _TAKEN_WITH_WEIGHTS[mode][scheme]
    apart = kernel.operand != "" and not reads_operand(kernel, maker)
    return "RR" if splits_tokens(kernel, scheme, mode) and not apart else _MADE[scheme]


def collective_ns(collective: Collective, tensor_bytes: Fraction, dimension: Dimension, factor: int) -> Fraction:
    """Nanoseconds of a collective over one network dimension of n chips with links of B bytes/ns; S = tensor bytes.

    All-reduce and all-gather: S(n-1)/(nB) on a ring or switch, S/(nB) fully connected, an all-reduce ``factor`` times;
    reduce-scatter as all-gather; all-to-all: S·n²/(8B) on a ring, S·n/(4B) on a switch, S/B fully connected. Every
    all-reduce adds the latency of 2(n-1) steps (2 fully connected), the others that of n-1 (1). A switch that reduces
    gets S bytes from each chip and sends the sum back meanwhile: an all-reduce takes S/B and the latency of two steps.
    ``start_ns`` of the dimension is added once. Where there are no bytes nothing runs, and no step has a
    latency; so it is for all that is sent (page, "Sharding").
    """
    n, rate = dimension.size, dimension.rate
    if collective == "none" or n == 1 or not tensor_bytes:
        return Fraction(0)
    full = dimension.topology == "full"
    steps = 1 if full else n - 1
    latency, start = exact(dimension.latency_ns) * steps, exact(dimension.start_ns)
    if collective == "all_reduce" and dimension.reduces:
        return tensor_bytes / rate + 2 * exact(dimension.latency_ns) + start
    if collective == "all_to_all":
        share = {"ring": Fraction(n * n, 8), "switch": Fraction(n, 4), "full": Fraction(1)}[dimension.topology]
        return tensor_bytes * share / rate + latency + start
    once = tensor_bytes * (1 if full else n - 1) / (n * rate)
    return start + (once * factor + 2 * latency if collective == "all_reduce" else once + latency)


def among_chips(dimension: Dimension, chips: int) -> Dimension:
    """A group of so many neighbours of a dimension, all groups at the same time."""
    return msgspec.structs.replace(dimension, size=chips)


def swap_ns(chip_bytes: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds until every chip of a dimension has sent the n-th part of ``chip_bytes`` = c to each other one.

    Switch: c(n-1)/(nB). Ring: messages pass ⌊n²/4⌋/n links on average, c⌊n²/4⌋/(nB). Fully connected: c/(nB), as each
    pair has a link. And the latency of n-1 steps (fully connected 1).
    """
    n = dimension.size
    if n == 1 or not chip_bytes:
        return Fraction(0)
    sent = {"ring": n * n // 4, "switch": n - 1, "full": 1}[dimension.topology]
    steps = 1 if dimension.topology == "full" else n - 1
    rate = dimension.rate
    return chip_bytes * sent / (n * rate) + steps * exact(dimension.latency_ns) + exact(dimension.start_ns)


def exchange_ns(exchange: Exchange, chip_bytes: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds for every chip to send ``chip_bytes`` to all n of a dimension, each another part or each all of it.

    An all-to-all in which a pair of chips exchanges S = ``chip_bytes`` / n (:func:`collective_ns`); a broadcast of c
    bytes takes c/B as it is passed on, and the latency of n-1 steps (1 fully connected).
    """
    n = dimension.size
    if exchange == "none" or n == 1 or not chip_bytes:
        return Fraction(0)
    if exchange == "all_to_all":
        return collective_ns("all_to_all", chip_bytes / n, dimension, 1)
    steps = 1 if dimension.topology == "full" else n - 1
    return chip_bytes / dimension.rate + steps * exact(dimension.latency_ns) + exact(dimension.start_ns)


def published_exchange_ns(chip_bytes: Fraction, dimensions: Sequence[Dimension]) -> Fraction:
    """Nanoseconds of an all-to-all of ``chip_bytes`` per chip over these dimensions, as mode ``dfmodel`` counts it.

    A pair of the P chips sends chip_bytes / P. Where all dimensions are rings, P²/2 messages cross the 2P/s links that
    cut a ring of s in two (its published runs count a chip's own part too). Else what the dimensions before hold is a
    box with one uplink: of the Q chips that a dimension of s joins, each in one half sends to each in the other, Q²/4
    messages over 2 (ring), s (switch) or s²/4 (fully connected) links. The slowest dimension counts. Source: the logs
    of DFModel's published runs of section VI-C.
    """
    sides = [one for one in dimensions if one.size > 1 and chip_bytes]
    chips, joined, slowest = prod(one.size for one in sides), 1, Fraction(0)
    torus = all(one.topology == "ring" for one in sides)
    for one in sides:
        n, joined = one.size, joined * one.size
        cut = {"ring": Fraction(2), "switch": Fraction(n), "full": Fraction(n * n, 4)}[one.topology]
        links = Fraction(2 * chips, n) if torus else cut
        sent = (Fraction(chips * chips, 2) if torus else Fraction(joined * joined, 4)) * chip_bytes / chips
        steps = 1 if one.topology == "full" else n - 1
        late = steps * exact(one.latency_ns) + exact(one.start_ns)
        slowest = max(slowest, sent / (links * one.rate) + late)
    return slowest


def refuse_scheme(kernel: Kernel, scheme: Scheme, mode: CostMode) -> None:
    """Raise :class:`InputError` where ``kernel`` can't have ``scheme``."""
    if scheme not in schemes(kernel, mode):
        what = f"kernel {kernel.name!r} can't be sharded by {scheme}"
        known = ", ".join(schemes(kernel, mode))
        raise InputError(what, f"task.schemes.{kernel.name}", f"Choose from {known}.")
