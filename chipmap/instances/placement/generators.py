"""Generators of family ``placement``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, get_args

from chipmap.instances.optimizer import Optimizer
from chipmap.instances.placement import images, workloads
from chipmap.instances.placement.instance import PlacementInstance, Task
from chipmap.instances.placement.presets import MEMORY, preset
from chipmap.instances.placement.system import Device, DeviceClass, LinkKind, Links, System
from chipmap.instances.placement.training import Kept, Recipe, Training, training
from chipmap.networks.generators.parameters import Few, Seed, Share, Whole
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError, choices

#: Networks by name.
NETWORKS: dict[str, Callable[..., OperationGraph]] = {
    "rnnlm": workloads.rnnlm,
    "gnmt": workloads.gnmt,
    "transformer-xl": workloads.transformer_xl,
    "wavenet": workloads.wavenet,
    "inception": images.inception,
    "amoebanet": images.amoebanet,
}


def random_instance(
    operations: Few = 4,
    devices: Few = 2,
    classes: Few = 1,
    links: str = "pair",
    edges: Share = 0.5,
    weights: Whole = 0,
    gap_ns: Whole = 0,
    memory: float | None = None,
    together: Whole = 0,
    seed: Seed = 0,
    task: dict[str, Any] | None = None,
    name: str = "placement-random",
) -> PlacementInstance:
    """A random graph with times of 1 to 9 ns and tensors of 0 to 6 bytes at 1 byte per ns.

    ``edges``: the chance that an operation reads an earlier one. The first ``weights`` operations are constants, which
    others read. ``memory``: bytes of a device as a share of all bytes (null: unlimited). ``together``: so many
    operations, the last ones, share a device. ``gap_ns``: of routes, and half of it of devices.
    """
    if links not in get_args(LinkKind):
        raise InputError(f"no kind of links is called {links!r}", "links", choices(links, get_args(LinkKind)))
    random, asked = Random(seed), Task.make(**(task or {}))
    nodes, tensors, readers = [], [], dict[int, list[int]]()
    for v in range(operations):
        constant = v < weights
        size = 0 if constant else random.choice((0, 0, 1, 3))
        nodes.append(Operation(name=f"v{v}", kind="op", role="constant" if constant else "compute", weight_bytes=size))
        for u in range(v) if not constant else ():
            if random.random() < edges:
                readers.setdefault(u, []).append(v)
    for v in range(operations):
        size = random.randint(0, 6)
        tensors.append(Tensor(producer=v, readers=tuple(readers.get(v, ())), bytes=size))
    kinds = [f"class{k}" for k in range(classes)]
    times: dict[str, tuple[float | None, ...]] = {
        kind: tuple(float(random.randint(0 if random.random() < 0.2 else 1, 9)) for _ in nodes) for kind in kinds
    }
    total = sum(one.weight_bytes for one in nodes) + sum(one.bytes for one in tensors)
    limit = None if memory is None else int(memory * total)
    machines = [
        Device(name=f"d{d}", kind=kinds[d % classes], memory_bytes=limit, host=f"host{d // 2}") for d in range(devices)
    ]
    system = System(
        classes=tuple(DeviceClass(name=kind, gap_ns=gap_ns // 2) for kind in kinds),
        devices=tuple(machines),
        links=Links(kind=links, latency_ns=float(random.randint(0, 2)), bytes_per_ns=1.0, gap_ns=gap_ns),  # type: ignore[arg-type]
    )
    instance = PlacementInstance(
        name=name,
        task=asked,
        graph=OperationGraph.checked(name, nodes, tensors),
        system=system,
        time_ns=times,
        together=(tuple(one.name for one in nodes[-together:]),) if together > 1 else (),
    )
    instance.check()
    return instance


def training_step(
    network: str,
    parameters: dict[str, Any] | None = None,
    devices: Few = 2,
    system: str = "p100-pcie",
    memory_bytes: int | None = MEMORY,
    task: dict[str, Any] | None = None,
    saved: Kept = "autograd",
    optimizer: Optimizer = "adam",
    state_bytes: int | None = None,
    master_weights: bool = False,
    name: str = "placement-training",
) -> PlacementInstance:
    """The training step of a network by name, with its ``parameters``, on so many ``devices`` of a preset.

    ``saved``, ``optimizer``, ``state_bytes`` and ``master_weights`` are those of
    :class:`~chipmap.instances.placement.training.Recipe`.
    """
    recipe = Recipe(saved, optimizer, state_bytes, master_weights).checked()
    step = training(_forward(network, parameters or {}), recipe)
    return _checked(
        name, step.graph, preset(system, devices, memory_bytes), {"weights": "variable", **(task or {})}, step
    )


def inference(
    network: str,
    parameters: dict[str, Any] | None = None,
    devices: Few = 2,
    system: str = "p100-pcie",
    memory_bytes: int | None = MEMORY,
    task: dict[str, Any] | None = None,
    name: str = "placement-inference",
) -> PlacementInstance:
    """The forward graph of a network by name, weights copied to where they are read."""
    return _checked(name, _forward(network, parameters or {}), preset(system, devices, memory_bytes), task or {})


def _forward(network: str, parameters: dict[str, Any]) -> OperationGraph:
    if network not in NETWORKS:
        raise InputError(f"no network is called {network!r}", "network", choices(network, NETWORKS))
    try:
        return NETWORKS[network](**parameters)
    except TypeError as error:
        raise InputError(str(error), "parameters", f"Give parameters of {network!r}.") from None


def _checked(
    name: str, graph: OperationGraph, system: System, task: dict[str, Any], step: Training | None = None
) -> PlacementInstance:
    instance = PlacementInstance(
        name=name,
        task=Task.make(**task),
        graph=graph.without_loops(),
        system=system,
        together=step.together if step is not None else (),
        backward=step.backward if step is not None else (),
    )
    instance.check()
    return instance
