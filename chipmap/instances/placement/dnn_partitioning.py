"""Throughput instances of *Efficient Algorithms for Device Placement of DNN Graph Operators*, with all that they say.

The format (Tarnawski et al., NeurIPS 2020) is described in :mod:`chipmap.networks.importers.dnn_partitioning`. Here
backward nodes, transfer costs and the host count as well: ``maxFPGAs`` accelerators of class ``accelerator`` with
``maxSizePerFPGA`` bytes, ``maxCPUs`` hosts of class ``host`` that pay no transfers. ``fpgaLatency`` and ``cpuLatency``
are the times (ms), an edge's ``cost`` that of sending its tensor, a node's ``size`` all that it takes, and nodes of one
``colorClass`` share a device.
"""

from __future__ import annotations

from pathlib import PurePath

from chipmap.instances.placement.instance import Forbidden, PlacementInstance, Task
from chipmap.instances.placement.system import Device, DeviceClass, Links, System
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import node_names, size
from chipmap.networks.importers.dnn_partitioning import FORMAT, published
from chipmap.records import InputError, read_bytes


def partitioning(file: str, contiguous: bool = True, name: str = "") -> PlacementInstance:
    """The instance in ``file``; ``contiguous`` asks for blocks (C7)."""
    return read(read_bytes(file), file, contiguous, name or PurePath(file).stem)


def read(data: bytes, where: str, contiguous: bool, name: str) -> PlacementInstance:
    """The instance in ``data``; :class:`InputError` with the JSON path of what is wrong."""
    found = published(data, where)
    file, names = found.file, node_names(found.file.nodes)
    if file.maxFPGAs is None or file.maxSizePerFPGA is None:
        raise InputError("maxFPGAs or maxSizePerFPGA is missing", where, "A throughput instance needs both.")
    readers: dict[int, list[int]] = {}
    costs: dict[int, float] = {}
    for i, (u, v) in enumerate(found.pairs):
        readers.setdefault(u, []).append(v)
        costs[u] = max(found.time(i, "cost", "edges"), costs.get(u, 0.0))
    operations = [Operation(name=one, kind="node", weight_bytes=found.bytes_of(v)) for v, one in enumerate(names)]
    tensors = [Tensor(producer=u, readers=tuple(read_by)) for u, read_by in readers.items()]
    latencies = {"accelerator": "fpgaLatency", "host": "cpuLatency"}
    accelerators = tuple(
        Device(name=f"accelerator{d}", kind="accelerator", memory_bytes=size(file.maxSizePerFPGA, where))
        for d in range(file.maxFPGAs)
    )
    hosts = tuple(Device(name=f"host{d}", kind="host") for d in range(file.maxCPUs))
    unsupported = [one for node, one in zip(file.nodes, names, strict=True) if not node.supportedOnFpga]
    instance = PlacementInstance.make(
        name=name,
        task=Task(objective="throughput", memory="static", contiguous=contiguous),
        graph=OperationGraph.checked(name, operations, tensors, FORMAT, where),
        system=System(
            classes=(DeviceClass(name="accelerator"), DeviceClass(name="host", pays_transfers=False)),
            devices=(*accelerators, *hosts),
            links=Links(kind="none"),
        ),
        time_ns={kind: [found.time(v, field) for v in range(len(names))] for kind, field in latencies.items()},
        transfer_ns=[costs[tensor.producer] for tensor in tensors],
        together=found.groups(dict(enumerate(names))),
        forbidden=[Forbidden(operation=one, devices=tuple(d.name for d in accelerators)) for one in unsupported],
        backward=[one for node, one in zip(file.nodes, names, strict=True) if node.isBackwardNode],
    )
    instance.check()
    return instance
