"""Device maps of networks with modules: keys are modules, parameters and buffers, of which each has a device."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from random import Random
from typing import Any

from chipmap.instances.placement import Device, DeviceClass, Links, PlacementInstance, PlacementSolution, System, Task
from chipmap.instances.placement.from_graph import training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.splits import read_split
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.plans.device_map.placement import device_map

#: (operation, module): two blocks with a scale of their own beside two layers, an embedding whose table is the head's.
OPERATIONS = [("look", "emb"), ("first", "")]
OPERATIONS += [
    (f"{name}{block}", f"layers.{block}{module}")
    for block in (0, 1)
    for name, module in (("up", ".up"), ("act", ""), ("norm", ".norm"), ("unit", ".norm"), ("sum", ""))
]
OPERATIONS += [("logits", "head")]
#: The parameters and buffers, with the operation that holds or reads them.
STATES = {"pos": "first", "emb.weight": "", "head.weight": "table", "shift": "first", "layers.0.norm.steps": ""}
STATES |= {f"layers.{block}.up.{own}": f"up{block}" for block in (0, 1) for own in ("weight", "bias")}
STATES |= {f"layers.{block}.norm.weight": f"unit{block}" for block in (0, 1)}
STATES |= {"layers.0.scale": "act0", "layers.0.bias": "sum0", "layers.1.scale": "act1"}
MODULES = {module[:i] for _, module in OPERATIONS for i in range(len(module) + 1) if module[i : i + 1] in ("", ".")}


def network() -> PlacementInstance:
    """A chain of the operations; the table is a constant with two readers. Two accelerators and a host."""
    made = [
        Operation(name="ids", kind="input", role="input"),
        Operation(name="table", kind="parameter", role="constant"),
    ]
    made += [Operation(name=name, kind="op", flop=1000, weight_bytes=64) for name, _ in OPERATIONS]
    tensors = [Tensor(producer=0, readers=(2,), bytes=8), Tensor(producer=1, readers=(2, len(made) - 1), bytes=400)]
    tensors += [Tensor(producer=v, readers=(v + 1,), bytes=16) for v in range(2, len(made) - 1)]
    machines = [Device(name="host", kind="cpu"), Device(name="a", kind="gpu"), Device(name="b", kind="gpu")]
    kinds = (DeviceClass(name="gpu"), DeviceClass(name="cpu"))
    instance = PlacementInstance(
        name="network",
        task=Task(memory="none"),
        graph=OperationGraph.checked("network", made, tensors),
        system=System(classes=kinds, devices=tuple(machines), links=Links()),
        scopes=("", "", *(module for _, module in OPERATIONS)),
        states=STATES,
    )
    instance.check()
    return instance


def written(instance: PlacementInstance, devices: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(device_map(placement_problem(instance), PlacementSolution(devices=devices)))
    return found


def looked_up(found: dict[str, Any], name: str) -> Any:
    """As libraries read a map: the device of the longest key that a name is or lies in."""
    parts = name.split(".")
    keys = [".".join(parts[:length]) for length in range(len(parts), -1, -1)]
    return next((found[key] for key in keys if key in found), None)


def plans(instance: PlacementInstance, seed: int) -> list[dict[str, str]]:
    """Cuts before every operation, and random devices."""
    names, random = placement_problem(instance).names, Random(seed)
    cuts = [{name: "a" if i < cut else "b" for i, name in enumerate(names)} for cut in range(len(names) + 1)]
    return cuts + [{name: random.choice(("host", "a", "b")) for name in names} for _ in range(60)]


def test_every_parameter_has_the_device_of_its_operation_and_keys_are_modules_or_parameters() -> None:
    instance, number = network(), {"host": "cpu", "a": 0, "b": 1}
    for of in plans(instance, 1):
        found = written(instance, of)
        assert found.keys() <= MODULES | STATES.keys(), found
        for state, name in STATES.items():
            name = "logits" if name == "table" else name  # the reader in its own module
            device = looked_up(found, state)
            assert device is not None, (state, found)
            assert not name or device == number[of[name]], (state, found)


def test_a_module_that_is_split_lists_what_it_holds_and_one_that_holds_none_is_whole() -> None:
    instance = network()
    of = {name: "a" for name, _ in OPERATIONS} | {"unit0": "b", "sum0": "b", "act1": "b"}
    found = written(instance, of)
    steps = {key: found.pop(key) for key in list(found) if key.startswith("layers.0.norm")}
    assert found == {
        **{"pos": 0, "shift": 0, "emb": 0, "layers.0.scale": 0, "layers.0.bias": 1, "layers.0.up": 0},
        **{"layers.1.scale": 1, "layers.1.up": 0, "layers.1.norm": 0, "head": 0},
    }
    assert looked_up(steps, "layers.0.norm.weight") == 1 and looked_up(steps, "layers.0.norm.steps") is not None


def test_maps_of_training_steps_cover_the_same_names() -> None:
    """Weights are placed by themselves there, so that a parameter is where its weight is."""
    step = training_step(network()).instance
    assert step.states.keys() == STATES.keys()
    for of in plans(step, 2)[::4]:
        found = written(step, of)
        assert found.keys() <= MODULES | STATES.keys()
        for state, name in step.states.items():
            device = looked_up(found, state)
            assert device is not None
            assert not name or device == {"host": "cpu", "a": 0, "b": 1}[of[name]]


def test_a_map_read_back_puts_everything_where_it_was_if_modules_are_whole() -> None:
    """Operations between modules go where their operands are."""
    instance = network()
    groups = defaultdict(list)
    for name, module in OPERATIONS:
        groups[module].append(name)
    blocks = ["emb", "layers.0", "layers.1", "head"]
    for devices in product(("a", "b"), repeat=4):
        of = {"first": devices[0]}
        for block, device in zip(blocks, devices, strict=True):
            of |= {name: device for module in groups if module.startswith(block) for name in groups[module]}
        data = json.dumps(written(instance, of)).encode()
        throughput = instance.replace(task=Task(objective="throughput", memory="none"))
        assert read_split(data, "map", throughput).devices == of
