"""Devices of nodes in an ONNX model: ``DeviceConfigurationProto`` and ``NodeDeviceConfigurationProto`` (IR version 11).

A node that one chip runs has that chip's stage, and for each of its results the chip's number. One without a chip of
its own (a view, a constant) has all chips that make it, and the first one's stage. A copy (``node@reader``) is a node
of that name, whose results its readers read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.plans.onnx.cutting import StageModel
from chipmap.plans.onnx.nodes import node_of
from chipmap.plans.onnx.program import OnnxProgram
from chipmap.plans.stages import StageOf

if TYPE_CHECKING:
    import onnx

#: What the configuration is called, and the version of the format that has them.
CONFIGURATION, IR_VERSION = "chipmap", 11


def devices_of(instance: Any) -> list[str]:
    """The names of an instance's chips or devices."""
    if isinstance(instance, PlacementInstance):
        return [one.name for one in instance.system.devices]
    return [f"chip{chip}" for chip in range(instance.package.chips)]


def annotate(
    model: onnx.ModelProto, program: OnnxProgram, instance: Any, stages: Sequence[StageOf], parts: Sequence[StageModel]
) -> None:
    """Give each node of the whole model its devices; ``parts`` are the models of the ``stages``."""
    names = devices_of(instance)
    number = [one.place if isinstance(one.place, int) else names.index(one.place) for one in stages]
    model.ir_version = max(model.ir_version, IR_VERSION)
    model.configuration.add(name=CONFIGURATION, num_devices=len(names), device=names)
    stage_of = {name: s for s, stage in enumerate(stages) for name in stage.operations}
    run_by: dict[int, list[int]] = {}
    for s, part in enumerate(parts):
        for i in {*part.nodes, *part.known.values()}:
            run_by.setdefault(i, []).append(s)
    own = dict[int, int]()  # node -> the stage of its operation, or of those inside it
    for one in instance.graph.operations:
        key = one.node or one.name
        if key in program.at and one.name in stage_of:
            own[program.at[key]] = stage_of[one.name]
    for i, node in enumerate(model.graph.node):
        _say(node, [own[i]] if i in own else run_by.get(i, []), number)
    for node, name in _add_copies(model, program, instance):
        _say(node, [stage_of[name]] if name in stage_of else [], number)


def _say(node: onnx.NodeProto, stages: Sequence[int], number: Sequence[int]) -> None:
    """Note the devices of the ``stages`` that run a node; nothing of a node that none runs."""
    if not stages:
        return
    said = node.device_configurations.add(configuration_id=CONFIGURATION, pipeline_stage=stages[0])
    for name in filter(None, node.output):
        said.sharding_spec.add(tensor_name=name, device=[number[s] for s in stages])


def _add_copies(model: onnx.ModelProto, program: OnnxProgram, instance: Any) -> list[tuple[onnx.NodeProto, str]]:
    """Add a node for each operation that is a copy, and let its readers read it; (node, operation) of each."""
    graph = instance.graph
    bases = [program.at.get(node_of(one, program.at), -1) for one in graph.operations]
    copies = {v for v, one in enumerate(graph.operations) if bases[v] >= 0 and (one.node or one.name) not in program.at}
    if not copies:
        return []
    reads, nodes = graph.reads(), list(model.graph.node)
    made: dict[int, list[tuple[Any, str]]] = {}
    for v, one in enumerate(graph.operations):
        if bases[v] < 0:
            continue
        node = nodes[bases[v]]
        renamed = {
            name: f"{name}@{graph.operations[u].name}"
            for u in reads[v]
            if u in copies
            for name in program.nodes[bases[u]].output
        }
        if v in copies:
            node = type(node)()
            node.CopyFrom(program.nodes[bases[v]])
            node.name = one.name
            node.output[:] = [f"{name}@{one.name}" if name else "" for name in node.output]
            made.setdefault(bases[v], []).append((node, one.name))
        node.input[:] = [renamed.get(name, name) for name in node.input]
    del model.graph.node[:]
    added = list[tuple[Any, str]]()
    for i, node in enumerate(nodes):
        model.graph.node.append(node)
        for copy, name in made.get(i, ()):
            model.graph.node.append(copy)
            added.append((model.graph.node[-1], name))
    return added
