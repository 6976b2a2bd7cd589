"""Which kernels a task wants together, apart, or in certain partitions, for the checker (page, C5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chipmap.validation.certify import Finding
from chipmap.validation.dataflow.mapping import Mapping


def groups(mapping: Mapping) -> Iterator[Finding]:
    """Kernels pinned together lie in one partition, which holds no kernel of another such group."""
    names = [kernel.name for kernel in mapping.instance.workload.kernels]
    of = {name: g for g, group in enumerate(mapping.instance.task.together) for name in group}
    layers = {copy.layer for copy in mapping.copies}
    for g, group in enumerate(mapping.instance.task.together):
        for layer in layers:
            where = {c.partition for c in mapping.copies if c.layer == layer and of.get(names[c.kernel]) == g}
            if len(where) > 1:
                message = f"{', '.join(group)} lie in partitions {', '.join(map(str, sorted(where)))}"
                yield group[0], len(where) - 1, "partitions", message
    holds: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for copy in mapping.copies:
        if names[copy.kernel] in of:
            holds[copy.partition].add((copy.layer, of[names[copy.kernel]]))
    for partition, found in sorted(holds.items()):
        if len(found) > 1:
            message = f"partition {partition} holds kernels of {len(found)} groups"
            yield f"partition {partition}", len(found) - 1, "groups", message


def apart(mapping: Mapping) -> Iterator[Finding]:
    """A partition holds at most one kernel of a group that is to lie apart, of whatever layer."""
    for group in mapping.instance.task.apart:
        holds: dict[int, list[str]] = defaultdict(list)
        for i, copy in enumerate(mapping.copies):
            if mapping.kernel(i).name in group:
                holds[copy.partition].append(mapping.kernel(i).name)
        for partition, names in sorted(holds.items()):
            if len(names) > 1:
                message = f"{', '.join(names)} are to lie apart, and share partition {partition}"
                yield f"partition {partition}", len(names) - 1, "kernels", message


def misplaced(mapping: Mapping) -> Iterator[Finding]:
    """Pinned kernels lie in their partition, and none in one that is forbidden to it.

    Partitions are counted from 0 among those in use of a phase, in the order of running; where stages share out
    kernels, among all.
    """
    task = mapping.instance.task
    if not task.pins and not task.forbidden:
        return
    of_phase: dict[str, set[int]] = defaultdict(set)
    for i, copy in enumerate(mapping.copies):
        of_phase[mapping.kernel(i).phase].add(copy.partition)
    for i, copy in enumerate(mapping.copies):
        name = mapping.kernel(i).name
        place = sum(partition < copy.partition for partition in of_phase[mapping.kernel(i).phase])
        for pin in task.pins:
            if pin.kernel == name and pin.partition != place:
                message = f"{name!r} lies in partition {place} of its phase, and is pinned to {pin.partition}"
                yield repr(name), abs(place - pin.partition), "partitions", message
        for one in task.forbidden:
            if one.kernel == name and place in one.partitions:
                yield (
                    repr(name),
                    1,
                    "partitions",
                    f"{name!r} lies in partition {place} of its phase, which is forbidden",
                )
