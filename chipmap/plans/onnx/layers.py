"""Schedules of one model (family ``multimodel``) as annotations: the chiplet and window of each node's layer.

A node's device is the number of its chiplet, its pipeline stage that of its window, from 0 on. Operations that run in a
layer have its place; what depends on no input of the network has none. An ONNX file holds one network: a schedule of
several is a table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chipmap.instances.multimodel.from_graph import chain, layers_of
from chipmap.instances.multimodel.instance import Model, MultiInstance, MultiSolution, Piece
from chipmap.instances.pinning import near_name
from chipmap.networks.importers.common import ImportedGraph
from chipmap.plans.onnx.annotation import CONFIGURATION, IR_VERSION
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Source

if TYPE_CHECKING:
    from chipmap.plans.onnx.program import OnnxProgram

FILE, PLAN, SCHEMA = "model.onnx", "stages.json", "onnx-layers/1"
_REMEDY = "Name the file that `chipmap convert` was given, or convert this one and solve it."


def suits(instance: MultiInstance) -> str | None:
    """Why a schedule can't be said so: it is of several models."""
    if len(instance.models) > 1:
        return f"it schedules {len(instance.models)} models, and an ONNX file holds one: csv says all of them"
    return None


def emit(instance: MultiInstance, solution: MultiSolution, options: EmitOptions) -> dict[str, str | bytes]:
    """The annotated model with its data, and the list of segments."""
    from chipmap.plans.onnx import writing
    from chipmap.plans.onnx.program import OnnxProgram

    program = OnnxProgram(options.model)
    layer_of = _layers(instance, program)
    data = writing.DataFile("model.data")
    model = writing.whole_model(program, (), data)
    model.ir_version = max(model.ir_version, IR_VERSION)
    chiplets = [one.name for one in instance.module.chiplets]
    model.configuration.add(name=CONFIGURATION, num_devices=len(chiplets), device=chiplets)
    places = _places(instance, solution)
    for key, node in zip(program.keys, model.graph.node, strict=True):
        if key in layer_of:
            window, chiplet = places[layer_of[key]]
            said = node.device_configurations.add(configuration_id=CONFIGURATION, pipeline_stage=window)
            for name in filter(None, node.output):
                said.sharding_spec.add(tensor_name=name, device=[chiplets.index(chiplet)])
    path = Path(options.model)
    plan = {
        "schema": SCHEMA,
        "run": msgspec.to_builtins(options.told),
        "model": {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        "windows": [[msgspec.to_builtins(piece) for piece in window] for window in solution.windows],
    }
    files = writing.contents({FILE: writing.serialised(writing.told(model, options), FILE)}, [data])
    return {**files, PLAN: json.dumps(plan, indent=1) + "\n"}


def adopt(instance: MultiInstance, data: bytes, where: str) -> Plan:
    """The schedule that the nodes of the layers say."""
    from chipmap.plans.onnx.reading import devices_in

    if len(instance.models) > 1:
        what = f"holds one network, and {instance.name!r} has {len(instance.models)} models"
        raise InputError(what, where, "Give a table: `chipmap emit RUN --as csv` writes one.")
    model, names = instance.models[0], [one.name for one in instance.module.chiplets]
    said = devices_in(data, names, where)
    placed: list[tuple[int, str]] = []
    nodes = _nodes(model, said, data, where)
    for layer in model.layers:
        device, window = said[nodes[layer.name]]
        if device is None:
            raise InputError(f"node {nodes[layer.name]!r} has no device", where, "Annotate the node of each layer.")
        placed.append((window, names[device]))
    count = max(window for window, _ in placed) + 1
    if count > instance.task.windows:
        what = f"there is no window {count - 1}"
        raise InputError(what, where, f"They run from 0 to {instance.task.windows - 1} (task.windows).")
    windows: list[list[Piece]] = [[] for _ in range(count)]
    first = 0
    for i, place in enumerate(placed):
        if i + 1 == len(placed) or placed[i + 1] != place:
            windows[place[0]].append(Piece(model=model.name, first=first, last=i, chiplet=place[1]))
            first = i + 1
    made = tuple(tuple(pieces) for pieces in windows)
    return Plan(solution=MultiSolution(instance=instance.name, windows=made))


def _nodes(model: Model, known: Collection[str], data: bytes, where: str) -> dict[str, str]:
    """Layer -> its node, of those that are ``known``."""
    from chipmap.networks.importers.onnx_model import read_typed

    found = {layer.name: layer.name for layer in model.layers}
    if not found.keys() <= set(known):  # several nodes share a name: the graph tells them apart
        graph = read_typed(Source(where, data))[0].graph
        found |= {one.name: one.node for one in graph.operations if one.node and one.name in found}
    for name, node in found.items():
        if node not in known:
            raise InputError(f"the model has no node {name!r}, which is a layer", where, near_name(name, known))
    return found


def _layers(instance: MultiInstance, program: OnnxProgram) -> dict[str, int]:
    """Node -> its layer. Refuses a model that isn't the one that the instance was made of."""
    graph, where, model = program.read, program.path, instance.models[0]
    if graph is None:
        raise InputError("takes more than the file to be read", where, "Save it with its dimensions as numbers.")
    parts = chain(ImportedGraph(graph=graph, time_ns=None, format="ONNX"), where)
    if len(parts) != len(model.layers):
        what = f"isn't the model of {instance.name!r}: it has {len(parts)} layers, and that {len(model.layers)}"
        raise InputError(what, where, _REMEDY)
    for part, layer in zip(parts, model.layers, strict=True):
        ours = (layer.name, layer.in_bytes, layer.weight_bytes, layer.out_bytes)
        if ours != (part.operation.name, part.in_bytes, part.weight_bytes, part.out_bytes):
            what = (
                f"isn't the model of {instance.name!r}: layer {part.operation.name!r} has other sizes or another name"
            )
            raise InputError(what, where, _REMEDY)
    order, place = layers_of(graph, where)
    for v in order:
        one = graph.operations[v]
        key = one.node or one.name
        if key not in program.at or program.kind(program.at[key]) != one.kind:
            raise InputError(
                f"layer {one.name!r} is inside a node that runs whole", where, "Unroll its loop or branch."
            )
    found: dict[str, int] = {}
    for v, at in place.items():
        one = graph.operations[v]
        key = one.node or one.name
        if at >= 0 and key in program.at:
            found.setdefault(key, at)
    return found


def _places(instance: MultiInstance, solution: MultiSolution) -> dict[int, tuple[int, str]]:
    """Layer -> its window and chiplet."""
    found: dict[int, tuple[int, str]] = {}
    for window, pieces in enumerate(solution.windows):
        for piece in pieces:
            found |= dict.fromkeys(range(piece.first, piece.last + 1), (window, piece.chiplet))
    return found
