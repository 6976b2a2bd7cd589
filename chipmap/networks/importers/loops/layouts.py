"""How a tensor lies on the chips of a group that share its maker: followed through views without moving an element.

Element i of a tensor (counted in row-major order) belongs to part ⌊(i mod block) · n / block⌋ of n. One number, the
``block``, so describes a split along any axis, or along the outer factor of one: along axis a of extent d and stride s
the block is s · d. A reshape doesn't change the order of elements, hence not the block either. A permutation of axes
changes strides: the block must lie in one axis, and moves with it. Where two operators describe a tensor by the same
block, they mean the same parts, whether one speaks of 4,096 features and the other of 32 heads of 128.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Literal, NamedTuple

Shape = tuple[int, ...]


class Split(NamedTuple):
    """Split in parts of a ``block`` of elements, at most ``parts`` (n divides them); chosen by the step ``maker``."""

    block: int
    parts: int
    maker: int = -1


#: ``whole``: every chip always has all of it, so that it can be read in any way. ``lost``: it may be split, but which
#: elements are where can't be told of this view of it; it must be gathered.
Layout = Split | Literal["whole", "lost"]
WHOLE: Layout = "whole"


class Place(NamedTuple):
    """A split as an axis of a shape: index ⌊(i mod extent) · n / extent⌋ along ``axis``."""

    axis: int
    extent: int
    parts: int
    maker: int


def stride(shape: Shape, axis: int) -> int:
    """Elements between two neighbours along an axis."""
    return prod(shape[axis + 1 :])


def located(split: Split, shape: Shape) -> Place | None:
    """The axis along which a tensor of that shape is split; None where the parts are no ranges of one axis.

    A block that spans several axes is split along the outermost: n parts of it are n parts of that axis.
    """
    for axis, size in enumerate(shape):
        step = stride(shape, axis)
        if size > 1 and step < split.block <= step * size:
            extent = split.block // step
            if split.block % step or size % extent:
                return None
            return Place(axis, extent, gcd(split.parts, extent), split.maker)
    return None


def placed(place: Place, shape: Shape) -> Layout:
    """The layout of a tensor that is split so; lost where nothing is left to be split."""
    parts = gcd(place.parts, place.extent)
    return Split(stride(shape, place.axis) * place.extent, parts, place.maker) if parts > 1 else "lost"


def moved(layout: Layout, before: Shape, axes: Sequence[int | None], after: Shape) -> Layout:
    """The layout of a view whose axis j is axis ``axes[j]`` of the tensor (None: an axis of its own)."""
    if not isinstance(layout, Split):
        return layout
    place = located(layout, before)
    if place is None or place.axis not in axes:
        return "lost"
    axis = axes.index(place.axis)
    return placed(place._replace(axis=axis), after) if before[place.axis] == after[axis] else "lost"
