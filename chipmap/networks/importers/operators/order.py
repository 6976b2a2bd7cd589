"""In which order an operator goes through memory: what tells its time beside FLOP and bytes.

The processor reads numbers that lie side by side quickly. So three numbers are told of each operator:

- ``row``: how many numbers of an operand make one result along the axes that it mixes. They are those that a reduction,
  a softmax or a norm takes, the window of a pooling, the axis of a look-up; 1 where it mixes none;
- ``apart``: how many numbers lie in memory from one of a row to the next, that is, the stride of the axis; for a
  pooling the stride of its window;
- ``turned``: bytes of operands that are read in another order than they lie in. For a product these are the operands
  that PyTorch copies first, since some of their dimensions can't be merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from chipmap.networks.importers.operators.copied import copied_bytes, unmerged
from chipmap.networks.importers.steps import Shape, Step, Value, words

#: What an operator that mixes nothing says.
PLAIN = (1, 1, 0)
_AXES = ("dim", "dims", "axis", "axes")
_WINDOWS, _STRIDES = ("kernel_size", "kernel_shape"), ("stride", "strides")
#: Operators over all axes where they name none.
_REDUCTIONS = words(
    """all amax amin any argmax argmin logsumexp mean norm prod std sum var var_mean max min linalg_vector_norm"""
)
_PRODUCTS = words("matmul linear einsum bmm mm addmm baddbmm")


def order(step: Step, values: Mapping[str, Value]) -> tuple[int, int, int]:
    """``row``, ``apart`` and ``turned`` of a step (above); :data:`PLAIN` where that can't be told."""
    read = [values[name] for name in step.reads if name in values]
    made = [values[name] for name in step.makes if name in values]
    if not read or not made or not read[0].shape or not read[0].elements:
        return PLAIN
    kind = step.kind.rstrip("_").lower()
    if kind in _PRODUCTS:
        return 1, 1, copied_bytes(step, values) or unmerged(step.kind, read)
    return *_row(kind, step, read[0], made[0]), 0 if kind in _REDUCTIONS else _turned(read, made[0])


def _row(kind: str, step: Step, read: Value, made: Value) -> tuple[int, int]:
    window = _numbers(step, _WINDOWS)
    if window:
        return prod(window), max(1, prod(_numbers(step, _STRIDES) or window))
    rank, strides = len(read.shape), lies(read)
    axes = [axis % rank for axis in _numbers(step, _AXES) or () if -rank <= axis < rank]
    normed = _numbers(step, ("normalized_shape",))
    if normed:
        axes = list(range(max(0, rank - len(normed)), rank))
    elif kind.startswith("adaptive_") and made.elements:
        return max(1, read.elements // made.elements), 1
    elif kind == "group_norm":
        return max(1, read.elements // max(1, read.shape[0] * _first(step, "num_groups"))), 1
    elif kind == "batch_norm" and rank > 1:
        return max(1, prod(read.shape[2:])), 1
    elif not axes and kind in _REDUCTIONS:
        axes = list(range(rank))
    axes = [axis for axis in axes if read.shape[axis] > 1]
    if not axes:
        return PLAIN[:2]
    return prod(read.shape[axis] for axis in axes), max(1, min(strides[axis] for axis in axes))


def _turned(read: Sequence[Value], made: Value) -> int:
    """Bytes of operands whose numbers aren't neighbours in memory where those of the result are."""
    strides = lies(made)
    quick = min(
        (axis for axis, size in enumerate(made.shape) if size > 1), key=lambda axis: strides[axis], default=None
    )
    if quick is None:
        return 0
    alike = [one for one in read if len(one.shape) == len(made.shape) and one.strides is not None]
    return sum(one.bytes for one in alike if one.shape[quick] > 1 and lies(one)[quick] > 1)


def lies(value: Value) -> Shape:
    """The strides of a tensor: those that are known, else those of one in order."""
    if value.strides is not None:
        return value.strides
    return tuple(prod(value.shape[axis + 1 :]) for axis in range(len(value.shape)))


def _numbers(step: Step, names: Sequence[str]) -> list[int] | None:
    """The first of these arguments that is whole numbers."""
    for name in names:
        value = step.arguments.get(name)
        listed = list(value) if isinstance(value, list | tuple) else [value]
        found = [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]
        if found and len(found) == len(listed):
            return found
    return None


def _first(step: Step, name: str) -> int:
    return max(1, (_numbers(step, (name,)) or [1])[0])
