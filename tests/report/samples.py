"""A small ring instance, runs on it through Run and checker, and their archives."""

from __future__ import annotations

from pathlib import Path

from chipmap.archive import Writer
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.result import Result, Status, solution_json
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.checker import check


def chain(count: int = 8, chips: int = 4, name: str = "ring/chain", **fields: object) -> RingInstance:
    """A chain of ``count`` operations of 1 µs each, with tensors that take 0.25 µs on a link."""
    operations = tuple(Operation(name=f"op{v}", kind=("mm", "relu")[v % 2], flop=4_000_000) for v in range(count))
    tensors = tuple(Tensor(producer=v, readers=(v + 1,), bytes=8000) for v in range(count - 1))
    graph = OperationGraph(name=name, operations=operations, tensors=tensors)
    return RingInstance.make(name=name, graph=graph, package=Package(chips=chips), **fields)


def result(
    instance: RingInstance,
    mappings: list[tuple[int, ...]],
    proved: list[int],
    method: str = "ring/auto",
    **fields: object,
) -> Result:
    """The result of a run that proved bounds (ticks) and then found ``mappings``, with the checker's words."""
    run = Run(instance=instance, options=SolveOptions(), check=check)
    for value in proved:
        run.bound(value, f"bound {value}")
    last = None
    for i, chips in enumerate(mappings):
        last = run.solution(RingSolution(instance=instance.name, chips=chips), f"source {i}")
    status: Status = "unknown" if run.best is None else "optimal" if run.gap == 0.0 else "feasible"
    parts = {
        "instance": instance.name,
        "instance_hash": instance.content_hash,
        "family": "ring",
        "method": method,
        "status": status,
        "objective": run.upper,
        "bound": run.lower.value if run.lower else None,
        "gap": run.gap,
        "incumbent_source": run.best.source if run.best else "",
        "solution": solution_json(run.best.solution) if run.best else None,
        "certificate": run.best.certificate if run.best else last,
        "bounds": tuple(run.bounds),
        "termination": run.terminate(),
        "trace": tuple(run.trace),
        "timings": {"total": 1.5, "solve": 1.25},
    }
    return Result.make(**(parts | fields))


def archived(target: Path, instance: RingInstance, outcome: Result) -> Path:
    """``outcome`` as an archive at ``target``."""
    return Writer(target).finish(outcome, instance, {}, {"python": "3.11"})
