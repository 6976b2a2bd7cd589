"""A placement of objective ``throughput`` in time: what each device does for one sample, as events of a Chrome trace.

The fullest device's track is T2. With ``task.overlap`` a device has a track for what it computes and one for its
transfers.
"""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.offload import as_placed
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.trace_events import Event
from chipmap.plans.chrome_trace.queues import Piece, Queues
from chipmap.validation.placement.memory import curve, memory

#: The processes of the trace.
PERIOD, DEVICES = 1, 2


def events(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[Event]:
    """All events of a valid placement."""
    problem, solution = as_placed(problem, solution)
    at, overlap = problem.devices_of(solution).tolist(), problem.instance.task.overlap
    names = problem.device_names
    computing = [[_work(problem, v, d) for v in problem.order.tolist() if at[v] == d] for d in range(len(names))]
    moving = [list(_transfers(problem, at, d)) for d in range(len(names))]
    named = [f"{name}{what}" for name in names for what in (("", ": transfers") if overlap else ("",))]
    queues = Queues(DEVICES, "devices", named, 1)
    per = 2 if overlap else 1
    shown = [event for d in range(len(names)) for event in queues.put(per * d, computing[d])]
    shown += [event for d in range(len(names)) for event in queues.put(per * d + per - 1, moving[d])]
    whole = Queues(PERIOD, f"{problem.instance.name}: one sample on all devices", ["load"], 1)
    yield from whole.named()
    yield whole.at(0, 0, Piece("load", "load", max(queues.end, default=0)))
    yield from queues.named()
    yield from shown
    for name, there in memory(problem.instance, solution).items():
        yield from (queues.level(f"memory of {name}", time, size) for time, size in curve(there))


def _work(problem: PlacementProblem, v: int, device: int) -> Piece:
    kind = problem.instance.graph.operations[int(problem.position[v])].kind
    return Piece(problem.names[v], "compute", int(problem.time[v, device]), {"operator": kind})


def _transfers(problem: PlacementProblem, at: list[int], device: int) -> Iterator[Piece]:
    """What a device pays for the storages that it sends or receives, each once."""
    storages = problem.storages
    for s, u in enumerate(storages.producer.tolist()):
        touched = {at[u], *(at[v] for v in storages.read_by(s))}
        if device in touched and len(touched) > 1 and problem.paying[device]:
            what = "send" if at[u] == device else "receive"
            facts = {"bytes": int(storages.bytes[s])}
            yield Piece(f"{what} {problem.names[u]}", what, int(storages.time[s, 0]), facts)
