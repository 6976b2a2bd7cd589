"""Times of operations and transfers of family ``placement`` in ns, before they are rounded up."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.system import DeviceClass
from chipmap.records.decimals import exact


def exact_times(instance: PlacementInstance, kind: DeviceClass, placed: list[int]) -> list[Fraction]:
    """p of the placed operations on a class in ns, before it is rounded up."""
    graph, measured = instance.graph, instance.time_ns.get(kind.name)
    touched = [0] * len(graph.operations)
    for tensor in graph.tensors:
        for v in {tensor.producer, *tensor.readers}:
            touched[v] += tensor.bytes
    peak, memory, launch = exact(kind.flop_per_ns), exact(kind.memory_bytes_per_ns), exact(kind.launch_ns)
    rates = {name: peak * exact(share) for name, share in kind.efficiency.items()}
    found, known = [], dict[tuple[str, int, int], Fraction]()  # most operations of a large graph are like others
    for v in placed:
        one = graph.operations[v]
        if one.role == "constant":
            found.append(Fraction(0))
        elif measured is not None and (given := measured[v]) is not None:
            found.append(exact(given))
        else:
            moved = touched[v] + one.weight_bytes if one.moved_bytes is None else one.moved_bytes
            like = (one.kind, one.flop, moved)
            if like not in known:
                known[like] = max(one.flop / rates.get(one.kind, peak), moved / memory) + launch
            found.append(known[like])
    return found


def transfer(size: int, latency: Fraction, rate: Fraction | None) -> Fraction:
    """c of ``size`` bytes over a route (rate None: no cost per byte)."""
    return latency + (0 if rate is None else size / rate)
