"""A small file of each kind that family placement reads, and what reads it: instances are solved, solutions checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from chipmap.family import get_family
from chipmap.inputs.reading import decode
from chipmap.inputs.solutions import read_solution
from chipmap.instances.placement import (
    Device,
    DeviceClass,
    Forbidden,
    Links,
    Pin,
    PlacementInstance,
    PlacementSolution,
    Route,
    System,
    Task,
)
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.placement.checker import check

#: Seconds of a solve.
SECONDS = 1.0


def _graph() -> OperationGraph:
    """An input, a weight with two readers, two branches with a view in one, and an end."""
    operations = (
        Operation(name="x", kind="input", role="input"),
        Operation(name="table", kind="weight", role="constant"),
        Operation(name="a.one", kind="matmul", flop=9000, weight_bytes=64),
        Operation(name="a.flat", kind="reshape", role="view"),
        Operation(name="a.two", kind="matmul", flop=5000, weight_bytes=32),
        Operation(name="b.one", kind="relu", flop=300),
        Operation(name="end", kind="add", flop=100),
    )
    tensors = (
        Tensor(producer=0, readers=(2,), bytes=16),
        Tensor(producer=1, readers=(4, 5), bytes=48),
        Tensor(producer=2, readers=(3, 5), bytes=24),
        Tensor(producer=3, readers=(4,), bytes=24),
        Tensor(producer=4, readers=(6,), bytes=20),
        Tensor(producer=5, readers=(6,), bytes=12),
        Tensor(producer=6, bytes=8, output=True),
    )
    return OperationGraph.checked("small", operations, tensors)


def _system() -> System:
    classes = (
        DeviceClass(name="cpu", flop_per_ns=100.0, memory_bytes_per_ns=20.0, launch_ns=1.5, pays_transfers=False),
        DeviceClass(name="gpu", efficiency={"matmul": 0.5}, gap_ns=2, supports=("matmul", "relu", "add", "reshape")),
    )
    devices = (
        Device(name="host", kind="cpu"),
        Device(name="g0", kind="gpu", memory_bytes=400, host="left"),
        Device(name="g1", kind="gpu", memory_bytes=500, host="right"),
    )
    return System(classes=classes, devices=devices, links=Links(kind="host", latency_ns=3.0, bytes_per_ns=2.0))


TIMED = PlacementInstance(
    name="timed",
    task=Task(weights="variable", limit_ns=5000),
    graph=_graph(),
    system=_system().replace(
        routes=(Route(source="g0", target="g1", bytes_per_ns=8.0, channels=("a", "b"), gap_ns=1),),
    ),
    time_ns={"gpu": (None, None, 12.5, None, 9.0, 3.0, None)},
    transfer_ns=(None, 30.0, None, None, None, None, None),
    together=(("a.one", "b.one"),),
    pins=(Pin(operation="end", device="g1"), Pin(operation="a.one", device="g0")),
    forbidden=(Forbidden(operation="a.two", devices=("host",)),),
    scopes=("", "", "a", "a", "a", "b", ""),
)
LOADS = TIMED.replace(
    name="loads",
    task=Task(objective="throughput", memory="static", contiguous=True),
    system=_system(),
    backward=("b.one",),
)


@cache
def solved(which: str) -> PlacementSolution:
    """A solution of one of the instances."""
    result = solve(INSTANCES[which], "starts", SolveOptions(threads=1))
    assert result.solution is not None
    return PlacementSolution.make(**result.solution)


INSTANCES = {"timed": TIMED, "loads": LOADS}


def read_and_solve(data: bytes) -> None:
    """Read an instance and solve it for a second; what is found must be valid and no better than its bound."""
    instance = decode(data, "mutated.json")
    if not isinstance(instance, PlacementInstance):
        return
    result = solve(instance, "auto", SolveOptions(time_limit=SECONDS, threads=1))
    assert result.status != "error" and not result.failure, result.failure
    if result.solution is not None:
        certificate = check(instance, PlacementSolution.make(**result.solution))
        assert certificate.feasible and certificate.objective is not None and certificate.objective == result.objective
        assert result.bound is None or result.bound <= certificate.objective


def check_for(which: str) -> Callable[[bytes], None]:
    """What reads a solution of an instance and has it checked."""

    def work(data: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "solution.json"
            path.write_bytes(data)
            solution = read_solution(path, get_family("placement"), INSTANCES[which])
        assert isinstance(solution, PlacementSolution)
        certificate = check(INSTANCES[which], solution)
        assert certificate.feasible == (not certificate.violations)

    return work


Reader = Callable[[bytes], None]
SPLIT = json.dumps({"a": 1, "b": "g0", "end": "g1", "": "host"}).encode()
#: Format -> what makes (a file, what reads it).
FORMATS: dict[str, Callable[[], tuple[bytes, Reader]]] = {
    "placement": lambda: (TIMED.to_json(), read_and_solve),
    "placement-loads": lambda: (LOADS.to_json(), read_and_solve),
    "placement-schedule": lambda: (solved("timed").to_json(), check_for("timed")),
    "placement-devices": lambda: (solved("loads").to_json(), check_for("loads")),
    "placement-map": lambda: (SPLIT, check_for("loads")),
}
