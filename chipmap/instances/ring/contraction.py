"""Preprocessing: the instance on computing operations only, and the way back to the original operations.

Views, constants, inputs and dead operations cost nothing and constrain nothing but C1, which :func:`lift` restores,
and the members of a keep-together group (with whatever lies between them, by C1) share a chip. A constant that one
operation reads is part of its weights. Those that several read stay where C4 is in force, before the computing ones.
So the contracted instance has the same valid mappings of computing operations at the same costs: the contraction is
lossless, and its bounds hold for the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from chipmap.instances.ring.draft import fresh
from chipmap.instances.ring.instance import Forbidden, RingInstance, RingSolution
from chipmap.instances.ring.problem import TICKS_PER_NS, RingProblem, ring_problem
from chipmap.instances.units import units_in_order
from chipmap.networks.graph import Operation, OperationGraph, Tensor, neighbours
from chipmap.records import kept


@dataclass(frozen=True, eq=False)
class Contraction:
    """``instance`` has one operation per entry of ``members`` (positions in ``original``'s graph). The first ones are
    the constants that several operations share: their entries are empty. All others compute.

    ``report`` counts what was contracted, by reason.
    """

    original: RingInstance
    instance: RingInstance
    members: tuple[tuple[int, ...], ...]
    report: dict[str, int]

    def lift(self, solution: RingSolution) -> RingSolution:
        """The mapping of the original operations that ``solution`` (of the contracted instance) stands for."""
        return lift(self.original, {u: solution.chips[v] for v, group in enumerate(self.members) for u in group})

    def lower(self, solution: RingSolution) -> RingSolution:
        """The contracted mapping of a mapping of the original operations (the first member's chip speaks)."""
        return lift(self.instance, {v: solution.chips[group[0]] for v, group in enumerate(self.members) if group})

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The members of the computing operations, in their order."""
        return tuple(group for group in self.members if group)

    def lift_computing(self, chips: Sequence[int]) -> RingSolution:
        """The mapping of the original operations, given the chips of the contracted ones that compute."""
        return lift(self.original, {u: c for group, c in zip(self.groups, chips, strict=True) for u in group})


def lift(instance: RingInstance, computing: dict[int, int]) -> RingSolution:
    """The mapping whose computing operations sit where ``computing`` says, and the others where no edge breaks.

    Views and dead operations follow their latest producer; what depends on no computing operation (inputs, constants
    and views of them) sits with its first reader.
    """
    problem = ring_problem(instance)
    n = problem.n
    chips = [-1] * n
    readers, producers = neighbours(n, problem.edges.tolist()), neighbours(n, problem.edges[:, ::-1].tolist())
    for v in problem.order:
        chips[v] = computing[v] if v in computing else max((chips[u] for u in producers[v]), default=-1)
    for v in reversed(problem.order):
        if chips[v] < 0:
            chips[v] = min((chips[w] for w in readers[v]), default=0)
    return RingSolution(instance=instance.name, chips=tuple(chips))


def contract(instance: RingInstance) -> Contraction:
    """The lossless contraction of ``instance`` (kept on it): computing operations and what they share, keep-together
    groups merged.

    An operation to which pins leave no chip, or into which operations merge that are to be apart, has all chips
    forbidden in the contracted instance (infeasible by C0).
    """
    return kept(instance, "_contraction", _contract)


def _contract(instance: RingInstance) -> Contraction:
    problem = ring_problem(instance)
    groups = _groups(problem)
    own, shared = _shared(problem, groups)
    members = (*[()] * len(shared), *groups)
    where = {u: v for v, group in enumerate(members) for u in group}
    operations = tuple(_merged(problem, group, size) for group, size in zip(groups, own, strict=True))
    constants = _constants(len(shared), operations)
    first = len(constants)
    tensors = [
        Tensor(producer=i, readers=tuple(first + g for g in readers), bytes=shared[readers])
        for i, readers in enumerate(sorted(shared))
    ]
    for storage in problem.storages:
        producer = where[storage.producer]
        if readers := sorted({where[v] for v in storage.readers} - {producer}):
            tensors.append(Tensor(producer=producer, readers=tuple(readers), bytes=storage.bytes))
    forbidden, every = [], frozenset(range(problem.chips))
    for group, operation in zip(groups, operations, strict=True):
        left = every.intersection(*(chips for u in group if (chips := problem.allowed[u]) is not None))
        if any(len(set(group).intersection(some)) > 1 for some in problem.apart):
            left = frozenset()
        if left != every:
            forbidden.append(Forbidden(operation=operation.name, chips=tuple(sorted(every - left))))
    ticks = [int(problem.ticks[list(group)].sum()) for group in groups]
    names = [operation.name for operation in instance.graph.operations]
    called = {u: operation.name for group, operation in zip(groups, operations, strict=True) for u in group}
    contracted = msgspec.structs.replace(
        instance,
        name=f"{instance.name} (contracted)",
        graph=OperationGraph(name=instance.graph.name, operations=(*constants, *operations), tensors=tuple(tensors)),
        time_ns=(*[None] * first, *(_measured(t) for t in ticks)),
        pins=(),
        together=() if _merges(problem) else tuple(tuple(names[v] for v in group) for group in problem.groups),
        forbidden=tuple(forbidden),
        notes="",
        scopes=(),
        states={},
        apart=tuple(tuple(dict.fromkeys(called[u] for u in group)) for group in problem.apart),
    )
    return Contraction(instance, contracted, members, _report(problem, groups))


def computing_only(problem: RingProblem) -> RingProblem:
    """The problem with nothing but the computing operations, which keep their order: their positions are new ones."""
    return kept(problem, "_computing_only", _computing_only)


def _computing_only(problem: RingProblem) -> RingProblem:
    if problem.computing.all():
        return problem
    positions = np.flatnonzero(problem.computing)
    place = np.cumsum(problem.computing) - 1

    def new(operations: Sequence[int]) -> tuple[int, ...]:
        return tuple(place[list(operations)].tolist())

    return replace(
        problem,
        computing=problem.computing[positions],
        ticks=problem.ticks[positions],
        weight_bytes=problem.weight_bytes[positions],
        shared=tuple(replace(constant, readers=new(constant.readers)) for constant in problem.shared),
        edges=place[problem.flows].astype(np.int32),
        flows=place[problem.flows].astype(np.int32),
        storages=tuple(replace(s, producer=new([s.producer])[0], readers=new(s.readers)) for s in problem.storages),
        allowed=tuple(problem.allowed[v] for v in positions.tolist()),
        groups=tuple(new(group) for group in problem.groups),
        apart=tuple(new(group) for group in problem.apart),
        order=new([v for v in problem.order if problem.computing[v]]),
    )


def _merges(problem: RingProblem) -> bool:
    """Whether groups are merged: C1 forces it, and no order of execution within a merged operation matters."""
    return problem.has("C1") and not problem.full_memory


def _measured(ticks: int) -> float:
    """The measured time of ``ticks``: its text has these two decimals, whatever an instance may have."""
    return ticks / TICKS_PER_NS


def _groups(problem: RingProblem) -> tuple[tuple[int, ...], ...]:
    """Groups of computing operations that must share a chip, in a topological order of the merged graph.

    A group drags in what lies between its members: the strongly connected components of the flows plus both directions
    between members. That rests on C1, and on memory that doesn't depend on the order of execution (grade ``boundary``);
    else nothing merges, and the groups stay constraints.
    """
    order = [v for v in problem.order if problem.computing[v]]
    if not (problem.groups and _merges(problem)):
        return tuple((v,) for v in order)
    place = {v: i for i, v in enumerate(order)}
    flows = [(place[u], place[v]) for u, v in problem.flows.tolist()]
    units = units_in_order(len(order), flows, [[place[v] for v in group] for group in problem.groups])
    return tuple(tuple(sorted(order[i] for i in unit)) for unit in units)


def _shared(problem: RingProblem, groups: tuple[tuple[int, ...], ...]) -> tuple[list[int], dict[tuple[int, ...], int]]:
    """Bytes of the constants that one group alone reads [groups], and of the others by the groups that share them.

    Without C4 nobody asks for them.
    """
    where = {u: g for g, group in enumerate(groups) for u in group}
    own, shared = [0] * len(groups), dict[tuple[int, ...], int]()
    for constant in problem.shared if problem.has("C4") else ():
        readers = tuple(sorted({where[v] for v in constant.readers}))
        if len(readers) == 1:
            own[readers[0]] += constant.bytes
        else:
            shared[readers] = shared.get(readers, 0) + constant.bytes
    return own, shared


def _constants(count: int, operations: tuple[Operation, ...]) -> list[Operation]:
    """So many constants, under names that none of the ``operations`` has."""
    taken = {operation.name for operation in operations}
    names = (fresh(f"shared {i}", taken) for i in range(1, count + 1))
    return [Operation(name=name, kind="constant", role="constant") for name in names]


def _merged(problem: RingProblem, group: tuple[int, ...], constants: int) -> Operation:
    """One operation for all of the group; ``constants``: bytes that nobody else reads."""
    parts = [problem.instance.graph.operations[u] for u in group]
    return Operation(
        name=parts[0].name,
        kind=parts[0].kind,
        flop=sum(part.flop for part in parts),
        weight_bytes=int(problem.weight_bytes[list(group)].sum()) + constants,
    )


def _report(problem: RingProblem, groups: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    operations = problem.instance.graph.operations
    roles = [operation.role for operation in operations]
    return {
        "operations": len(operations),
        "inputs": roles.count("input"),
        "constants": roles.count("constant"),
        "views": roles.count("view"),
        "dead": sum(role == "compute" and not problem.computing[v] for v, role in enumerate(roles)),
        "merged into a keep-together group": int(problem.computing.sum()) - len(groups),
        "left": len(groups),
    }
