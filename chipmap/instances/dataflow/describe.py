"""Figures of a dataflow instance for `chipmap info`, and a mapping as a table by the names of the kernels."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Any

import msgspec

from chipmap.instances.dataflow.axes import sizes
from chipmap.instances.dataflow.instance import BatchPlan, DataflowInstance, DataflowSolution, check_degrees
from chipmap.instances.dataflow.loads import chosen_options, listed_shares
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.parts import parts
from chipmap.instances.dataflow.plans import settled
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sizes import chip_weights, fetch_bytes, flop, output_bytes, parameter_bytes
from chipmap.instances.dataflow.tiles import sharing
from chipmap.records import InputError, csv_text

#: Columns for what is the same for all kernels: the parallelism of each dimension, and how the batch is run.
PLAN_COLUMNS = ("dimensions", *BatchPlan._fields)
_COLUMNS = ("layer", "name", "kind", "phase", "scheme", "partition", "compute_ps", "weight_bytes", "output_bytes")

#: What a task says of single kernels, of which only the number is shown.
_COUNTED = ("schemes", "together", "pins", "forbidden", "apart")


def describe(instance: DataflowInstance) -> dict[str, Any]:
    """The figures of ``instance``.

    ``axes``: how long is what kernels range over, by its names. ``tflop``, ``weights_mib`` and ``fetch_mib`` (read
    beside weights and tensors) are those of one layer before sharding (of a sample), ``tensors_mib`` all that its edges
    carry per micro-batch (of one sample, where it is to be chosen); ``peak_tflops`` is one chip's.
    """
    workload, chip = instance.workload, instance.system.chip
    each = settled(instance, instance.task.micro_batch or 1)
    size = {kernel.name: output_bytes(kernel, each) for kernel in workload.kernels}
    largest = max(workload.kernels, key=flop)
    return {
        "kernels": len(workload.kernels),
        "kinds": dict(sorted(Counter(kernel.kind for kernel in workload.kernels).items())),
        "phases": dict(sorted(Counter(kernel.phase for kernel in workload.kernels).items())),
        "edges": len(workload.edges),
        **({"axes": sizes(workload)} if workload.axes else {}),
        "layers": workload.layers,
        "tflop": sum(map(flop, workload.kernels)) / 1e12,
        "weights_mib": float(sum(parameter_bytes(kernel, instance) for kernel in workload.kernels)) / 2**20,
        "tensors_mib": float(sum(size[producer] for producer, _ in workload.edges)) / 2**20,
        "fetch_mib": float(sum(fetch_bytes(kernel, instance) for kernel in workload.kernels)) / 2**20,
        "largest": {"name": largest.name, "tflop": flop(largest) / 1e12},
        "chips": instance.system.chips,
        "chip": chip.name,
        "peak_tflops": chip.flop_per_ns / 1000,
        "sram_mib": chip.sram_bytes / 2**20,
        "network": " x ".join(f"{one.size} {one.topology}" for one in instance.system.network),
        **({"others": _others(instance)} if instance.system.others else {}),
        "mode": instance.mode,
        "task": {k: v for k, v in msgspec.to_builtins(instance.task).items() if k not in _COUNTED},
        "pinned_schemes": len(instance.task.schemes),
        **{name: len(getattr(instance.task, name)) for name in _COUNTED if name != "schemes"},
        "notes": instance.notes,
    }


def _others(instance: DataflowInstance) -> dict[str, str]:
    groups = instance.system.others
    return {one.name: f"{one.network.size} {one.chip.name}, {one.chip.flop_per_ns / 1000:g} TFLOP/s" for one in groups}


def files(instance: DataflowInstance, solution: DataflowSolution) -> dict[str, bytes]:
    """The files written beside a solution: ``mapping.csv``, a line per kernel (per layer and kernel where partitions
    reach across layers), with its compute time and its bytes on one chip, and the degrees and the plan of the batch;
    where kernels share tiles, its time on its tiles and their number, and where stages share out kernels its stage.

    Empty where the solution isn't one of ``instance``.
    """
    try:
        check_degrees(instance, solution.degrees)
        problem = dataflow_problem(instance, solution.degrees, *solution.plan)
        options = chosen_options(problem, solution)
    except (InputError, StopIteration):
        return {}
    numbers = range(len(solution.stages))
    if len(options) != len(solution.partitions) or (numbers and not set(solution.partitions) <= set(numbers)):
        return {}
    rows = []
    shared = _shared(problem, solution, options)
    alike = {"dimensions": " ".join(solution.degrees.dimensions), **solution.plan._asdict()}
    alike = {name: value for name, value in alike.items() if value is not None}
    more = [*alike, *(["tiles"] if shared else []), *(["stage"] if solution.stages else [])]
    for i, partition in enumerate(solution.partitions):
        layer, v = divmod(i, problem.n)
        kernel, option = instance.workload.kernels[v], options[i]
        row = (layer, kernel.name, kernel.kind, kernel.phase, option.scheme, partition)
        tiles, ticks = shared.get(i, (0, option.compute))
        stage = [solution.stages[partition]] if solution.stages else []
        at = routed(instance, solution.degrees)
        here = parts(kernel, option.scheme, instance.mode, solution.degrees.tensor, at)
        weights = ceil(chip_weights(kernel, instance, here.weights))
        rows.append((*row, ticks, weights, option.output, *alike.values(), *([tiles] if shared else []), *stage))
    return {"mapping.csv": csv_text((*_COLUMNS, *more), rows).encode()}


def _shared(problem: DataflowProblem, solution: DataflowSolution, options: list[Option]) -> dict[int, tuple[int, int]]:
    """Tiles and picoseconds of each kernel, where kernels share tiles and each partition has enough."""
    found: dict[int, tuple[int, int]] = {}
    total = problem.instance.system.chip.tiles
    for partition in set(solution.partitions) if problem.shares else ():
        inside = [i for i, p in enumerate(solution.partitions) if p == partition]
        listed = listed_shares(problem, options, inside)
        best = sharing(listed, total)
        for i, one, tiles in zip(inside, listed, best.tiles if best else (), strict=best is not None):
            found[i] = (tiles, int(one[one[:, 0] == tiles][0, 1]))
    return found if len(found) == len(solution.partitions) else {}
