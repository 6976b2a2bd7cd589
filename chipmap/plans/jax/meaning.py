"""Whether kernels compute what their names say: a program needs their reads and sizes to be those of the operator."""

from __future__ import annotations

from chipmap.instances.dataflow.workload import Workload
from chipmap.plans.jax.steps import Layer, Step, layer_of
from chipmap.records import InputError

_REMEDY = "Take a layer that `chipmap generate` makes (llama, gpt, moe, vit), whose kernels say what they compute."
#: Operators of which all operands are as large as what they make.
_ALIKE = ("sum", "loss", "norm", "softmax", "dropout", "gated", "gelu", "choice", "rotary")
#: How many tensors operators read, where that is fixed.
_READ = {"linear": 1, "transposed": 1, "product": 2, "outer": 2, "update": 2, "gated": 2}


def meant(workload: Workload) -> Layer:
    """The layer of a workload. Raises :class:`InputError` where what a kernel computes isn't known, or isn't what its
    sizes and reads are of."""
    for kernel in workload.kernels:
        if kernel.kind == "opaque":
            raise InputError(f"what {kernel.name!r} computes isn't known: it is opaque", workload.name, _REMEDY)
        if kernel.fetch_bytes or kernel.table_bytes or kernel.exchange_bytes:
            what = (
                f"{kernel.name!r} fetches from DRAM, or sends to all chips, what no tensor says (a KV cache, a table)"
            )
            raise InputError(what, workload.name, "Take a step that has none: forward or prefill.")
    try:
        layer = layer_of(workload)
    except (KeyError, IndexError, StopIteration):
        raise InputError("what its kernels compute isn't known", workload.name, _REMEDY) from None
    except InputError as error:
        raise InputError(error.what, workload.name, _REMEDY) from None
    read: dict[str, set[str]] = {kernel.name: set() for kernel in workload.kernels}
    for maker, reader in workload.edges:
        read[reader].add(maker)
    for step in layer.steps:
        if (why := _wrong(layer, step, read[step.name])) is not None:
            raise InputError(why, workload.name, _REMEDY)
    if not any(step.operator == "input" for step in layer.steps):
        raise InputError("no kernel is the layer's input (Add_Prev, which reads nothing)", workload.name, _REMEDY)
    return layer


def _wrong(layer: Layer, step: Step, read: set[str]) -> str | None:
    """Why a step isn't what it is taken for."""
    names = (*step.sources, *step.operands)
    missing = next((name for name in names if name not in read), None)
    if missing is not None:
        return f"{step.name!r} needs {missing!r}, which it doesn't read"
    base = step.operator.removesuffix("_b")
    count = _READ.get(step.operator)
    summed = len(step.operands) + bool(step.sources)
    if step.operator == "input":
        return None
    if not names or (count is not None and summed != count) or (base != step.operator and not step.sources):
        return f"{step.name!r} reads {len(read)} tensors, which isn't what {step.operator} does"
    sizes, own = layer.sizes, layer.sizes[step.name]
    if base in _ALIKE and any(sizes[name] != own for name in names):
        return f"{step.name!r} isn't as large as what it reads"
    if step.operator == "linear":
        rows, experts, columns = sizes[names[0]]
        if rows != step.kernel.K or experts * columns != own[1] * own[2]:
            return f"{step.name!r} multiplies {step.kernel.K} rows, but reads {rows}"
    return None
