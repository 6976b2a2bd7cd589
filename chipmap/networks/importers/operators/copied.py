"""What products of PyTorch copy of their operands before they multiply, and keep in place of them.

A product of more dimensions is one of matrices (``mm``) or of a batch of matrices (``bmm``). Dimensions that it takes
as one are merged. Where their strides don't allow that, the operand is copied, and the gradient of the other operand
reads the copy. Sources: PyTorch 2.13, ``at::native::should_fold`` and ``_matmul_impl`` (``LinearAlgebra.cpp``),
``sumproduct_pair`` (``Linear.cpp``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod

from chipmap.networks.importers.operators.sums import Names, index_names
from chipmap.networks.importers.steps import Step, Value

_FOLDED = ("linear", "matmul")


def copied_bytes(step: Step, values: Mapping[str, Value]) -> int:
    """Bytes of the copies; of an operand whose strides aren't known none is counted.

    Constants (weights) are left out: what is copied of these depends on no sample.
    """
    read = [values[name] for name in step.reads if name in values]
    if len(read) < 2:
        return 0
    if step.kind in _FOLDED:
        return _folded(read[0], read[1])
    if step.kind == "einsum" and len(read) == 2:
        return _summed(str(step.arguments.get("equation", "")), read)
    return 0


def _folded(left: Value, right: Value) -> int:
    """The copy where one operand is a matrix: all dimensions of the other but its inner one are merged."""
    if len(left.shape) > 2 >= len(right.shape):
        return _copy(left, [range(len(left.shape) - 1)])
    if len(right.shape) > 2 == len(left.shape):  # the transpose of the right operand times that of the left one
        rank = len(right.shape)
        return _copy(right, [[*range(rank - 2), rank - 1]])
    return 0


def unmerged(kind: str, read: Sequence[Value]) -> int:
    """Bytes of the operands of a product of two batches of matrices whose batch can't be taken as one dimension."""
    if kind != "matmul" or len(read) < 2 or min(len(one.shape) for one in read[:2]) < 3:
        return 0
    return sum(_copy(one, [range(len(one.shape) - 2)]) for one in read[:2])


def _summed(equation: str, read: Sequence[Value]) -> int:
    """The copies of an ``einsum`` of two operands.

    Each is a batch of matrices: the indices that both operands and the result have, those that only this operand and
    the result have, and those that are summed. Each group is merged. In it, indices stand in the order of the result,
    then of the alphabet.
    """
    terms, _, made = equation.replace(" ", "").partition("->")
    names = [index_names(term, len(one.shape)) for term, one in zip(terms.split(","), read, strict=False)]
    if len(terms.split(",")) != 2 or None in names or "->" not in equation or "." in equation:
        return 0
    left, right = (name for name in names if name is not None)
    extents = dict(zip(left, read[0].shape, strict=True))
    others = dict(zip(right, read[1].shape, strict=True))
    if len(extents) < len(left) or len(others) < len(right) or extents | others != others | extents:
        return 0  # a diagonal, or a dimension that is repeated
    inner = sorted((set(left) & set(right)) - set(made))
    if all(extents[letter] == 1 for letter in inner) or (set(left) ^ set(right)) - set(made):
        return 0  # a product of numbers, or a sum before the product
    return sum(
        _copy(one, [[name.index(letter) for letter in group] for group in (*_outer(name, other, made), inner)])
        for name, other, one in ((left, right, read[0]), (right, left, read[1]))
    )


def _outer(own: Names, other: Names, made: Iterable[str]) -> tuple[list[str], list[str]]:
    """The indices of the result that both operands have, and those of its ``own`` alone."""
    mine = [letter for letter in made if letter in own]
    return [one for one in mine if one in other], [one for one in mine if one not in other]


def _copy(value: Value, merged: Iterable[Sequence[int]]) -> int:
    """The bytes of ``value`` if a group of its dimensions can't be ``merged`` without a copy; else 0."""
    if value.strides is None or not prod(value.shape):
        return 0
    for group in merged:
        lies = [(value.shape[axis], value.strides[axis]) for axis in group if value.shape[axis] > 1]
        if any(outer != inner * extent for (_, outer), (extent, inner) in pairwise(lies)):
            return value.bytes
    return 0
