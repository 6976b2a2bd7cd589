"""What both models of family ``dataflow`` say of pins to partitions, and of kernels that lie apart (C5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chipmap.formulations.dataflow.tables import Tables
from chipmap.instances.dataflow.pins import barred, names_partitions


class Ruled(NamedTuple):
    """Copy i in slot c must not be in a partition whose index is one of ``barred``, or above ``largest`` (None: no
    limit).

    ``place`` is that of slot c where this is known, else None: the number of slots in use before c.
    """

    copy: int
    slot: int
    place: int | None
    barred: tuple[int, ...]
    largest: int | None

    @property
    def out(self) -> bool:
        """Whether the copy can't lie in the slot, whose index is known."""
        known = self.place
        return known is not None and (known in self.barred or (self.largest is not None and known > self.largest))


def numbered(tables: Tables) -> bool:
    """Whether pins ask for slots in use that are numbered without a gap."""
    return names_partitions(tables.problem.instance)


def apart(tables: Tables) -> list[list[int]]:
    """The copies of each group of kernels that lie apart."""
    kernels = tables.problem.instance.workload.kernels
    groups = [set(group) for group in tables.problem.instance.task.apart]
    return [[i for i in tables.copies if kernels[tables.kernel[i]].name in group] for group in groups]


def ruled(tables: Tables, roomy: bool = False) -> Iterator[Ruled]:
    """What pins rule out, for each copy that has any, and each of its slots; ``roomy``: any slot may be empty."""
    kernels, found = tables.problem.instance.workload.kernels, barred(tables.problem.instance)
    for i in tables.copies:
        indexes = found.kernels.get(kernels[tables.kernel[i]].name, frozenset())
        largest = found.beyond - 1 if found.beyond in indexes else None
        for c in tables.slots[i] if indexes else ():
            counted = bool(tables.stages) and (roomy or not tables.exactly)
            place = None if counted else c - tables.slots[i].start
            yield Ruled(i, c, place, tuple(sorted(indexes - {found.beyond})), largest)
