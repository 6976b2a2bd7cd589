"""What an operator of PyTorch makes for its gradient alone, where neither its kind nor its results say how much."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from chipmap.networks.importers.operators.copied import copied_bytes
from chipmap.networks.importers.operators.sums import pairs, said
from chipmap.networks.importers.steps import Step, Value

#: Bytes of a statistic, which has single precision whatever the type of the numbers.
_SINGLE = 4
_BYTE = 8
#: Operators that multiply by numbers that they draw -> dimensions for which one is drawn each (None: for all).
_DRAWN = {"feature_dropout": 2, "feature_alpha_dropout": 2, "alpha_dropout": None, "rrelu": None}
#: Operators that scale rows -> statistics of a row.
_NORMS = {"layer_norm": 2, "rms_norm": 1}


def kept_bytes(step: Step, values: Mapping[str, Value]) -> int:
    """Bytes that the gradient of ``step`` reads beside operands and results; 0 where a rule of its kind says them.

    Attention: the logarithm of the sum of exponentials for each row and head of the queries; a mask of booleans as
    numbers of the queries' type, a copy of its own in each operator (PyTorch, ``convert_boolean_attn_mask``). A norm
    without scale or shift: mean and reciprocal deviation of each row; an RMS norm: the latter. Noise: a number for each
    number, or for each channel, that was drawn. A cosine: both operands divided by their norms, and two norms of each.
    An ``einsum`` of more operands: the products of two that are multiplied further. Another product: copies of its
    operands (:mod:`.copied`).
    """
    read = [values[name] for name in step.reads if name in values]
    if step.kind == "scaled_dot_product_attention" and len(read) > 2 and len(read[0].shape) > 1:
        query, masks = read[0], [one for one in read[3:4] if one.bits <= _BYTE]
        rows = query.elements // max(1, query.shape[-1])
        return _SINGLE * rows + sum(-(-mask.elements * query.bits // 8) for mask in masks)
    row = step.arguments.get("normalized_shape")
    if step.kind in _NORMS and len(read) < 3 and isinstance(row, list) and prod(row):
        return _NORMS[step.kind] * _SINGLE * (read[0].elements // prod(row))
    kind = step.kind.removesuffix("_")  # also in place
    if kind in _DRAWN and read:
        return prod(read[0].shape[: _DRAWN[kind]]) * read[0].bits // 8
    if step.kind == "cosine_similarity" and len(read) == 2:
        return _cosine(read[0], read[1], step.arguments.get("dim", 1))
    if step.kind == "einsum" and len(read) > 2:
        return sum(made for _, made in (pairs(*said(step.arguments, read)) or [])[:-1]) * read[0].bits // 8
    return copied_bytes(step, values)


def _cosine(one: Value, other: Value, dim: object) -> int:
    """Both operands, repeated to the same shape and divided by their norms, and the norms before and after a limit."""
    rank = max(len(one.shape), len(other.shape))
    shapes = [(1,) * (rank - len(value.shape)) + value.shape for value in (one, other)]
    shape = [max(pair) for pair in zip(*shapes, strict=True)]
    if not isinstance(dim, int) or not -rank <= dim < rank or not prod(shape):
        return 0
    return (2 * prod(shape) + 4 * prod(shape) // shape[dim]) * one.bits // 8
