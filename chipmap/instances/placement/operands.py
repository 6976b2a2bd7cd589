"""What the operations of a forward graph read in the graph of its training step: tensors behind views, with gradients
or without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from math import log

from chipmap.instances import saved
from chipmap.instances.placement.draft import Draft
from chipmap.networks.graph import Operation, OperationGraph
from chipmap.networks.importers.operators.aten import FIXED
from chipmap.networks.importers.steps import words

#: Kinds of what is stored and no optimiser changes.
FROZEN = words("buffer frozen")
#: Products of matrices to which another one may be added.
MATRICES = words("addmm addmv addbmm baddbmm gemm")


class Operands:
    """Follows tensors of the forward graph to those of the ``draft`` that hold their bytes.

    A tensor may lie in several of the draft, after a part of it was changed in place. A view that no gradient passes
    (``detach``) cuts what it reads.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.at: dict[int, set[int]] = {}  # tensor of the forward graph -> tensors of the draft
        self.cut: dict[int, set[int]] = {}  # of these, those that no gradient reaches from here
        self.detached: set[int] = set()  # tensors of the draft that a view cuts
        self.returned: set[int] = set()  # tensors of the draft that are outputs, and not cut

    def view(self, made: Iterable[int], read: Sequence[int], cuts: bool) -> None:
        """The tensors that a view makes lie where those lie that it reads."""
        here = set(self.draft_of(read))
        cut = here if cuts else self.cut_of(read)
        if cuts:
            self.detached |= here
        self.at |= dict.fromkeys(made, here)
        self.cut |= dict.fromkeys(made, cut)

    def made(self, tensor: int, *held: int) -> None:
        """A tensor of the forward graph is these of the draft."""
        self.at[tensor], self.cut[tensor] = set(held), set()

    def outputs(self, graph: OperationGraph) -> None:
        """Note which tensors the network returns, at its end."""
        for t, tensor in enumerate(graph.tensors):
            if tensor.output and t in self.at:
                self.returned |= self.at[t] - self.cut[t]

    def draft_of(self, read: Iterable[int]) -> list[int]:
        """Tensors of the draft behind these of the forward graph, as often as they are read."""
        return [s for t in read for s in sorted(self.at[t])]

    def told_of(self, one: Operation, read: Sequence[int]) -> list[set[int]]:
        """Tensors of the draft behind each operand of an operation, if it tells their order; ``read``: of the forward
        graph, in its order. Nothing behind one that is no tensor."""
        return [self.at[read[i]] if 0 <= i < len(read) else set() for i in one.operands]

    def lying(self, read: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
        """Bytes of each tensor of the draft that is read, or of its part; ``sizes``: of those ``read``."""
        parts: dict[int, set[int]] = defaultdict(set)
        for t, size in zip(read, sizes, strict=True):
            for s in self.at[t]:
                parts[s].add(size if len(self.at[t]) == 1 else self.draft.sizes[s])
        return {s: self.draft.sizes[s] if len(found) > 1 else min(found) for s, found in parts.items()}

    def cut_of(self, read: Iterable[int]) -> set[int]:
        """Those that are only read where no gradient passes."""
        open_ones = {s for t in read for s in self.at[t] - self.cut[t]}
        return {s for t in read for s in self.cut[t]} - open_ones

    def times(self, read: Iterable[int], passing: bool = False) -> dict[int, Fraction]:
        """How often each tensor of the draft is an operand; where one operand lies in several, their shares of it.

        ``passing``: as an operand that a gradient passes."""
        found: dict[int, Fraction] = defaultdict(Fraction)
        for t in read:
            size = sum(self.draft.sizes[s] for s in self.at[t])
            for s in self.at[t] - self.cut[t] if passing else self.at[t]:
                found[s] += Fraction(self.draft.sizes[s], size) if size else Fraction(1, len(self.at[t]))
        return dict(found)

    def is_loss(self, tensor: int) -> bool:
        """Whether a tensor of the draft that nothing differentiable reads is a loss."""
        return tensor in self.returned or tensor not in self.detached


def in_order(one: Operation, read: Sequence[int]) -> list[int]:
    """The tensors that an operation reads, as often and in the order as it says (:attr:`Operation.operands`)."""
    told = [read[i] for i in one.operands if 0 <= i < len(read)]
    return told if {*told} == {*read} else list(read)


def is_added(one: Operation, own: float, others: Sequence[float], made: float) -> bool:
    """Whether of three operands that of ``own`` numbers is added to the product of the two ``others``.

    The factors of a product of matrices are those whose sizes fit its FLOP best: m · k, k · n and the result's m · n,
    ``made``, multiply to the square of m · k · n. Of other operators the smallest operand is added.
    """
    if one.kind.lower() not in MATRICES:
        return own <= min(others)
    wanted = max(1.0, (one.flop / 2) ** 2 / max(1.0, made))
    far = [abs(log(max(1.0, a * b) / wanted)) for a, b in ((own, others[0]), (own, others[1]), (others[0], others[1]))]
    return far[2] < min(far[:2])


def computed_bias(
    one: Operation, sizes: Mapping[int, int], made: int, word: int, told: Sequence[Collection[int]] = ()
) -> int | None:
    """Of three computed operands (tensor -> bytes) of a product, that which is added; ``made``: the result's bytes.

    The first of those ``told`` in their order.
    """
    if len(sizes) != 3:
        return None
    if len(told) == 3 and len(told[0]) == 1:
        return next(iter(told[0]))
    own = {t: size / word for t, size in sizes.items()}
    return next((t for t in own if is_added(one, own[t], [own[s] for s in own if s != t], made / word)), None)


def trained_constants(graph: OperationGraph, reads: Sequence[Sequence[int]]) -> set[int]:
    """The constants that an optimiser changes or that are made of such ones."""
    found: set[int] = set()
    for v in graph.topological_order():
        one = graph.operations[v]
        if one.detached or saved.plain(one.kind) in saved.CONSTANT:
            continue  # what is drawn, or compared, is no weight
        if one.role == "constant" and not reads[v]:
            if one.kind not in FROZEN and one.kind not in FIXED:
                found.add(v)
        elif one.role in ("constant", "view") and any(graph.tensors[t].producer in found for t in reads[v]):
            found.add(v)
    return found
