"""Rules of operators that make each number from few others: element by element, along some axes, or by rows of a table.

Each rule names ``rows`` only where every operand that may be split lies split along the axis that it splits itself, and
where nothing mixes along this axis.
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd, prod

from chipmap.networks.graph import Loops
from chipmap.networks.importers.loops.call import Call, Operand, Outcome, place_of
from chipmap.networks.importers.loops.layouts import Place, Split, moved


def shared(call: Call, operands: Collection[Operand]) -> Place | None:
    """The one place in the result, axes counted from the last, at which all operands that are split lie split."""
    shape, found = call.made[0].shape, None
    for operand in operands:
        if operand.fixed or operand.layout == "whole":
            continue
        place = place_of(operand)
        axis = -1 if place is None else place.axis + len(shape) - len(operand.shape)
        if place is None or axis < 0 or shape[axis] != operand.shape[place.axis]:
            call.ask_whole(call.operands)
            return None
        place = place._replace(axis=axis)
        if found is not None:
            if (place.axis, place.extent) != (found.axis, found.extent):
                call.ask_whole(call.operands)
                return None
            place = found._replace(parts=gcd(found.parts, place.parts))
        found = place
    return found


def by_rows(call: Call, place: Place, whole_bytes: int) -> Outcome:
    """The outcome of an operator whose rows lie along the axis at ``place``."""
    loops = Loops(
        rows=place.extent,
        columns=call.made[0].elements // place.extent,
        splits=("rows",),
        whole_bytes=whole_bytes,
    )
    return Outcome(loops, call.layouts(place))


def pointwise(call: Call, mixed: Collection[int] = (), channel: int | None = None) -> Outcome:
    """Operands of the result's shape, or broadcast to it; the axes in ``mixed`` are not independent of one another."""
    place = shared(call, call.operands)
    if place is None or place.axis in mixed or place.parts < 2:
        return call.whole()
    return by_rows(call, place, call.needed_whole(place, call.operands, channel))


def along(call: Call) -> Outcome:
    """Softmax, cumulative sums, sorts: what they mix lies along ``dim``."""
    rank = len(call.operands[0].shape)
    axes = call.axes(rank, "dim", "dims", "axis", "axes")
    if axes and not call.step.kind.islower():  # ONNX before version 13: that axis and all behind it
        axes = list(range(min(axes), rank))
    return pointwise(call, axes) if axes else call.whole()


def layer_norm(call: Call) -> Outcome:
    """Normalisations over the last axes: as many as ``normalized_shape`` has, or from ``axis`` on."""
    rank, shape = len(call.operands[0].shape), call.numbers("normalized_shape")
    first = call.axis(rank, "axis") if shape is None else rank - len(shape)
    return call.whole() if first is None or first < 0 else pointwise(call, range(first, rank))


def batch_norm(call: Call) -> Outcome:
    """Normalisations per channel (axis 1), parametric activations among them."""
    rank = len(call.operands[0].shape)
    return pointwise(call, [axis for axis in range(rank) if axis != 1], channel=1)


def group_norm(call: Call) -> Outcome:
    """Normalisations over groups of channels: at most as many parts as groups."""
    groups, place = call.numbers("num_groups", "group"), shared(call, call.operands)
    if groups is None or len(groups) != 1 or place is None or place.axis != 1:
        return call.whole()
    parts = gcd(place.parts, max(1, groups[0]))
    if place.extent != call.made[0].shape[1] or parts < 2:
        return call.whole()
    return by_rows(call, place._replace(parts=parts), call.needed_whole(place, call.operands, channel=1))


def window(call: Call) -> Outcome:
    """Pooling, padding, resampling and the like: an axis of unchanged extent that no window covers stays apart.

    Windows lie over the last axes: as many as the name says (``max_pool2d``), else all from the third on.
    """
    rank = len(call.operands[0].shape)
    digits = [int(c) for c in call.step.kind if c in "123"]
    first = rank - digits[0] if digits else 2
    if len(call.made[0].shape) != rank or any(not o.fixed and o.layout != "whole" for o in call.operands[1:]):
        return call.whole()
    return pointwise(call, range(max(first, 0), rank))


def padded(call: Call) -> Outcome:
    """Padding: the axes to which it adds something are mixed."""
    before, after = call.operands[0].shape, call.made[0].shape
    rank, given = len(before), call.numbers("pad", "pads", "padding")
    if rank != len(after) or given is None:
        return call.whole()
    if call.step.kind.islower():  # PyTorch: (before, after) of the last axis first
        touched = {rank - 1 - i // 2 for i, size in enumerate(given) if size}
    else:  # ONNX: all before, then all after
        listed = list(range(rank)) if call.argument("axes") is None else call.axes(rank, "axes") or []
        if len(given) != 2 * len(listed):
            return call.whole()
        touched = {listed[i % len(listed)] for i, size in enumerate(given) if size}
    return pointwise(call, touched)


def reduction(call: Call) -> Outcome:
    """Sums, means, extremes over some axes; without a list of them the axes whose extent changes."""
    operand, made = call.operands[0], call.made[0]
    if not isinstance(operand.layout, Split) or any(not o.fixed and o.layout != "whole" for o in call.operands[1:]):
        return call.whole()
    rank = len(operand.shape)
    axes = call.axes(rank, "dim", "dims", "axes", "axis") or None
    if axes is None and len(made.shape) == rank:
        axes = [axis for axis, size in enumerate(operand.shape) if made.shape[axis] != size]
    if axes is None:
        return call.whole()
    kept: list[int | None] = [a for a in range(rank) if len(made.shape) == rank or a not in axes]
    place = place_of(operand)
    if place is None or place.axis in axes or len(kept) != len(made.shape):
        return call.whole()
    layout = moved(operand.layout, operand.shape, kept, made.shape)
    after = Operand(made.shape, layout)
    at = place_of(after)
    return call.whole() if at is None else by_rows(call, at, 0)


def joined(call: Call) -> Outcome:
    """``cat``: along another axis than the one that is split, or of pieces that are all split in equal blocks."""
    shape = call.made[0].shape
    axis = call.axis(len(shape), "dim", "axis")
    if axis is None:  # the only axis along which extents add up
        sums = [sum(o.shape[a] for o in call.operands if len(o.shape) == len(shape)) for a in range(len(shape))]
        grown = [a for a, size in enumerate(shape) if any(o.shape[a : a + 1] != (size,) for o in call.operands)]
        if len(grown) != 1 or sums[grown[0]] != shape[grown[0]]:
            return call.whole()
        axis = grown[0]
    if any(len(operand.shape) != len(shape) for operand in call.operands):
        return call.whole()
    found: Place | None = None
    for operand in call.operands:
        if operand.fixed or operand.layout == "whole":
            continue
        place = place_of(operand)
        if place is None or (found and (place.axis, place.extent) != (found.axis, found.extent)):
            return call.whole()
        found = place if found is None else found._replace(parts=gcd(found.parts, place.parts))
    if found is None or found.parts < 2:
        return call.whole()
    if found.axis == axis and any(operand.shape[axis] % found.extent for operand in call.operands):
        return call.whole()
    return by_rows(call, found, 0)


def stacked(call: Call) -> Outcome:
    """``stack``: a new axis ``dim``."""
    shape = call.made[0].shape
    axis = call.axis(len(shape), "dim", "axis", default=0)
    if axis is None:
        return call.whole()
    wide = [o._replace(shape=(*o.shape[:axis], 1, *o.shape[axis:])) for o in call.operands]
    if any(len(operand.shape) != len(shape) for operand in wide):
        return call.whole()
    place = shared(call, wide)  # a new axis of extent 1 doesn't change the order of elements
    return call.whole() if place is None or place.axis == axis or place.parts < 2 else by_rows(call, place, 0)


def table(call: Call) -> Outcome:
    """Look-ups by indices along one axis: rows of a stored table, split along its last axis, or of an activation."""
    data, *indices = call.operands
    rank = len(data.shape)
    axis = 0 if call.step.kind == "embedding" else call.axis(rank, "axis", "dim")
    if axis is None or not indices or any(not o.fixed and o.layout != "whole" for o in indices):
        return call.whole()
    made = call.made[0].shape
    if len(made) != rank - 1 + len(indices[0].shape):
        return call.whole()
    if data.fixed:
        place = call.chosen(len(made) - 1)
        return call.whole() if axis == rank - 1 or place is None else by_rows(call, place, 0)
    axes = [*range(axis), *[None] * len(indices[0].shape), *range(axis + 1, rank)]
    if isinstance(data.layout, Split):
        cut = place_of(data)
        if cut is not None and cut.axis == axis:
            call.ask(data.layout, cut.extent)
    layout = moved(data.layout or "lost", data.shape, axes, made)
    at = place_of(Operand(made, layout))
    return call.whole() if at is None else by_rows(call, at, 0)


def copies(call: Call) -> Outcome:
    """``repeat``, ``tile``: axes that are as long as before hold the same elements."""
    operand, made = call.operands[0], call.made[0]
    extra = len(made.shape) - len(operand.shape)
    if not isinstance(operand.layout, Split) or extra < 0:
        return call.whole()
    axes: list[int | None] = [None] * extra + list(range(len(operand.shape)))
    at = place_of(Operand(made.shape, moved(operand.layout, operand.shape, axes, made.shape)))
    if at is None or prod(operand.shape) == 0:
        return call.whole()
    return by_rows(call, at, 0)
