"""How a tensor lies on the chips of a group, how it gets from one layout to another, and the bytes over a chip's link.

A tensor is an array of rows x experts x columns; all but those of experts' columns have one "expert". A chip's part is
contiguous in one of the three axes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

Kind = Literal["RR", "SR", "RS", "EE", "sum"]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"]
#: The axis that a layout splits.
AXIS: dict[Kind, int] = {"SR": 0, "EE": 1, "RS": 2}


class Layout(NamedTuple):
    """Rows (SR), columns (RS) or experts (EE) split into ``parts``, of which chip i of n has number ⌊i · parts / n⌋;
    all on every chip (RR); or a term of a ``sum`` over chips, of whole size, on each."""

    kind: Kind
    parts: int = 1

    def __str__(self) -> str:
        return self.kind


WHOLE, PARTIAL = Layout("RR"), Layout("sum")


class Change(NamedTuple):
    """A step from a layout to another: a collective among groups of chips, or none where a chip has what it needs."""

    collective: Collective | None
    before: Layout
    after: Layout


def covers(held: Layout, needed: Layout) -> bool:
    """Whether each chip has its part of ``needed`` where it has that of ``held``."""
    return held.kind == "RR" or (held.kind == needed.kind and needed.parts % held.parts == 0)


def change(held: Layout, needed: Layout) -> Change:
    """What brings a tensor from one layout to another: nothing, an all-gather, or an all-to-all; of a sum, an
    all-reduce or a reduce-scatter."""
    if held.kind == "sum":
        return Change("all_reduce" if needed.kind == "RR" else "reduce_scatter", held, needed)
    if covers(held, needed):
        return Change(None, held, needed)
    if held.kind == needed.kind and held.parts % needed.parts == 0:
        return Change("all_gather", held, needed)
    if needed.kind == "RR" or held.kind == needed.kind:
        return Change("all_gather", held, WHOLE)
    return Change("all_to_all", held, needed)


def moved(size: Fraction, one: Change, chips: int) -> Fraction:
    """Bytes over a chip's link of a change of a tensor of ``size`` bytes, as rings and switches move it.

    An all-gather and a reduce-scatter (n - 1)/n of it, an all-reduce twice that, an all-to-all (n - 1)/n of what a chip
    has afterwards. Chips with the same part gather among as many as there are parts, and swap a share of it each.
    """
    if one.collective is None or chips == 1:
        return Fraction(0)
    if one.collective == "all_gather":
        return size * (Fraction(1, one.after.parts) - Fraction(1, one.before.parts))
    if one.before.kind == "sum" and one.before.parts > 1:  # of chips that share a head
        return size * (Fraction(1, one.before.parts) - Fraction(1, chips))
    part = {
        "all_reduce": Fraction(2),
        "reduce_scatter": Fraction(1),
        "all_to_all": Fraction(1, one.after.parts),
        "permute": Fraction(chips, chips - 1),
    }[one.collective]
    return size * part * Fraction(chips - 1, chips)
