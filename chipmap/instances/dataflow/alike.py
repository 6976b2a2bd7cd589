"""Options of kernels that are alike in what is asked of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from chipmap.instances.dataflow.problem import DataflowProblem

#: Numbers of a kernel's options that are alike.
Alike = tuple[int, ...]


def alike(keys: Sequence[Hashable]) -> tuple[Alike, ...]:
    """The positions of equal keys, together."""
    found: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return tuple(tuple(one) for one in found.values())


def layout_changes(
    problem: DataflowProblem, u: int, v: int, keys: Sequence[tuple[int, ...]]
) -> tuple[tuple[Alike, ...], tuple[Alike, ...], tuple[tuple[int, ...], ...]]:
    """Both ends' options of a tensor from kernel u to v, parted by what a change of layout costs, those of u also by
    ``keys``; and the picoseconds of the change between each two parts."""
    consumers = range(len(problem.options[v]))
    change = [[problem.converts(u, v, s, t) for t in consumers] for s in range(len(problem.options[u]))]
    made = alike([(*key, *row) for key, row in zip(keys, change, strict=True)])
    taken = alike(list(zip(*change, strict=True)))
    return made, taken, tuple(tuple(change[g[0]][h[0]] for h in taken) for g in made)
