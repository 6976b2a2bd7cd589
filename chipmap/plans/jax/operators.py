"""What a kernel computes, as a call of a function of :mod:`.script.arithmetic`, with the numbers that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.workloads.layer import LAYER_NORM
from chipmap.plans.jax.layouts import AXIS, Layout
from chipmap.plans.jax.planning import Run
from chipmap.plans.jax.steps import Layer, Step

#: Operators whose function has another name, and takes operands alone.
_PLAIN = {
    **{"linear": "linear", "transposed": "transposed", "update": "update", "gelu": "jax.nn.gelu", "gelu_b": "gelu_b"},
    **{"gated": "gated"},
}


def call(layer: Layer, run: Run, inputs: Sequence[str]) -> str:
    """The expression of a kernel's output. ``inputs``: the names of its sources, operands and parameters, in order."""
    step, made = run.step, run.made.layout
    first = len(run.inputs) - len(step.operands)
    summed = [" + ".join(inputs[:first])] if first else []
    given = [*summed, *inputs[first:]]
    if step.operator in ("sum", "loss"):
        return " + ".join(inputs)
    if step.operator in _PLAIN:
        return called(_PLAIN[step.operator], given)
    if step.operator in ("product", "outer"):
        return _of_heads(layer, run, given)
    parts, heads = _parts(made, "SR"), _local(step.kernel.outer, made)
    base, _, backward = step.operator.partition("_")
    match base:
        case "norm":
            centred = _forward(layer, step).kernel.statistics == LAYER_NORM
            names = ("layer_norm", "layer_norm_b") if centred else ("rms_norm", "rms_norm_b")
            return called(names[bool(backward)], given, parts=parts)
        case "choice":
            return called(step.operator, given, parts=parts)
        case "softmax":
            scale = f"{layer.step(_forward(layer, step).operands[0]).kernel.K} ** -0.5"
            return called("softmax_b" if backward else "softmax", given, heads=heads, scale=scale)
        case "gated":  # backward
            return called("gated" if step.which == 1 else "gated_gate_b", given)
        case "dropout":
            return called("dropout", given, row_parts=parts, column_parts=_parts(made, "RS"))
        case "rotary":
            sign = -1.0 if backward else 1.0
            own = {"row_parts": parts, "column_parts": _parts(made, "RS")}
            return called("rotary", given, heads=step.kernel.outer, **own, sign=sign)
    return _of_experts(layer, run, given, bool(backward))


def statistics(run: Run) -> bool:
    """Whether the kernel's function adds up numbers over chips, or gathers them."""
    base, _, _ = run.step.operator.partition("_")
    split = base in ("norm", "choice") or (run.step.operator == "combine_b" and run.step.which == 2)
    return split and (_parts(run.made.layout, "SR") > 1 or run.at_experts)


def called(name: str, arguments: Sequence[str], **numbers: object) -> str:
    """A call of a function of :mod:`.script.arithmetic`."""
    return f"{name}({', '.join([*arguments, *(f'{key}={value}' for key, value in numbers.items())])})"


def _forward(layer: Layer, step: Step) -> Step:
    """The step itself, or the one whose derivative it has."""
    return layer.step(step.of or step.name)


def _parts(layout: Layout, kind: str) -> int:
    return layout.parts if layout.kind == kind else 1


def _local(heads: int, layout: Layout) -> int:
    """Heads of rows on a chip."""
    return max(heads // _parts(layout, "SR"), 1)


def _of_heads(layer: Layer, run: Run, given: list[str]) -> str:
    """A product of two activations."""
    step, kernel = run.step, run.step.kernel
    names = (*step.sources, *step.operands)
    if step.operator == "outer":
        local = _local(kernel.outer, run.inputs[0].layout)
        each = [layer.sizes[u][0] // kernel.outer for u in names]
        first = not step.scores if each[0] == each[1] else each[0] == kernel.M
        arguments = given if first else given[::-1]
        return called("outer", arguments, heads=local, shared=min(kernel.outer // step.heads, local))
    heads = layer.step(names[1]).heads
    rows, _, columns = layer.sizes[names[1]]
    plain = (rows // heads, columns) == (kernel.M, kernel.K)
    if kernel.M == kernel.K:  # as many rows as columns
        plain = step.scores == bool(step.sources)
    own = {
        "heads": _local(kernel.outer, run.inputs[0].layout),
        "groups": _local(heads, run.inputs[1].layout),
        "transpose": not plain,
    }
    return called("product", given, **own)


def _of_experts(layer: Layer, run: Run, given: list[str], backward: bool) -> str:
    """Tokens sent to experts, or combined from them."""
    step, made = run.step, run.made.layout
    sizes = {"experts": layer.experts, "copies": next(k.active for k in layer.workload.kernels if k.active)}
    if not step.operator.startswith("combine"):
        return called("gathered" if backward else "dispatch", given, **sizes)
    if not backward:
        return called("combine", given, **sizes)
    if step.which == 1:
        return called("combine_down_b", given, **sizes)
    whole = called("combine_gate_b", given, **sizes, parts=1 if run.at_experts else _parts(made, "SR"))
    split = made.kind == "SR" or (made.kind == "RS" and run.at_experts)
    return own_part(whole, Layout("RR"), made) if split and made.parts > 1 else whole


def own_part(value: str, before: Layout, after: Layout) -> str:
    """The expression of a chip's part of ``after``, out of its part of ``before``."""
    of = [str(before.parts)] if before.parts > 1 else []
    return called("own_part", [value, str(AXIS[after.kind]), str(after.parts), *of])
