"""From a published graph to a placement instance: one sample's step on two devices."""

from __future__ import annotations

from chipmap.instances.importers import ImportedGraph
from chipmap.instances.placement.instance import PlacementInstance, Task
from chipmap.instances.placement.presets import preset

#: Formats measured on devices, mostly for whole training batches: their tensors say nothing of a device's memory.
PROFILES = frozenset({"pipedream", "dnn-partitioning", "piper"})
#: The system of a converted graph.
SYSTEM, DEVICES = "p100-pcie", 2


def from_graph(imported: ImportedGraph, name: str) -> PlacementInstance:
    """The instance of ``imported`` on two P100 over PCIe, with its measured times and groups, minimising the step.

    Memory is limited over time, except for profiles; ``notes`` says so.
    """
    notes = (*imported.notes, f"on {DEVICES} devices of preset {SYSTEM} unless --set system says otherwise")
    profile = imported.format in PROFILES
    if profile:
        notes = (*notes, "the memory rule is 'none' unless asked for: the tensors are those of whole batches")
    system = preset(SYSTEM, DEVICES)
    kind = system.classes[0].name
    instance = PlacementInstance.make(
        name=name,
        task=Task(memory="none" if profile else "live"),
        graph=imported.graph.without_loops(),
        system=system,
        time_ns={} if imported.time_ns is None else {kind: imported.time_ns},
        together=imported.together,
        notes="; ".join(notes),
    )
    instance.check()
    return instance
