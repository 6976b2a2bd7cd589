"""A smaller graph of the same structure: the steps in the middle of each part left out, and plans carried back.

The first and the last steps stay. An operation that stays, and read from a step that is left out, reads from the same
role instead, as many steps away in the smaller graph as before. What reads from many steps (a sum, a list of all
outputs) loses the inputs that are left out, and the time and bytes that they make up.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.siblings.roles import Roles
from chipmap.instances.placement.problem import IntArray, PlacementProblem, Storages

#: Rules by which a step takes its device from one of the smaller graph.
RULES = ("relative", "modulo", "inner", "ends", "clip", "drop", "kind")
#: Inputs from which on an operation counts as one that gathers steps.
GATHERS = 4


@dataclass(frozen=True, eq=False)
class Sibling:
    """A smaller ``problem`` of N' operations: ``kept`` [N'] are their positions in the larger one.

    ``steps``: those that stay of each part, and ``new`` [N]: the step of each operation there, where it stays.
    """

    problem: PlacementProblem
    kept: IntArray
    steps: tuple[int, ...]
    table: IntArray


def smaller(problem: PlacementProblem, made: Roles, share: float, least: int) -> Sibling | None:
    """The sibling with that share of each part's steps, but ``least``; None where nothing is left out or it has a
    cycle."""
    steps = tuple(min(n, max(least, round(n * share))) for n in made.steps)
    if steps == made.steps:
        return None
    of, part = np.array(made.steps), np.maximum(made.part, 0)
    left, front = of - np.array(steps), -(-np.array(steps) // 2)
    inside = (made.part >= 0) & (made.step >= front[part]) & (made.step < (front + left)[part])
    kept, new = ~inside, made.step - np.where(made.step >= front[part], left[part], 0)
    table = _table(made, kept, new, max(steps))
    found = _cut(problem, made, kept, new, table, steps)
    return None if found is None else Sibling(found, np.flatnonzero(kept), steps, table)


def _table(made: Roles, kept: NDArray[np.bool_], new: IntArray, width: int) -> IntArray:
    """The operation of each role and step that stays (-1: none) [roles, width]."""
    table = np.full((int(made.role.max()) + 1, width), -1, dtype=np.int64)
    mine = np.flatnonzero(kept & (made.part >= 0))
    table[made.role[mine], new[mine]] = mine
    return table


def _cut(
    problem: PlacementProblem,
    made: Roles,
    kept: NDArray[np.bool_],
    new: IntArray,
    table: IntArray,
    steps: tuple[int, ...],
) -> PlacementProblem | None:
    """The problem of those that stay; None where their order has a cycle."""
    storages, count = problem.storages, problem.operations
    first = np.searchsorted(storages.producer, np.arange(count + 1)) if _sorted(storages.producer) else None
    if first is None:
        return None
    read, v = storages.read, storages.readers
    u = storages.producer[read]
    stays = kept[v]
    read, u, v = read[stays], u[stays], v[stays]
    lost = np.flatnonzero(~kept[u])
    source, reader, which = u[lost], v[lost], read[lost] - first[u[lost]]
    same = made.part[source] == made.part[reader]
    other = (made.step[source] * np.array(steps)[made.part[source]]) // np.array(made.steps)[made.part[source]]
    wanted = np.where(same, new[reader] + made.step[source] - made.step[reader], other)
    inside = (wanted >= 0) & (wanted < np.array(steps)[made.part[source]]) & (made.part[reader] >= 0)
    instead = np.where(inside, table[made.role[source], np.where(inside, wanted, 0)], -1)
    found = (instead >= 0) & (first[instead + 1] - first[instead] > which)
    before, place = np.bincount(v, minlength=count), np.empty(count, dtype=np.int64)
    place[problem.order] = np.arange(count)
    for taken in (found, found & (place[instead] < place[reader])):  # the latter can't have a cycle
        read[lost] = np.where(taken, first[instead] + which, -1)
        left = _problem(problem, kept, before, read[read >= 0], v[read >= 0])
        if left is not None:
            return left
    return None


def _sorted(x: IntArray) -> bool:
    return bool((x[1:] >= x[:-1]).all())


def _problem(
    problem: PlacementProblem, kept: NDArray[np.bool_], before: IntArray, read: IntArray, v: IntArray
) -> PlacementProblem | None:
    """The problem of those that stay, where ``v`` read the storages ``read``, of ``before`` [N] inputs each had."""
    storages, count = problem.storages, problem.operations
    at = np.cumsum(kept) - 1
    stay = kept[storages.producer]
    place = np.cumsum(stay) - 1
    pair = np.unique(np.stack([place[read], at[v]]), axis=1)
    share = np.ones(count)
    gathers = before >= GATHERS
    share[gathers] = (np.bincount(v, minlength=count)[gathers]) / before[gathers]
    incoming = np.bincount(storages.readers, storages.bytes[storages.read], minlength=count)
    piles = storages.bytes >= 0.5 * np.maximum(1, incoming[storages.producer])
    scale = np.where(piles, share[storages.producer], 1.0)[stay]
    sizes, readers = np.bincount(pair[0], minlength=int(stay.sum())), np.ascontiguousarray(pair[1])
    producer = at[storages.producer[stay]]
    order = _ordered(at[problem.order[kept[problem.order]]], producer[pair[0]], readers)
    if order is None:
        return None
    group, index = np.unique(problem.group[kept], return_index=True)
    left = Storages(
        tensor=storages.tensor[stay],
        producer=producer,
        bytes=(storages.bytes[stay] * scale).astype(np.int64),
        reader_at=np.concatenate([[0], np.cumsum(sizes)]),
        readers=readers,
        output=storages.output[stay],
        resident=storages.resident[stay],
        time=np.ceil(storages.time[stay] * scale[:, None]).astype(np.int64),
    )
    return replace(
        problem,
        position=problem.position[kept],
        time=np.ceil(problem.time[kept] * share[kept][:, None]).astype(np.int64),
        allowed=problem.allowed[kept],
        weights=problem.weights[kept],
        order=order,
        storages=left,
        copies=tuple((size, tuple(at[[r for r in who if kept[r]]].tolist())) for size, who in problem.copies),
        group=index[np.searchsorted(group, problem.group[kept])],
        apart=tuple(tuple(at[[r for r in one if kept[r]]].tolist()) for one in problem.apart),
    )


def _ordered(wanted: IntArray, u: IntArray, v: IntArray) -> IntArray | None:
    """An order in which each u comes before its v, close to the wanted one; None where there is a cycle."""
    count = len(wanted)
    after: list[list[int]] = [[] for _ in range(count)]
    left, rank = np.bincount(v, minlength=count).tolist(), np.empty(count, dtype=np.int64)
    rank[wanted] = np.arange(count)
    ranks, listed = rank.tolist(), wanted.tolist()
    for a, b in zip(u.tolist(), v.tolist(), strict=True):
        after[a].append(b)
    heap = [ranks[a] for a in range(count) if not left[a]]
    heapq.heapify(heap)
    found = list[int]()
    while heap:
        a = listed[heapq.heappop(heap)]
        found.append(a)
        for b in after[a]:
            left[b] -= 1
            if not left[b]:
                heapq.heappush(heap, ranks[b])
    return np.array(found, dtype=np.int64) if len(found) == count else None


def carried(problem: PlacementProblem, made: Roles, sibling: Sibling, devices: IntArray, rule: str) -> IntArray:
    """The devices [N] that a sibling's plan (devices [N']) gives the larger graph by a rule; groups stay together."""
    if rule == "kind":
        return _by_kind(problem, made, sibling, devices)[problem.group]
    found = np.zeros(problem.operations, dtype=np.int64)
    found[sibling.kept] = devices
    table = _filled(sibling.table)
    inside = made.part >= 0
    part = made.part[inside]
    count, few = np.array(made.steps)[part], np.array(sibling.steps)[part]
    at = _by_rule(rule, made.step[inside], count, few)
    source = table[made.role[inside], at]
    known = source >= 0
    where = np.flatnonzero(inside)
    found[where[known]] = found[source[known]]
    return found[problem.group]


def _by_kind(problem: PlacementProblem, made: Roles, sibling: Sibling, devices: IntArray) -> IntArray:
    """The device of the sibling's operation of the same kind, at the same share of that kind's operations [N].

    What doesn't repeat keeps its own.
    """
    operations, kinds = problem.instance.graph.operations, dict[str, int]()
    kind = np.array([kinds.setdefault(operations[i].kind, len(kinds)) for i in problem.position.tolist()])
    device, found = np.full(problem.operations, -1, dtype=np.int64), np.zeros(problem.operations, dtype=np.int64)
    device[sibling.kept] = devices
    for k in range(len(kinds)):
        mine = problem.order[kind[problem.order] == k]
        some = device[mine]
        some = some[some >= 0]
        if len(some):
            found[mine] = some[np.arange(len(mine)) * len(some) // len(mine)]
    return np.where((made.part < 0) & (device >= 0), device, found)


def _by_rule(rule: str, step: IntArray, count: IntArray, few: IntArray) -> IntArray:
    """The step of the sibling that each step takes its device from."""
    front, left = -(-few // 2), count - few
    if rule == "relative":
        return step * few // count
    if rule == "modulo":
        return step % few
    if rule == "clip":
        return np.minimum(step, few - 1)
    if rule == "drop":
        return few // 2
    ends = np.where(step < front, step, np.where(step >= front + left, step - left, np.minimum(front, few - 1)))
    if rule == "ends":
        return ends
    edge = few // 4
    wide = np.maximum(1, few - 2 * edge)
    middle = edge + (step - edge) % wide
    return np.where(step < edge, step, np.where(step >= count - edge, step - left, middle))


def _filled(table: IntArray) -> IntArray:
    """Where a role has no operation of a step, that of the step before, or else behind."""
    width = table.shape[1]
    at = np.where(table >= 0, np.arange(width), -1)
    last = np.maximum.accumulate(at, axis=1)
    behind = np.where(table >= 0, np.arange(width), width)
    next_ = np.minimum.accumulate(behind[:, ::-1], axis=1)[:, ::-1]
    take = np.where(last >= 0, last, next_)
    rows = np.arange(len(table))[:, None]
    found: IntArray = np.where(take < width, table[rows, np.minimum(take, width - 1)], -1)
    return found
