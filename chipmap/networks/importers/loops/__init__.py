"""The loop nests of a program's operators (:class:`~chipmap.networks.graph.Loops`), in PyTorch's and ONNX's names.

A part of a network may be computed apart only from operands that lie where the part is. So the pass follows, from the
inputs on, how every tensor lies on the chips that share its maker (:mod:`.layouts`), and a rule per operator names in
``splits`` what agrees with that. Products with parameters begin a split: by output features or channels. Everything up
to the next product follows it or runs whole. What a rule can't tell it leaves out.

Where a reader cuts what a product makes into pieces (a joint projection of queries, keys and values), the product is
asked for a split of every piece. Where two operands don't lie alike (keys of one head and queries of many), the maker
of the smaller one is asked not to split it. Asking takes another round; what the last round asks for is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from chipmap.networks.graph import Loops
from chipmap.networks.importers.loops import pointwise, products
from chipmap.networks.importers.loops.call import Call, Operand, Outcome
from chipmap.networks.importers.loops.layouts import Layout
from chipmap.networks.importers.loops.views import view
from chipmap.networks.importers.recomputed import recomputed
from chipmap.networks.importers.steps import Program, Step, words

Rule = Callable[[Call], Outcome]

#: Walks over the program at most.
ROUNDS = 6
_POINTWISE = words(
    """abs acos acosh add addcdiv addcmul alias asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or
    bitwise_xor bitwiseand bitwisenot bitwiseor bitwisexor and or xor not cast castlike ceil celu clamp clamp_max
    clamp_min clip clone copy cos cosh div elu eq equal erf erfc exp exp2 expm1 floor floor_divide fmod ge gelu greater
    greaterorequal gt hardsigmoid hardswish hardtanh isfinite isinf isnan le leaky_relu leakyrelu lerp less lessorequal
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum
    mish mod mul ne neg pow reciprocal relu relu6 remainder round rrelu rsqrt rsub selu sigmoid sign silu sin sinh
    softplus softsign sqrt square sub swish tan tanh tanhshrink threshold thresholdedrelu to tril trilu triu trunc where
    _to_copy __and__ __or__ type_as dropout native_dropout alpha_dropout"""
)
_ALONG = words(
    """softmax log_softmax _softmax _log_softmax _safe_softmax logsoftmax hardmax cumsum cumprod flip roll sort topk
    logcumsumexp"""
)
_LAYER_NORMS = words("layer_norm native_layer_norm rms_norm _fused_rms_norm layernormalization rmsnormalization")
_BATCH_NORMS = words(
    """batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training batchnormalization
    instance_norm instancenormalization prelu"""
)
_GROUP_NORMS = words("group_norm native_group_norm groupnormalization")
_WINDOWS = words(
    """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d avg_pool1d
    avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
    upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
    _adaptive_avg_pool2d _adaptive_avg_pool3d averagepool globalaveragepool globalmaxpool maxpool lppool globallppool
    resize upsample"""
)
_PADS = words("constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad2d")
_REDUCTIONS = words(
    """all amax amin any argmax argmin logsumexp mean norm prod std sum var var_mean max min reducel1 reducel2
    reducelogsum reducelogsumexp reducemax reducemean reducemin reduceprod reducesum reducesumsquare
    linalg_vector_norm"""
)
_CONVOLUTIONS = words(
    """conv1d conv2d conv3d convolution _convolution conv_transpose1d conv_transpose2d conv_transpose3d conv
    convtranspose"""
)
_ATTENTIONS = words(
    """scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention _scaled_dot_product_attention_math
    _scaled_dot_product_fused_attention_overrideable"""
)
#: ONNX operators of several operands whose names in lower case are reductions in PyTorch.
_N_ARY = words("Max Min Sum Mean")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE, pointwise.pointwise),
    **dict.fromkeys(_ALONG, pointwise.along),
    **dict.fromkeys(_LAYER_NORMS, pointwise.layer_norm),
    **dict.fromkeys(_BATCH_NORMS, pointwise.batch_norm),
    **dict.fromkeys(_GROUP_NORMS, pointwise.group_norm),
    **dict.fromkeys(_WINDOWS, pointwise.window),
    **dict.fromkeys(_PADS, pointwise.padded),
    **dict.fromkeys(_REDUCTIONS, pointwise.reduction),
    **dict.fromkeys(("cat", "concat"), pointwise.joined),
    **dict.fromkeys(("embedding", "index_select", "Gather"), pointwise.table),
    **dict.fromkeys(("repeat", "tile"), pointwise.copies),
    **dict.fromkeys(words("mm bmm matmul mv dot gemm"), products.product),
    **dict.fromkeys(words("addmm baddbmm addmv"), products.added_product),
    **dict.fromkeys(_CONVOLUTIONS, products.convolution),
    **dict.fromkeys(_ATTENTIONS, products.attention),
    **dict.fromkeys(words("grouped_mm _grouped_mm transformers.grouped_mm_fallback"), products.grouped_product),
    **dict.fromkeys(_N_ARY, pointwise.pointwise),
    "stack": pointwise.stacked,
    "linear": products.linear,
    "einsum": products.einsum,
    "Attention": products.attention,
}

#: Sweeps over tensors that make about as many numbers as they read; sorts and running sums are none.
_SWEEPS: tuple[Rule | None, ...] = (
    *(pointwise.pointwise, pointwise.along, pointwise.layer_norm, pointwise.batch_norm, pointwise.group_norm),
    *(pointwise.reduction, pointwise.joined, pointwise.stacked, pointwise.copies),
)
#: Windows that hold each number once: sums along the axes of space.
_POOLS = words(
    """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d globalaveragepool globalmaxpool
    globallppool"""
)
#: Sums, differences, products and quotients of operands, element by element.
_AFFINE = words("add sub rsub mul div")
_SEARCHES = words("cumsum cumprod flip roll sort topk logcumsumexp argmax argmin multinomial")


def element_wise(kind: str) -> bool:
    """Whether an operator of that kind makes its numbers element by element, or sums them along some axes."""
    plain = _plain(kind)
    rule = _RULES.get(plain) or _RULES.get(plain.lower())
    return (rule in _SWEEPS and plain.lower() not in _SEARCHES) or plain.lower() in _POOLS


def affine(kind: str) -> bool:
    """Whether an operator of that kind adds, subtracts, multiplies or divides its operands element by element.

    With constants for all operands but one it scales and shifts that one.
    """
    return _plain(kind).lower() in _AFFINE


def _plain(kind: str) -> str:
    """The name of an operator without the ending of changes in place."""
    return kind if kind.startswith("__") else kind.rstrip("_")


def with_loops(program: Program, steps: Sequence[Step]) -> list[Step]:
    """The ``steps`` of ``program``, in its order, with the loop nests of those whose rules know them."""
    found, _ = followed(program)
    return [step if loops is None else replace(step, loops=loops) for step, loops in zip(steps, found, strict=True)]


def followed(program: Program) -> tuple[list[Loops | None], dict[str, Layout]]:
    """The loop nest of each step, and the layout of every value that isn't known beforehand."""
    wanted: dict[int, int] = {}
    for turn in range(ROUNDS):
        walk = _Pass(program, wanted)
        found = walk.run()
        if not walk.asked or turn == ROUNDS - 1:
            break
        wanted |= {step: wanted.get(step, 1) * factor for step, factor in walk.asked.items()}
    return found, walk.layouts


class _Pass:
    """One walk over the program: what is known beforehand, with its bytes, and how all else lies."""

    def __init__(self, program: Program, wanted: Mapping[int, int]) -> None:
        self.program, self.wanted = program, wanted
        self.stored: dict[str, int] = {}
        self.layouts: dict[str, Layout] = dict.fromkeys(program.inputs, "whole")
        self.asked: dict[int, int] = {}
        self.recomputed = recomputed(program)
        for name in program.parameters:
            self.stored[name] = program.values[name].bytes if name in program.values else 0

    def run(self) -> list[Loops | None]:
        """The loop nest of each step."""
        found: list[Loops | None] = []
        for index, step in enumerate(self.program.steps):
            moving = not step.fixed and any(name in self.layouts for name in step.reads)
            moving = moving or any(name in self.recomputed for name in step.makes)
            found.append(self._moving(index, step) if moving else None)
            if not moving:
                self._fixed(step)
        return found

    def _fixed(self, step: Step) -> None:
        """What is known beforehand. A view of it holds no more bytes than it; one that cuts out a part holds this."""
        values = self.program.values
        source = self.stored.get(step.reads[0], 0) if step.view and step.reads else None
        for name in step.makes:
            own = values[name].bytes if name in values else source or 0
            self.stored[name] = own if source is None else min(source, own)

    def _moving(self, index: int, step: Step) -> Loops | None:
        values = self.program.values
        known = [name for name in step.reads if name in values]
        made = [(name, values[name]) for name in step.makes if name in values]
        self.layouts |= dict.fromkeys(step.makes, "whole")
        if len(known) < len(step.reads) or not made:
            return None
        operands = [Operand(values[n].shape, self.layouts.get(n), self.stored.get(n, 0)) for n in known]
        call = Call(index, step, operands, [value for _, value in made], self.wanted.get(index, 1), self.asked)
        plain = _plain(step.kind)
        lower = plain if plain.islower() or "." in plain else plain.lower()
        loops = None
        if not call.made[0].elements:
            layouts = call.whole().layouts
        elif step.view and not operands[0].fixed:
            layouts = view(call, lower)
        else:
            rule = _RULES.get(plain) or _RULES.get(lower)
            loops, layouts = rule(call) if rule else call.whole()
        self.layouts |= dict(zip((name for name, _ in made), layouts, strict=True))
        return loops
