"""In which layouts a tensor is there when a kernel reads it: for which changes of layout another one has paid.

From ``docs/families/dataflow-exchanges.md``, "The order of running" and "What is present", alone.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import facts, grouped
from chipmap.validation.dataflow.layouts import End, by_heads, change, wanted


class Placed(Protocol):
    """A kernel of a mapping, as far as exchanges ask for it."""

    @property
    def layer(self) -> int: ...
    @property
    def kernel(self) -> int: ...
    @property
    def partition(self) -> int: ...
    @property
    def scheme(self) -> Scheme: ...


class Mapped(Protocol):
    """A mapping taken apart (:class:`chipmap.validation.dataflow.mapping.Mapping`), as far as exchanges ask for it."""

    @property
    def instance(self) -> DataflowInstance: ...
    @property
    def degrees(self) -> Degrees: ...
    @property
    def copies(self) -> Sequence[Placed]: ...
    @property
    def edges(self) -> Sequence[tuple[int, int]]: ...
    @property
    def changes(self) -> dict[tuple[int, int], int]: ...
    @property
    def running(self) -> list[tuple[bool, int, int]]: ...
    @property
    def suppliers(self) -> dict[tuple[int, int], int]: ...
    @property
    def added(self) -> list[tuple[int, tuple[int, ...]]]: ...
    def kernel(self, copy: int) -> Kernel: ...
    def end(self, copy: int) -> End: ...


class Need(NamedTuple):
    """What a kernel needs of a tensor: the kind of layout, a chip's share, of how many experts, or of heads of how many
    groups of chips (0: neither)."""

    kind: str
    share: Fraction
    experts: int


@dataclass(frozen=True)
class Copied:
    """A tensor in the layout that ``supplier`` paid for, which ``readers`` in other partitions read: numbers of copies
    of kernels, and its bytes on a chip."""

    maker: int
    supplier: int
    readers: tuple[int, ...]
    size: Fraction


def fuses(instance: DataflowInstance) -> bool:
    """Whether kernels may share a partition."""
    return instance.task.fused and instance.system.chip.fused


def places(late: Sequence[bool], edges: Sequence[tuple[int, int]]) -> list[int]:
    """The place of each kernel in the list that always takes next the kernel of lowest number whose makers are listed,
    all that aren't ``late`` before any that is."""
    readers: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(late)
    for u, v in edges:
        readers[u].append(v)
        missing[v] += 1
    ready = [(late[v], v) for v in range(len(late)) if not missing[v]]
    heapq.heapify(ready)
    found = [0] * len(late)
    for place in range(len(late)):
        _, u = heapq.heappop(ready)
        found[u] = place
        for v in readers[u]:
            missing[v] -= 1
            if not missing[v]:
                heapq.heappush(ready, (late[v], v))
    return found


def running(mapping: Mapped) -> list[tuple[bool, int, int]]:
    """What the copies of kernels run in the order of: phase, partition (where chips fuse), place."""
    late = [mapping.kernel(i).phase == "backward" for i in range(len(mapping.copies))]
    place, by_number = places(late, mapping.edges), fuses(mapping.instance)
    return [(late[i], copy.partition if by_number else 0, place[i]) for i, copy in enumerate(mapping.copies)]


def need(reader: End, maker: Kernel, instance: DataflowInstance, degrees: Degrees) -> Need:
    """What a reader needs of what ``maker`` makes: by heads whole ones, of every sample where it has several."""
    kind = facts.taken(*reader, instance.mode, maker)
    if kind == "HR":
        return Need(kind, facts.share(*reader, instance, degrees), grouped.groups(reader[0], degrees))
    share = Fraction(1) if kind == "RR" else max(wanted(maker, reader, instance, degrees))
    if kind == "SR" and by_heads(reader, kind):
        several = maker.phase == "forward" and 0 < maker.heads < maker.outer and maker.heads % degrees.tensor
        kind = "heads of samples" if several else kind
    return Need(kind, share, reader[0].experts if kind == "EE" else 0)


def exchanges_sums(maker: End, reader: End, instance: DataflowInstance, degrees: Degrees) -> bool:
    """Whether a reader adds up copies of tokens where experts made them, as exchanging the sums takes less than to have
    the copies."""
    if maker[1] != "E" or not maker[0].active:
        return False
    copies = maker[0].replace(active=0), maker[1]  # of no number of copies anything is known
    return change(maker, reader, instance, degrees) < change(copies, reader, instance, degrees)


def has(held: Need, other: Need, degrees: Degrees) -> bool:
    """Whether a layout covers another."""
    if held.kind == "RR":
        return other.kind != "EE" or degrees.expert == 1
    if held.kind != other.kind:
        return False
    if held.kind == "HR":
        return held == other
    return held.experts == other.experts if held.kind == "EE" else facts.covers(held.share, other.share, degrees.tensor)


def suppliers(mapping: Mapped) -> dict[tuple[int, int], int]:
    """For each (maker, reader) that pays nothing because another one has paid: that one."""
    instance, keep = mapping.instance, mapping.instance.task.keep or "none"
    readers: dict[int, list[int]] = defaultdict(list)
    for u, v in mapping.edges if instance.mode == "physical" else ():
        if mapping.copies[u].layer == mapping.copies[v].layer:
            readers[u].append(v)
    when, found = mapping.running, dict[tuple[int, int], int]()
    for u, all_readers in readers.items():
        before: list[tuple[int, Need]] = []
        for v in sorted(all_readers, key=when.__getitem__):
            if not mapping.changes[u, v]:
                continue
            own = need(mapping.end(v), mapping.kernel(u), instance, mapping.degrees)
            for r, theirs in before:
                if _reaches(mapping, r, v, keep) and has(theirs, own, mapping.degrees):
                    found[u, v] = r
                    break
            if not exchanges_sums(mapping.end(u), mapping.end(v), instance, mapping.degrees):
                before.append((v, own))
    return found


def _reaches(mapping: Mapped, r: int, v: int, keep: str) -> bool:
    """Whether what r has paid for is still there when v runs."""
    if keep == "none":
        return mapping.copies[r].partition == mapping.copies[v].partition
    return keep == "step" or mapping.kernel(r).phase == mapping.kernel(v).phase


def copied(mapping: Mapped) -> tuple[Copied, ...]:
    """The tensors that partitions read in a layout for which another one paid."""
    readers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (u, v), r in mapping.suppliers.items():
        if mapping.copies[r].partition != mapping.copies[v].partition:
            readers[u, r].append(v)
    found = []
    for (u, r), others in readers.items():
        share = need(mapping.end(r), mapping.kernel(u), mapping.instance, mapping.degrees).share
        size = facts.batched_output(mapping.kernel(u), mapping.instance) * share
        found.append(Copied(u, r, tuple(others), size))
    return tuple(found)


def wrong_keep(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """What of ``keep`` isn't what the task asks for, or can't be here (C0); empty where nothing is."""
    task, stated, kernels = instance.task, solution.keep, instance.workload.kernels
    if task.keep is not None and stated not in (None, task.keep):
        return f"layouts are kept for {stated}, the task asks for {task.keep}"
    keep = stated or task.keep or "none"
    if keep == "none":
        return ""
    recompute = solution.recompute or task.recompute
    late = [kernel.phase == "backward" for kernel in kernels]
    reasons = {
        "costs are those of mode dfmodel": instance.mode == "dfmodel",
        "chips fuse kernels": fuses(instance),
        "stages share out kernels": task.stages == "kernels",
        "partitions reach across layers": task.across_layers,
        "kernels are recomputed": recompute not in (None, False, "none"),
        "updates run late": task.schedule == "zb-h1",
        "stages have layers of their own": task.stage_layers != (),
        "there is no backward phase": keep == "step" and not any(late),
    }
    for reason, holds in reasons.items():
        if holds:
            return f"layouts are kept for the {keep}, but {reason}"
    index = {kernel.name: i for i, kernel in enumerate(kernels)}
    place = places(late, [(index[u], index[v]) for u, v in instance.workload.edges])
    numbers = [p for _, p in sorted(zip(place, solution.partitions, strict=False))]
    if any(a >= b for a, b in pairwise(numbers)):
        return f"layouts are kept for the {keep}, but partitions aren't numbered in the order of places"
    return ""
