"""ONNX operators: which are views, which only ask for a shape, and FLOP (``program.py`` has the convention)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chipmap.instances.importers import program
from chipmap.instances.importers.program import Value, words

#: Other strides or another name for the same bytes, as in core ATen (a Dropout passes its input on at inference).
VIEWS = words(
    """Reshape Transpose Squeeze Unsqueeze Flatten Identity Dropout Slice Split Expand BitCast Optional
    OptionalGetElement"""
)
#: Their value depends on shapes and attributes only.
FIXED = words("Shape Size EyeLike")
#: Their result is data stored in the model (`ConstantOfShape` stands for weights in weight-free models).
STORED = words("Constant ConstantOfShape")
#: They hold graphs, or collections whose size isn't known beforehand.
CONTROL = words("Loop If Scan SequenceMap")
#: One (or a few) per element made or read: the larger count stands for them.
COUNTED = words(
    """Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Col2Im
    Compress Concat Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div DynamicQuantizeLinear Elu Equal Erf Exp
    Floor Gather GatherElements GatherND Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual
    GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax InstanceNormalization IsInf
    IsNaN LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool Max MaxPool
    MaxRoiPool MaxUnpool Mean MeanVarianceNormalization Min Mish Mod Mul Neg Not OneHot Or PRelu Pad Pow
    QuantizeLinear RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Resize ReverseSequence Round Scatter
    ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax SoftmaxCrossEntropyLoss Softplus Softsign
    SpaceToDepth Sqrt Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Trilu Upsample Where Xor
    RotaryEmbedding"""
)
#: Operands of products and convolutions: positions of the two that are multiplied.
_PRODUCTS = {"MatMul": (0, 1), "Gemm": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3)}
_CONVOLUTIONS = {"Conv": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3), "DeformConv": (0, 1)}
_CELLS = frozenset({"LSTM", "GRU", "RNN"})


def flop(
    kind: str, read: Sequence[Value | None], made: Sequence[Value], attributes: Mapping[str, Any]
) -> tuple[int, bool]:
    """FLOP of an operator, and whether it is known; one that isn't counts like those of ``COUNTED``.

    ``read`` has None for an optional operand that is left out.
    """
    counted = _product(kind, read, made, attributes) if made else None
    if counted is not None:
        return counted, True
    known = kind in COUNTED or kind in VIEWS or kind in FIXED or kind in STORED
    return program.larger(made, [value for value in read if value is not None]), known


def _product(
    kind: str, read: Sequence[Value | None], made: Sequence[Value], attributes: Mapping[str, Any]
) -> int | None:
    here = {i: value for i, value in enumerate(read) if value is not None}
    pair = _PRODUCTS.get(kind) or _CONVOLUTIONS.get(kind) or (0, 1)
    a, b = here.get(pair[0]), here.get(pair[1])
    if a is None:
        return None
    if kind == "Einsum":
        return program.einsum(str(attributes.get("equation", "")), list(here.values()))
    if b is None:
        return None
    if kind in _PRODUCTS and a.shape:
        return program.product(made[0], a.shape[0 if kind == "Gemm" and attributes.get("transA") else -1])
    if kind in _CONVOLUTIONS:
        return program.convolution(made[0], b)
    if kind == "ConvTranspose":
        return program.transposed_convolution(a, b)
    if kind in _CELLS and 2 in here and a.shape:
        return program.recurrent(a, a.shape[-1], (b, here[2]))
    if kind == "Attention" and 2 in here and min(len(a.shape), len(b.shape), len(here[2].shape)) > 1:
        # scores = Q K^T, then scores V; with past keys the scores reach over them as well
        keys = b.shape[-2] + (here[4].shape[-2] if 4 in here and len(here[4].shape) > 1 else 0)
        return 2 * a.elements * keys + 2 * made[0].elements * keys
    return None
