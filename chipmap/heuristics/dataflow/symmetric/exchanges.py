"""Whether what kernels pay for layouts, sums and parameters stays the same where equal branches change places.

Readers of a partition pay in the order of their places, and who comes first depends on the branch. The program up to
symmetry sorts branches after each partition, so that their order in the next one is another than the mapping's.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.heuristics.dataflow.symmetric.branches import Group
from chipmap.instances.dataflow.added import Added
from chipmap.instances.dataflow.present import Shared
from chipmap.instances.dataflow.problem import DataflowProblem


def permutable(problem: DataflowProblem, groups: Sequence[Group]) -> bool:
    """Whether the prices of a partition follow from the state that the program up to symmetry knows.

    Three things are asked. Where parameters rest is up to no kernel of a branch. Of added products those that lie alike
    cost the same. And each shared tensor has its readers in an order that :func:`_in_order` accepts.
    """
    branch = {v: (g, i) for g, group in enumerate(groups) for i, one in enumerate(group) for v in one}
    for use in problem.uses:
        several = any((column != column[:1]).any() for column in (use.network, use.after, use.held))
        if several and (use.owner in branch or use.user in branch):
            return False
    if not all(_cost_the_same(problem, added) for added in problem.added):
        return False
    return all(_in_order(problem, groups, branch, shared) for shared in problem.shared)


def _cost_the_same(problem: DataflowProblem, added: Added) -> bool:
    """Whether products that lie alike are changed at the same price for each option of their adder."""
    for t in range(len(problem.options[added.adder])):
        prices: dict[int, int] = {}
        for u, layouts in zip(added.members, added.layouts, strict=True):
            for s, layout in enumerate(layouts.tolist()):
                price = problem.converts(u, added.adder, s, t)
                if prices.setdefault(layout, price) != price:
                    return False
    return True


def _in_order(
    problem: DataflowProblem, groups: Sequence[Group], branch: dict[int, tuple[int, int]], shared: Shared
) -> bool:
    """Whether the readers of a tensor come in the same order whatever branches they are of.

    No other reader stands between those of equal positions. If the maker is of no branch or of another one, its readers
    in a branch are the kernel with which that begins: branches that haven't begun keep their order in all states.
    """
    place, known = problem.places, dict[tuple[int, int], list[int]]()
    for v in shared.readers:
        if v in branch:
            g, i = branch[v]
            known.setdefault((g, groups[g][i].index(v)), []).append(v)
    maker = branch.get(shared.maker)
    for (g, position), readers in known.items():
        equal = {one[position] for one in groups[g]}
        first, last = min(place[v] for v in equal), max(place[v] for v in equal)
        if any(first < place[v] < last for v in shared.readers if v not in equal and branch.get(v) != maker):
            return False
        inside = maker is not None and all(branch[v] == maker for v in readers)
        if not inside and any(not _begins(problem, groups[g][i], v) for i, v in ((branch[v][1], v) for v in readers)):
            return False
    return True


def _begins(problem: DataflowProblem, kernels: Sequence[int], v: int) -> bool:
    """Whether all other kernels of a branch come after kernel v."""
    reached, edges = {v}, problem.edges.tolist()
    for _ in kernels:
        reached |= {b for a, b in edges if a in reached and b in kernels}
    return reached == {*kernels}
