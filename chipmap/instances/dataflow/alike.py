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
    problem: DataflowProblem, u: int, v: int, keys: Sequence[tuple[int, ...]], least: bool = False
) -> tuple[tuple[Alike, ...], tuple[Alike, ...], tuple[tuple[int, ...], ...]]:
    """Both ends' options of a tensor from kernel u to v, parted by what a change of layout costs, those of u also by
    ``keys``; and the picoseconds of the change between each two parts (the ``least`` that
    it may take: :func:`least_change`)."""
    consumers = range(len(problem.options[v]))
    price = least_change if least else DataflowProblem.converts
    change = [[price(problem, u, v, s, t) for t in consumers] for s in range(len(problem.options[u]))]
    made = alike([(*key, *row) for key, row in zip(keys, change, strict=True)])
    taken = alike(list(zip(*change, strict=True)))
    return made, taken, tuple(tuple(change[g[0]][h[0]] for h in taken) for g in made)


def least_change(problem: DataflowProblem, u: int, v: int, made: int, taken: int) -> int:
    """Picoseconds of the change of layout on an edge from kernel u to v at least, for the numbers of their options.

    Nothing where another reader of u may have paid for a layout that has what v needs, or where v adds up products of
    which another one may lie as that of u. So it is the same for kernels that stand for each other.
    """
    for added in problem.added:
        if added.adder == v and u in added.members:
            number = added.members.index(u)
            others = [own for i, own in enumerate(added.layouts) if i != number]
            if any(added.layouts[number][made] in own for own in others):
                return 0
    phase = [kernel.phase for kernel in problem.instance.workload.kernels]
    for shared in problem.shared:
        if shared.maker == u and v in shared.readers:
            pairs = dict(zip(shared.readers, shared.needs, strict=True))
            need = pairs.pop(v)[taken]
            if any(shared.covers[own, need].any() for r, own in pairs.items() if phase[r] == phase[v]):
                return 0
    return problem.converts(u, v, made, taken)
