"""What each kernel of a generated layer computes: its operator, the tensors that it needs, and its parameters.

A workload states sizes and edges; what a kernel computes follows from its kind and, as the generators name kernels,
from its name. A backward kernel is called after the forward one whose derivative it has: ``v_b``, or ``v_b1``, ``v_b2``
for one operand each, ``v_u`` the gradient of its parameters, ``v_sum`` a sum of gradients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.records import InputError

#: Operators of element-wise kernels by how their names begin; those of mixtures first.
_BY_NAME = (
    ("Add", "sum"),
    ("Norm", "norm"),
    ("LN", "norm"),
    ("Softmax", "softmax"),
    ("Dropout", "dropout"),
    ("Rotary", "rotary"),
    ("SiLU", "gated"),
    ("Experts_Act", "gated"),
    ("Shared_Act", "gated"),
    ("GeLU", "gelu"),
    ("Gate", "choice"),
    ("Dispatch", "dispatch"),
    ("Combine", "combine"),
)
_BACKWARD = re.compile(r"(?P<base>.+?)_(?P<what>b\d?|u|sum)$")
#: Operands that the derivative of an element-wise operator needs: by their place, and its result (-1).
_NEEDS: dict[str, tuple[int, ...]] = {
    **{"norm": (0,), "gelu": (0,), "gated": (0, 1), "softmax": (-1,), "choice": (-1,)},
    **{"dropout": (), "rotary": (), "dispatch": ()},
}
#: What derivatives need that are of one operand (1, 2): of a product the other one.
_OF_ONE: dict[tuple[str, int], tuple[int, ...]] = {("combine", 1): (1,), ("combine", 2): (0,), ("gated", 1): (1,)}
#: Kernels whose columns are sorted by experts.
_ROUTED = re.compile(r"Experts_|Dispatch$|Combine_b1$")


@dataclass(frozen=True)
class Step:
    """A kernel with what it computes.

    ``sources`` are makers of gradients that it adds up first, ``operands`` what else it needs, by the operator's roles.
    ``of`` is the forward kernel whose derivative it has, ``which`` the operand of that it is the gradient of.
    ``parameters`` names the forward kernel whose weights it uses or, of an update, whose gradient it makes. ``heads``
    are those of its output's rows. ``unread`` are edges that the workload has and the operator doesn't need.
    ``scores``: it is, or is the derivative of, a product that takes its second operand transposed.
    """

    kernel: Kernel
    operator: str
    operands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    of: str = ""
    which: int = 0
    parameters: str = ""
    heads: int = 1
    unread: tuple[str, ...] = ()
    scores: bool = False

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.kernel.name


@dataclass(frozen=True)
class Layer:
    """A workload's steps in an order that its edges allow, with the sizes of its tensors (rows, experts, columns)."""

    workload: Workload
    steps: tuple[Step, ...]
    sizes: dict[str, tuple[int, int, int]]
    experts: int

    def step(self, name: str) -> Step:
        """That of a kernel."""
        return next(one for one in self.steps if one.name == name)


def layer_of(workload: Workload) -> Layer:
    """The steps of a generated layer, in the order of its kernels. Raises :class:`InputError` for kernels that no rule
    here knows."""
    kernels = {kernel.name: kernel for kernel in workload.kernels}
    reads: dict[str, list[str]] = {name: [] for name in kernels}
    for maker, reader in workload.edges:
        reads[reader].append(maker)
    experts = max((k.experts for k in workload.kernels if k.weights), default=0)
    steps = {}
    for kernel in workload.kernels:
        steps[kernel.name] = _forward(kernel, reads) if kernel.phase == "forward" else _backward(kernel, kernels, reads)
    sizes = {name: _sizes(kernels[name], steps[name], kernels, experts) for name in kernels}
    for name, step in steps.items():
        if step.parameters and not kernels[name].update and kernels[name].phase == "forward":
            one = kernels[name]
            sizes[weights(name)] = (one.outer * one.M, max(one.experts, 1), one.K)
    return Layer(workload, tuple(_ordered(steps, reads)), sizes, max(experts, 1))


def weights(name: str) -> str:
    """The name of a forward kernel's parameters among tensors."""
    return f"W:{name}"


def _ordered(steps: dict[str, Step], reads: dict[str, list[str]]) -> list[Step]:
    """Kernels after what they read, in the order in which they stand otherwise."""
    done: dict[str, Step] = {}

    def add(name: str) -> None:
        if name not in done:
            for maker in reads[name]:
                add(maker)
            done[name] = steps[name]

    for name in steps:
        add(name)
    return list(done.values())


def _operator(kernel: Kernel) -> str:
    for start, operator in _BY_NAME:
        if kernel.name.startswith(start):
            return operator
    raise InputError(f"what {kernel.name!r} computes isn't known", "workload.kernels", "Give a generated layer.")


def _forward(kernel: Kernel, reads: dict[str, list[str]]) -> Step:
    read = tuple(reads[kernel.name])
    if kernel.weights:
        return Step(kernel, "linear", read[:1], parameters=kernel.name, heads=kernel.outer)
    if kernel.kind == "gemm":
        return Step(kernel, "product", read, heads=kernel.outer, scores=_scores(read))
    operator = _operator(kernel)
    if operator == "sum" and not read:
        return Step(kernel, "input")
    needed = read[:1] if operator == "dispatch" else read
    return Step(kernel, operator, needed, heads=kernel.outer, unread=read[len(needed) :])


def _backward(kernel: Kernel, kernels: dict[str, Kernel], reads: dict[str, list[str]]) -> Step:
    name, read = kernel.name, reads[kernel.name]
    if name == "Loss_b":
        return Step(kernel, "loss", tuple(read))
    match = _BACKWARD.match(name)
    if match is None or match["base"] not in kernels:
        raise InputError(
            f"what {name!r} is the derivative of isn't known", "workload.kernels", "Give a generated layer."
        )
    base, what = kernels[match["base"]], match["what"]
    sources = tuple(u for u in read if kernels[u].phase == "backward")
    needs = tuple(u for u in read if kernels[u].phase == "forward")
    if what == "sum" or (base.kind == "elementwise" and _operator(base) == "sum"):
        return Step(kernel, "sum", sources=sources, heads=kernel.outer)
    if what == "u":
        return Step(kernel, "update", needs, sources, parameters=base.name)
    if base.weights:
        return Step(kernel, "transposed", sources=sources, parameters=base.name)
    if base.kind == "gemm":
        operator = "product" if what == "b1" else "outer"
        heads, scores = _heads(kernel, kernels, reads, base, what), _scores(reads[base.name])
        return Step(kernel, operator, needs, sources, heads=heads, scores=scores)
    which, operator = int(what[1:] or 1), _operator(base)
    forward = reads[base.name]
    wanted = _OF_ONE.get((operator, which)) or _NEEDS[operator]
    operands = tuple(base.name if place < 0 else forward[place] for place in wanted)
    unread = tuple(u for u in needs if u not in operands)
    return Step(kernel, f"{operator}_b", operands, sources, base.name, which, heads=kernel.outer, unread=unread)


def _scores(read: Sequence[str]) -> bool:
    """Whether a product of two activations compares them (queries with keys), and doesn't weigh one by the other."""
    return not read[0].startswith(("Softmax", "Dropout"))


def routed_tokens(layer: Layer, sizes: Mapping[str, tuple[int, int, int]]) -> int:
    """The tokens that are sent to experts, where tensors have these ``sizes``; 0: none."""
    return next((sizes[one.name][2] for one in layer.steps if one.operator == "combine"), 0)


def _heads(kernel: Kernel, kernels: dict[str, Kernel], reads: dict[str, list[str]], base: Kernel, what: str) -> int:
    """Heads of the gradient of a product's operand: as many as the operand has."""
    read = reads[base.name]
    return kernels[read[0] if what == "b1" else read[-1]].outer


def _sizes(kernel: Kernel, step: Step, kernels: dict[str, Kernel], experts: int) -> tuple[int, int, int]:
    if step.operator == "update":
        of = kernels[step.parameters]
        return of.outer * of.M, max(of.experts, 1), of.K
    rows = (step.heads if step.operator == "outer" else kernel.outer) * kernel.M
    routed = experts if experts and _ROUTED.match(kernel.name) else 1
    return rows, routed, kernel.N // routed
