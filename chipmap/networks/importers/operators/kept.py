"""What an operator of PyTorch makes for its gradient alone, where neither its kind nor its results say how much."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from chipmap.networks.importers.operators.copied import copied_bytes
from chipmap.networks.importers.steps import Step, Value

#: Bytes of a statistic, which has single precision whatever the type of the numbers.
_SINGLE = 4
_BYTE = 8
#: Operators that scale rows -> statistics of a row.
_NORMS = {"layer_norm": 2, "rms_norm": 1}


def kept_bytes(step: Step, values: Mapping[str, Value]) -> int:
    """Bytes that the gradient of ``step`` reads beside operands and results; 0 where a rule of its kind says them.

    Attention: the logarithm of the sum of exponentials for each row and head of the queries; a mask of booleans as
    numbers of the queries' type, a copy of its own in each operator (PyTorch, ``convert_boolean_attn_mask``). A norm
    without scale or shift: mean and reciprocal deviation of each row; an RMS norm: the latter. A product: copies of
    its operands (:mod:`.copied`).
    """
    read = [values[name] for name in step.reads if name in values]
    if step.kind == "scaled_dot_product_attention" and len(read) > 2 and len(read[0].shape) > 1:
        query, masks = read[0], [one for one in read[3:4] if one.bits <= _BYTE]
        rows = query.elements // max(1, query.shape[-1])
        return _SINGLE * rows + sum(-(-mask.elements * query.bits // 8) for mask in masks)
    row = step.arguments.get("normalized_shape")
    if step.kind in _NORMS and len(read) < 3 and isinstance(row, list) and prod(row):
        return _NORMS[step.kind] * _SINGLE * (read[0].elements // prod(row))
    return copied_bytes(step, values)
