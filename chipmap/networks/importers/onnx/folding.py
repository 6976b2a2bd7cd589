"""Small tensors whose values are known before a model runs: sizes of tensors, and what is computed from them.

Exporters compute axes, shapes and conditions by operators (``Shape``, ``Gather``, ``Concat``, ``Equal``). With the
shapes of all inputs given these are numbers, which the shapes of other tensors and the branches of ``If`` depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

#: Tensors of more elements aren't worked out.
MAX_ELEMENTS = 512

Array = np.ndarray[Any, Any]
Arguments = Mapping[str, Any]


def folded(kind: str, read: Sequence[Array | None], arguments: Arguments) -> tuple[Array, ...] | None:
    """The results of an operator of the standard whose operands are all known; None where they aren't worked out."""
    function = _OPERATORS.get(kind)
    if function is None:
        return None
    try:
        with np.errstate(all="ignore"):
            made = function(list(read), arguments)
    except Exception:  # operands that don't fit each other: numpy raises errors of many classes
        return None
    results = tuple(np.asarray(one) for one in (made if isinstance(made, tuple) else (made,)))
    return results if all(one.size <= MAX_ELEMENTS and one.dtype.kind in "iufb" for one in results) else None


def _small(shape: Any) -> tuple[int, ...]:
    """The shape; :class:`ValueError` if a tensor of it is too large to be worked out."""
    sizes = tuple(int(size) for size in shape)
    if len(sizes) > 8 or min(sizes, default=0) < 0 or float(np.prod(sizes, dtype=float)) > MAX_ELEMENTS:
        raise ValueError
    return sizes


def _axes(read: Sequence[Array | None], arguments: Arguments) -> tuple[int, ...] | None:
    """The axes of a reduction, ``Squeeze`` or ``Unsqueeze``: an attribute, or the second operand in later versions."""
    axes = read[1] if len(read) > 1 else arguments.get("axes")
    return None if axes is None else tuple(int(axis) for axis in np.atleast_1d(axes))


def _reshaped(read: list[Any], arguments: Arguments) -> Array:
    data, shape = read
    kept = not arguments.get("allowzero")
    return np.reshape(data, [data.shape[i] if size == 0 and kept else int(size) for i, size in enumerate(shape)])


def _slice(read: list[Any], arguments: Arguments) -> Array:
    data = read[0]
    operands = [*read[1:], None, None, None, None][:4]
    given = [arguments.get(name) if one is None else one for name, one in zip(_SLICE, operands, strict=True)]
    starts, ends = (np.atleast_1d(np.asarray(one)).tolist() for one in given[:2])
    axes = range(len(starts)) if given[2] is None else np.atleast_1d(given[2]).tolist()
    steps = [1] * len(starts) if given[3] is None else np.atleast_1d(given[3]).tolist()
    places = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # an end before the first element stands for "through the first" where steps go down
        last = None if step < 0 and end < -data.shape[axis] else end
        places[axis] = slice(start, last, step)
    return np.asarray(data[tuple(places)])


_SLICE = ("starts", "ends", "axes", "steps")


def _range(read: list[Any], arguments: Arguments) -> Array:
    start, limit, step = (np.asarray(one).reshape(()) for one in read)
    count = _small([max(0, int(np.ceil((limit - start) / step)))])[0]
    return (start + np.arange(count) * step).astype(start.dtype)


def _expanded(read: list[Any], arguments: Arguments) -> Array:
    return np.broadcast_to(read[0], _small(np.broadcast_shapes(read[0].shape, tuple(read[1].tolist()))))


def _cast(read: list[Any], arguments: Arguments) -> Array:
    kind = DTYPES[arguments["to"]]
    whole = np.dtype(kind).kind in "iu" and read[0].dtype.kind == "f"
    return (np.trunc(read[0]) if whole else read[0]).astype(kind)


def _quotient(read: list[Any], arguments: Arguments) -> Array:
    a, b = read
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        raise ZeroDivisionError
    return np.asarray((np.abs(a) // np.abs(b)) * np.sign(a) * np.sign(b)).astype(a.dtype)  # towards zero, as in C


def _remainder(read: list[Any], arguments: Arguments) -> Array:
    if not np.all(read[1]):
        raise ZeroDivisionError
    return np.asarray((np.fmod if arguments.get("fmod") else np.mod)(*read))


def _reduced(function: Callable[..., Any]) -> Callable[[list[Any], Arguments], Array]:
    def reduced(read: list[Any], arguments: Arguments) -> Array:
        made = function(read[0], axis=_axes(read, arguments), keepdims=bool(arguments.get("keepdims", 1)))
        return np.asarray(made).astype(read[0].dtype)

    return reduced


def _elementwise(function: Callable[..., Any]) -> Callable[[list[Any], Arguments], Array]:
    return lambda read, arguments: np.asarray(function(*read))


def _split(read: list[Any], arguments: Arguments) -> tuple[Array, ...]:
    axis = arguments.get("axis", 0)
    sizes = read[1] if len(read) > 1 else arguments.get("split")
    if sizes is None:  # so many parts of one size, but for the last
        extent, parts = read[0].shape[axis], arguments["num_outputs"]
        sizes = _small([-(-extent // parts)] * min(parts, extent))
    return tuple(np.split(read[0], np.cumsum(sizes)[:-1].tolist(), axis=axis))


#: NumPy's types by the numbers that ONNX gives them.
DTYPES: dict[int, type[np.generic]] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip
_OPERATORS: dict[str, Callable[[list[Any], Arguments], Any]] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Cast": _cast,
    "Ceil": _elementwise(np.ceil),
    "Concat": lambda read, arguments: np.concatenate(read, axis=arguments["axis"]),
    "Div": _quotient,
    "Equal": _elementwise(np.equal),
    "Expand": _expanded,
    "Floor": _elementwise(np.floor),
    "Gather": lambda read, arguments: np.take(read[0], read[1], axis=arguments.get("axis", 0)),
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Identity": lambda read, arguments: read[0],
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Max": lambda read, arguments: np.maximum.reduce(np.broadcast_arrays(*read)),
    "Min": lambda read, arguments: np.minimum.reduce(np.broadcast_arrays(*read)),
    "Mod": _remainder,
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Range": _range,
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshaped,
    "Slice": _slice,
    "Split": _split,
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": lambda read, arguments: np.squeeze(read[0], axis=_axes(read, arguments)),
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda read, arguments: np.transpose(read[0], arguments.get("perm")),
    "Unsqueeze": lambda read, arguments: np.expand_dims(read[0], _axes(read, arguments) or ()),
    "Where": _elementwise(np.where),
}
