"""Format ``torch-pipeline``: stages of torch.distributed.pipelining, cut node by node from an exported program.

``stages.json`` says which operations each stage runs, the program's file with its SHA-256, and the plan in terms of
modules where it is one. ``run.py`` cuts the program along it (with ``cutting.py``) and runs it. Writing needs no
PyTorch: of the program, the graph is read, and compared with the instance's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.plans import chips, devices
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.plans.stages import stages_of
from chipmap.plans.torch_pipeline.modules import module_lists, split_points
from chipmap.plans.torch_pipeline.nodes import node_of, unsuited
from chipmap.records import InputError, Record

FILE, SCHEMA = "stages.json", "torch-pipeline/1"
SCRIPTS = ("run.py", "cutting.py")
_PACKAGE = "chipmap.plans.torch_pipeline.script"


class _Stage(msgspec.Struct, frozen=True):
    place: int | str
    operations: list[str]


class _Read(msgspec.Struct, frozen=True):
    """What is read of ``stages.json``."""

    schema: str
    stages: list[_Stage]


def suits(instance: Record, solution: Record | None) -> str | None:
    """A mapping of an exported program whose stages have an order."""
    return unsuited(instance, solution)


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The plan and the scripts."""
    path = Path(options.model)
    read = import_graph(str(path))
    _of_this_graph(instance, read, str(path))
    stages = stages_of(instance, solution)
    nodes = [[node for node in map(node_of, stage.operations) if node] for stage in stages]
    modules = dict(zip((one.name for one in read.graph.operations), read.scopes, strict=False))
    plan = {
        "schema": SCHEMA,
        "run": msgspec.to_builtins(options.told),
        "model": {"file": str(path.resolve()), "sha256": _digest(path)},
        **_said("split_points", split_points(nodes, modules)),
        **_said("module_lists", module_lists(nodes, modules)),
        "stages": [{"place": stage.place, "operations": list(stage.operations)} for stage in stages],
    }
    return {FILE: json.dumps(plan, indent=1) + "\n", **{name: _script(name) for name in SCRIPTS}}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it is JSON that names the schema."""
    return data.lstrip()[:1] == b"{" and f'"{SCHEMA}"'.encode() in data[:200]


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan of ``stages.json``."""
    try:
        read = msgspec.json.decode(data, type=_Read)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no plan of stages: {error}", where, f"Give {FILE} as `chipmap emit` writes it.") from None
    placed: dict[str, Any] = {}
    for name, place in ((name, stage.place) for stage in read.stages for name in stage.operations):
        if placed.setdefault(name, place) != place:
            raise InputError(f"puts {name!r} on {placed[name]} and on {place}", where, "Name it in one stage.")
    if isinstance(instance, PlacementInstance):
        return devices.plan_of(instance, {name: str(place) for name, place in placed.items()}, where)
    wrong = next((place for place in placed.values() if not isinstance(place, int)), None)
    if wrong is not None:
        raise InputError(f"{wrong!r} is no chip", where, "Give the chip's number, from 0 on.")
    return chips.plan_of(instance, placed, where)


def _of_this_graph(instance: Any, read: ImportedGraph, where: str) -> None:
    """Refuse a program that isn't the one whose graph the instance has."""
    remedy = "Name the file that `chipmap convert` was given, or convert this one and solve it."
    known = {one.name: one for one in read.graph.operations}
    covered = set[str]()
    for one in instance.graph.operations:
        node = node_of(one.name)
        if one.role != "compute" or not node:
            continue
        covered.add(node)
        there = known.get(node)
        if there is None or (there.kind, there.role) != (one.kind, one.role):
            raise InputError(f"isn't the program of {instance.name!r}: it has no operator {node!r}", where, remedy)
        if (there.flop, there.weight_bytes) != (one.flop, one.weight_bytes):
            raise InputError(f"isn't the program of {instance.name!r}: {node!r} has other sizes", where, remedy)
    missing = next((name for name, one in known.items() if one.role == "compute" and name not in covered), None)
    if missing is not None:
        raise InputError(f"isn't the program of {instance.name!r}: that has no {missing!r}", where, remedy)


def _said(name: str, found: Sequence[Any] | dict[str, str] | str) -> dict[str, Any]:
    """A form of the plan, or under ``no_NAME`` why there is none."""
    return {f"no_{name}": found} if isinstance(found, str) else {name: found}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _script(name: str) -> str:
    """A script as it stands beside the others, without chipmap."""
    text = files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")
    return text.replace(f"from {_PACKAGE}.cutting import", "from cutting import")
