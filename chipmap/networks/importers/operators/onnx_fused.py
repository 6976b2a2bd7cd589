"""Operators of ONNX Runtime (domain ``com.microsoft``) that ONNX's own tables don't have: shapes of results, and costs.

Optimisers and quantisers of ONNX Runtime put them in place of several operators of the standard. Source of all rules:
the operators' specification, ``docs/ContribOperators.md`` of onnxruntime. B samples, S queries, T keys, N heads of H
features; products have 2 FLOP per multiply-add, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from chipmap.networks.importers.operators import flop, moves, rules
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.operators.rules import Rule
from chipmap.networks.importers.steps import Shape, Value, words

#: Domains of ONNX Runtime; its optimisers also leave some of these operators in the standard's own domain.
DOMAINS = frozenset({"com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"})
#: The first result, and any other that is wanted, has the shape and type of the first operand.
_SAME = words(
    """BiasAdd BiasDropout BiasGelu BiasSoftmax BitmaskBiasDropout BitmaskDropout DequantizeWithOrder FastGelu Gelu
    GroupNorm Inverse MoE QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE QuickGelu
    QuantizeWithOrder RotaryEmbedding SimplifiedLayerNormalization SkipGroupNorm SkipLayerNormalization
    SkipSimplifiedLayerNormalization GroupNormalization MeanVarianceNormalization"""
)
#: Products: positions of the two matrices, and of an operand whose type the result has.
_PRODUCTS = {
    "FusedMatMul": (0, 1, 0), "TransposeMatMul": (0, 1, 0), "FusedGemm": (0, 1, 0), "GemmFloat8": (0, 1, 0),
    "DynamicQuantizeMatMul": (0, 1, 0), "MatMulIntegerToFloat": (0, 1, 2), "MatMulInteger16": (0, 1, 0),
    "QGemm": (0, 3, 0), "GemmFastGelu": (0, 1, 0),
}  # fmt: skip
_PACKED = frozenset({"MatMulNBits", "MatMulBnb4"})
#: Convolutions: the position of the kernel.
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "NhwcConv": 1, "NhwcFusedConv": 1, "QLinearConv": 3}
#: Operators whose shapes follow those of the standard's operator of that name with so many operands.
PLAIN = {"FusedConv": ("Conv", 3), "Conv": ("Conv", 3)}

#: Other operators whose results have the type of an operand that isn't the first.
_TYPED = {
    "DequantizeLinear": 1, "EmbedLayerNormalization": 2, "GatherBlockQuantized": 2, "QAttention": 3,
    "QuantizeLinear": 2,
}  # fmt: skip

Shapes = list[Shape | None]


def shapes(call: Call) -> Shapes | None:
    """The shapes of the results of an operator; None for one that isn't known, or whose operands don't fit it.

    A result whose shape can't be told is None.
    """
    rule = _same if call.kind in _SAME else _SHAPES.get(call.kind)
    if rule is None:
        return None
    try:
        return rule(call)
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
        return None  # operands that are missing, or have other dimensions than the specification says


def type_operand(kind: str) -> int:
    """The position of the operand whose type of elements the results have."""
    if kind in _PRODUCTS:
        return _PRODUCTS[kind][2]
    return _TYPED.get(kind, 0)


def _shape(call: Call, i: int) -> Shape:
    return call.operand(i).shape


def _optional(call: Call, i: int) -> Value | None:
    return call.read[i] if i < len(call.read) else None


def _same(call: Call) -> Shapes:
    shape = _shape(call, 0)
    if call.kind.startswith("Skip"):  # results 1 and 2 are statistics; 3 is the sum that gets normalised
        return [shape, (*shape[:-1], 1), (*shape[:-1], 1), shape]
    if call.kind == "SimplifiedLayerNormalization":
        return [shape, (*shape[:-1], 1)]
    return [shape]


def _product(call: Call) -> Shapes:
    first, second, _ = _PRODUCTS[call.kind]
    a, b = _shape(call, first), _shape(call, second)
    if call.arguments.get("transBatchA") or call.arguments.get("transBatchB"):
        raise ValueError
    rows, inner = (a[-1], a[-2]) if call.arguments.get("transA") else (a[-2], a[-1])
    again, columns = (b[-1], b[-2]) if call.arguments.get("transB") else (b[-2], b[-1])
    if inner != again:
        raise ValueError
    return [(*_broadcast(a[:-2], b[:-2]), rows, columns)]


def _broadcast(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    made = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise ValueError
        made.append(other if one == 1 else one)
    return tuple(made)


def _packed_product(call: Call) -> Shapes:
    shape = _shape(call, 0)
    if shape[-1] != call.arguments["K"]:
        raise ValueError
    return [(*shape[:-1], int(call.arguments["N"]))]


def _windows(call: Call) -> Shapes:
    """Convolutions and pooling with the channels last, or with quantised operands.

    FusedConv and Conv go through the standard's own inference.
    """
    image = _shape(call, 0)
    pooling = call.kind not in _CONVOLUTIONS
    kernel = (0, 0) if pooling else _shape(call, _CONVOLUTIONS[call.kind])
    last = call.kind.startswith("Nhwc") or bool(call.arguments.get("channels_last"))
    space = image[1:-1] if last else image[2:]
    channels = (image[-1] if last else image[1]) if pooling else kernel[0]
    window = tuple(call.arguments.get("kernel_shape") or kernel[2:])
    strides = call.arguments.get("strides") or [1] * len(space)
    dilations = call.arguments.get("dilations") or [1] * len(space)
    pads = call.arguments.get("pads") or [0] * (2 * len(space))
    automatic = call.arguments.get("auto_pad", "NOTSET")
    if call.arguments.get("ceil_mode"):
        raise ValueError
    places = []
    for i, size in enumerate(space):
        if automatic.startswith("SAME"):
            places.append(-(-size // strides[i]))
            continue
        around = 0 if automatic == "VALID" else pads[i] + pads[i + len(space)]
        places.append((size + around - dilations[i] * (window[i] - 1) - 1) // strides[i] + 1)
    return [(image[0], *places, channels) if last else (image[0], channels, *places)]


def _elementwise(call: Call) -> Shapes:
    return [_broadcast(_shape(call, 0), _shape(call, 3))]  # a, its scale and zero point, b


def _concatenation(call: Call) -> Shapes:
    parts = [_shape(call, i) for i in range(2, len(call.read), 3)]  # each with scale and zero point
    shape, axis = list(parts[0]), int(call.arguments["axis"])
    shape[axis] = sum(part[axis] for part in parts)
    return [tuple(shape)]


def _pooled(call: Call) -> Shapes:
    shape = _shape(call, 0)
    ones = (1,) * (len(shape) - 2)
    return [(shape[0], *ones, shape[-1]) if call.arguments.get("channels_last") else (*shape[:2], *ones)]


def _gathered(call: Call) -> Shapes:
    """Rows of a table in blocks of few bits; in bytes, the last dimension holds several numbers each."""
    table, indices = call.operand(0), _shape(call, 1)
    axis = int(call.arguments.get("gather_axis", 0)) % len(table.shape)
    several = 8 // int(call.arguments.get("bits", 4)) if table.bits == 8 else 1
    made = [*table.shape[:axis], *indices, *table.shape[axis + 1 :]]
    return [(*made[:-1], made[-1] * several)]


def _halved(call: Call) -> Shapes:
    shape = _shape(call, 0)
    return [(*shape[:-1], shape[-1] // 2)]


def _embedding(call: Call) -> Shapes:
    batch, sequence = _shape(call, 0)
    made = (batch, sequence, _shape(call, 2)[-1])
    return [made, (batch,), made]


def _joint(call: Call) -> tuple[int, int, int, int, int, int]:
    """B, S, T, and the features of Q, K and V of an attention that multiplies the joint weights itself."""
    batch, queries, _ = _shape(call, 0)
    columns = _shape(call, 1)[-1]
    q, k, v = call.arguments.get("qkv_hidden_sizes") or [columns // 3] * 3
    past = _optional(call, 8 if call.kind == "QAttention" else 4)  # [2, B, N, P, H]
    return batch, queries, queries + (past.shape[-2] if past else 0), q, k, v


def _attention(call: Call) -> Shapes:
    batch, queries, keys, _, k, v = _joint(call)
    heads = int(call.arguments["num_heads"])
    return [(batch, queries, v), (2, batch, heads, keys, k // heads)]


def _heads(call: Call) -> tuple[int, int, int, int, int, int]:
    """B, N, S, T, and the features of a head of Q and of V, of an attention that gets queries, keys and values."""
    query, key, value = _shape(call, 0), _optional(call, 1), _optional(call, 2)
    heads = int(call.arguments["num_heads"])
    batch, queries = query[:2]
    if call.kind == "GroupQueryAttention":
        joint = heads if key else heads + 2 * int(call.arguments["kv_num_heads"])  # Q, K and V in one operand
        past = _optional(call, 3)
        width = query[-1] // joint
        return batch, heads, queries, queries + (past.shape[2] if past else 0), width, width
    past = _optional(call, 6)
    before = past.shape[2] if past else 0
    if key is None:  # [B, S, N, 3, H]
        return batch, heads, queries, queries + before, query[-1], query[-1]
    if value is None:  # [B, T, N, 2, H]
        return batch, heads, queries, key.shape[1] + before, key.shape[-1], key.shape[-1]
    if len(key.shape) == 4:  # [B, N, T, H] of another layer
        return batch, heads, queries, key.shape[2] + before, query[-1] // heads, value.shape[-1]
    return batch, heads, queries, key.shape[1] + before, query[-1] // heads, value.shape[-1] // heads


def _heads_shapes(call: Call) -> Shapes:
    batch, heads, queries, keys, width, value_width = _heads(call)
    kept = int(call.arguments["kv_num_heads"]) if call.kind == "GroupQueryAttention" else heads
    present: Shapes = [(batch, kept, keys, width), (batch, kept, keys, value_width)]
    return [(batch, queries, heads * value_width), *present]


def _cells(call: Call) -> Shapes:
    steps, batch, _ = _shape(call, 0)
    directions, hidden = _shape(call, 2)[:2]
    return [(steps, directions, batch, hidden), (directions, batch, hidden), (directions, batch, hidden)]


_SHAPES: dict[str, Callable[[Call], Shapes]] = {
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(_PACKED, _packed_product),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv", "QLinearConv", "QLinearAveragePool"), _windows),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _elementwise),
    **dict.fromkeys(("EmbedLayerNormalization", "QEmbedLayerNormalization"), _embedding),
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), _heads_shapes),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _same),
    "BiasSplitGelu": _halved,
    "DynamicQuantizeLSTM": _cells,
    "GatherBlockQuantized": _gathered,
    "QLinearConcat": _concatenation,
    "QLinearGlobalAveragePool": _pooled,
}


def _packed_flop(call: Call) -> int:
    return 2 * call.result.elements * int(call.arguments["K"])


def _product_flop(call: Call) -> int:
    left = _shape(call, _PRODUCTS[call.kind][0])
    return 2 * call.result.elements * left[-2 if call.arguments.get("transA") else -1]


def _joint_attention(call: Call) -> int:
    batch, queries, keys, q, _, v = _joint(call)
    projections = 2 * call.operand(0).elements * _shape(call, 1)[-1]
    return projections + 2 * batch * queries * keys * (q + v)


def _heads_flop(call: Call) -> int:
    batch, heads, queries, keys, width, value_width = _heads(call)
    return 2 * batch * heads * queries * keys * (width + value_width)


def _experts(call: Call) -> int:
    """Matrices of experts stand at operands 2, 4 and 6; packed ones, with scales between them, at 2, 5 and 8."""
    return 2 * prod(_shape(call, 0)[:-1]) * int(call.arguments.get("k", 1)) * sum(_expert(call))


def _expert(call: Call) -> list[int]:
    """Elements of each matrix of one expert."""
    quantised = call.kind == "QMoE"
    packed = 8 // int(call.arguments.get("expert_weight_bits", 4)) if quantised else 1
    matrices = [_optional(call, i) for i in ((2, 5, 8) if quantised else (2, 4, 6))]
    return [packed * prod(matrix.shape[1:]) for matrix in matrices if matrix is not None]


def _experts_moved(call: Call) -> int:
    """No more experts are read than tokens choose: operands and results, of the experts' operands this share."""
    experts = _shape(call, 2)[0]
    chosen = min(experts, prod(_shape(call, 0)[:-1]) * int(call.arguments.get("k", 1)))
    stacks = sum(value.bytes for value in call.operands[2:])
    rest = sum(value.bytes for value in (*call.operands[:2], *call.made))
    return rest + -(-stacks * chosen // experts)


def _rotated_moved(call: Call) -> int:
    """x, y and positions, and a row of each table of sines and cosines (of rank 2) per token."""
    shape = _shape(call, 0)
    tokens = shape[0] * shape[2 if len(shape) == 4 else 1]
    # the standard has the tables before the positions, ONNX Runtime after them
    tables = call.operands[1:3] if _shape(call, 1) == _shape(call, 2) else call.operands[2:4]
    if any(len(table.shape) != 2 for table in tables):
        raise LookupError
    rows = sum(-(-tokens * table.shape[-1] * table.bits // 8) for table in tables)
    rest = [value for value in call.operands if all(value is not table for table in tables)]
    return rows + sum(value.bytes for value in (*rest, *call.made))


def _gathered_moved(call: Call) -> int:
    """Indices, the share of the table (and of its scales) that is read, and what is made."""
    table, indices = call.operand(0), call.operand(1)
    axis = int(call.arguments.get("gather_axis", 0)) % len(table.shape)
    stored = sum(value.bytes for value in call.operands if value is not indices)
    read = min(indices.elements, table.shape[axis])
    return indices.bytes + -(-stored * read // table.shape[axis]) + call.result.bytes


def _embedded_moved(call: Call) -> int:
    """Indices, a row of each table (operands 2 to 4) per token, scale and shift, and what is made."""
    made = call.result
    tables = [table for table in (_optional(call, i) for i in (2, 3, 4)) if table is not None]
    rows = sum(-(-made.elements * table.bits // 8) for table in tables)
    rest = [value for value in call.operands if all(value is not table for table in tables)]
    return rows + sum(value.bytes for value in (*rest, *call.made))


#: What they cost, by their names without the domain.
RULES: dict[str, Rule] = rules.tabled(
    [
        (" ".join(sorted(_SAME - {"MoE", "QMoE", "RotaryEmbedding"})), rules.ELEMENTS),
        ("BiasSplitGelu DequantizeLinear QLinearAdd QLinearMul QLinearConcat QuantizeLinear", rules.ELEMENTS),
        ("QLinearAveragePool QLinearGlobalAveragePool", rules.ELEMENTS),
        (
            "RotaryEmbedding",
            Rule(moves.made, "|y|", _rotated_moved, "x + y + positions + a row of each table per token"),
        ),
        ("GatherBlockQuantized", Rule(moves.made, "|y|", _gathered_moved, "indices + the rows that are read + y")),
        (
            "EmbedLayerNormalization QEmbedLayerNormalization",
            Rule(moves.made, "|y|", _embedded_moved, "rows of tables"),
        ),
        (" ".join(sorted(_PACKED)), Rule(_packed_flop, "2 · |y| · K (the weights are packed)")),
        (" ".join(_PRODUCTS), Rule(_product_flop, "2 · |y| · k, the length of the sum")),
        ("Conv FusedConv NhwcConv NhwcFusedConv", rules.CONVOLUTION),
        ("QLinearConv", Rule(flop.convolution(3), rules.CONVOLUTION.says)),
        (
            "Attention QAttention",
            Rule(_joint_attention, "2 · |x| · columns of the joint weights + 2 · B · S · T · (features of Q + of V)"),
        ),
        (
            "MultiHeadAttention GroupQueryAttention",
            Rule(_heads_flop, "2 · B · N · S · T · (H of Q + H of V), T with past keys; masks save nothing"),
        ),
        (
            "MoE QMoE",
            Rule(
                _experts,
                "2 · tokens · experts per token · elements of one expert's matrices",
                _experts_moved,
                "operands and results, of the experts at most one per token and choice",
            ),
        ),
        ("DynamicQuantizeLSTM", Rule(flop.recurrent_layer(1, 2), rules.RECURRENT.says)),
    ]
)
