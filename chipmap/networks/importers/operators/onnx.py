"""ONNX operators: views, shapes only, and what the others cost (``rules.py`` has the rules)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chipmap.networks.importers.operators import flop, moves, numerics, onnx_fused, rules
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.operators.rules import Rule, Work
from chipmap.networks.importers.steps import Value, words

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
#: They hold graphs that work on scores or elements, as part of one kernel.
WITH_FUNCTIONS = words("FlexAttention")
#: One (or a few) per element made or read: the larger count stands for them.
COUNTED = words(
    """Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad
    Clip Col2Im Compress Concat Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div DynamicQuantizeLinear
    Elu Equal Erf Exp Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample
    GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN
    LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool Max MaxPool
    MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial Neg
    NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot OptionalHasElement Or PRelu Pad Pow
    QuantizeLinear RMSNormalization RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Resize ReverseSequence RoiAlign RotaryEmbedding Round Scatter ScatterElements
    ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth
    Sqrt Sub Sum SwiGLU Swish Tan Tanh TfIdfVectorizer ThresholdedRelu Tile TopK Trilu Unique Upsample Where Xor"""
)
#: What other operators cost.
RULES: dict[str, Rule] = rules.tabled(
    [
        ("MatMul MatMulInteger QLinearMatMul", rules.PRODUCT),
        ("Gemm", Rule(flop.general_product, "2 · |y| · k, the length of the sum", source=rules.COUNTER)),
        ("Einsum", rules.ONNX_EINSUM),
        ("Conv ConvInteger DeformConv CausalConvWithState", rules.CONVOLUTION),
        ("QLinearConv", Rule(flop.convolution(3), rules.CONVOLUTION.says)),
        ("ConvTranspose", rules.TRANSPOSED),
        ("LSTM GRU RNN", Rule(flop.recurrent_layer(1, 2), rules.RECURRENT.says)),
        ("Attention", Rule(flop.attention_with_past(4), rules.ATTENTION.says)),
        ("FlexAttention ai.onnx.preview.FlexAttention", rules.ATTENTION),
        (
            "LinearAttention",
            Rule(flop.linear_attention, "4 · |y| · key features per head, 6 · … where the rule has a delta"),
        ),
        (
            "DFT",
            Rule(numerics.fourier_pairs, "5 n log₂ n per transform of n points, 2.5 of real ones", source=rules.FFTW),
        ),
        ("STFT", Rule(numerics.fourier_frames, "2.5 n log₂ n per frame of n points")),
        ("Det", rules.LU),
        ("Gather GatherElements GatherND", rules.LOOK_UP),
        (
            "TensorScatter",
            Rule(
                moves.rows_written(1), "elements written", moves.rows_moved(1), "indices + 2 · bytes written: in place"
            ),
        ),
    ]
)


def work(kind: str, read: Sequence[Value | None], made: Sequence[Value], attributes: Mapping[str, Any]) -> Work:
    """What an operator costs; ``read`` has None for an optional operand that is left out."""
    domain, _, name = kind.rpartition(".")
    rule = RULES.get(kind) or (onnx_fused.RULES.get(name) if domain in ("", *onnx_fused.DOMAINS) else None)
    if rule is None and (kind in COUNTED or kind in VIEWS or kind in FIXED or kind in STORED):
        rule = rules.ELEMENTS
    return rules.work(Call(name, read, made, attributes), rule)
