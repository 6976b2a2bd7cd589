"""What an operator of PyTorch makes for its gradient alone, where neither its kind nor its results say how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from chipmap.networks.importers.operators.copied import copied_bytes
from chipmap.networks.importers.operators.sums import pairs, said
from chipmap.networks.importers.steps import Step, Value, words

#: Bytes of a statistic, which has single precision whatever the type of the numbers.
_SINGLE = 4
_BYTE = 8
#: Bytes of a place.
_PLACE = 8
#: Operators that multiply by numbers that they draw -> dimensions for which one is drawn each (None: for all).
_DRAWN = {"feature_dropout": 2, "feature_alpha_dropout": 2, "alpha_dropout": None, "rrelu": None}
#: Operators that scale rows -> statistics of a row.
_NORMS = {"layer_norm": 2, "rms_norm": 1}
#: Operators that add their first operand to a product, or a quotient, of others; quotients.
_ORDERED = words("addcmul addcdiv addmm addmv addbmm baddbmm div divide true_divide")


def kept_bytes(step: Step, values: Mapping[str, Value]) -> int:
    """Bytes that the gradient of ``step`` reads beside operands and results; 0 where a rule of its kind says them.

    Attention: the logarithm of the sum of exponentials for each row and head of the queries; a mask of booleans as
    numbers of the queries' type, a copy of its own in each operator (PyTorch, ``convert_boolean_attn_mask``). A norm
    without scale or shift: mean and reciprocal deviation of each row; an RMS norm: the latter. Noise: a number for each
    number, or for each channel, that was drawn. A cosine: both operands divided by their norms, and two norms of each.
    An ``einsum`` of more operands: the products of two that are multiplied further. A loss of logits: their
    probabilities' logarithms. A quantile: the numbers in order and their places, and of each result two places and a
    weight. A distance of pairs: what lies between. Another product: copies of its operands (:mod:`.copied`).
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
    if kind in _COMPOSED and read:
        return _COMPOSED[kind](step, read, sum(values[name].elements for name in step.makes if name in values))
    if kind in _DRAWN and read:
        return prod(read[0].shape[: _DRAWN[kind]]) * read[0].bits // 8
    if step.kind == "cosine_similarity" and len(read) == 2:
        return _cosine(read[0], read[1], step.arguments.get("dim", 1))
    if step.kind == "einsum" and len(read) > 2:
        return sum(made for _, made in (pairs(*said(step.arguments, read)) or [])[:-1]) * read[0].bits // 8
    return copied_bytes(step, values)


def ordered(step: Step, places: Mapping[str, int]) -> tuple[int, ...]:
    """The operands of ``step`` among the tensors that it reads (:attr:`Operation.operands`), where that matters.

    It does where a tensor is read twice, where one is added or divides, and in an ``einsum`` of three or more.
    ``places``: tensor -> its place in the graph.
    """
    read = [places[name] for name in step.reads if name in places]
    repeated, several = len({*read}) < len(read), step.kind == "einsum" and len(step.reads) > 2
    if not (repeated or several or (step.kind.removesuffix("_") in _ORDERED and len(step.reads) > 1)):
        return ()
    place = {t: i for i, t in enumerate(sorted({*read}))}
    return tuple(place[places[name]] if name in places else -1 for name in step.reads)


def _cross_entropy(step: Step, read: Sequence[Value], made: int) -> int:
    """Logarithms of all probabilities; where targets are places the sum of weights, smoothed which of them count."""
    if len(read) < 2:
        return 0
    logits, target, smoothing = read[0], read[1], step.arguments.get("label_smoothing")
    if target.shape == logits.shape:
        return logits.bytes
    return logits.bytes + logits.bits // 8 + (target.elements + 8 if smoothing else 0)


def _weighed(step: Step, read: Sequence[Value], made: int) -> int:
    """The sum of weights, a number."""
    return read[0].bits // 8


def _quantile(step: Step, read: Sequence[Value], made: int) -> int:
    """All numbers in order with their places; a weight and two places for each result."""
    return (read[0].elements + made) * read[0].bits // 8 + _PLACE * (read[0].elements + 2 * made)


def _distance(step: Step, read: Sequence[Value], made: int) -> int:
    """The differences, repeated to one shape."""
    return max(one.elements for one in read) * read[0].bits // 8


#: Operators of several steps -> bytes that these keep beside operands and results; of so many numbers ``made``.
_COMPOSED: dict[str, Callable[[Step, Sequence[Value], int], int]] = {
    "cross_entropy_loss": _cross_entropy,
    **dict.fromkeys(words("nll_loss nll_loss_nd nll_loss2d"), _weighed),
    **dict.fromkeys(words("quantile nanquantile"), _quantile),
    **dict.fromkeys(words("l1_loss pairwise_distance"), _distance),
}


def _cosine(one: Value, other: Value, dim: object) -> int:
    """Both operands, repeated to the same shape and divided by their norms, and the norms before and after a limit."""
    rank = max(len(one.shape), len(other.shape))
    shapes = [(1,) * (rank - len(value.shape)) + value.shape for value in (one, other)]
    shape = [max(pair) for pair in zip(*shapes, strict=True)]
    if not isinstance(dim, int) or not -rank <= dim < rank or not prod(shape):
        return 0
    return (2 * prod(shape) + 4 * prod(shape) // shape[dim]) * one.bits // 8
