"""What each operator saves for its gradient, read off its derivative formula.

Source: PyTorch 2.13, ``tools/autograd/derivatives.yaml`` (in the wheel under ``torchgen/packaged/autograd``). A formula
such as ``relu … self: threshold_backward(grad, result, 0)`` names what is kept until the backward pass: ``result``,
and no operand. Sizes and numbers (``self.sym_sizes()``) aren't tensors. Composite operators, which have no formula,
save what those save that they are made of: ``dropout`` the mask of ``native_dropout``, ``layer_norm`` what
``native_layer_norm`` does. Kinds of ONNX follow the operator of PyTorch that computes the same.

Families ask :func:`saves`. An operator that isn't listed keeps all operands: nothing is known of its formula.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from chipmap.networks.importers.steps import words

#: Which operands are kept: none; all; those with a gradient (``input``); those without one, which say where it goes
#: (``indices``, masks); these and what is written there (``source``); or each whose partner has a gradient
#: (``factors``); these and a divisor with a gradient (``quotient``).
Operands = Literal["none", "all", "inputs", "indices", "source", "factors", "quotient"]
#: Those of operators that multiply or divide.
FACTORS = ("factors", "quotient")
#: What is made beside the result, to be kept: a byte per number; the place of each number in eight bytes; mean and
#: reciprocal deviation of each row of the features that weights scale, or the latter alone; what a recurrent layer
#: computes inside: gates, or the results of inner layers (``inner``) alone.
Extra = Literal["", "mask", "places", "statistics", "deviation", "gates", "inner"]


class Saves(NamedTuple):
    """What an operator keeps: ``operands``, its ``result``, something ``extra``."""

    operands: Operands = "none"
    result: bool = False
    extra: Extra = ""


_TABLE: tuple[tuple[Saves, str], ...] = (
    # grad as it is, its sum, a part of it, or with sizes alone
    (
        Saves(),
        """add sub rsub subtract neg negative sum mean cat concat concatenate stack hstack vstack dstack
        column_stack clone copy to _to_copy type_as cast castlike alias pad constant_pad_nd repeat tile roll flip
        fliplr flipud rot90 cumsum tril triu trilu diag_embed diff block_diag trace upsample_nearest1d
        upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
        upsample_trilinear3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
        _upsample_bilinear2d_aa _upsample_bicubic2d_aa resize pixel_shuffle pixel_unshuffle channel_shuffle depthtospace
        spacetodepth im2col col2im fold unfold globalaveragepool reducesum reducemean expand identity split_copy
        select_scatter slice_scatter diagonal_scatter as_strided_scatter fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn
        fft_ifftn fft_irfft fft_hfft fft_irfft2 fft_irfftn fft_fftshift fft_ifftshift _fft_c2c _fft_c2r deg2rad rad2deg
        frac affine_grid_generator conj_physical real imag reshape contiguous flatten embedding_renorm copy_ lerp_scalar
        remainder_scalar fmod_scalar quantile nanquantile l1_loss""",
    ),
    # by the result
    (
        Saves(result=True),
        """relu sigmoid tanh softmax _softmax _safe_softmax special_softmax log_softmax _log_softmax logsoftmax
        special_log_softmax special_expit exp exp2 special_exp2 expm1 special_expm1 sqrt rsqrt reciprocal tan
        cholesky linalg_cholesky linalg_cholesky_ex inverse linalg_inv linalg_inv_ex linalg_qr _linalg_svd linalg_svd
        _linalg_eigh linalg_eigh polar pairwise_distance""",
    ),
    # by what it read
    (
        Saves("inputs"),
        """gelu silu swish mish softplus log_sigmoid elu selu celu leaky_relu leakyrelu relu6 hardtanh hardsigmoid
        hardswish hardshrink softshrink shrink softsign tanhshrink threshold thresholdedrelu square abs absolute pow
        float_power log log2 log10 log1p special_log1p sin cos sinh cosh asin acos atan asinh acosh atanh arcsin arccos
        arctan arcsinh arccosh arctanh erf erfc special_erf special_erfc erfinv sinc digamma lgamma i0 clamp clip
        clamp_min clamp_max glu swiglu var var_mean avg_pool1d avg_pool2d avg_pool3d averagepool adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d reducesumsquare logit
        special_logit special_entr nan_to_num prelu rrelu instance_norm batch_norm native_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
        batchnormalization instancenormalization group_norm native_group_norm groupnormalization norm
        local_response_norm lrn nansum reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d quickgelu fastgelu biasgelu fft_rfft fft_ihfft fft_rfft2 fft_rfftn
        _fft_r2c cosine_similarity""",
    ),
    (
        Saves("inputs", True),
        """amax amin aminmax max_all logsumexp logcumsumexp reducelogsumexp linalg_vector_norm std std_mean cumprod
        prod""",
    ),
    (Saves("inputs", extra="statistics"), "layer_norm native_layer_norm layernormalization"),
    (Saves("inputs", extra="deviation"), "rms_norm _fused_rms_norm rmsnormalization simplifiedlayernormalization"),
    # by what says where the gradient goes: a condition, a mask, indices
    (
        Saves("indices"),
        """where masked_fill masked_scatter embedding embedding_bag _embedding_bag gathernd index index_select index_put
        index_fill _unsafe_index _unsafe_index_put _unsafe_masked_index max_unpool2d max_unpool3d scatter scatter_add
        scatterelements scatternd lookup repeat_interleave rotary rotaryembedding cross_entropy_loss nll_loss
        nll_loss_nd nll_loss2d""",
    ),
    (Saves("source"), "index_add index_copy put"),
    (Saves(extra="mask"), "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout"),
    (Saves(extra="places"), "topk sort max_dim min_dim kthvalue median nanmedian mode"),
    (
        Saves("inputs", extra="places"),
        """max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices maxpool adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d cummax cummin""",
    ),
    # by the other factors
    (
        Saves("factors"),
        """product mul multiply matmul mm bmm mv dot vdot inner outer ger linear addmm addmv
        addr addbmm baddbmm gemm einsum tensordot bilinear linalg_matmul kron cross linalg_cross conv conv1d
        conv2d conv3d _conv_depthwise2d conv_depthwise3d _slow_conv2d_forward slow_conv_dilated2d convolution
        _convolution conv_transpose1d conv_transpose2d conv_transpose3d convtranspose addcmul lerp
        _grouped_mm transformers.grouped_mm_fallback""",
    ),
    (Saves("quotient"), "div divide true_divide addcdiv"),
    (Saves("all", True), "hypot cdist _cdist_forward scatter_reduce"),
    (
        Saves("all"),
        """maximum minimum fmax fmin max min atan2 arctan2 complex gather gatherelements take take_along_dim
        masked_select remainder fmod""",
    ),
    (
        Saves("all", True),
        """scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention attention multiheadattention
        groupqueryattention packedmultiheadattention higher_order.flex_attention selective_scan_fwd
        causal_conv1d_fwd""",
    ),
    (Saves("all", True, "gates"), "lstm gru lstm_cell gru_cell"),
    (Saves("all", True, "inner"), "rnn rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell"),
)
_SAVES = {kind: saved for saved, kinds in _TABLE for kind in kinds.split()}
#: Operators without a derivative: comparisons, choices, whole numbers, what is drawn, tables by a formula.
CONSTANT = words(
    """eq ne lt le gt ge equal not_equal less less_equal greater greater_equal greaterorequal lessorequal logical_and
    logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__ __xor__ and or not
    xor argmax argmin argsort argwhere nonzero one_hot onehot floor ceil round trunc fix sign sgn signbit heaviside
    floor_divide bucketize searchsorted histc bincount isnan isinf isfinite isin any all allclose isclose bernoulli
    rand rand_like randn randn_like randint multinomial detach shape size range nonmaxsuppression unique hardmax
    tril_indices triu_indices randperm normal logspace fft_fftfreq fft_rfftfreq bartlett_window blackman_window
    hamming_window hann_window kaiser_window blackmanwindow hammingwindow hannwindow melweightmatrix eyelike
    constantofshape randomnormal randomuniform"""
)
#: Look-ups of rows of a table whose gradient has all rows, as PyTorch's default is; others' has those that were read.
DENSE = words("embedding gather index_select index take gatherelements gathernd embedding_bag _embedding_bag")
#: Views that copy where their result has more bytes than their operand (repeated heads become one dimension), and those
#: that copy after a swap of dimensions.
COPIES = words("reshape contiguous flatten")
ORDERING = words("contiguous")
SWAPS = words("transpose permute swapaxes swapdims moveaxis movedim t adjoint numpy_t mt mh")
#: Their result lies as their operand does: fused attention.
ALIKE = words(
    """scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention"""
)
_UNKNOWN = Saves("all")


def plain(kind: str) -> str:
    """A kind as the table has it: ``relu`` of ``relu_`` and ``Relu``, without the domain of ONNX.

    ONNX's ``Gather`` reads whole rows, as ``index_select`` does, and ``gather`` single numbers.
    """
    name = "index_select" if kind == "Gather" else kind.lower()
    if name in _SAVES or name in CONSTANT:
        return name
    name = name.rpartition(".")[2]
    return name if name.endswith("__") else name.removesuffix("_")


def saves(kind: str, results: int = 1, operands: int = 0, smaller: bool = True) -> Saves:
    """What an operator of this kind saves that makes so many ``results`` of so many ``operands`` (0: unsaid).

    ``max`` along a dimension makes two. That of all numbers has one operand and a ``smaller`` result; that of a tensor
    and itself has one as large. ``lerp`` between two operands has a number for its weight, and ``remainder`` of one
    operand a number for its divisor.
    """
    name = plain(kind)
    if name in ("max", "min") and results > 1:
        name += "_dim"
    elif name in ("max", "min", "median", "nanmedian") and operands == 1 and results == 1 and smaller:
        name = "max_all"
    elif operands == {"lerp": 2, "remainder": 1, "fmod": 1}.get(name):
        name += "_scalar"
    return _SAVES.get(name, _UNKNOWN)


def known(kind: str) -> bool:
    """Whether the table has the operator."""
    return plain(kind) in _SAVES or plain(kind) in CONSTANT
