"""ATen operators: which are views, which only ask for a shape, and what the others cost (``rules.py`` has the rules).

Both levels of ``torch.export`` are known: what a program holds when it is exported (``linear``, ``conv2d``,
``scaled_dot_product_attention``) and core ATen after ``run_decompositions`` (``addmm``, ``convolution``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chipmap.networks.importers.operators import flop, moves, numerics, rules
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.operators.rules import Rule, Work
from chipmap.networks.importers.steps import Value, words

#: Other strides or another name for the same bytes.
VIEWS = words(
    """_conj _neg_view _reshape_alias _unsafe_view adjoint alias alias_copy alpha_dropout alpha_dropout_ as_strided
    as_strided_ atleast_1d atleast_2d atleast_3d broadcast_in_dim broadcast_tensors broadcast_to chunk conj contiguous
    detach detach_ diagonal dropout dropout_ dsplit expand expand_as feature_alpha_dropout feature_alpha_dropout_
    feature_dropout feature_dropout_ flatten getitem hsplit imag lift_fresh lift_fresh_copy
    linalg_diagonal mH mT matrix_H moveaxis movedim narrow numpy_T permute positive ravel real
    reshape reshape_as select slice slice_inverse split split_with_sizes squeeze squeeze_ swapaxes swapaxes_
    swapdims swapdims_ t t_ tensor_split transpose transpose_ unbind unflatten unfold unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsafe_view unsqueeze unsqueeze_ view view_as view_as_complex view_as_real vsplit"""
)
#: Views that no gradient passes.
DETACHES = words("detach detach_")
#: Means where they make a single number of each channel.
AVERAGES = words("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d")
#: How a padding other than with a number fills in -> the operator that PyTorch computes it by, for so many dimensions.
PADDINGS = {"reflect": "reflection_pad{}d", "replicate": "replication_pad{}d"}
#: Views at inference, and where nothing is dropped.
DROPOUTS = words(
    """alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
    feature_dropout_"""
)
#: Views as well where they leave the element type as it is; then PyTorch returns the operand itself.
CONVERSIONS = words("to type_as")
#: Of what they read but for the first operand, only the shape or the element type matters.
LIKE_ANOTHER = words("expand_as reshape_as type_as view_as")
#: Their value depends on shapes and arguments only.
FIXED = words(
    """arange empty empty_like empty_permuted empty_strided eye full full_like linspace new_empty new_empty_strided
    new_full new_ones new_zeros numel ones ones_like scalar_tensor sym_numel sym_size zeros zeros_like"""
)
#: Of these, room whose numbers nobody reads, and what one number fills.
EMPTY = words("empty empty_like empty_permuted empty_strided new_empty new_empty_strided")
FILLED = words("full full_like new_full new_ones new_zeros ones ones_like zeros zeros_like")
#: One (or a few) per element made or read: the larger count stands for them.
COUNTED = words(
    """__and__ __or__ __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _foreach_abs _foreach_add
    _foreach_addcdiv _foreach_addcmul _foreach_clamp_max _foreach_clamp_min _foreach_div _foreach_exp
    _foreach_lerp _foreach_mul _foreach_neg _foreach_norm _foreach_pow _foreach_reciprocal _foreach_rsqrt
    _foreach_sigmoid _foreach_sqrt _foreach_sub _foreach_tanh _fused_rms_norm _local_scalar_dense _log_softmax
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _pdist_forward _safe_softmax _softmax _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy
    _unsafe_masked_index _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm _weight_norm_interface abs absolute acos
    acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d add addcdiv addcmul addr affine_grid_generator all allclose alpha_dropout amax amin
    aminmax angle any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere
    as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d batch_norm bernoulli
    binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor block_diag bucketize cartesian_prod cat ceil celu channel_shuffle
    clamp clamp_max clamp_min clip clone col2im column_stack complex concat concatenate conj_physical
    constant_pad_nd copysign cos cosh cosine_embedding_loss cosine_similarity count_nonzero cross
    cross_entropy_loss ctc_loss cummax cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize diag
    diag_embed diagonal_scatter diff digamma div divide dstack elu eq equal erf erfc erfinv exp exp2 expm1
    fake_quantize_per_channel_affine fake_quantize_per_tensor_affine feature_alpha_dropout fft_fftshift
    fft_ifftshift fill fix flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp gcd ge
    gelu gelu_backward ger glu greater greater_equal grid_sampler grid_sampler_2d grid_sampler_3d group_norm gt
    hardshrink hardsigmoid hardswish hardtanh heaviside hinge_embedding_loss histc hstack huber_loss hypot i0
    igamma igammac im2col index_add index_copy index_fill index_put index_reduce instance_norm isclose isfinite
    isin isinf isnan isneginf isposinf item kl_div kron kthvalue l1_loss layer_norm lcm ldexp le leaky_relu lerp
    less less_equal lgamma linalg_cross linalg_norm linalg_vector_norm local_response_norm log log10 log1p log2
    log_sigmoid log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor
    logit logit_backward logsumexp lt masked_fill masked_scatter margin_ranking_loss masked_select max
    max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d maximum mean
    median meshgrid min minimum mish mode mse_loss msort mul multi_margin_loss multilabel_margin_loss
    multinomial multiply mvlgamma nan_to_num nanmean nanmedian nansum native_batch_norm native_dropout
    native_dropout_backward native_group_norm native_layer_norm ne neg negative nextafter nll_loss nll_loss2d
    nll_loss2d_forward nll_loss_forward nll_loss_nd nonzero nonzero_static norm normalize not_equal one_hot
    outer pad pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss polar polygamma pow prelu prod
    put rad2deg rand rand_like randn randn_like reciprocal reflection_pad1d reflection_pad2d reflection_pad3d
    relu relu6 remainder renorm repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d
    resolve_conj resolve_neg rms_norm roi_align roll rot90 round row_stack rrelu rrelu_with_noise rsqrt rsub
    scatter scatter_add scatter_reduce searchsorted select_scatter selu sgn sigmoid sigmoid_backward sign
    signbit silu silu_backward sin sinc sinh slice_scatter smooth_l1_loss soft_margin_loss softmax softplus
    softshrink softsign sort special_digamma special_entr special_erf special_erfcx special_erfinv special_exp2
    special_expit special_expm1 special_gammainc special_gammaincc special_gammaln special_i0 special_i0e
    special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax special_logit special_logsumexp
    special_ndtr special_ndtri special_polygamma special_psi special_round special_sinc special_softmax
    special_xlog1py special_xlogy special_zeta split_copy sqrt square squareplus stack std std_mean sub subtract
    sum tan tanh tanh_backward tanhshrink tensor threshold threshold_backward tile to topk trace trapezoid trapz
    tril triplet_margin_loss triu true_divide trunc type_as uniform unique_consecutive upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d vander var var_mean vstack where xlogy"""
)
_BACKWARD = Rule(flop.attention_backward(), "2 · t · (3 |Q| + 2 |y|) for t keys, y made forward", source=rules.COUNTER)
_POINTS, _REAL_POINTS = "5 n log₂ n per transform of n points", "2.5 n log₂ n per transform of n real points"
_CELL = "2 · samples · elements of the matrices of weights"
#: Checks of shapes and types, which make nothing.
CHECK = Rule(lambda call: 0, "0", lambda call: 0, "0")
#: What other operators cost.
RULES: dict[str, Rule] = rules.tabled(
    [
        (
            """mm bmm matmul linear mv dot vdot inner linalg_matmul linalg_vecdot _scaled_mm _scaled_mm_v2 _int_mm
            _mixed_dtypes_linear _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int8pack_mm mkldnn_linear
            _weight_int4pack_mm_with_scales_and_zeros _dyn_quant_matmul_4bit quantized.linear quantized.linear_relu
            quantized.linear_dynamic quantized.linear_relu_dynamic quantized.matmul quantized_decomposed.mixed_mm
            quantized_decomposed.mixed_linear onednn.qlinear_pointwise mkldnn._linear_pointwise""",
            rules.PRODUCT,
        ),
        ("addmm baddbmm addmv _addmm_activation", rules.BIASED_PRODUCT),
        ("addbmm", Rule(flop.summed_product, "2 · elements of the left matrices · columns of y")),
        ("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2 transformers.grouped_mm_fallback", rules.GROUPED),
        ("tensordot", rules.CONTRACTION),
        ("einsum", rules.EINSUM),
        ("bilinear", Rule(flop.bilinear, "2 · |y| · (i · j + j) for operands of i and j features")),
        ("cdist _cdist_forward", Rule(flop.distances, "3 · |y| · coordinates of a point")),
        (
            """conv1d conv2d conv3d convolution _convolution cudnn_convolution mkldnn_convolution
            convolution_overrideable _slow_conv2d_forward thnn_conv2d _conv_depthwise2d conv_depthwise3d slow_conv3d
            slow_conv_dilated2d torchvision.deform_conv2d mkldnn._convolution_pointwise""",
            Rule(
                flop.any_convolution,
                "2 · |y| · kernel elements per output channel (2 · |x| · … per input channel if transposed)",
                source=rules.COUNTER,
            ),
        ),
        ("conv_transpose1d conv_transpose2d conv_transpose3d", rules.TRANSPOSED),
        (
            "convolution_backward",
            Rule(flop.convolution_backward, "the forward convolution's for each of the gradients of x and the kernel"),
        ),
        (
            """scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_efficient_attention
            _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
            _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
            _scaled_dot_product_attention_math_for_mps higher_order.flex_attention""",
            rules.ATTENTION,
        ),
        (
            "_flash_attention_forward _efficient_attention_forward",
            Rule(flop.attention(keys=1), "2 · t · (|Q| + |y|) for t keys, the longest of ragged sequences"),
        ),
        (
            """_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_backward
            _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_cudnn_attention_backward""",
            _BACKWARD,
        ),
        (
            "_flash_attention_backward _efficient_attention_backward",
            Rule(flop.attention_backward(keys=1), _BACKWARD.says),
        ),
        ("higher_order.flex_attention_backward", Rule(flop.attention_backward(query=0, like=3), _BACKWARD.says)),
        (
            "_native_multi_head_attention _triton_multi_head_attention",
            Rule(flop.multi_head, "products of its projections and of attention"),
        ),
        (
            "_transformer_encoder_layer_fwd",
            Rule(flop.encoder(1, 3, 9, 11), "products of its projections, of attention and of its feed-forward layers"),
        ),
        ("lstm gru rnn_tanh rnn_relu", rules.RECURRENT),
        ("mkldnn_rnn_layer", Rule(flop.recurrent_layer(1, 2), rules.RECURRENT.says)),
        ("lstm_cell", Rule(flop.recurrent_layer(3, 4), _CELL)),
        ("gru_cell rnn_tanh_cell rnn_relu_cell", Rule(flop.recurrent_layer(2, 3), _CELL)),
        (
            "selective_scan_fwd",
            Rule(flop.selective_scan, "8 · |x| · states: two products to discretise, the recurrence, the sum with C"),
        ),
        ("causal_conv1d_fwd _causal_conv1d_fwd_cpp", Rule(flop.causal_convolution, "2 · |x| · width of the kernel")),
        ("fft_fft fft_ifft _fft_c2c", Rule(numerics.fourier(), _POINTS, source=rules.FFTW)),
        ("fft_fft2 fft_ifft2", Rule(numerics.fourier(dims=2), _POINTS)),
        ("fft_fftn fft_ifftn", Rule(numerics.fourier(dims=None), _POINTS)),
        ("fft_rfft fft_irfft fft_hfft fft_ihfft _fft_r2c _fft_c2r", Rule(numerics.fourier(real=True), _REAL_POINTS)),
        ("fft_rfft2 fft_irfft2", Rule(numerics.fourier(real=True, dims=2), _REAL_POINTS)),
        ("fft_rfftn fft_irfftn", Rule(numerics.fourier(real=True, dims=None), _REAL_POINTS)),
        ("stft", Rule(numerics.spectrogram(), "2.5 n log₂ n per frame of n points")),
        ("istft", Rule(numerics.spectrogram(inverse=True), "2.5 n log₂ n per frame of n points")),
        ("cholesky linalg_cholesky linalg_cholesky_ex", rules.CHOLESKY),
        ("linalg_det _linalg_det linalg_slogdet _linalg_slogdet linalg_lu_factor linalg_lu_factor_ex", rules.LU),
        ("inverse linalg_inv linalg_inv_ex", rules.INVERSE),
        ("linalg_qr", Rule(numerics.tall, "2 m n² - 2 n³ / 3 per matrix [m, n]", source=rules.GOLUB)),
        (
            "linalg_solve linalg_solve_ex _linalg_solve_ex",
            Rule(numerics.solved(2, 2), "2 n³ / 3 per matrix [n, n] and 2 n² per column of y", source=rules.GOLUB),
        ),
        ("cholesky_solve", Rule(numerics.solved(2, 0), "2 n² per column of y", source=rules.GOLUB)),
        ("linalg_solve_triangular triangular_solve", rules.TRIANGULAR),
        (
            """embedding index index_select gather take take_along_dim _unsafe_index quantized_decomposed.embedding_byte
            quantized_decomposed.embedding_2bit quantized_decomposed.embedding_4bit""",
            rules.LOOK_UP,
        ),
        ("embedding_bag _embedding_bag _embedding_bag_forward_only", rules.BAG),
        ("index_put_ index_copy_ _index_put_impl_", rules.UPDATE),
        ("index_add_", Rule(moves.rows_written(), "elements written", moves.rows_moved(adds=True), rules.UPDATE.moves)),
        ("scatter_ put_", Rule(moves.entries_written, "elements written", moves.entries_moved(), rules.UPDATE.moves)),
        (
            "scatter_add_ scatter_reduce_",
            Rule(moves.entries_written, "elements written", moves.entries_moved(adds=True), rules.UPDATE.moves),
        ),
        ("copy copy_ fill_ zero_", rules.OVERWRITE),
        (
            "_assert_async _assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size",
            CHECK,
        ),
    ]
)
#: Operators that more than one library has under its own name.
_ANYWHERE = words("selective_scan_fwd causal_conv1d_fwd _causal_conv1d_fwd_cpp")
#: Libraries whose other operators count per element: casts between numbers and their quantised forms.
_QUANTISATION = ("quantized_decomposed.", "torchao.")


def single(size: Any) -> bool:
    """Whether a size of a result, a number or a list, is 1 throughout."""
    return set(size if isinstance(size, list) else [size]) == {1}


def kind_of(target: str) -> str:
    """``convolution`` of ``torch.ops.aten.convolution.default``; other libraries keep their name (``mine.op``)."""
    parts = target.removeprefix("torch.ops.").split(".")
    if parts[0] == "aten" and len(parts) > 1:
        return parts[1]
    if target.endswith("getitem") or target.startswith(("_operator", "math", "torch.sym")):
        return parts[-1]
    return ".".join(parts[:2])


def work(kind: str, read: Sequence[Value], made: Sequence[Value], arguments: Mapping[str, Any]) -> Work:
    """What an operator costs; ``read`` are its tensors in the order of its arguments."""
    return rules.work(Call(kind, read, made, arguments), rule_of(kind))


def rule_of(kind: str) -> Rule | None:
    """The rule of an operator; None for one that isn't known. One in place follows the other, if it has none itself."""
    plain = kind if kind.endswith("__") else kind.removesuffix("_")
    for name in (kind, plain):
        if name in RULES:
            return RULES[name]
        if name in COUNTED or name in VIEWS or name in FIXED:
            return rules.ELEMENTS
    if kind.startswith(_QUANTISATION):
        return rules.ELEMENTS
    name = kind.rpartition(".")[2]
    return RULES[name] if name in _ANYWHERE else None
