"""What the kernels of a mapping pay for layouts, sums and parameters, as it depends on what ran before.

The rules are those of ``docs/families/dataflow-exchanges.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chipmap.instances.dataflow.added import Added
from chipmap.instances.dataflow.layer_handover import handovers
from chipmap.instances.dataflow.present import Copy, Shared
from chipmap.instances.dataflow.problem import DataflowProblem, wires


class Kept(NamedTuple):
    """A tensor in a layout that ``payer`` writes and ``users`` read in later partitions, in place of what ``maker``
    made. All are numbers of mapped kernels."""

    maker: int
    payer: int
    users: tuple[int, ...]
    copy: Copy


class Exchanged(NamedTuple):
    """For each mapped kernel the picoseconds of T3 beyond its option's: for ``sums`` of added products and for
    parameters, and for ``changes`` of layout of what it reads; and the tensors that are ``kept`` in another layout."""

    sums: list[int]
    changes: list[int]
    kept: tuple[Kept, ...]


def exchanged(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], between: bool = True
) -> Exchanged:
    """What a mapping's kernels exchange, by the numbers of their options and their partitions.

    Of a layer, or of all layers in a row where partitions reach across; ``between`` says whether what a layer passes to
    the next counts (:func:`chipmap.instances.dataflow.layer_handover.handover_cases` has it in the options).
    """
    n, count = problem.n, len(chosen)
    when = _running(problem, partitions)
    sums, changes = [0] * count, [0] * count
    suppliers = dict(_suppliers(problem, chosen, partitions, when))
    free = set[tuple[int, int]](suppliers)
    for k in range(0, count, n):
        for use in problem.uses:
            sums[k + use.user] += int(use.network[chosen[k + use.owner], chosen[k + use.user]])
        for added in problem.added:
            last = max((k + u for u in added.members), key=when.__getitem__)
            occur = {int(own[chosen[k + u]]) for u, own in zip(added.members, added.sums, strict=True)} - {-1}
            sums[last] += sum(added.ticks[number] for number in occur)
            free |= {(k + u, k + added.adder) for u in _alike(added, chosen[k : k + n])}
    inside = [pair for pair in wires(problem, count // n) if pair not in free]
    for u, v in [*inside, *(handovers(problem) if between else ())]:
        changes[v] += problem.converts(u % n, v % n, chosen[u], chosen[v])
    return Exchanged(sums, changes, tuple(_kept(problem, chosen, partitions, suppliers)))


def _running(problem: DataflowProblem, partitions: Sequence[int]) -> list[tuple[int, ...]]:
    """What the order of running of the mapped kernels is by: their phase, partition and place; where chips don't fuse,
    the place alone, whatever the numbers of partitions."""
    if not problem.instance.asked[2]:
        return [(place,) for place in problem.places]
    late = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels] * problem.instance.mapped_layers
    return list(zip(late, partitions, problem.places, strict=True))


def _alike(added: Added, chosen: Sequence[int]) -> Iterator[int]:
    """The members whose products lie as those of one that is listed before."""
    seen = set[int]()
    for u, layouts in zip(added.members, added.layouts, strict=True):
        if int(layouts[chosen[u]]) in seen:
            yield u
        seen.add(int(layouts[chosen[u]]))


def _suppliers(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], when: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, int], tuple[Shared, int, int]]]:
    """For each (maker, reader) of a tensor that the reader has in a layout for which another one paid: the tensor, that
    one and the number of the layout."""
    n, keep = problem.n, problem.instance.task.keep or "none"
    if keep == "none" and len(set(partitions)) == len(partitions):
        return  # nothing outlasts the kernel that paid for it
    phase = [kernel.phase for kernel in problem.instance.workload.kernels]
    for k in range(0, len(chosen), n):
        for shared in problem.shared:
            u, before = k + shared.maker, list[tuple[int, int]]()
            needs = {k + v: int(own[chosen[k + v]]) for v, own in zip(shared.readers, shared.needs, strict=True)}
            supplies = {
                k + v: own[chosen[u], chosen[k + v]] for v, own in zip(shared.readers, shared.supplies, strict=True)
            }
            for v in sorted(needs, key=when.__getitem__):
                if not problem.converts(shared.maker, v % n, chosen[u], chosen[v]):
                    continue
                for r, number in before:
                    near = partitions[r] == partitions[v]
                    reach = near or keep == "step" or (keep == "phase" and phase[r % n] == phase[v % n])
                    if reach and shared.covers[number, needs[v]]:
                        yield (u, v), (shared, r, number)
                        break
                if supplies[v]:
                    before.append((v, needs[v]))


def _kept(
    problem: DataflowProblem,
    chosen: Sequence[int],
    partitions: Sequence[int],
    suppliers: dict[tuple[int, int], tuple[Shared, int, int]],
) -> Iterator[Kept]:
    """The tensors that later partitions read in a layout for which an earlier one paid."""
    users: dict[tuple[int, int], list[int]] = {}
    copies: dict[tuple[int, int], Copy] = {}
    for (u, v), (shared, r, number) in suppliers.items():
        if partitions[r] != partitions[v]:
            users.setdefault((u, r), []).append(v)
            copies[u, r] = shared.copies[number]
    for (u, r), others in users.items():
        yield Kept(u, r, tuple(others), copies[u, r])
