"""From a forward graph to the graph of a training step: gradients, their sums, and the update of each weight.

The rules, for the operations that the network needs, from the last one back:

- A weight becomes a constant of its own (placed, with weights rule ``variable``), also if it was part of an operation.
  Buffers, and what follows from shapes alone (positions, masks), are constants without gradient and update.
- A product has one gradient operation per activation that it reads (from the gradient of its result and the other
  operands) and one per weight, each with the product's FLOP (activations that stand side by side before a weight share
  it by their bytes). Of several weights the largest is its matrix; another (a bias) sums up the result's gradient.
- Any other operation has one gradient operation for all, with its FLOP: twice these for a recurrent layer (its products
  have gradients of what they read and of their matrices), 5/2 of these for fused attention (its two products have two
  gradients each, and its scores are computed again, as PyTorch's fused kernels do).
- Where gradients of a tensor meet, a sum adds them up. Gradients of a weight are added in a chain, one after the other.
- An operation that nobody reads is a loss: its gradient starts from its own result.
- Each weight with a gradient has an update, which holds the optimizer's state (Adam: twice the weight) and shares the
  weight's device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.importers.operators.aten import FIXED
from chipmap.instances.importers.steps import words

#: Kinds that sum up over an inner range, where no loop nest says so.
PRODUCTS = words(
    """product matmul mm addmm bmm baddbmm addbmm linear gemm einsum mv addmv dot tensordot bilinear conv conv1d conv2d
    conv3d convolution _convolution convtranspose conv_transpose1d conv_transpose2d conv_transpose3d"""
)
#: Layers of products in one operation.
RECURRENT = words("lstm gru rnn rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell")
#: Bytes of a number; FLOP of an update per weight; state of the optimizer in weights.
WORD, UPDATE_FLOP, STATE = 4, 10, 2


@dataclass(frozen=True)
class Training:
    """The graph of a training step; ``together``: each weight with its update; ``backward``: what was added."""

    graph: OperationGraph
    together: tuple[tuple[str, ...], ...]
    backward: tuple[str, ...]


@dataclass
class Draft:
    """A graph on its way: operations, and tensors with growing lists of readers."""

    operations: list[Operation] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    readers: list[list[int]] = field(default_factory=list)

    def op(self, name: str, kind: str, reads: list[int], sizes: list[int], flop: int = 0, **rest: object) -> list[int]:
        """Add an operation that reads tensors and makes some of these ``sizes``; the new tensors."""
        here = len(self.operations)
        self.operations.append(Operation(name=name, kind=kind, flop=flop, **rest))  # type: ignore[arg-type]
        for t in dict.fromkeys(reads):
            self.readers[t].append(here)
        made = range(len(self.sizes), len(self.sizes) + len(sizes))
        self.producers += [here] * len(sizes)
        self.sizes += sizes
        self.readers += [[] for _ in sizes]
        return list(made)

    def graph(self, name: str, source: str = "") -> OperationGraph:
        """The finished graph."""
        tensors = [
            Tensor(producer=u, readers=tuple(readers), bytes=size)
            for u, readers, size in zip(self.producers, self.readers, self.sizes, strict=True)
        ]
        return OperationGraph.checked(name, self.operations, tensors, source)


def training(graph: OperationGraph) -> Training:
    """The training step of a forward ``graph`` (views are passed through, dead operations left out)."""
    return _Backward(graph).made()


class _Backward:
    def __init__(self, graph: OperationGraph) -> None:
        self.forward, self.draft = graph, Draft()
        self.at: dict[int, set[int]] = {}  # tensor of the forward graph -> tensors of the draft that hold its bytes
        self.gradients: dict[int, list[int]] = {}  # tensor of the draft -> its gradients, to be added
        self.reads: dict[int, Counter[int]] = {}  # computing operation of the draft -> tensors that it reads, how often
        self.order: list[int] = []
        self.trained: set[int] = set()  # tensors of the draft that are weights

    def made(self) -> Training:
        """Forward operations, gradients from the last one back, then the updates."""
        self._copy()
        first = len(self.draft.operations)
        for v in reversed(self.order):
            self._differentiate(v)
        together = tuple(pair for t in sorted(self.trained) if (pair := self._update(t)))
        graph = self.draft.graph(f"{self.forward.name} training", self.forward.source)
        return Training(graph, together, tuple(one.name for one in graph.operations[first:]))

    def _copy(self) -> None:
        """The forward operations, with weights as constants."""
        graph, draft = self.forward, self.draft
        reads: list[list[int]] = [[] for _ in graph.operations]
        makes: list[list[int]] = [[] for _ in graph.operations]
        for t, tensor in enumerate(graph.tensors):
            makes[tensor.producer].append(t)
            for v in dict.fromkeys(tensor.readers):
                reads[v].append(t)
        trained = _trained(graph, reads)
        for v in graph.topological_order():
            one, read = graph.operations[v], [s for t in reads[v] for s in sorted(self.at[t])]
            if one.role == "view":
                self.at |= {t: set(read) for t in makes[v]}
                continue
            if one.role == "constant" and not any(graph.tensors[t].bytes for t in makes[v]):
                self.at |= {t: set() for t in makes[v]}  # its bytes are weights of its reader
                continue
            if one.role == "compute" and one.weight_bytes:
                own = draft.op(f"{one.name}/weight", "weight", [], [one.weight_bytes], role="constant")
                self.trained.update(own)
                read += own
            rest = {"role": one.role, "moved_bytes": one.moved_bytes, "loops": one.loops}
            sizes = [graph.tensors[t].bytes for t in makes[v]]
            made = draft.op(one.name, one.kind, read if one.role == "compute" else [], sizes, one.flop, **rest)
            self.at |= {t: {s} for t, s in zip(makes[v], made, strict=True)}
            if v in trained:
                self.trained.update(made)
            if one.role == "compute":
                here = len(draft.operations) - 1
                self.order.append(here)
                self.reads[here] = Counter(read)
        self.results: dict[int, list[int]] = {v: [] for v in self.order}
        for t, u in enumerate(draft.producers):
            if u in self.results:
                self.results[u].append(t)

    def _gradient(self, t: int) -> int | None:
        """The gradient of a tensor, its parts added up; of what nobody reads, the loss's; None where there is none."""
        draft, name = self.draft, self.draft.operations[self.draft.producers[t]].name
        parts = self.gradients.get(t, [])
        if not parts:
            if any(v in self.reads for v in draft.readers[t]):
                return None
            return draft.op(f"{name}/loss {t}", "loss", [t], [draft.sizes[t]], draft.sizes[t] // WORD)[0]
        if len(parts) == 1:
            return parts[0]
        flop = (len(parts) - 1) * draft.sizes[t] // WORD
        return draft.op(f"{name}/sum {t}", "sum", parts, [draft.sizes[t]], flop)[0]

    def _differentiate(self, v: int) -> None:
        """The gradient operations of ``v``."""
        draft, one = self.draft, self.draft.operations[v]
        given = [g for t in self.results[v] if (g := self._gradient(t)) is not None]
        computed = [t for t in self.reads[v] if draft.operations[draft.producers[t]].role == "compute"]
        wanted = [t for t in self.reads[v] if t in computed or t in self.trained]
        if not given or not wanted:
            return
        sparse = one.moved_bytes is not None  # a look-up: only the rows that it read have a gradient
        made = sum(draft.sizes[t] for t in self.results[v])
        sizes = [min(draft.sizes[t], made) if sparse else draft.sizes[t] for t in wanted]
        if _is_product(one):
            weights = [t for t in self.reads[v] if t in self.trained]
            matrix = max(weights, key=lambda t: draft.sizes[t], default=None)
            beside = sum(draft.sizes[t] for t in self.reads[v] if t not in weights)
            for t, size in zip(wanted, sizes, strict=True):
                flop = one.flop
                if t in weights and t != matrix:
                    flop = made // WORD
                elif weights and t not in weights and beside:
                    flop = one.flop * draft.sizes[t] // beside
                else:
                    flop *= self.reads[v][t]  # of x xᵀ there are two gradients, added up
                others = [s for s, often in self.reads[v].items() if s != t or often > 1]
                (gradient,) = draft.op(f"{one.name}/gradient {t}", one.kind, [*given, *others], [size], flop)
                self.gradients.setdefault(t, []).append(gradient)
        else:
            read = given if sparse else [*given, *self.reads[v]]
            gradients = draft.op(f"{one.name}/gradient", f"{one.kind} gradient", read, sizes, _backward_flop(one))
            for t, gradient in zip(wanted, gradients, strict=True):
                self.gradients.setdefault(t, []).append(gradient)

    def _update(self, t: int) -> tuple[str, str] | None:
        """The sum of a weight's gradients, in a chain, and its update; (weight, update), or None without a gradient."""
        draft, parts = self.draft, self.gradients.get(t)
        if not parts:
            return None
        name, total, words = draft.operations[draft.producers[t]].name, parts[0], draft.sizes[t] // WORD
        for i, part in enumerate(parts[1:], 1):
            size = max(draft.sizes[total], draft.sizes[part])
            (total,) = draft.op(f"{name}/add {i}", "sum", [total, part], [size], size // WORD)
        draft.op(f"{name}/update", "update", [t, total], [], UPDATE_FLOP * words, weight_bytes=STATE * draft.sizes[t])
        return name, f"{name}/update"


def _trained(graph: OperationGraph, reads: Sequence[Sequence[int]]) -> set[int]:
    """The constants that an optimiser changes or that are made of such ones."""
    found: set[int] = set()
    for v in graph.topological_order():
        one = graph.operations[v]
        if one.role == "constant" and not reads[v]:
            if one.kind != "buffer" and one.kind not in FIXED:
                found.add(v)
        elif one.role in ("constant", "view") and any(graph.tensors[t].producer in found for t in reads[v]):
            found.add(v)
    return found


def _fused_attention(one: Operation) -> bool:
    return "attention" in one.kind.lower()


def _is_product(one: Operation) -> bool:
    """Whether each operand of an operation has a gradient of the operation's FLOP."""
    return not _fused_attention(one) and (
        one.kind.lower() in PRODUCTS or (one.loops is not None and one.loops.inner > 0)
    )


def _backward_flop(one: Operation) -> int:
    """FLOP of the gradients of an operation that is no product."""
    if _fused_attention(one):
        return one.flop * 5 // 2
    return one.flop * (2 if one.kind.lower() in RECURRENT else 1)
