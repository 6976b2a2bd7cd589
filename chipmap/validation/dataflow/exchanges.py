"""What each kernel of a mapping pays for exchanges, one by one: T3, and T6 but for sums over replicas.

From ``docs/families/dataflow.md``, "Sharding", and ``dataflow-exchanges.md`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chipmap.validation.dataflow import facts, resting, sums, training
from chipmap.validation.dataflow.layouts import added_up
from chipmap.validation.dataflow.mapping import Mapping


class Charge(NamedTuple):
    """Picoseconds that a copy of a kernel, ``payer``, pays for an exchange of ``what``: a maker's output, ``W:`` and
    the forward kernel whose parameters are brought, ``statistics``, or another word for what no tensor says."""

    payer: int
    what: str
    ticks: int


def each_run(mapping: Mapping) -> Iterator[Charge]:
    """T3: sums where they are made, layout changes where they are read (at the hand-over between layers too, in mode
    ``physical``), parameters where they are used, gradients of a stage by itself where parameters rest."""
    instance, degrees = mapping.instance, mapping.degrees
    for i in range(len(mapping.copies)):
        kernel, scheme = mapping.end(i)
        if i not in mapping.members:
            yield Charge(i, kernel.name, sums.summed(kernel, scheme, instance, degrees))
        if instance.mode == "physical":
            what = "statistics" if scheme == "M" else kernel.name
            yield Charge(i, what, facts.up(added_up(kernel, scheme, instance, degrees)))
        yield Charge(i, "exchange", facts.up(facts.own_exchange(kernel, instance, degrees)))
        if i in mapping.owners and not kernel.update:
            owner = mapping.end(mapping.owners[i])
            yield Charge(i, f"W:{owner[0].name}", resting.each_run(owner, (kernel, scheme), instance, degrees))
        elif i in mapping.owners and instance.task.in_flight:
            owner = mapping.end(mapping.owners[i])
            yield Charge(i, f"W:{owner[0].name}", resting.after(owner, (kernel, scheme), instance, degrees))
        else:
            yield Charge(i, "replicas", training.exchanged(kernel, scheme, instance, degrees))
    for last, makers, ticks in sums.together(mapping):
        yield Charge(last, "+".join(mapping.kernel(u).name for u in makers), ticks)
    free = sums.alike(mapping) | mapping.suppliers.keys()
    for u, v in [*(edge for edge in mapping.edges if edge not in free), *mapping.handovers]:
        yield Charge(v, mapping.kernel(u).name, mapping.changes[u, v])


def after(mapping: Mapping) -> Iterator[Charge]:
    """T6: updated weights until they are where they rest."""
    instance, degrees = mapping.instance, mapping.degrees
    for i in range(len(mapping.copies)):
        kernel, scheme = mapping.end(i)
        if not kernel.update:
            yield Charge(i, f"W:{kernel.name}", training.summed(kernel, scheme, instance, degrees))
        elif i in mapping.owners and not instance.task.in_flight:
            owner = mapping.end(mapping.owners[i])
            yield Charge(i, f"W:{owner[0].name}", resting.after(owner, (kernel, scheme), instance, degrees))
