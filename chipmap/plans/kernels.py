"""Plans of family ``dataflow`` as tables: a line per kernel with its scheme and partition, as ``mapping.csv`` has them.

Columns are found by their names: ``name`` (or ``kernel``), and any of ``scheme``, ``partition``, ``stage``, ``layer``,
``dimensions`` (the parallelism of each dimension of the network), ``micro_batch``, ``chunks``, ``recompute``, ``shard``
and ``keep``. Others say nothing. What is said of all kernels alike stands in each line. A kernel or a cell may be left
out: the plan is partial then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from chipmap.instances.dataflow.describe import PLAN_COLUMNS, files
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, check_degrees
from chipmap.instances.dataflow.pins import Pin
from chipmap.instances.dataflow.plan import KEEPS, SHARDS, BatchPlan, Recompute
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.workload import Scheme
from chipmap.plans import rows
from chipmap.plans.plan import Plan
from chipmap.records import InputError, choices, counted

KERNEL, SAID = ("name", "kernel", "operation"), ("scheme", "partition")
_REMEDY = "Give a table with the columns name, scheme and partition, as mapping.csv of a run has them."


@dataclass
class _Table:
    """What a table says: (layer, kernel) -> scheme, partition and stage, and what it says of all of them."""

    scheme: dict[tuple[int, str], str] = field(default_factory=dict)
    partition: dict[tuple[int, str], int] = field(default_factory=dict)
    stage: dict[int, int] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)


def emit(instance: DataflowInstance, solution: DataflowSolution) -> bytes:
    """The table of a mapping."""
    return files(instance, solution)["mapping.csv"]


def recognise(data: bytes) -> bool:
    """Whether the first line names a column of kernels, and one of schemes or partitions."""
    head = rows.heading(data)
    return any(name in head for name in KERNEL) and any(name in head for name in SAID)


def adopt(instance: DataflowInstance, data: bytes, where: str) -> Plan:
    """The plan that a table says."""
    table = _read(instance, data, where)
    layers, names = instance.mapped_layers, [kernel.name for kernel in instance.workload.kernels]
    every = [(layer, name) for layer in range(layers) for name in names]
    degrees = _degrees(instance, table, where)
    plan = _batch(table, where)
    places = _places(instance, table)
    whole = all(key in table.scheme and key in table.partition for key in every)
    if whole and degrees is not None:
        stages = _stages(instance, table, degrees, where)
        mapping = DataflowSolution.make(
            instance=instance.name,
            degrees=degrees,
            schemes=[table.scheme[key] for key in every],
            partitions=[table.partition[key] for key in every],
            stages=stages,
            **{name: value for name, value in plan._asdict().items() if value is not None},
        )
        return Plan(solution=mapping, places=places)
    open_ = next(((layer, name) for layer, name in every if (layer, name) not in table.partition), None)
    left = "the parallelism of the network's dimensions is open"
    if open_ is not None or not whole:
        first = open_ or next(key for key in every if key not in table.scheme)
        left = f"kernel {first[1]!r} has no {'partition' if open_ else 'scheme'}"
    pinned = _pinned(instance, table, degrees, plan, places, where)
    covered = f"{len(table.partition):,} partitions and {len(table.scheme):,} schemes"
    covered += f" of {counted(len(every), 'kernel')}"
    return Plan(pinned=pinned, covered=covered, left=left, places=places)


def _read(instance: DataflowInstance, data: bytes, where: str) -> _Table:
    known = dict.fromkeys(kernel.name for kernel in instance.workload.kernels)
    table, layers = _Table(), instance.mapped_layers
    for here, cells in rows.lines(data, where, {"kernels": KERNEL}, _REMEDY):
        name = rows.named(cells["name"], known)
        if name not in known:
            raise InputError(f"no kernel is called {name!r}", here, choices(name, known, "There are"))
        layer = rows.number(cells["layer"], "layer", here) if cells.get("layer") else 0
        if layer >= layers:
            raise InputError(f"there is no layer {layer}", here, f"A mapping of this instance has {layers}.")
        if cells.get("scheme"):
            _known(cells["scheme"], get_args(Scheme), "scheme", here)
            _once(table.scheme, (layer, name), cells["scheme"], "scheme", here)
        if cells.get("partition"):
            partition = rows.number(cells["partition"], "partition", here)
            _once(table.partition, (layer, name), partition, "partition", here)
            if cells.get("stage"):
                stage = rows.number(cells["stage"], "stage", here)
                if table.stage.setdefault(partition, stage) != stage:
                    what = f"puts partition {partition} in stages {table.stage[partition]} and {stage}"
                    raise InputError(what, here, "A partition lies in one stage.")
        for column in PLAN_COLUMNS:
            if (cell := cells.get(column)) and table.alike.setdefault(column, cell) != cell:
                what = f"says {column} {table.alike[column]!r} and {cell!r}"
                raise InputError(what, here, "It is the same for all kernels.")
    return table


def _known(cell: str, known: Sequence[str], what: str, here: str) -> None:
    if cell not in known:
        raise InputError(f"{cell!r} is no {what}", here, choices(cell, known, "There are"))


def _once(said: dict[Any, Any], key: tuple[int, str], value: Any, what: str, here: str) -> None:
    if said.setdefault(key, value) != value:
        raise InputError(f"kernel {key[1]!r} has {what} {said[key]!r} already", here, "Name it once.")


def _degrees(instance: DataflowInstance, table: _Table, where: str) -> Degrees | None:
    """The degrees that the table says, or the only ones that there are."""
    said = table.alike.get("dimensions")
    if said is None:
        only = allowed_degrees(instance)
        return only[0] if len(only) == 1 else None
    uses = said.split()
    sizes = [one.size for one in instance.system.network]
    if len(uses) != len(sizes):
        what = f"names the parallelism of {counted(len(uses), 'dimension')}, the network has {len(sizes)}"
        raise InputError(what, f"{where}: dimensions", "Say tensor, pipeline, data or expert for each, with blanks.")
    try:
        degrees = Degrees.make(dimensions=uses, **Degrees.held(sizes, tuple(uses)))  # type: ignore[arg-type]
    except (InputError, msgspec.ValidationError, KeyError, ValueError):
        raise InputError(
            f"{said!r} is no parallelism", f"{where}: dimensions", "Say tensor, pipeline, data or expert."
        ) from None
    check_degrees(instance, degrees, f"{where}: dimensions")
    return degrees


def _batch(table: _Table, where: str) -> BatchPlan:
    """How the batch is run, as far as it is said."""
    said: dict[str, Any] = {column: table.alike.get(column) for column in BatchPlan._fields}
    for column in ("micro_batch", "chunks"):
        if said[column] is not None:
            said[column] = rows.number(said[column], column, where)
    for column, known in {"recompute": get_args(Recompute), "shard": SHARDS, "keep": KEEPS}.items():
        if said[column] is not None:
            _known(said[column], known, column, where)
    return BatchPlan(**said)


def _places(instance: DataflowInstance, table: _Table) -> dict[str, int] | None:
    """The partition of each kernel as pins count them; None where these have no meaning.

    The numbers of a table that has all kernels are counted; in one that hasn't they are taken as pins'.
    """
    if instance.mapped_layers > 1 or not instance.asked[2] or not table.partition:
        return None
    phase = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    found = {name: partition for (_, name), partition in table.partition.items()}
    if len(found) < len(phase):
        return found
    used = {one: sorted({p for name, p in found.items() if phase[name] == one}) for one in set(phase.values())}
    return {name: used[phase[name]].index(partition) for name, partition in found.items()}


def _stages(instance: DataflowInstance, table: _Table, degrees: Degrees, where: str) -> tuple[int, ...]:
    """The stage of each number of a partition; those of no kernel lie where the one before lies."""
    if instance.task.stages == "layers":
        return ()
    if not table.stage and degrees.pipeline > 1:
        raise InputError("has no column stage", where, "Add one: the stage of each kernel's partition.")
    found, last = list[int](), 0
    for partition in range(max(table.partition.values()) + 1):
        last = table.stage.get(partition, last)
        found.append(last)
    return tuple(found) if table.stage else ()


def _pinned(
    instance: DataflowInstance,
    table: _Table,
    degrees: Degrees | None,
    plan: BatchPlan,
    places: dict[str, int] | None,
    where: str,
) -> DataflowInstance:
    """The instance whose mappings keep to the table."""
    remedy = "Say all: scheme and partition of each kernel in each layer, stages, and dimensions."
    if instance.mapped_layers > 1:
        raise InputError("leaves something open, and partitions reach across layers", where, remedy)
    if table.stage:
        raise InputError("leaves something open, and stages share out kernels", where, remedy)
    task = instance.task
    schemes = {**task.schemes, **{name: scheme for (_, name), scheme in table.scheme.items()}}
    known = {pin.kernel for pin in task.pins}
    pins = (*task.pins, *(Pin(kernel=name, partition=p) for name, p in (places or {}).items() if name not in known))
    said = {name: value for name, value in plan._asdict().items() if value is not None}
    made = task.replace(schemes=schemes, pins=pins, degrees=degrees or task.degrees, **said)
    pinned = instance.replace(task=made)
    pinned.check()
    return pinned
