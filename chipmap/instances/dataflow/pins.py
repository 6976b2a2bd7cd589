"""What a task asks of the partitions of kernels (C5): pins, forbidden ones, and kernels that lie together or apart."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from chipmap.instances.pinning import binding
from chipmap.records import InputError, Record, choices, counted

#: A ``DataflowInstance``, whose module asks this one.
Instance = Any


class Pin(Record, frozen=True, kw_only=True):
    """Kernel ``kernel`` must lie in partition ``partition`` of its phase, counted from 0 in the order of running."""

    kernel: str
    partition: int


class Forbidden(Record, frozen=True, kw_only=True):
    """Kernel ``kernel`` must lie in none of ``partitions``, counted as those of :class:`Pin`."""

    kernel: str
    partitions: tuple[int, ...]


class Barred(NamedTuple):
    """The partitions that kernels may not lie in: ``kernels`` has their indexes for each kernel that has any.

    The index ``beyond`` stands for itself and all that are larger.
    """

    beyond: int
    kernels: dict[str, frozenset[int]]


def names_partitions(instance: Instance) -> bool:
    """Whether the task says where some kernel must or must not lie."""
    return bool(instance.task.pins or instance.task.forbidden)


def restricted(instance: Instance) -> bool:
    """Whether the task says more of partitions than which kernels lie together."""
    return names_partitions(instance) or bool(binding(instance.task.apart))


def barred(instance: Instance) -> Barred:
    """The partitions that pins and forbidden ones rule out."""
    pins, forbidden = instance.task.pins, instance.task.forbidden
    named = [pin.partition for pin in pins] + [p for one in forbidden for p in one.partitions]
    beyond, found = max(named, default=-1) + 1, dict[str, set[int]]()
    for pin in pins:
        found.setdefault(pin.kernel, set()).update(set(range(beyond + 1)) - {pin.partition})
    for one in forbidden:
        found.setdefault(one.kernel, set()).update(one.partitions)
    return Barred(beyond, {name: frozenset(indexes) for name, indexes in found.items() if indexes})


def check_pins(instance: Instance) -> None:
    """Raise :class:`InputError` for pins of kernels or partitions that there aren't, and for those that contradict each
    other."""
    task, names = instance.task, [kernel.name for kernel in instance.workload.kernels]
    groups = [(where, group) for where in ("together", "apart") for group in getattr(task, where)]
    named = [(where, name) for where, group in groups for name in group]
    named += [("schemes", name) for name in task.schemes]
    named += [(where, one.kernel) for where in ("pins", "forbidden") for one in getattr(task, where)]
    known = set(names)
    for where, name in named:
        if name not in known:
            raise InputError(f"no kernel is called {name!r}", f"task.{where}", choices(name, names, "There are"))
    grouped = [name for group in task.together for name in group]
    if len(set(grouped)) != len(grouped):
        raise InputError("a kernel is in two groups", "task.together", "Put each kernel in at most one.")
    for group in task.apart:
        if len(set(group)) != len(group):
            raise InputError(f"names a kernel twice: {', '.join(group)}", "task.apart", "Name it once in a group.")
    if names_partitions(instance):
        _check_partitions(instance)
    _check_contradictions(instance)


def _check_partitions(instance: Instance) -> None:
    task, where = instance.task, "task.pins" if instance.task.pins else "task.forbidden"
    if not instance.asked[2]:
        what = "names partitions, but these chips don't fuse: every kernel is one of its own"
        raise InputError(what, where, "Leave it out, or take chips that fuse (task.fused, system.chip.fused).")
    if task.across_layers and instance.workload.layers > 1:
        what = "names partitions of a layer, but partitions reach across layers"
        remedy = "Set task.across_layers to false, or use task.together and task.apart alone."
        raise InputError(what, where, remedy)
    kernels = len(instance.workload.kernels)
    most = kernels if task.stages == "kernels" else min(task.partitions or kernels, kernels)
    pinned = [("pins", pin.partition) for pin in task.pins]
    for field, index in [*pinned, *(("forbidden", p) for one in task.forbidden for p in one.partitions)]:
        if not 0 <= index < most:
            remedy = f"They are counted from 0, and there are at most {most} (one per kernel, or task.partitions)."
            raise InputError(f"there is no partition {index}", f"task.{field}", remedy)


def _check_contradictions(instance: Instance) -> None:
    task, pinned = instance.task, dict[str, int]()
    for pin in task.pins:
        if pinned.setdefault(pin.kernel, pin.partition) != pin.partition:
            what = f"{pin.kernel!r} is pinned to partition {pinned[pin.kernel]} and to {pin.partition}"
            raise InputError(what, "task.pins", "Keep one of the two.")
    for one in task.forbidden:
        if pinned.get(one.kernel) in one.partitions:
            what = f"{one.kernel!r} is pinned to partition {pinned[one.kernel]}, where it is forbidden"
            raise InputError(what, "task.pins", "Remove the pin, or the partition from task.forbidden.")
    for group in task.together:
        first = next((name for name in group if name in pinned), "")
        for name in group:
            if name in pinned and pinned[name] != pinned[first]:
                what = f"{first!r} and {name!r} lie together, but are pinned to partitions {pinned[first]} and "
                remedy = "Pin them to one, or take one of them out of its group in task.together."
                raise InputError(what + str(pinned[name]), "task.pins", remedy)
    group_of = {name: g for g, group in enumerate(task.together) for name in group}
    for group in task.apart:
        for a, b in combinations(group, 2):
            if a in group_of and group_of[a] == group_of.get(b):
                what = f"{a!r} and {b!r} are to lie apart, but {counted(len(task.together[group_of[a]]), 'kernel')} "
                what += "with both of them are to lie together"
                raise InputError(
                    what, "task.apart", "Take one of them out of its group in task.apart or task.together."
                )
            if a in pinned and pinned[a] == pinned.get(b):
                same = _phase(instance, a) == _phase(instance, b)
                if same:
                    what = f"{a!r} and {b!r} are to lie apart, but both are pinned to partition {pinned[a]}"
                    raise InputError(what, "task.apart", "Pin one of them elsewhere, or take it out of the group.")


def _phase(instance: Instance, name: str) -> str:
    found: str = next(kernel.phase for kernel in instance.workload.kernels if kernel.name == name)
    return found
