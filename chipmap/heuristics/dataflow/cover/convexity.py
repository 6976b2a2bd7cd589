"""What order (C1) asks of a single partition: it has every kernel that lies on a path between two of its own.

Partitions run one after the other, so that no path leaves one and comes back.

*Chains.* Along a path of kernels, those of the partition follow each other. With s[i] >= x[i] - x[i - 1] for the start
of such a stretch, Σ s[i] <= 1. Where both of a pair never fit a partition, with what lies between, x[i - 1] drops out.

*Branches.* Of classes u, w, v on a path, u or v of one kernel, with counts x in the partition: each kernel of v comes
with its N kernels of w on paths from u if u is in, and a kernel of w lies on the paths to at most D kernels of v. So

    x[w] >= N/D · (x[v] - cap[v] · (1 - x[u])),     cap[v]: the most kernels of v in any partition,

and the same with the arrows turned round. It is asked for w next to u only: the next ones on the path follow from w.
Copies of equal branches aren't told apart, so that two classes of several kernels ask nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chipmap.heuristics.dataflow.symmetric.classes import Classes
from chipmap.heuristics.engines.ideals import bits
from chipmap.networks.graph import neighbours, topological


class Between(NamedTuple):
    """x[between] >= share · (x[far] - cap · (1 - x[near])), by classes."""

    near: int
    between: int
    far: int
    share: float
    cap: int


def between(classes: Classes, inside: list[int]) -> Iterator[Between]:
    """The inequalities on classes of one phase."""
    edges = [(int(u), int(v)) for u, v in classes.problem.edges.tolist()]
    for arrows in (edges, [(v, u) for u, v in edges]):
        yield from _from_single(classes, inside, reached_from(classes.problem.n, arrows), arrows)


def _from_single(
    classes: Classes, inside: list[int], reached: list[int], arrows: list[tuple[int, int]]
) -> Iterator[Between]:
    masks = [sum(1 << kernel for kernel in kernels) for kernels in classes.kernels]
    of, following = classes.of(), dict[int, dict[int, int]]()
    for u, w in arrows:  # the kernels next to u, by class
        following.setdefault(u, {}).setdefault(of[w], 0)
        following[u][of[w]] |= 1 << w
    for near in inside:
        if classes.size(near) > 1:
            continue
        start = classes.kernels[near][0]
        for middle, next_ones in following.get(start, {}).items():
            if middle not in inside:
                continue
            w = next_ones.bit_length() - 1
            for far in inside:
                shared = (reached[w] & masks[far]).bit_count()
                alone = classes.size(far) == classes.size(middle) == 1  # what chains say
                if far in (near, middle) or not shared or alone:
                    continue
                v = (reached[w] & masks[far]).bit_length() - 1
                passed = sum(1 for one in bits(next_ones) if reached[one] >> v & 1)
                yield Between(near, middle, far, passed / shared, most_together(classes, far))


def chains(classes: Classes, inside: list[int]) -> Iterator[list[tuple[int, bool]]]:
    """Paths of classes of one kernel, each a longest one through a kernel that is on none before; with each class
    whether it fits a partition together with the one before it."""
    edges = [(int(u), int(v)) for u, v in classes.problem.edges.tolist()]
    after = reached_from(classes.problem.n, edges)
    before = reached_from(classes.problem.n, [(v, u) for u, v in edges])
    single = {classes.kernels[c][0]: c for c in inside if classes.size(c) == 1}
    order = sorted(single, key=lambda v: (before[v].bit_count(), v))
    down, up = _longest(order[::-1], after), _longest(order, before)
    left = dict.fromkeys(order)
    while left:
        middle = max(left, key=lambda v: (len(down[v]) + len(up[v]), -v))
        path = [*up[middle][::-1], middle, *down[middle]]
        for v in path:
            left.pop(v, None)
        if len(path) > 1:
            yield [
                (single[v], i > 0 and _together(classes, path[i - 1], v, after[path[i - 1]] & before[v]))
                for i, v in enumerate(path)
            ]


def _longest(order: list[int], beyond: list[int]) -> dict[int, list[int]]:
    """For each kernel the others on a longest path from it, all of ``order``, which has ends of arrows first."""
    found = dict[int, list[int]]()
    for v in order:
        paths = [[w, *found[w]] for w in found if beyond[v] >> w & 1]
        found[v] = max(paths, key=len, default=[])
    return found


def _together(classes: Classes, u: int, v: int, between: int) -> bool:
    """Whether weights of u, v and all kernels ``between`` have room in a partition (C2)."""
    options = classes.problem.options
    weights = sum(min(option.weights for option in options[w]) for w in (u, v, *bits(between)))
    return weights <= classes.problem.sram


def most_together(classes: Classes, c: int) -> int:
    """The most kernels of class c in one partition: as many as there are, or as have room for their weights (C2)."""
    weights = min(option.weights for option in classes.options(c))
    return min(classes.size(c), classes.problem.sram // weights) if weights else classes.size(c)


def reached_from(n: int, arrows: list[tuple[int, int]]) -> list[int]:
    """For each kernel the set of kernels at the end of a path from it, as bits."""
    following, found = neighbours(n, arrows), [0] * n
    for v in reversed(topological(following)):
        for w in following[v]:
            found[v] |= found[w] | 1 << w
    return found
