"""Format ``chrome-trace``: a mapping in time, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Tracks are chips, devices, chiplets and links; transfers are arrows, memory is a level. What a trace shows adds up to
the objective; of ``wafer`` to its term T1, the time. It is written only: nobody has a mapping as a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.multimodel import describe
from chipmap.instances.multimodel.frame_files import frame_events
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.instances.multimodel.timeline import timeline as segments
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import timeline
from chipmap.instances.trace_events import Event, trace
from chipmap.instances.wafer.instance import WaferInstance
from chipmap.plans.chrome_trace import dataflow, placement, ring, throughput, wafer
from chipmap.plans.plan import EmitOptions
from chipmap.records import Record
from chipmap.validation.placement.memory import curve, memory

FILE = "trace.json"


def suits(instance: Record, solution: Record | None) -> str | None:
    """All mappings."""
    return None


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The trace, with what is said of the run as ``otherData``."""
    return {FILE: trace(_events(instance, solution), msgspec.to_builtins(options.told))}


def _events(instance: Any, solution: Any) -> Iterator[Event]:
    if isinstance(instance, PlacementInstance):
        problem = placement_problem(instance)
        if not problem.timed:
            return throughput.events(problem, solution)
        held = {name: curve(there) for name, there in memory(instance, solution).items()}
        return placement.events(timeline(problem, solution), held)
    if isinstance(instance, MultiInstance):
        multi = multi_problem(instance)
        if instance.task.objective == "frames":
            return frame_events(multi, solution)
        return describe.events(multi, segments(multi, solution))
    if isinstance(instance, DataflowInstance):
        return dataflow.events(instance, solution)
    if isinstance(instance, WaferInstance):
        return wafer.events(instance, solution)
    return ring.events(instance, solution)
