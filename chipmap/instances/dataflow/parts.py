"""What of a kernel one chip has under a sharding scheme (``docs/families/dataflow.md``, "Parts", "Tokens")."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from chipmap.instances.dataflow.instance import CostMode
from chipmap.instances.dataflow.workload import Kernel, Scheme


class Parts(NamedTuple):
    """The shares of a kernel on one of the chips that run it: of its FLOP, of the parameters that schemes divide
    (tables too), of what it fetches, and of its output."""

    work: Fraction
    weights: Fraction
    fetch: Fraction
    output: Fraction


class Routed(NamedTuple):
    """What shares depend on beside a kernel and its chips. Scheme E divides experts among the chips of so many
    replicas, of which the fullest has ``load`` times the mean of the tokens. Scheme B splits the ``samples`` of a
    micro-batch. Grids of chips are of ``last`` columns, the chips of the group's last dimension."""

    replicas: int = 1
    load: Fraction = Fraction(1)
    samples: int = 1
    last: int = 1


ALONE = Routed()


#: Schemes that split heads among groups of chips, and rows or sums of each head within a group.
BY_HEADS: tuple[Scheme, ...] = ("OUTER_M", "OUTER_K")


#: Schemes of a grid of chips: rows over all dimensions of a group but the last and terms over this one, the other way
#: round, and rows as the first of these leaves them.
ON_GRID: tuple[Scheme, ...] = ("M_K", "K_M", "M_T")


def grid(scheme: Scheme, chips: int, last: int) -> tuple[int, int]:
    """Among how many chips of a grid a product's rows, and its terms, are shared out."""
    return (chips // last, last) if scheme == "M_K" else (last, chips // last)


def _on_grid(kernel: Kernel, scheme: Scheme, chips: int, last: int) -> Parts:
    """Rows and terms of a chip on a grid, as far as there are such; sums are scattered by rows."""
    rows, (by_rows, by_terms) = kernel.outer * kernel.M, grid(scheme, chips, last)
    output = _share(rows, chips)
    here = output if scheme == "M_T" else _share(rows, by_rows) * _share(kernel.K, by_terms)
    return Parts(here, here, here, output)


def read_share(kernel: Kernel, scheme: Scheme, mode: CostMode, chips: int, routed: Routed) -> Fraction:
    """The share of a split tensor that a chip of its reader needs: that of its work, or of its terms on a grid."""
    if scheme in ("M_K", "K_M"):
        return _share(kernel.K, grid(scheme, chips, routed.last)[1])
    return parts(kernel, scheme, mode, chips, routed).work


def head_groups(kernel: Kernel, chips: int) -> int:
    """g, the groups of chips among which BY_HEADS splits heads: the most that divide chips and heads of the cache."""
    return math.gcd(chips, kernel.fetch_outer or kernel.outer)


def _in_groups(kernel: Kernel, scheme: Scheme, chips: int) -> Parts:
    """A g-th of the heads, and of each the rows or sums of one of the t = chips / g chips of a group, as far as there
    are such. Sums are scattered by rows within the group."""
    groups = head_groups(kernel, chips)
    within = _share(kernel.M if scheme == "OUTER_M" else kernel.K, chips // groups) / groups
    return Parts(within, within, within, within if scheme == "OUTER_M" else _share(kernel.outer * kernel.M, chips))


def splits_tokens(kernel: Kernel, scheme: Scheme, mode: CostMode) -> bool:
    """Whether a scheme splits tokens, for which every chip needs all parameters: N in mode ``physical``.

    The columns of a weight update are no tokens. The published model divides the weights all the same.
    """
    return scheme == "N" and mode == "physical" and not kernel.update


def parts(kernel: Kernel, scheme: Scheme, mode: CostMode, chips: int, routed: Routed = ALONE) -> Parts:
    """The shares of ``kernel`` on each of ``chips`` chips; all of it under NONE, whole samples under B.

    A scheme splits d heads, rows, columns or products to be summed, of which a chip has ⌈d / chips⌉: the share is
    ⌈d / chips⌉ / d in mode ``physical`` and 1 / chips in mode ``dfmodel``, as of kernels that state no sizes. Where
    tokens are split, a chip has all parameters. A gemm fetches its (outer · M) × K operand, of which every column needs
    all; others fetch rows for their own tokens. Where experts are divided (E), a chip has p = ⌈experts / chips of all
    ``routed`` replicas⌉ / experts of the parameters, and for these the tokens of all of them: at most load · p of each.
    """
    if scheme == "NONE":
        return Parts(*[Fraction(1)] * 4)
    if scheme == "B":
        return Parts(*[_share(routed.samples, chips)] * 4)
    if scheme in ON_GRID:
        return _on_grid(kernel, scheme, chips, routed.last)
    if scheme in BY_HEADS:
        return _in_groups(kernel, scheme, chips)
    if scheme == "E":
        own = _share(kernel.experts, chips * routed.replicas)
        work = routed.replicas * min(Fraction(1), routed.load * own)
        return Parts(work, own, Fraction(0), own if kernel.update else work)
    if mode == "dfmodel" or kernel.kind == "opaque":
        work = fetch = output = Fraction(1, chips)
    else:
        rows = kernel.outer * kernel.M
        sizes: dict[Scheme, int] = {"OUTER": kernel.outer, "M": rows, "N": kernel.N}
        work = _share(sizes.get(scheme, kernel.K or chips), chips)
        fetch = _fetched(kernel, chips) if scheme == "OUTER" and kernel.fetch_outer else work
        scattered = {"K_RS": rows, "K_N": kernel.N}
        output = _share(scattered[scheme], chips) if scheme in scattered else work
        if sums := sums_of_heads(kernel, scheme, mode, chips):
            output = Fraction(1) if sums == "all_reduce" else _share(kernel.heads * kernel.M, chips)
    output = Fraction(1) if scheme == "K" else output
    if splits_tokens(kernel, scheme, mode):
        return Parts(work, Fraction(1), Fraction(1) if kernel.kind == "gemm" else work, output)
    return Parts(work, work, fetch, output)


def sums_of_heads(
    kernel: Kernel, scheme: Scheme, mode: CostMode, chips: int
) -> Literal["", "all_reduce", "reduce_scatter"]:
    """The collective in which a gradient of h heads ends, to which several of ``outer`` heads each add.

    By heads (OUTER) each of n chips has the terms of its own ones. Where n divides h, these are all terms of its part
    of the gradient. Where h divides n, the n / h chips that have terms of one head scatter their sum; else all chips
    add up all of it.
    """
    product = kernel.kind == "gemm" and not kernel.weights and not kernel.update and kernel.phase == "backward"
    heads = kernel.heads
    if mode == "dfmodel" or scheme != "OUTER" or not product or not 0 < heads < kernel.outer or heads % chips == 0:
        return ""
    return "reduce_scatter" if chips % heads == 0 else "all_reduce"


def apart_by_samples(maker: Kernel, scheme: Scheme, chips: int) -> bool:
    """Whether a chip that has some of ``outer`` heads, those of each of several samples, lacks samples of its rows."""
    of_samples = maker.phase == "forward" and 0 < maker.heads < maker.outer
    return scheme == "OUTER" and of_samples and maker.heads % chips != 0


def needed_by_heads(maker: Kernel, reader: Kernel, scheme: Scheme, chips: int) -> Fraction:
    """The share of a split tensor that a chip of a reader by heads needs beside its own share of the work: whole heads
    of the tensor, those of its group under BY_HEADS."""
    groups = head_groups(reader, chips) if scheme in BY_HEADS else chips
    return max(heads_share(maker, groups), Fraction(1, groups) if scheme in BY_HEADS else Fraction(0))


def heads_share(maker: Kernel, chips: int) -> Fraction:
    """The share of a tensor that a reader by heads needs: ⌈h / n⌉ of its h heads; 0 where it is unsaid how many it has.

    The heads of a forward kernel with ``outer`` above 1 are these, of every sample.
    """
    rows = maker.heads if maker.phase == "backward" or maker.outer == 1 else 0
    heads = rows or (maker.outer if maker.outer > 1 else 0)
    return _share(heads, chips) if heads else Fraction(0)


def _share(size: int, chips: int) -> Fraction:
    return Fraction(-(-size // chips), size)


def _fetched(kernel: Kernel, chips: int) -> Fraction:
    """The share of ``fetch_outer`` parts that ⌈outer / chips⌉ heads in a row need, wherever they begin."""
    heads, group = -(-kernel.outer // chips), kernel.outer // kernel.fetch_outer
    begin_together = heads % group == 0 or group % heads == 0
    count = -(-heads // group) if begin_together else -(-(heads - 1) // group) + 1
    return min(Fraction(1), Fraction(count, kernel.fetch_outer))


@lru_cache(maxsize=4096)
def padded(share: Fraction) -> Fraction:
    """How many times its own size a tensor is in parts of this share: the last part is as large as the others."""
    return math.ceil(1 / share) * share


@lru_cache(maxsize=4096)
def has(held: Fraction, needed: Fraction, chips: int) -> bool:
    """Whether a chip that has the part ``held`` of a split tensor has the part ``needed`` of it.

    Equal shares are the same parts. Where both are whole numbers of n-ths that divide n, several chips have the same
    part, and a larger one holds the smaller ones of these chips.
    """
    return held == needed or _nested(held, needed, chips)


def _nested(larger: Fraction, smaller: Fraction, chips: int) -> bool:
    return (larger / smaller).denominator == 1 and divides(larger, chips) and divides(smaller, chips)


def divides(share: Fraction, chips: int) -> bool:
    """Whether a share is g / chips for a whole number g that divides the chips; as many chips then have each part."""
    return (share * chips).denominator == 1 and chips % (share * chips) == 0


def gatherers(held: Fraction, needed: Fraction, chips: int) -> int:
    """How many chips gather their parts ``held`` until each has the larger part ``needed``: those that need the same
    one; all where the parts of these don't make it up."""
    return int(needed / held) if needed > held and _nested(needed, held, chips) else chips
