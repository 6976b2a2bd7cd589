"""From a forward graph to the graph of a training step: gradients, their sums, and the update of each weight.

The rules, for the operations that the network needs, from the last one back:

- A weight becomes a constant of its own (placed, with weights rule ``variable``), also if it was part of an operation.
  Buffers, frozen parameters, and what follows from shapes alone (positions, masks), are constants without gradient and
  update; what an operation holds of them is a constant of its own (``linear/frozen``).
- A product has one gradient operation per activation that it reads (from the gradient of its result and the other
  operands) and one per weight, each with the product's FLOP (activations that stand side by side before a weight share
  it by their bytes). Of several weights the largest is its matrix; another (a bias) sums up the result's gradient.
- Any other operation has one gradient operation for all, with its FLOP: twice these for a recurrent layer (its products
  have gradients of what they read and of their matrices), 5/2 of these for fused attention (its two products have two
  gradients each, and its scores are computed again, as PyTorch's fused kernels do).
- A gradient operation reads what its forward operation keeps (:mod:`chipmap.instances.saved`). Masks, statistics and
  places are results of the forward operation that it alone reads. An addition hands its gradient on.
- Where gradients of a tensor meet they are added in a chain, each when it comes.
- An operation that nobody reads is a loss: its gradient starts from its own result. Operations that no output needs are
  left out. No gradient passes operations that are ``detached`` (:class:`.operands.Operands`).
- Each weight with a gradient has an update, which holds the optimizer's state and shares the weight's device.
- Of modules that are computed again, gradients read copies (:class:`.draft.Again`).

With rule ``operands``, which the shipped instances were published with, an operation that is no product keeps all its
operands, nothing is handed on, and one sum adds up all gradients of an activation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from chipmap.instances import saved
from chipmap.instances.optimizer import WIDTHS, Optimizer, per_parameter
from chipmap.instances.placement.beside import UNTOLD, copies, factors, made_beside
from chipmap.instances.placement.draft import Again, Draft
from chipmap.instances.placement.multiplying import BIASED, PRODUCTS, backward_flop, is_product
from chipmap.instances.placement.operands import Operands, computed_bias, in_order, is_added, trained_constants
from chipmap.networks.graph import Operation, OperationGraph
from chipmap.records import InputError

#: Bytes of a number; FLOP of an update per weight; state of the optimizer in weights.
WORD, UPDATE_FLOP = 4, 10


#: What is kept for the backward pass.
Kept = Literal["autograd", "operands"]


@dataclass(frozen=True)
class Recipe:
    """What a training step is made by; ``saved``: what is kept and how gradients of a tensor are added.

    ``autograd``: as PyTorch has it; ``operands``: all operands of what is no product, and one sum of all gradients.
    ``optimizer`` has 0 (``none``, ``sgd``), 1 (``momentum``) or 2 (``adam``) numbers of state per weight, of
    ``state_bytes`` each (None: those of a weight); ``master_weights`` are another four bytes. A weight, and where
    nothing else is known any number, has ``word_bytes``.
    """

    saved: Kept = "autograd"
    optimizer: Optimizer = "adam"
    state_bytes: int | None = None
    master_weights: bool = False
    word_bytes: int = WORD

    def checked(self) -> Recipe:
        """Itself. Raises :class:`InputError` for a setting that isn't one."""
        for name, given, all_of in (
            ("saved", self.saved, get_args(Kept)),
            ("optimizer", self.optimizer, get_args(Optimizer)),
        ):
            if given not in all_of:
                raise InputError(f"is {given!r}", name, f"Give one of {', '.join(all_of)}.")
        if self.state_bytes is not None and self.state_bytes not in WIDTHS:
            remedy = f"Give one of {', '.join(map(str, WIDTHS))}, or null."
            raise InputError(f"is {self.state_bytes}", "state_bytes", remedy)
        return self

    def state(self, size: int) -> int:
        """Bytes of the optimizer's state of ``size`` bytes of weights."""
        own = self.state_bytes or self.word_bytes
        return size // self.word_bytes * per_parameter(self.optimizer, own, self.master_weights)


@dataclass(frozen=True)
class Training:
    """The graph of a training step; ``together``: each weight with its update; ``backward``: what was added."""

    graph: OperationGraph
    together: tuple[tuple[str, ...], ...]
    backward: tuple[str, ...]


def training(graph: OperationGraph, recipe: Recipe = Recipe(), again: Sequence[Sequence[str]] = ()) -> Training:
    """The training step of a forward ``graph`` (views are passed through, dead operations left out).

    ``again``: groups of operations whose results between them are computed again for the gradients, and not kept.
    """
    return _Backward(graph, recipe, again).made()


class _Backward:
    def __init__(self, graph: OperationGraph, recipe: Recipe, again: Sequence[Sequence[str]]) -> None:
        self.forward, self.draft, self.recipe = graph, Draft(), recipe
        self.autograd = recipe.saved == "autograd"
        self.operands = Operands(self.draft)
        self.times: dict[int, dict[int, Fraction]] = {}  # computing operation of the draft -> how often it reads what
        self.passing: dict[int, dict[int, Fraction]] = {}  # the same of operands that a gradient passes
        self.cut: dict[int, set[int]] = {}  # computing operation of the draft -> what it reads without a gradient
        self.swapped: set[int] = set()  # tensors of the forward graph whose dimensions don't lie in their order
        self.gradients: dict[int, list[int]] = {}  # tensor of the draft -> its gradients, to be added
        self.told: dict[int, list[set[int]]] = {}  # computing operation of the draft -> its operands in their order
        self.reads: dict[int, Counter[int]] = {}  # computing operation of the draft -> tensors that it reads, how often
        self.results: dict[int, list[int]] = {}  # computing operation of the draft -> its results
        self.beside: dict[int, list[int]] = {}  # computing operation -> what it makes for its gradient alone
        self.copied: dict[int, dict[int, int]] = {}  # product -> operand -> its copy, which gradients read instead
        self.again = Again(self.draft, again, self.reads)
        self.order: list[int] = []
        self.trained: set[int] = set()  # tensors of the draft that are weights
        self.wanting: set[int] = set()  # tensors of the draft that have a gradient

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
        graph, draft, operands = self.forward, self.draft, self.operands
        reads: list[list[int]] = [[] for _ in graph.operations]
        makes: list[list[int]] = [[] for _ in graph.operations]
        for t, tensor in enumerate(graph.tensors):
            makes[tensor.producer].append(t)
            for v in dict.fromkeys(tensor.readers):
                reads[v].append(t)
        needed = graph.needed() if self.autograd else [True] * len(graph.operations)
        trained = trained_constants(graph, reads)
        free = not trained and not any(one.weight_bytes > one.frozen_bytes for one in graph.operations)
        for v in graph.topological_order():
            if not needed[v]:
                continue
            one, told = graph.operations[v], operands.told_of(graph.operations[v], reads[v])
            reads[v] = in_order(one, reads[v])
            read, cut = operands.draft_of(reads[v]), operands.cut_of(reads[v])
            sizes = [graph.tensors[t].bytes for t in makes[v]]
            behind = dict.fromkeys(read)
            copies = self._copies(one, reads[v], makes[v], sum(sizes) > sum(draft.sizes[s] for s in behind))
            copies = copies and any(draft.operations[draft.producers[s]].role != "constant" for s in behind)
            if one.role == "view" and not copies:
                operands.view(makes[v], reads[v], one.detached and self.autograd)
                continue
            if one.role == "constant" and not any(sizes):
                for t in makes[v]:
                    operands.made(t)  # its bytes are weights of its reader
                continue
            if one.role == "compute" and one.frozen_bytes:
                read += draft.op(f"{one.name}/frozen", "frozen", [], [one.frozen_bytes], role="constant")
            if one.role == "compute" and one.weight_bytes > one.frozen_bytes:
                changed = [one.weight_bytes - one.frozen_bytes]
                own = draft.op(f"{one.name}/weight", "weight", [], changed, role="constant")
                self.trained.update(own)
                self.wanting.update(own)
                read += own
            computes = one.role == "compute" or copies
            wanted = computes and self._has_gradient(one, [s for s in read if s not in cut], free)
            multiplies = one.kind.lower() in PRODUCTS
            lying = operands.lying(reads[v], [graph.tensors[t].bytes for t in reads[v]])
            copied = self._copied(one, read, lying) if wanted and multiplies else {}
            extra = [*copied.values()] if multiplies or not wanted else self._beside(one, read, cut, sizes)
            rest = {"role": "compute" if copies else one.role, "moved_bytes": one.moved_bytes, "loops": one.loops}
            made = draft.op(one.name, one.kind, read if computes else [], [*sizes, *extra], one.flop, **rest)
            for t, s in zip(makes[v], made, strict=False):
                operands.made(t, s)
            if v in trained:
                self.trained.update(made)
            if wanted or v in trained:
                self.wanting.update(made[: len(sizes)])
            if computes:
                here = len(draft.operations) - 1
                self.order.append(here)
                self.told[here] = told
                self.reads[here], self.results[here] = Counter(read), made[: len(sizes)]
                self.beside[here], self.cut[here] = made[len(sizes) :], cut
                self.copied[here] = dict(zip(copied, made[len(sizes) :], strict=False))
                self.times[here] = operands.times(reads[v])
                self.passing[here] = operands.times(reads[v], passing=True)
        operands.outputs(graph)

    def _copies(self, one: Operation, read: Sequence[int], made: Sequence[int], larger: bool) -> bool:
        """Whether a view has to copy; what an operation makes of its operands is noted as ``swapped`` or not."""
        kind, swapped = saved.plain(one.kind), any(t in self.swapped for t in read)
        copies = one.role == "view" and kind in (saved.ORDERING if swapped and not larger else saved.COPIES)
        copies = copies and (swapped or larger)
        if kind in saved.SWAPS:
            swapped = not swapped
        elif copies or (one.role != "view" and kind not in saved.ALIKE):
            swapped = False
        self.swapped.update(made if swapped else ())
        return copies and self.autograd

    def _has_gradient(self, one: Operation, read: Sequence[int], free: bool) -> bool:
        """Whether results have a gradient: of what depends on a weight, where the operator has a derivative."""
        if not self.autograd:
            return True
        if one.detached or saved.plain(one.kind) in saved.CONSTANT:
            return False
        return any(s in self.wanting for s in read) or (free and bool(read))

    def _copied(self, one: Operation, read: Sequence[int], lying: Mapping[int, int]) -> dict[int, int]:
        """Bytes of the copies that a product makes of operands (their bytes: ``lying``), for gradients to read."""
        if not self.autograd:
            return {}
        sizes = {s: lying.get(s, self.draft.sizes[s]) for s in read}
        return copies(one, read, sizes, {*self._weights(read)}, self.wanting)

    def _beside(self, one: Operation, read: Sequence[int], cut: Set[int], sizes: Sequence[int]) -> list[int]:
        """Bytes of what an operation that is no product makes for its gradient alone."""
        if not self.autograd:
            return []
        scales = [self.draft.sizes[s] for s in self._weights(read)]
        gradients = [s in self.wanting and s not in cut for s in read]
        return made_beside(one, gradients, sizes, scales, self.recipe.word_bytes)

    def _gradient(self, t: int) -> int | None:
        """The gradient of a tensor, its parts added up; of what nobody reads, the loss's; None where there is none."""
        draft, name = self.draft, self.draft.operations[self.draft.producers[t]].name
        parts = self.gradients.get(t, [])
        if not parts:
            if any(v in self.reads for v in draft.readers[t]) or not self.operands.is_loss(t):
                return None
            return draft.op(f"{name}/loss {t}", "loss", [t], [draft.sizes[t]], draft.sizes[t] // WORD)[0]
        if len(parts) == 1:
            return parts[0]
        if self.autograd:  # the engine keeps one sum, to which each gradient is added when it comes
            total, size = parts[0], draft.sizes[t]
            for i, part in enumerate(parts[1:], 1):
                label = f"{name}/sum {t}" + (f".{i}" if len(parts) > 2 else "")
                (total,) = draft.op(label, "sum", [total, part], [size], size // WORD)
            return total
        flop = (len(parts) - 1) * draft.sizes[t] // WORD
        return draft.op(f"{name}/sum {t}", "sum", parts, [draft.sizes[t]], flop)[0]

    def _differentiate(self, v: int) -> None:
        """The gradient operations of ``v``."""
        draft, one = self.draft, self.draft.operations[v]
        results = self.results[v]
        if self.autograd:
            wanted = self._wanted(v)
            if not wanted or not any(t in self.wanting for t in results):
                return
            read = [t for t in results if t in self.gradients]
            results = read or results[:1]  # mean and deviation of a norm, which nobody reads, are no losses
        else:
            computed = [t for t in self.reads[v] if draft.operations[draft.producers[t]].role == "compute"]
            wanted = [t for t in self.reads[v] if t in computed or t in self.trained]
        given = [g for t in results if (g := self._gradient(t)) is not None]
        if not given or not wanted:
            return
        if self.autograd:
            wanted = self._handed_on(one, wanted, given)
        made = sum(draft.sizes[t] for t in self.results[v])
        sparse = one.moved_bytes is not None  # a look-up: only the rows that it read have a gradient
        if self.autograd and saved.plain(one.kind) in saved.DENSE:
            sparse = False
        sizes = [min(draft.sizes[t], made) if sparse else draft.sizes[t] for t in wanted]
        if is_product(one):
            self._product(v, given, list(zip(wanted, sizes, strict=True)), made)
        elif wanted:
            if self.autograd:
                read = [*given, *self.again.read(v, self._kept(v), given)]
            else:
                read = given if sparse else [*given, *self.reads[v]]
            gradients = draft.op(f"{one.name}/gradient", f"{one.kind} gradient", read, sizes, backward_flop(one))
            for t, gradient in zip(wanted, gradients, strict=True):
                self.gradients.setdefault(t, []).append(gradient)

    def _handed_on(self, one: Operation, wanted: list[int], given: Sequence[int]) -> list[int]:
        """Give the operands of a sum its gradient itself; those that are left (a bias) need one of their own."""
        if saved.plain(one.kind) not in ("add", "sum") or len(given) != 1:
            return wanted
        left = []
        for t in wanted:
            if self.draft.sizes[t] == self.draft.sizes[given[0]] and t not in self.trained:
                self.gradients.setdefault(t, []).append(given[0])
            else:
                left.append(t)
        return left

    def _wanted(self, v: int) -> list[int]:
        """What an operation reads that has a gradient."""
        return [t for t in self.reads[v] if t in self.wanting and t not in self.cut[v]]

    def _written_to(self, v: int, wanting: Iterable[int]) -> int | None:
        """Of what an operation reads, that which it writes to; None if that has no gradient, as zeros haven't."""
        alike = [t for t in wanting if self.draft.sizes[t] == self.draft.sizes[self.results[v][0]]]
        return alike[0] if len([*wanting]) > 1 and alike else None

    def _kept(self, v: int) -> list[int]:
        """What an operation that is no product keeps for its gradient (:mod:`chipmap.instances.saved`)."""
        reads, results, sizes = self.reads[v], self.results[v], self.draft.sizes
        smaller = any(sizes[t] > sizes[results[0]] for t in reads)
        what = saved.saves(self.draft.operations[v].kind, len(results), sum(reads.values()), smaller)
        wanting = dict.fromkeys(self._wanted(v))
        kept = {
            "none": [],
            "all": list(reads),
            "inputs": list(reads if self._weights(reads) else wanting),  # of a norm: what it scales, and the scale
            "indices": [t for t in reads if t not in wanting],
            "source": [t for t in reads if t != self._written_to(v, wanting)],
            **dict.fromkeys(saved.FACTORS, factors(self.draft.operations[v].kind, reads, wanting, self.told[v])),
        }[what.operands]
        return [*kept, *(results if what.result else results[1:] if what.extra else []), *self.beside[v]]

    def _product(self, v: int, given: list[int], wanted: Sequence[tuple[int, int]], made: int) -> None:
        """A gradient for each operand of a product, of so many bytes, from the other operands."""
        draft, one, reads, copied = self.draft, self.draft.operations[v], self.reads[v], self.copied[v]
        weights = self._weights(reads)
        matrices = [] if one.kind.lower() in BIASED and self._adds(v, weights, made) else weights
        matrix = max(matrices, key=lambda t: draft.sizes[t], default=None)
        beside = sum(draft.sizes[t] for t in reads if t not in weights) if matrices else 0
        stored = self.autograd and len(weights) == len(reads) and self.passing[v].get(weights[0], 1) <= 1
        computed = self.autograd and not weights and one.kind.lower() in BIASED  # as copies in half precision are
        added = computed_bias(one, {t: draft.sizes[t] for t in reads}, made, WORD, self.told[v]) if computed else None
        for t, size in wanted:
            flop, bias = one.flop, t == added or (t in weights and t != matrix and not stored)
            if stored:  # both factors are weights, in one tensor or in several
                flop *= 2 if len(reads) == 1 else 1
            elif bias:
                flop = made // WORD
            elif matrices and t not in weights and beside:
                flop = one.flop * draft.sizes[t] // beside
            else:
                flop = int(flop * self.passing[v].get(t, 1))  # of x xᵀ there are two gradients, added up
            rest = [s for s, often in reads.items() if s != added and (s != t or often > 1)]
            rest = [*(copied.get(s, s) for s in rest), *([copied[UNTOLD]] if UNTOLD in copied else [])]
            rest = [] if bias and self.autograd else self.again.read(v, rest, given)
            (gradient,) = draft.op(f"{one.name}/gradient {t}", one.kind, [*given, *rest], [size], flop)
            self.gradients.setdefault(t, []).append(gradient)

    def _adds(self, v: int, weights: Sequence[int], made: int) -> bool:
        """Whether both factors of a product are computed, so that a weight can only be what is added."""
        often = {t: count for t, count in self.times[v].items() if t not in weights}
        if sum(often.values()) < 2 or len(weights) != 1:
            return sum(often.values()) >= 2
        sizes = self.draft.sizes
        others = [sizes[t] / WORD for t, count in often.items() for _ in range(max(1, round(count)))]
        return is_added(self.draft.operations[v], sizes[weights[0]] / WORD, others, made / WORD)

    def _weights(self, read: Iterable[int]) -> list[int]:
        """Those of these tensors that are weights, frozen ones and other constants among them."""
        role = {t: self.draft.operations[self.draft.producers[t]].role for t in read}
        return [t for t in role if t in self.trained or (self.autograd and role[t] == "constant")]

    def _update(self, t: int) -> tuple[str, str] | None:
        """The sum of a weight's gradients, in a chain, and its update; (weight, update), or None without a gradient.

        Without an optimiser the sum is an output of the step.
        """
        draft, parts = self.draft, self.gradients.get(t)
        if not parts:
            return None
        u, total, words = draft.producers[t], parts[0], draft.sizes[t] // WORD
        name, several = draft.operations[u].name, sum(draft.producers[s] == u for s in self.trained) > 1
        label = f"{name} {t}" if several else name  # a parameter of which several parts are read
        for i, part in enumerate(parts[1:], 1):
            size = max(draft.sizes[total], draft.sizes[part])
            (total,) = draft.op(f"{label}/add {i}", "sum", [total, part], [size], size // WORD)
        if self.recipe.optimizer == "none":
            draft.outputs.add(total)
            return None
        state = self.recipe.state(draft.sizes[t])
        draft.op(f"{label}/update", "update", [t, total], [], UPDATE_FLOP * words, weight_bytes=state)
        return name, f"{label}/update"
