"""From a published graph to a ring instance."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.measured import times
from chipmap.instances.ring.instance import Label, RingInstance
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError

#: Formats measured on devices with gigabytes of memory, mostly for whole training batches: the SRAM of a chip says
#: nothing about their tensors, so that C4 is off unless it is asked for.
PROFILES = frozenset({"pipedream", "dnn-partitioning", "piper"})


def from_graph(imported: ImportedGraph, name: str) -> RingInstance:
    """The instance of ``imported`` on the default package (36 chips), with its measured times and groups.

    All constraints are in force, except C4 for profiles; ``notes`` says so.
    """
    constraints: tuple[Label, ...] = ("C1", "C2", "C3", "C4")
    notes = imported.notes
    if imported.format in PROFILES:
        constraints = ("C1", "C2", "C3")
        notes = (*notes, "C4 (memory) is off unless asked for: the tensors are not those of a chip with SRAM")
    instance = RingInstance.make(
        name=name,
        graph=imported.graph.without_operands(),
        constraints=constraints,
        time_ns=imported.time_ns,
        together=imported.together,
        notes="; ".join(notes),
        scopes=imported.scopes,
        states=dict(imported.states),
    )
    instance.check()
    return instance


def equip(instance: RingInstance, system: str = "", costs: Sequence[str] = ()) -> RingInstance:
    """The instance with measured times of its operations, from tables (:mod:`chipmap.instances.measured`)."""
    if system:
        remedy = "Change the package: --set package.chips=36."
        raise InputError("family 'ring' has a package, no system", "--system", remedy)
    if not costs:
        return instance
    found = times(instance.graph, instance.scopes, costs, ("",))
    given = instance.time_ns or (None,) * len(instance.graph.operations)
    together = tuple(old if new is None else new for old, new in zip(given, found.by_class[""], strict=True))
    notes = "; ".join(filter(None, (instance.notes, found.note)))
    return instance.replace(time_ns=together, notes=notes, time_spread=found.spread or ())
