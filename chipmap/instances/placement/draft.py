"""The graph of a training step on its way, and what its backward pass computes again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chipmap.networks.graph import Operation, OperationGraph, Tensor


@dataclass
class Draft:
    """A graph on its way: operations, and tensors with growing lists of readers."""

    operations: list[Operation] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    readers: list[list[int]] = field(default_factory=list)
    outputs: set[int] = field(default_factory=set)

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
            Tensor(producer=u, readers=tuple(readers), bytes=size, output=t in self.outputs)
            for t, (u, readers, size) in enumerate(zip(self.producers, self.readers, self.sizes, strict=True))
        ]
        return OperationGraph.checked(name, self.operations, tensors, source)


class Again:
    """What the backward pass computes again of ``modules`` whose inner results aren't kept (activation checkpointing).

    A gradient in a module reads a copy of what the module makes (``linear/again``). Copies that read nothing but what
    is kept wait for the first gradient that reaches the module, as autograd runs them then.
    """

    def __init__(self, draft: Draft, modules: Sequence[Sequence[str]], reads: Mapping[int, Iterable[int]]) -> None:
        self.draft, self.reads = draft, reads  # reads: computing operation -> tensors
        self.module = {name: number for number, names in enumerate(modules) for name in names}
        self.copies: dict[int, int] = {}  # tensor -> its copy
        self.copied: set[int] = set()  # operations

    def read(self, v: int, tensors: Sequence[int], given: Sequence[int]) -> list[int]:
        """What the gradient of operation ``v`` reads in place of ``tensors``; ``given``: gradients of its results."""
        module = self.module.get(self.draft.operations[v].name)
        if module is None:
            return list(tensors)
        wanted, left = set[int](), [t for t in tensors if self._inside(t, module)]
        while left:
            u = self.draft.producers[left.pop()]
            if u not in wanted and u not in self.copied:
                wanted.add(u)
                left += [t for t in self.reads[u] if self._inside(t, module)]
        for u in sorted(wanted):
            self._copy(u, given)
        return [self.copies.get(t, t) for t in tensors]

    def _inside(self, tensor: int, module: int) -> bool:
        u = self.draft.producers[tensor]
        return u in self.reads and self.module.get(self.draft.operations[u].name) == module

    def _copy(self, u: int, given: Sequence[int]) -> None:
        """Compute operation ``u`` again."""
        draft, one = self.draft, self.draft.operations[u]
        made = range(bisect_left(draft.producers, u), bisect_right(draft.producers, u))
        read = [self.copies.get(t, t) for t in self.reads[u]]
        sizes, moved = [draft.sizes[t] for t in made], one.moved_bytes
        if not any(t in self.copies for t in self.reads[u]):
            moved = sum(draft.sizes[t] for t in read) + sum(sizes) if moved is None else moved
            read += given[:1]
        rest = {"moved_bytes": moved, "loops": one.loops}
        self.copies |= zip(made, draft.op(f"{one.name}/again", one.kind, read, sizes, one.flop, **rest), strict=True)
        self.copied.add(u)
