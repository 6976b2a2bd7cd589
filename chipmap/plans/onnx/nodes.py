"""How operations of an instance lead back to the nodes of its ONNX model, and which mappings can be said of these."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from chipmap.networks.graph import Operation
from chipmap.plans.onnx.program import OnnxProgram
from chipmap.plans.stages import StageOf, stages_of
from chipmap.records import InputError, Record

#: What joins the name of a copy: ``node@reader``.
COPY = "@"
_REMEDY = "Name the file that `chipmap convert` was given, or convert this one and solve it."


def from_onnx(instance: Any) -> bool:
    """Whether the instance's graph was read from an ONNX model."""
    return bool(instance.graph.source.startswith("ONNX"))


def node_of(operation: Operation, keys: Container[str]) -> str:
    """The node (one of ``keys``) that an operation is, is inside of, or is a copy of; "" where it is none."""
    name = operation.node or operation.name
    if name in keys:
        return name
    ends = [i for i, letter in enumerate(name) if letter == COPY]
    return next((name[:i] for i in reversed(ends) if name[:i] in keys), "")


def unsuited(instance: Record, solution: Record | None) -> str | None:
    """Why a mapping can't be said of the nodes of an ONNX model; None: it can."""
    graph = getattr(instance, "graph", None)
    if graph is None or not from_onnx(instance):
        return "the instance isn't converted from an ONNX model (.onnx)"
    if getattr(instance, "backward", ()):
        return "it is a training step, and the ONNX model has no backward pass"
    relay = next((o.name for o in graph.operations if o.kind == "identity" and "/relay" in o.name), None)
    if relay is not None:
        return f"operation {relay!r} hands a tensor on, and is no node of the model"
    if solution is None:
        return None
    try:
        stages = stages_of(instance, solution)
    except InputError as error:
        return error.what
    return _torn(instance, stages)


def _torn(instance: Any, stages: list[StageOf]) -> str | None:
    """A node with graphs in it whose operations are on several chips, in words."""
    inside = {one.name: one.node for one in instance.graph.operations if one.node}
    first: dict[str, int | str] = {}
    for stage in stages:
        for name in stage.operations:
            node = inside.get(name)
            if node is not None and first.setdefault(node, stage.place) != stage.place:
                what = f"node {node!r} runs whole, and its operations are on {first[node]!r} and {stage.place!r}"
                return f"{what}: keep them together"
    return None


def check_model(instance: Any, program: OnnxProgram) -> None:
    """Refuse a model that isn't the one whose graph the instance has."""
    at, where = program.at, program.path
    found = set[str]()
    for one in instance.graph.operations:
        if one.role != "compute":
            continue
        key = node_of(one, at)
        kind = program.kind(at[key]) if key else ""
        if not key or (one.kind != kind and not one.node):
            raise InputError(f"isn't the model of {instance.name!r}: it has no node {one.name!r}", where, _REMEDY)
        found.add(key)
    if program.read is None:  # dimensions or branches that were given when it was converted: sizes aren't compared
        return
    read = program.read
    ours = {one.name: (one, size) for one, size in _sized(instance.graph)}
    changed = len(ours) != len(read.operations)  # copies take readers and weights along
    for one, size in _sized(read):
        there, written = ours.get(one.name, (None, 0))
        if one.role == "compute" and there is None:
            raise InputError(f"isn't the model of {instance.name!r}: that has no {one.name!r}", where, _REMEDY)
        if there is None or changed or one.role != "compute":
            continue
        if (there.weight_bytes, written) != (one.weight_bytes, size):
            what = f"isn't the model of {instance.name!r}: {one.name!r} has weights of {one.weight_bytes:,} bytes and "
            what += f"makes {size:,}, there {there.weight_bytes:,} and {written:,}"
            raise InputError(what, where, _REMEDY)


def _sized(graph: Any) -> zip[tuple[Operation, int]]:
    return zip(graph.operations, graph.written_bytes(), strict=True)


def homes_of(instance: Any, stages: list[StageOf], program: OnnxProgram) -> dict[int, list[int]]:
    """Node -> the stages in which operations of it run, in their order; others run wherever they are needed."""
    stage_of = {name: s for s, stage in enumerate(stages) for name in stage.operations}
    found: dict[int, set[int]] = {}
    for one in instance.graph.operations:
        if one.name in stage_of:
            found.setdefault(program.at[node_of(one, program.at)], set()).add(stage_of[one.name])
    return {i: sorted(homes) for i, homes in found.items()}
