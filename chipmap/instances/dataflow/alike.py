"""Options of kernels that are alike in what is asked of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Literal

from chipmap.instances.dataflow.problem import DataflowProblem

#: Numbers of a kernel's options that are alike.
Alike = tuple[int, ...]
#: Who may pay for a change of layout: its reader alone, one of the maker's readers, or a kernel that adds up products
#: for all that lie alike.
Payers = Literal["reader", "readers", "adder"]


def alike(keys: Sequence[Hashable]) -> tuple[Alike, ...]:
    """The positions of equal keys, together."""
    found: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return tuple(tuple(one) for one in found.values())


def layout_changes(
    problem: DataflowProblem, u: int, v: int, keys: Sequence[tuple[int, ...]], least: bool = False
) -> tuple[tuple[Alike, ...], tuple[Alike, ...], tuple[tuple[int, ...], ...]]:
    """Both ends' options of a tensor from kernel u to v, parted by what a change of layout costs, those of u also by
    ``keys``; and the picoseconds of the change between each two parts (the ``least`` for which anybody may make it:
    :func:`least_change`)."""
    consumers = range(len(problem.options[v]))
    price = least_change if least else DataflowProblem.converts
    change = [[price(problem, u, v, s, t) for t in consumers] for s in range(len(problem.options[u]))]
    made = alike([(*key, *row) for key, row in zip(keys, change, strict=True)])
    taken = alike(list(zip(*change, strict=True)))
    return made, taken, tuple(tuple(change[g[0]][h[0]] for h in taken) for g in made)


def payers(problem: DataflowProblem, u: int, v: int) -> Payers:
    """Who may pay for a change of layout on an edge from kernel u to v."""
    if any(added.adder == v and u in added.members for added in problem.added):
        return "adder"
    return "readers" if any(one.maker == u and v in one.readers for one in problem.shared) else "reader"


def least_change(problem: DataflowProblem, u: int, v: int, made: int, taken: int) -> int:
    """Picoseconds for which somebody makes the change of layout on an edge from kernel u to v at least, for the numbers
    of their options: kernel v, or one that may make it instead (:func:`payers`).

    In a partition, the readers of a tensor pay at least the largest of these numbers, and so does a kernel that adds up
    products. Nothing is sure where readers of other partitions may pay. So it is the same for kernels that stand for
    each other.
    """
    own = problem.converts(u, v, made, taken)
    if own == 0:
        return 0
    return min([own, *_as_adder(problem, u, v, made, taken), *_as_readers(problem, u, v, made, taken)])


def _as_adder(problem: DataflowProblem, u: int, v: int, made: int, taken: int) -> Iterator[int]:
    """What v pays if another product that lies as that of u is changed in its place."""
    for added in problem.added:
        if added.adder != v or u not in added.members:
            continue
        layout = added.layouts[added.members.index(u)][made]
        for w, own in zip(added.members, added.layouts, strict=True):
            yield from (problem.converts(w, v, s, taken) for s in range(len(own)) if own[s] == layout)


def _as_readers(problem: DataflowProblem, u: int, v: int, made: int, taken: int) -> Iterator[int]:
    """What another reader of u pays for a layout that has what v needs."""
    phase, keep = [kernel.phase for kernel in problem.instance.workload.kernels], problem.instance.task.keep or "none"
    for shared in problem.shared:
        if shared.maker != u or v not in shared.readers:
            continue
        need = shared.needs[shared.readers.index(v)][taken]
        for r, own, supplies in zip(shared.readers, shared.needs, shared.supplies, strict=True):
            if r == v or not (keep == "step" or phase[r] == phase[v]):
                continue
            for t in range(len(own)):
                price = problem.converts(u, r, made, t)
                if price and supplies[made, t] and shared.covers[own[t], need]:
                    yield price if keep == "none" else 0
