"""Names of what kernels range over: ``heads``, ``features``, ``tokens`` beside outer, M, K and N.

They decide nothing, and are no part of an instance's hash. The generators of transformers know theirs, and so do
converted graphs, from the loop nests of their operations.
"""

from __future__ import annotations

import re

from chipmap.instances.dataflow.workload import Axes, Kernel, Workload
from chipmap.networks.graph import Loops

_HIDDEN = "hidden"
#: Outer, M and K of the generators' forward kernels, by their names; N is tokens where nothing else is said.
_KNOWN = {
    r"Add_Prev|Add\d|LN\d|Norm\d|Dropout[23]|Scale\d|Combine|Embed": ("", _HIDDEN, ""),
    r"Q|Rotary_Q": ("heads", "head", _HIDDEN),
    r"[KV]|Rotary_K": ("kv heads", "head", _HIDDEN),
    r"[KV]_cache": ("kv heads", "head", "", "context"),
    r"MHA1": ("heads", "context", "head"),
    r"Softmax|Dropout1": ("heads", "context", ""),
    r"MHA2": ("heads", "head", "context"),
    r"Proj": ("", _HIDDEN, "heads x head"),
    r"FFN0|Gate|SiLU|GeLU": ("", "ffn", _HIDDEN),
    r"FFN1": ("", _HIDDEN, "ffn"),
    r"Shared_(Up|Gate|Act)": ("", "shared ffn", _HIDDEN),
    r"Shared_Down": ("", _HIDDEN, "shared ffn"),
    r"Experts_(Up|Gate|Act)": ("", "expert ffn", _HIDDEN, "routed tokens"),
    r"Experts_Down": ("", _HIDDEN, "expert ffn", "routed tokens"),
    r"Expert\d+_(Gate|Up|GeLU|Mul)": ("", "expert ffn", _HIDDEN, "tokens of an expert"),
    r"Expert\d+_Down": ("", _HIDDEN, "expert ffn", "tokens of an expert"),
    r"Dispatch": ("", _HIDDEN, "", "routed tokens"),
    r"Router": ("", "experts", _HIDDEN),
    r"Head|Logits": ("", "part of outputs", _HIDDEN),
    r"Patches": ("", "part of hidden", "pixels", "patches"),
    r"SiLU_c": ("", _HIDDEN, "", "samples"),
    r"Modulation": ("", "modulation", _HIDDEN, "samples"),
    r"Q_down": ("", "query latent", _HIDDEN),
    r"Q_up": ("heads", "query head", "query latent"),
    r"KV_down": ("", "latent", _HIDDEN),
    r"[KV]_up": ("heads", "head", "latent part"),
}
#: Attention through a latent, of which each head makes keys and values, or which is both to all heads (decode).
_MADE = {"MHA1": Axes.of("heads", "context", "query head")}
_SHARED = {"MHA1": Axes.of("heads", "context", "latent"), "MHA2": Axes.of("heads", "latent part", "context")}
_FORWARD = [(re.compile(rf"(?:Dense_)?(?:{names})"), Axes.of(*found)) for names, found in _KNOWN.items()]
#: Gradients of the operands of the two products of attention.
_OF_OPERANDS = {
    "MHA1_b1": Axes.of("heads", "head", "context"),
    "MHA1_b2": Axes.of("heads", "head", "tokens", "context"),
    "MHA2_b1": Axes.of("heads", "context", "head"),
    "MHA2_b2": Axes.of("heads", "head", "tokens", "context"),
    "Combine_b1": Axes.of("", _HIDDEN, "", "routed tokens"),
    "Combine_b2": Axes.of("", "experts", ""),
}
_BACKWARD = re.compile(r"(?P<of>.+)_(?:b\d?|sum)")


def with_axes(workload: Workload) -> Workload:
    """A generated transformer's layer with the names of what its kernels range over; any other as it is."""
    names = {kernel.name for kernel in workload.kernels}
    if workload.axes or not names & {"MHA1", "Dense_MHA1"}:
        return workload
    forward = {one.name: one for one in workload.kernels if one.phase == "forward"}
    own = {} if "KV_down" not in names else _MADE if "K_up" in names else _SHARED
    known = {name: _forward(one, own, workload.tokens) for name, one in forward.items()}
    found = known | {one.name: _backward(one, forward, known) for one in workload.kernels if one.phase == "backward"}
    return workload.replace(axes={name: axes for name, axes in found.items() if axes is not None and axes != Axes()})


def _forward(kernel: Kernel, own: dict[str, Axes], tokens: int) -> Axes | None:
    """Those of a forward kernel, unless its network has its ``own``; columns that aren't ``tokens`` have no name."""
    found = own.get(kernel.name) or next((axes for names, axes in _FORWARD if names.fullmatch(kernel.name)), None)
    if found is not None and (tokens == kernel.N) != (found.N == "tokens") and found.N in ("tokens", "routed tokens"):
        found = found.replace(N="tokens" if tokens == kernel.N else "")
    if kernel.name in ("Gate", "Dense_Gate") and kernel.kind == "elementwise":  # the choice of experts
        found = Axes.of("", "experts", "")
    return found and _those_of(found, kernel)


def _backward(kernel: Kernel, forward: dict[str, Kernel], known: dict[str, Axes | None]) -> Axes | None:
    """Those of a backward kernel: a product's follow from the parameters that it uses, others from their formula."""
    of, axes = forward.get(kernel.parameters_of), known.get(kernel.parameters_of)
    if of is not None and axes is not None and of.kind == "gemm":
        rows = " x ".join(filter(None, (axes.outer, axes.M)))
        found = Axes(M=axes.K, K=rows, N=axes.N)
        if kernel.update:  # published ones may make the transpose
            usual = (of.outer * of.M, of.K) == (kernel.M, kernel.N)
            found = Axes(M=rows if usual else axes.K, K=axes.N, N=axes.K if usual else rows)
        return _those_of(found, kernel)
    bare = kernel.name.removeprefix("Dense_")
    if bare in _OF_OPERANDS:
        return _those_of(_OF_OPERANDS[bare], kernel)
    named = _BACKWARD.fullmatch(kernel.name)
    like, axes = (forward.get(named["of"]), known.get(named["of"])) if named else (None, None)
    if kernel.name == "Loss_b":
        return Axes(M=_HIDDEN, N="tokens")
    if like is None or axes is None or (like.outer, like.M, like.N) != (kernel.outer, kernel.M, kernel.N):
        return None
    return _those_of(axes, kernel)


def _those_of(axes: Axes, kernel: Kernel) -> Axes | None:
    """The names without those of what a kernel doesn't have: sums, and groups of one; None for an opaque one."""
    if kernel.kind == "opaque":
        return None
    return axes.replace(outer=axes.outer if kernel.outer > 1 else "", K=axes.K if kernel.kind == "gemm" else "")


def of_loops(loops: Loops | None, kernel: Kernel) -> Axes | None:
    """The names of what a converted operation's kernel ranges over, as far as its loop nest says; None: nothing is
    known. Of a product of two activations it says which ranges don't mix, not what the others are."""
    if loops is None or not loops.inner:
        return None
    groups = "heads" if loops.heads or kernel.outer > loops.outer else "groups"
    if not loops.weights:
        found = Axes(outer=groups)
    elif loops.window:
        found = Axes(outer=groups, M="channels", K="channels read x window", N="samples x places")
    else:
        found = Axes(outer=groups, M="features", K="features read", N="samples x tokens")
    named = _those_of(found, kernel)
    return named if named != Axes() else None


def sizes(workload: Workload) -> dict[str, int | str]:
    """How long each named range is; of several the least and the largest."""
    found: dict[str, set[int]] = {}
    for kernel in workload.kernels:
        axes = workload.axes.get(kernel.name, Axes())
        for name, size in zip(axes.listed, (kernel.outer, kernel.M, kernel.K, kernel.N), strict=True):
            if name:
                found.setdefault(name, set()).add(size)
    return {name: min(some) if len(some) == 1 else f"{min(some)} to {max(some)}" for name, some in found.items()}
