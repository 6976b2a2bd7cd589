"""The layers that are judged, and the schemes that runtimes pin.

A layer stands at its published widths, for compiling alone, and at widths cut down, for running; both take the same
schemes. A group has eight chips: larger ones are cut to these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chipmap.instances.dataflow.workload import Kernel, Scheme, Workload
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.instances.dataflow.workloads.moe import moe_network
from chipmap.instances.dataflow.workloads.vision import vit_network

#: A pinning: kernel -> scheme.
Pins = Callable[[Kernel], Scheme]
CHIPS = 8
_HEADS = ("MHA", "Softmax", "Dropout1", "Rotary")
_MIDDLE = ("SiLU", "GeLU", "Experts_Act", "Shared_Act")
#: Products of which tensor parallelism splits rows; the others of a layer split what they sum over.
_BY_ROWS = ("FFN0", "Gate", "Experts_Up", "Experts_Gate", "Shared_Up", "Shared_Gate")
_BY_SUMS = ("Proj", "FFN1", "Experts_Down", "Shared_Down")


@dataclass(frozen=True)
class Layers:
    """A layer at its full widths and at cut ones, without and with its backward phase."""

    name: str
    full: Callable[[bool], Workload]
    cut: Callable[[bool], Workload]
    pins: tuple[str, ...]
    trained: bool = True


def tensor_parallel(kernel: Kernel) -> Scheme:
    """Rows, then sums; heads in between; all else on every chip. Updates lie as parameters rest."""
    return _tensor_parallel(kernel, "NONE", "K")


def with_sequences(kernel: Kernel) -> Scheme:
    """The same with tokens split between the blocks, where sums are scattered by tokens."""
    return _tensor_parallel(kernel, "N", "K_N")


def with_rows(kernel: Kernel) -> Scheme:
    """The same with rows split between the blocks, as the family has always stated it."""
    return _tensor_parallel(kernel, "M", "K_RS")


def _tensor_parallel(kernel: Kernel, between: Scheme, sums: Scheme) -> Scheme:
    name = kernel.name
    if kernel.update:
        return "N" if name.startswith(_BY_SUMS) else "M"
    if name.startswith(_HEADS) or (kernel.outer > 1 and kernel.weights and kernel.phase == "forward"):
        return "OUTER"
    if name.startswith(_MIDDLE):
        return "M"
    if not kernel.weights:
        return between
    if name.startswith("Router"):
        return between
    forward = kernel.phase == "forward"
    return "M" if name.startswith(_BY_SUMS) != forward else sums


def one_by_tokens(kernel: Kernel) -> Scheme:
    """Tensor parallelism, but for one backward product, which splits tokens where its parameters lie by rows."""
    return "N" if kernel.name == "FFN0_b" else tensor_parallel(kernel)


def ring(kernel: Kernel) -> Scheme:
    """Tokens split everywhere: ring attention, and parameters on every chip."""
    return "K_N" if kernel.update or _over_tokens(kernel) else "N"


def all_to_all(kernel: Kernel) -> Scheme:
    """Tokens split everywhere but in attention, which is split by heads."""
    return "OUTER" if kernel.outer > 1 and not kernel.weights else ring(kernel)


def experts(kernel: Kernel) -> Scheme:
    """Tensor parallelism for attention, and experts of a chip's own."""
    return _own_experts(kernel, tensor_parallel(kernel))


def experts_by_tokens(kernel: Kernel) -> Scheme:
    """Tokens split but where they are at experts: dispatch and combine are all-to-alls."""
    return _own_experts(kernel, all_to_all(kernel))


def _own_experts(kernel: Kernel, other: Scheme) -> Scheme:
    return "E" if kernel.name.startswith("Experts_") else other


def _over_tokens(kernel: Kernel) -> bool:
    """Gradients of keys and values, which are sums over the tokens of queries."""
    return kernel.name.startswith("MHA") and kernel.name.endswith("_b2")


PINS: Mapping[str, Pins] = {
    "TP": tensor_parallel,
    "TP + SP": with_sequences,
    "TP + rows": with_rows,
    "TP, FFN0_b by tokens": one_by_tokens,
    "ring": ring,
    "all-to-all": all_to_all,
    "experts": experts,
    "experts by tokens": experts_by_tokens,
}
#: Those that differ from another in the backward phase alone.
BACKWARD = ("TP, FFN0_b by tokens",)


def schemes(workload: Workload, pins: str) -> dict[str, Scheme]:
    """Those of all kernels of a layer."""
    return {kernel.name: PINS[pins](kernel) for kernel in workload.kernels}


def _one(workload: Workload) -> Workload:
    """One layer, which hands on to none."""
    return workload.replace(layers=1)


def _llama(backward: bool, **sizes: int) -> Workload:
    return _one(llama_network(step="forward", backward=backward, split_tokens=True, **sizes))  # type: ignore[arg-type]


def _small_llama(backward: bool) -> Workload:
    sizes = {"hidden": 128, "heads": 16, "kv_heads": 8, "ffn": 192, "layers": 1, "tokens": 48}
    return _one(llama_network(model="", step="forward", backward=backward, split_tokens=True, **sizes))  # type: ignore[arg-type]


def _mixture(model: str, **cut: int) -> Callable[[bool], Workload]:
    def made(backward: bool) -> Workload:
        return _one(moe_network(model=model, step="forward", backward=backward, divide=True, **cut))  # type: ignore[arg-type]

    return made


LAYERS: tuple[Layers, ...] = (
    Layers(
        "llama3-8b", _llama, _small_llama, ("TP", "TP + SP", "TP + rows", "TP, FFN0_b by tokens", "ring", "all-to-all")
    ),
    Layers(
        "gpt3-175b",
        lambda backward: _one(gpt_network()),
        lambda backward: _one(gpt_network(hidden=128, heads=16, tokens=48, layers=1)),
        ("TP", "TP + rows"),
        trained=False,
    ),
    Layers(
        "vit-l16",
        lambda backward: _one(vit_network(model="vit-l16", step="forward", backward=backward)),
        lambda backward: _one(vit_network(model="vit-l16", image=96, step="forward", backward=backward)),
        ("TP",),
    ),
    Layers(
        "mixtral-8x7b",
        _mixture("mixtral-8x7b"),
        _mixture("mixtral-8x7b", hidden=128, heads=16, kv_heads=8, inner=64, layers=1, tokens=64),
        ("TP", "TP + SP", "experts", "experts by tokens"),
    ),
    Layers(
        "qwen3-30b",
        _mixture("qwen3-30b"),
        _mixture("qwen3-30b", hidden=128, heads=16, kv_heads=4, inner=16, experts=16, active=8, layers=1, tokens=128),
        ("TP", "experts", "experts by tokens"),
    ),
)
