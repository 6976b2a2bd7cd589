"""Who may have paid for a layout that a kernel needs, where all schemes are given."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.problem import DataflowProblem

#: (maker, reader) of a tensor, by the numbers of mapped kernels.
Edge = tuple[int, int]


def possible_suppliers(problem: DataflowProblem, chosen: Sequence[int]) -> dict[Edge, list[int]]:
    """For each tensor and reader that pays for a change of layout, the readers before it, in their order, whose layout
    has what it needs: with one of them in its partition it pays nothing. ``chosen`` are the numbers of all options."""
    found: dict[Edge, list[int]] = {}
    for k in range(0, len(chosen), problem.n):
        for shared in problem.shared:
            u, before = k + shared.maker, list[tuple[int, int]]()
            for v, own in zip(shared.readers, shared.needs, strict=True):
                if problem.converts(shared.maker, v, chosen[u], chosen[k + v]):
                    need = int(own[chosen[k + v]])
                    some = [r for r, layout in before if shared.covers[layout, need]]
                    if some:
                        found[u, k + v] = some
                    before.append((k + v, need))
    return found


def spared(problem: DataflowProblem, chosen: Sequence[int]) -> set[Edge]:
    """The tensors whose reader adds up products that lie as one that it lists before: only that one is changed."""
    found = set[Edge]()
    for k in range(0, len(chosen), problem.n):
        for added in problem.added:
            seen = set[int]()
            for u, layouts in zip(added.members, added.layouts, strict=True):
                layout = int(layouts[chosen[k + u]])
                if layout in seen:
                    found.add((k + u, k + added.adder))
                seen.add(layout)
    return found
