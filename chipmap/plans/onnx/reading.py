"""An annotated ONNX model as a plan: the device of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.networks.importers.onnx.keys import node_keys
from chipmap.networks.importers.onnx.sequences import KINDS, PASSING
from chipmap.networks.importers.onnx.shapes import STANDARD
from chipmap.networks.importers.onnx_model import parsed
from chipmap.plans.onnx.annotation import devices_of
from chipmap.plans.onnx.nodes import node_of
from chipmap.records import InputError, Source, choices, nearest

if TYPE_CHECKING:
    import onnx

_EMIT = "`chipmap emit RUN --as onnx --model FILE` writes one."


def places_in(instance: Any, data: bytes, where: str) -> dict[str, int]:
    """Operation -> number of the chip or device of its node, for those that compute and whose node has one."""
    named = isinstance(instance, PlacementInstance)
    model = _Annotated(data, devices_of(instance), named, where)
    operations = {one.name: node_of(one, model.nodes) for one in instance.graph.operations}
    _same_network(instance, model.nodes, operations, where)
    wanted = _placed(instance)
    found = dict[str, int]()
    for one in instance.graph.operations:
        if one.name in wanted and (device := model.device(operations[one.name])) is not None:
            found[one.name] = device
    return found


def devices_in(data: bytes, devices: Sequence[str], where: str) -> dict[str, tuple[int | None, int]]:
    """Node -> number of its device (None: it has none), named as in ``devices``, and its pipeline stage (0: none)."""
    model = _Annotated(data, devices, True, where)
    return {key: (model.device(key), model.stage(key)) for key in model.nodes}


class _Annotated:
    """A model whose nodes say their devices; ``named``: names of devices count, where both have them."""

    def __init__(self, data: bytes, devices: Sequence[str], named: bool, where: str) -> None:
        self.where = where
        model = parsed(Source(where, data))
        self.nodes = dict(zip(node_keys(model.graph.node), model.graph.node, strict=True))
        if "configuration" not in model.DESCRIPTOR.fields_by_name:
            raise InputError("needs a newer package onnx", where, 'Install it: pip install "chipmap[onnx]"')
        self.chosen = _configuration(model, len(devices), where)
        self.numbers = _numbers(devices, named, self.chosen, where)

    def device(self, key: str) -> int | None:
        """The number of a node's device."""
        device = _device(key, self.nodes[key], self.chosen, self.where)
        if device is not None and device not in self.numbers:
            what = f"node {key!r} is on device {device}"
            raise InputError(what, self.where, f"There are {len(self.numbers)}, from 0 on.")
        return None if device is None else self.numbers[device]

    def stage(self, key: str) -> int:
        """A node's pipeline stage; 0 where it says none."""
        said = [one for one in self.nodes[key].device_configurations if one.configuration_id == self.chosen.name]
        return next((one.pipeline_stage for one in said if one.HasField("pipeline_stage")), 0)


def _placed(instance: Any) -> set[str]:
    """The operations that a mapping places."""
    if isinstance(instance, PlacementInstance):
        return {*placement_problem(instance).names}
    return {one.name for one in instance.graph.operations if one.role == "compute"}


def _configuration(model: onnx.ModelProto, devices: int, where: str) -> onnx.DeviceConfigurationProto:
    """The configuration that the nodes are annotated for."""
    known = {one.name: one for one in model.configuration}
    used = dict[str, str]()
    for node in model.graph.node:
        for said in node.device_configurations:
            used.setdefault(said.configuration_id, node.name or node.op_type)
    if not used:
        raise InputError("no node of the model has a device", where, f"Annotate its nodes: {_EMIT}")
    for name, node in used.items():
        if name not in known:
            remedy = choices(name, list(known), "There are") if known else "Add it to the model."
            raise InputError(f"node {node!r} names a configuration {name!r} that isn't there", where, remedy)
    fitting = [name for name in used if len(used) == 1 or known[name].num_devices == devices]
    if len(fitting) != 1:
        what = f"the model has several configurations: {', '.join(used)}"
        raise InputError(what, where, "Leave one, that of these devices.")
    return known[fitting[0]]


def _numbers(ours: Sequence[str], named: bool, chosen: onnx.DeviceConfigurationProto, where: str) -> dict[int, int]:
    """Device of the configuration -> device of the instance: by names where both have them, else by numbers."""
    names = list(chosen.device)
    if not named or not names or not {*names} & {*ours}:
        return {d: d for d in range(min(len(ours), chosen.num_devices))}
    wrong = next((name for name in names if name not in ours), None)
    if wrong is not None:
        what = f"configuration {chosen.name!r} has a device {wrong!r}"
        raise InputError(what, where, choices(wrong, ours, "There are"))
    return {d: list(ours).index(name) for d, name in enumerate(names)}


def _device(key: str, node: onnx.NodeProto, chosen: onnx.DeviceConfigurationProto, where: str) -> int | None:
    """The device of a node: of its results, else of its operands, else its stage; None where nothing is said."""
    found, remedy = set[int](), "Name one device for each node: a chip runs an operation whole."
    said = [one for one in node.device_configurations if one.configuration_id == chosen.name]
    for one in said:
        made = [spec for spec in one.sharding_spec if spec.tensor_name in node.output]
        for spec in made or one.sharding_spec:
            parts = [part.num_shards for dim in spec.sharded_dim for part in dim.simple_sharding if part.num_shards > 1]
            if parts:
                raise InputError(f"node {key!r} is split: {spec.tensor_name!r} in {parts[0]} parts", where, remedy)
            groups = {pair.key: list(pair.value) for pair in spec.index_to_device_group_map}
            found |= {device for index in spec.device for device in groups.get(index, [index])}
    if not found:
        found = {one.pipeline_stage for one in said if one.HasField("pipeline_stage")}
    if len(found) > 1:
        listed = " and ".join(map(str, sorted(found)))
        raise InputError(f"node {key!r} is on devices {listed}", where, remedy)
    return found.pop() if found else None


def _same_network(
    instance: Any, nodes: Mapping[str, onnx.NodeProto], operations: Mapping[str, str], where: str
) -> None:
    """Refuse a model whose nodes aren't those of the instance's network."""
    remedy = "Take the model of this network, or name the instance that it was made for."
    for one in instance.graph.operations:
        if one.role != "compute":
            continue
        key = operations[one.name]
        if not key:
            near = nearest(one.name, {*nodes})
            meant = f"Did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"the model has no node {one.name!r}, which is in the network", where, meant + remedy)
        node = nodes[key]
        kind = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
        if not one.node and kind != one.kind:
            raise InputError(f"node {key!r} is a {kind}, and a {one.kind} in the network", where, remedy)
    known = {*operations.values()}
    for key, node in nodes.items():
        if node.device_configurations and key not in known and node.op_type not in KINDS | PASSING:
            near = nearest(key, set(operations))
            meant = f"Did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"no operation leads to node {key!r}", where, meant + remedy)
