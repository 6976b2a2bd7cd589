"""Roles: the repeated structure of a graph, found without names.

A colour says what an operation is: its kind, whether it shares its device with others, and the sets of colours of what
it reads and of what reads it, to some depth. As sets are compared, ten readers of one colour are as good as a hundred.
Operations of a colour are ordered by their place, the longest path to them less the longest path from them. Where
several of them have one place, their order in the graph tells them apart, as lanes. Colour and lane are the **role**.

Each member of a role is a **step**. Steps of roles that feed each other are aligned: as most of their edges have one
difference of steps (or one sum, where one role runs through the steps the other way), this fixes where a role begins.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import IntArray, PlacementProblem

Colours = NDArray[np.uint64]
#: Depths that are tried; a role repeats if it has so many members.
DEPTHS, REPEATED = (3, 4), 6
#: Share of a role's edges to another one that must agree on the difference of their steps.
AGREED = 0.5
#: Steps that a role may have before the first and after the last one of its part's largest role.
SLACK = 2
#: Share of edges from which on layers that differ by their weights are told apart.
ENOUGH = 0.5


class Roles(NamedTuple):
    """``role`` [N]: the number of an operation's role. Roles that feed each other are a part.

    ``part`` [N]: the part of an operation, -1 where nothing repeats; ``step`` [N]: its step there, below
    ``steps[part]``. ``near``: share of all edges that stay in a part and lead to the same or the next step.
    """

    role: IntArray
    part: IntArray
    step: IntArray
    steps: tuple[int, ...]
    near: float


class Link(NamedTuple):
    """So many ``edges`` of role ``of`` to role ``to`` have number_to = shift + sign · number_of."""

    edges: int
    of: int
    to: int
    sign: int
    shift: int


def roles(problem: PlacementProblem) -> Roles | None:
    """The roles whose steps fit the most edges; None where nothing repeats."""
    place = longest(problem, False) - longest(problem, True)
    best: Roles | None = None
    for own in (True, False):
        for depth, colour in enumerate(_colours(problem, DEPTHS[-1], own)):
            found = _aligned(problem, _lanes(colour, place)) if depth in DEPTHS else None
            if found is not None and (best is None or found.near > best.near):
                best = found
        if best is not None and best.near > ENOUGH:
            break
    return best


def longest(problem: PlacementProblem, backwards: bool) -> IntArray:
    """The number of operations on the longest path to each operation, or from it [N]."""
    storages, found = problem.storages, [0] * problem.operations
    ends = (storages.readers, storages.sources) if backwards else (storages.sources, storages.readers)
    after: list[list[int]] = [[] for _ in found]
    for u, v in zip(ends[0].tolist(), ends[1].tolist(), strict=True):
        after[u].append(v)
    order = problem.order.tolist()
    for u in reversed(order) if backwards else order:
        next_ = found[u] + 1
        for v in after[u]:
            if found[v] < next_:
                found[v] = next_
    return np.array(found, dtype=np.int64)


def _mixed(x: Colours) -> Colours:
    """Numbers of 64 bits that look random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Colours = x ^ (x >> np.uint64(31))
    return found


def _of_sets(who: IntArray, colour: Colours, count: int) -> Colours:
    """A number for the set of ``colour`` of each of ``who`` [count]."""
    order = np.lexsort((colour, who))
    who, colour = who[order], colour[order]
    first = np.ones(len(who), dtype=bool)
    first[1:] = (who[1:] != who[:-1]) | (colour[1:] != colour[:-1])
    found = np.zeros(count, dtype=np.uint64)
    np.add.at(found, who[first], _mixed(colour[first]))
    return found


def _colours(problem: PlacementProblem, depth: int, own: bool) -> list[Colours]:
    """The colours [N] of each depth. With ``own`` each weight has a colour of its own, so that layers differ."""
    storages, count = problem.storages, problem.operations
    u, v = storages.sources, storages.readers
    operations, kinds = problem.instance.graph.operations, dict[str, int]()
    kind = [kinds.setdefault(operations[i].kind, len(kinds)) for i in problem.position.tolist()]
    tied = np.bincount(problem.group, minlength=count)[problem.group] > 1
    resident = np.zeros(count, dtype=bool)
    resident[storages.producer[storages.resident]] = True
    colour = _mixed(np.array(kind, dtype=np.uint64) * np.uint64(4) + tied * np.uint64(2) + resident + np.uint64(1))
    if own:
        colour = np.where(resident, _mixed(np.arange(count, dtype=np.uint64) + np.uint64(2**40)), colour)
    found = [colour]
    for _ in range(depth):
        read, readers = _of_sets(v, colour[u], count), _of_sets(u, colour[v], count)
        new = _mixed(colour * np.uint64(3) + read * np.uint64(5) + readers * np.uint64(7))
        colour = np.where(resident, colour, new) if own else new
        found.append(colour)
    return found


def _lanes(colour: Colours, place: IntArray) -> tuple[IntArray, IntArray]:
    """(role, number in it) of each operation [N]: colours, and lanes where several of a colour have one place."""
    kind = np.unique(colour, return_inverse=True)[1]
    order = np.lexsort((place, kind))
    lane = _number_in_runs(kind[order], place[order])
    role = np.empty(len(kind), dtype=np.int64)
    role[order] = np.unique(kind[order] * (len(kind) + 1) + lane, return_inverse=True)[1]
    order = np.lexsort((place, role))
    number = np.empty_like(role)
    number[order] = _number_in_runs(role[order])
    return role, number


def _number_in_runs(*keys: IntArray) -> IntArray:
    """The number of each place in the run of equal keys that it belongs to."""
    count = len(keys[0])
    first = np.ones(count, dtype=bool)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    at = np.arange(count)
    return at - np.maximum.accumulate(np.where(first, at, 0))


def _aligned(problem: PlacementProblem, made: tuple[IntArray, IntArray]) -> Roles | None:
    """The roles with aligned steps; None where no roles that repeat feed each other."""
    role, number = made
    size = np.bincount(role)
    u, v = problem.storages.sources, problem.storages.readers
    kept = (size[role[u]] >= REPEATED) & (size[role[v]] >= REPEATED) & (role[u] != role[v])
    u, v = u[kept], v[kept]
    links = _links(role[u], role[v], number[u], number[v], size)
    if not links:
        return None
    part, turned, begin = _spread(links, size.tolist())
    step = np.where(part[role] >= 0, turned[role] * number + begin[role], 0)
    steps = list[int]()
    for k in range(int(part.max()) + 1):
        mine = part[role] == k
        step[mine] -= step[mine].min()
        steps.append(int(step[mine].max()) + 1)
    near = (part[role[u]] >= 0) & (part[role[u]] == part[role[v]]) & (np.abs(step[u] - step[v]) <= 1)
    return Roles(role, part[role], step, tuple(steps), float(near.sum()) / len(problem.storages.readers))


def _spread(links: list[Link], sizes: list[int]) -> tuple[IntArray, IntArray, IntArray]:
    """(part, turned, begin) of each role, with step = turned · number + begin, or part -1.

    A part begins with its largest role. Then always that role follows which most edges tie to those that are done. It
    must not run past the steps of the first.
    """
    neighbours: dict[int, list[Link]] = {}
    for one in links:
        neighbours.setdefault(one.of, []).append(one)
        # number_b = shift + sign · number_a, so number_a = sign · number_b − sign · shift
        back = Link(one.edges, one.to, one.of, one.sign, -one.sign * one.shift)
        neighbours.setdefault(one.to, []).append(back)
    part, turned, begin = (np.full(len(sizes), fill, dtype=np.int64) for fill in (-1, 0, 0))
    count = 0
    for root in sorted(neighbours, key=lambda r: (-sizes[r], r)):
        if part[root] >= 0:
            continue
        part[root], turned[root], last = count, 1, sizes[root] - 1
        heap = [(-one.edges, number, one) for number, one in enumerate(neighbours[root])]
        heapq.heapify(heap)
        made = len(heap)
        while heap:
            one = heapq.heappop(heap)[2]
            b = one.to
            if part[b] >= 0:
                continue
            sign = int(turned[one.of]) * one.sign
            first = int(begin[one.of]) - sign * one.shift
            ends = first, first + sign * (sizes[b] - 1)
            if min(ends) < -SLACK or max(ends) > last + SLACK:
                continue
            part[b], turned[b], begin[b] = count, sign, first
            for other in neighbours[b]:
                if part[other.to] < 0:
                    heapq.heappush(heap, (-other.edges, made, other))
                    made += 1
        count += 1
    return part, turned, begin


def _links(a: IntArray, b: IntArray, i: IntArray, j: IntArray, size: IntArray) -> list[Link]:
    """The pairs of roles most of whose edges (a, i) to (b, j) have one shift."""
    wide, count = 2 * int(size.max()), len(size)
    found: dict[tuple[int, int], Link] = {}
    for sign in (1, -1):
        code, edges = np.unique(((a * count + b) * 2 * wide) + (j - sign * i + wide), return_counts=True)
        pair, shift = code // (2 * wide), code % (2 * wide) - wide
        x, y = pair // count, pair % count
        often = edges >= np.maximum(2, AGREED * np.minimum(size[x], size[y]))
        for one in map(
            Link._make, zip(*(k[often].tolist() for k in (edges, x, y, np.full_like(x, sign), shift)), strict=True)
        ):
            if (one.of, one.to) not in found or one.edges > found[one.of, one.to].edges:
                found[one.of, one.to] = one
    return list(found.values())
