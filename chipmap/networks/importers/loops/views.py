"""Rules of views: the same elements in another order or shape, or some of them."""

from __future__ import annotations

from math import gcd, prod

from chipmap.networks.importers.loops.call import Call
from chipmap.networks.importers.loops.layouts import Layout, Shape, Split, located, moved, placed
from chipmap.networks.importers.steps import words

#: Another shape for the same elements in the same order.
RESHAPES = words(
    """alias alias_copy broadcast_in_dim cast contiguous detach dropout feature_dropout flatten getitem identity if
    lift_fresh lift_fresh_copy loop positive reshape reshape_as sequenceat sequenceconstruct squeeze to type_as
    unflatten unsafe_view unsqueeze view view_as _reshape_alias _to_copy _unsafe_view"""
)
_SWAPS = words("t mT matrix_H mH adjoint numpy_T transpose swapaxes movedim moveaxis permute")
_SPREADS = words("expand expand_as broadcast_to")
_CUTS = words(
    "slice narrow split split_with_sizes chunk unsafe_chunk unsafe_split unsafe_split_with_sizes splittosequence"
)
_PICKS = words("select unbind")


def view(call: Call, plain: str) -> tuple[Layout, ...]:
    """The layouts of a view's results; ``plain`` is its kind in lower case."""
    operand = call.operands[0]
    layout = operand.layout
    if not isinstance(layout, Split):
        return (layout or "lost",) * len(call.made)
    found: list[Layout] = []
    offset = 0
    for value in call.made:
        before, after = operand.shape, value.shape
        made: Layout = "lost"
        if plain in RESHAPES:
            made = layout if value.elements == prod(before) else "lost"
        elif plain in _SWAPS:
            axes = _permuted(call, plain, len(before))
            if axes is not None and tuple(before[axis] for axis in axes) == after:
                made = moved(layout, before, axes, after)
        elif plain in _SPREADS:
            extra = len(after) - len(before)
            made = moved(layout, before, [None] * extra + list(range(len(before))), after) if extra >= 0 else "lost"
        elif plain in _CUTS and len(before) == len(after):
            made = _cut(call, layout, before, after, offset)
            offset += next((b for a, b in zip(before, after, strict=True) if a != b), 0)
        elif plain in _PICKS:
            made = _picked(call, layout, before, after)
        found.append(made)
    return tuple(found)


def _permuted(call: Call, plain: str, rank: int) -> list[int] | None:
    """Axis j of the result is axis [j] of the operand; None where the arguments don't say."""
    axes = list(range(rank))
    if plain in ("t", "mT", "matrix_H", "mH", "adjoint", "numpy_T"):
        return axes[::-1] if plain == "numpy_T" else axes[:-2] + axes[-2:][::-1]
    if call.argument("dims", "perm") is not None:
        order = call.axes(rank, "dims", "perm")
        return order if order is not None and sorted(order) == axes else None
    if call.step.kind == "Transpose":  # of ONNX, without its attribute
        return axes[::-1]
    if plain in ("movedim", "moveaxis"):
        start, end = (call.axis(rank, name) for name in ("source", "destination"))
        if start is None or end is None:
            return None
        axes.remove(start)
        axes.insert(end, start)
        return axes
    first, second = (call.axis(rank, *names) for names in (("dim0", "axis0"), ("dim1", "axis1")))
    if first is None or second is None:
        return None
    axes[first], axes[second] = axes[second], axes[first]
    return axes


def _cut(call: Call, layout: Split, before: Shape, after: Shape, offset: int) -> Layout:
    """A range along some axes. Along the axis that is split, ranges of whole blocks keep the split."""
    place = located(layout, before)
    if place is None:
        return "lost"
    size, kept = before[place.axis], after[place.axis]
    steps = [1] if call.argument("step", "steps") is None else call.numbers("step", "steps")
    if steps is None or any(step < 0 for step in steps):  # backwards
        return "lost"
    if kept == size:
        return placed(place, after)
    start: int | None = offset
    if call.step.kind in ("slice", "narrow", "Slice"):
        start = _start(call, place.axis, len(before))
        if any(step != 1 for step in steps):
            return "lost"
    if start is None:
        return "lost"
    start %= size
    if kept % place.extent == 0 and start % place.extent == 0:
        return placed(place, after)
    piece = gcd(gcd(kept, start), place.extent)
    if piece > 1:
        call.ask(layout, place.extent // piece)
    return "lost"


def _start(call: Call, axis: int, rank: int) -> int | None:
    """Where a slice begins along an axis; None if that isn't said."""
    starts, axes = call.numbers("start", "starts"), call.axes(rank, "dim", "axes")
    if starts is None or (axes is None and len(starts) < rank):
        return None
    found = [start for start, one in zip(starts, axes or range(rank), strict=False) if one == axis]
    return found[0] if len(found) == 1 else None


def _picked(call: Call, layout: Split, before: Shape, after: Shape) -> Layout:
    """One index along an axis."""
    rank = len(before)
    axis = call.axis(rank, "dim", default=0 if call.step.kind == "unbind" else None)
    place = located(layout, before)
    if axis is None or place is None or len(after) != rank - 1:
        return "lost"
    if place.axis == axis:
        call.ask(layout, place.extent)
        return "lost"
    return moved(layout, before, [a for a in range(rank) if a != axis], after)
