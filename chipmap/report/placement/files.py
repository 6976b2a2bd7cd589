"""A placement as tables, a trace and a device map: the files beside a solution.

- ``schedule.csv``: a line per operation and transfer; with objective ``throughput`` a line per operation.
- ``memory.csv``: the bytes that each device holds, a line per change (step time), by the checker's own account.
- ``trace.json``: the schedule as a Chrome trace (:mod:`chipmap.plans.chrome_trace.placement`).
- ``device_map.json``: scope -> device (:mod:`chipmap.plans.device_map.placement`), where no weights are fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.offload import as_placed
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.instances.placement.timeline import Piece, Timeline, timeline
from chipmap.instances.trace_events import trace
from chipmap.plans.chrome_trace.placement import events
from chipmap.plans.device_map.placement import device_map
from chipmap.records import InputError, csv_text
from chipmap.validation.placement.memory import curve, memory

Row = Sequence[str | int | float]


def files(instance: PlacementInstance, solution: PlacementSolution) -> dict[str, bytes]:
    """The files written beside a solution; none where it isn't the instance's."""
    problem = placement_problem(instance)
    try:
        placed = device_map(problem, solution)
        mapped = {"device_map.json": placed} if not solution.fetched else {}
        if not problem.timed:
            return mapped | {"schedule.csv": _loads(problem, solution)}
        line = timeline(problem, solution)
    except InputError:
        return {}
    held = {name: curve(there) for name, there in memory(instance, solution).items()}
    return mapped | {
        "memory.csv": _table(("device", "time_ns", "bytes"), ((name, *one) for name in held for one in held[name])),
        "schedule.csv": _table(_COLUMNS, _rows(line)),
        "trace.json": trace(events(line, held)),
    }


_COLUMNS = ("what", "name", "place", "start_ns", "end_ns", "bytes", "critical", "waited_for")


def _table(columns: Row, rows: Iterable[Row]) -> bytes:
    return csv_text([str(name) for name in columns], rows).encode()


def _loads(problem: PlacementProblem, solution: PlacementSolution) -> bytes:
    """A line per operation with its device and time."""
    problem, solution = as_placed(problem, solution)
    devices = problem.devices_of(solution)
    rows = ((name, problem.device_names[d], int(problem.time[v, d]))
            for v, (name, d) in enumerate(zip(problem.names, devices.tolist(), strict=True)))  # fmt: skip
    return _table(("operation", "device", "time_ns"), rows)


def _rows(line: Timeline) -> Iterator[Row]:
    """Operations and transfers by their starts; ``waited_for`` is said of those on the critical chain."""
    names, sizes = line.problem.device_names, line.problem.storages.bytes.tolist()
    by_operation = {piece.operation: piece for piece in line.chain if piece.kind == "compute"}
    by_move = {piece.move: piece for piece in line.chain if piece.kind == "transfer"}
    found: list[tuple[int, int, Row]] = []
    for v, name in enumerate(line.problem.names):
        place, size = names[line.device[v]], int(line.problem.weights[v])
        row = ("operation", name, place, line.start[v], line.end[v], size, *_held(by_operation.get(v)))
        found.append((line.start[v], 0, row))
    for i, move in enumerate(line.moves):
        place = f"{names[move.source]} -> {names[move.target]}"
        row = ("transfer", line.name(move), place, move.start, move.end, sizes[move.storage], *_held(by_move.get(i)))
        found.append((move.start, 1, row))
    yield from (row for _, _, row in sorted(found, key=lambda one: one[:2]))


def _held(piece: Piece | None) -> tuple[int, str]:
    return (0, "") if piece is None else (1, piece.behind)
