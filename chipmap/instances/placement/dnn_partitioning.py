"""Throughput instances of *Efficient Algorithms for Device Placement of DNN Graph Operators*, with all that they say.

The format (Tarnawski et al., NeurIPS 2020) is described in :mod:`chipmap.instances.importers.dnn_partitioning`, which
reads it for other families. Here backward nodes, transfer costs and the host count as well: ``maxFPGAs`` accelerators
of class ``accelerator`` with ``maxSizePerFPGA`` bytes, ``maxCPUs`` hosts of class ``host`` that pay no transfers.
``fpgaLatency`` and ``cpuLatency`` are the times (ms), an edge's ``cost`` that of sending its tensor, a node's ``size``
all that it takes, and nodes of one ``colorClass`` share a device.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.importers import common
from chipmap.instances.importers.common import Edge, Node, nanoseconds, size
from chipmap.instances.placement.instance import Forbidden, PlacementInstance, Task
from chipmap.instances.placement.system import Device, DeviceClass, Links, System
from chipmap.records import read_bytes

_NS_PER_MS = 1e6
_REMEDY = "A node has at least id, fpgaLatency, cpuLatency and size; an edge sourceId, destId and cost."


class _Node(Node, frozen=True, kw_only=True):
    fpgaLatency: float  # noqa: N815 (the format's own names)
    cpuLatency: float  # noqa: N815
    size: float
    isBackwardNode: bool | int = False  # noqa: N815
    supportedOnFpga: bool | int = True  # noqa: N815
    colorClass: int | None = None  # noqa: N815


class _Edge(Edge, frozen=True, kw_only=True):
    cost: float


class _File(msgspec.Struct, frozen=True):
    nodes: list[_Node]
    edges: list[_Edge]
    maxFPGAs: int  # noqa: N815
    maxSizePerFPGA: float  # noqa: N815
    maxCPUs: int = 0  # noqa: N815


def partitioning(file: str, contiguous: bool = True, name: str = "") -> PlacementInstance:
    """The instance in ``file``; ``contiguous`` asks for blocks (C7)."""
    return read(read_bytes(file), file, contiguous, name or PurePath(file).stem)


def read(data: bytes, where: str, contiguous: bool, name: str) -> PlacementInstance:
    """The instance in ``data``; :class:`InputError` with the JSON path of what is wrong."""
    given = common.decode(data, _File, where, _REMEDY)
    pairs, names = common.ends(given.nodes, given.edges, where), common.node_names(given.nodes)
    operations, times = [], {"accelerator": list[float](), "host": list[float]()}
    for v, (node, called) in enumerate(zip(given.nodes, names, strict=True)):
        here = f"{where}: nodes[{v}]"
        operations.append(Operation(name=called, kind="node", weight_bytes=size(node.size, f"{here}.size")))
        times["accelerator"].append(nanoseconds(node.fpgaLatency, _NS_PER_MS, f"{here}.fpgaLatency"))
        times["host"].append(nanoseconds(node.cpuLatency, _NS_PER_MS, f"{here}.cpuLatency"))
    readers: dict[int, list[int]] = {}
    costs: dict[int, float] = {}
    for i, (u, v) in enumerate(pairs):
        readers.setdefault(u, []).append(v)
        cost = nanoseconds(given.edges[i].cost, _NS_PER_MS, f"{where}: edges[{i}].cost")
        costs[u] = max(cost, costs.get(u, 0.0))
    tensors = [Tensor(producer=u, readers=tuple(read_by)) for u, read_by in readers.items()]
    colors: dict[int, list[str]] = {}
    for node, called in zip(given.nodes, names, strict=True):
        if node.colorClass is not None:
            colors.setdefault(node.colorClass, []).append(called)
    accelerators = tuple(
        Device(name=f"accelerator{d}", kind="accelerator", memory_bytes=size(given.maxSizePerFPGA, where))
        for d in range(given.maxFPGAs)
    )
    hosts = tuple(Device(name=f"host{d}", kind="host") for d in range(given.maxCPUs))
    unsupported = [called for node, called in zip(given.nodes, names, strict=True) if not node.supportedOnFpga]
    instance = PlacementInstance.make(
        name=name,
        task=Task(objective="throughput", memory="static", contiguous=contiguous),
        graph=OperationGraph.checked(name, operations, tensors, "dnn-partitioning", where),
        system=System(
            classes=(DeviceClass(name="accelerator"), DeviceClass(name="host", pays_transfers=False)),
            devices=(*accelerators, *hosts),
            links=Links(kind="none"),
        ),
        time_ns=times,
        transfer_ns=[costs[tensor.producer] for tensor in tensors],
        together=[group for _, group in sorted(colors.items()) if len(group) > 1],
        forbidden=[Forbidden(operation=one, devices=tuple(d.name for d in accelerators)) for one in unsupported],
        backward=[called for node, called in zip(given.nodes, names, strict=True) if node.isBackwardNode],
    )
    instance.check()
    return instance
