"""ATen operators: which are views, which only ask for a shape, and FLOP (``program.py`` has the convention).

Both levels of ``torch.export`` are known: what a program holds when it is exported (``linear``, ``conv2d``,
``scaled_dot_product_attention``) and core ATen after ``run_decompositions`` (``addmm``, ``convolution``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chipmap.instances.importers import program
from chipmap.instances.importers.program import Value, words

#: Other strides or another name for the same bytes.
VIEWS = words(
    """alias alias_copy adjoint mT mH matrix_H as_strided broadcast_in_dim broadcast_to chunk contiguous detach
    detach_ diagonal dropout
    dropout_ expand expand_as feature_dropout flatten getitem imag lift_fresh lift_fresh_copy movedim moveaxis narrow
    numpy_T permute positive real reshape reshape_as select slice split split_with_sizes squeeze squeeze_ swapaxes
    t transpose unbind unfold unflatten unsafe_chunk unsafe_split unsafe_split_with_sizes unsafe_view unsqueeze
    unsqueeze_ view view_as _unsafe_view _reshape_alias"""
)
#: Their value depends on shapes and arguments only.
FIXED = words(
    """arange empty empty_like empty_permuted empty_strided eye full full_like linspace new_empty new_empty_strided
    new_full new_ones new_zeros numel ones ones_like scalar_tensor sym_numel sym_size zeros zeros_like"""
)
#: One (or a few) per element made or read: the larger count stands for them.
COUNTED = words(
    """abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d add add_ addcdiv addcmul all alpha_dropout amax amin any argmax argmin asin asinh atan atan2
    atanh avg_pool1d avg_pool2d avg_pool3d batch_norm bitwise_and bitwise_not bitwise_or bitwise_xor bucketize cat
    ceil celu clamp clamp_ clamp_max clamp_min clone col2im concat constant_pad_nd copy copy_ cos cosh cumprod cumsum
    div div_ elu elu_ embedding eq erf erfc exp exp2 expm1 fill fill_ flip floor floor_divide fmod gather ge gelu glu
    grid_sampler_2d group_norm gt hardsigmoid hardswish hardswish_ hardtanh hardtanh_ im2col index index_add index_copy
    index_put index_select instance_norm isfinite isinf isnan item layer_norm le leaky_relu leaky_relu_ lerp log
    log10 log1p log2 logaddexp log_softmax logical_and logical_not logical_or logical_xor logit logsumexp lt
    masked_fill masked_fill_ masked_scatter max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices maximum mean min minimum mish mul mul_ native_batch_norm native_dropout
    native_group_norm native_layer_norm ne neg norm one_hot pad pixel_shuffle pixel_unshuffle polar pow prelu prod
    reciprocal reflection_pad1d reflection_pad2d relu relu6 relu_ remainder repeat repeat_interleave
    replication_pad2d rms_norm _fused_rms_norm roll round rrelu rsqrt rsub scatter scatter_add scatter_reduce
    select_scatter selu sigmoid sigmoid_ sign silu silu_ sin sinh slice_scatter softmax softplus sort sqrt square
    stack std sub sub_ sum tan tanh tanh_ tanhshrink threshold tile to topk tril triu trunc upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d var var_mean where zero_
    _adaptive_avg_pool2d _adaptive_avg_pool3d _assert_tensor_metadata _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit_no_training _pdist_forward _safe_softmax _softmax _to_copy _unsafe_index
    view_as_complex view_as_real __and__ __or__ type_as"""
)
_PRODUCTS = {  # operand of the left matrix (its last dimension is summed)
    "mm": 0, "bmm": 0, "matmul": 0, "linear": 0, "mv": 0, "dot": 0, "addmm": 1, "addbmm": 1, "baddbmm": 1, "addmv": 1,
}  # fmt: skip
_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution", "_convolution"})
_TRANSPOSED = frozenset({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
_ATTENTION = "scaled_dot_product"
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def kind_of(target: str) -> str:
    """``convolution`` of ``torch.ops.aten.convolution.default``; other libraries keep their name (``mine.op``)."""
    parts = target.removeprefix("torch.ops.").split(".")
    if parts[0] == "aten" and len(parts) > 1:
        return parts[1]
    if target.endswith("getitem") or target.startswith(("_operator", "math", "torch.sym")):
        return parts[-1]
    return ".".join(parts[:2])


def flop(kind: str, read: Sequence[Value], made: Sequence[Value], arguments: Mapping[str, Any]) -> tuple[int, bool]:
    """FLOP of an operator, and whether it is known; one that isn't counts like those of ``COUNTED``.

    ``read`` are its tensors in the order of its arguments, ``arguments`` its other arguments by name.
    """
    counted = _product(kind, read, made, arguments) if made and read else None
    if counted is not None:
        return counted, True
    return program.larger(made, read), kind in COUNTED or kind in VIEWS or kind in FIXED


def _product(kind: str, read: Sequence[Value], made: Sequence[Value], arguments: Mapping[str, Any]) -> int | None:
    left = _PRODUCTS.get(kind)
    if left is not None and len(read) > left + 1 and read[left].shape:
        return program.product(made[0], read[left].shape[-1])
    if len(read) > 1 and (kind in _CONVOLUTIONS or kind in _TRANSPOSED):
        if kind in _TRANSPOSED or arguments.get("transposed") is True:
            return program.transposed_convolution(read[0], read[1])
        return program.convolution(made[0], read[1])
    if _ATTENTION in kind and len(read) > 2 and all(len(value.shape) > 1 for value in read[:3]):
        # scores = Q K^T, then scores V
        scores = read[0].elements * read[1].shape[-2]
        return 2 * scores + 2 * made[0].elements * read[1].shape[-2]
    if kind in _RECURRENT and read[0].shape:
        matrices = [value for value in read[1:] if len(value.shape) == 2]
        return program.recurrent(read[0], read[0].shape[-1], matrices)
    if kind == "einsum" and isinstance(arguments.get("equation"), str):
        return program.einsum(arguments["equation"], read)
    return None
