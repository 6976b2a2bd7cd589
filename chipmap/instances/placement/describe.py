"""Figures of a placement instance for `chipmap info`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem

_MIB = 2**20


def describe(instance: PlacementInstance) -> dict[str, Any]:
    """The figures of ``instance``.

    ``placed`` counts the operations that run on a device. ``weights_mib``, ``shared_mib`` (constants, which each device
    with a reader has) and ``tensors_mib`` (each tensor once) are sums of bytes. ``least_work_ms`` is the sum, and
    ``largest`` the greatest, of the operations' times, each on the fastest device that may run it; ``fixed`` counts
    those that may run on one device only. ``memory_limit_mib`` is that of all devices together (None where one has
    no limit), ``least_memory_limit_mib`` the smallest.
    """
    problem, system = placement_problem(instance), instance.system
    never = np.iinfo(np.int64).max
    least = np.where(problem.allowed, problem.time, never).min(axis=1, initial=never)
    figures: dict[str, Any] = {
        "operations": len(instance.graph.operations),
        "placed": problem.operations,
        "kinds": dict(sorted(Counter(one.kind for one in instance.graph.operations).items())),
        "edges": len(problem.storages.readers),
        "flop": sum(operation.flop for operation in instance.graph.operations),
        "weights_mib": int(problem.weights.sum()) / _MIB,
        "shared_mib": sum(size for size, _ in problem.copies) / _MIB,
        "tensors_mib": int(problem.storages.bytes.sum()) / _MIB,
        "least_work_ms": int(least.sum()) / 1e6,
    }
    if problem.operations:
        v, w = int(least.argmax()), int(problem.weights.argmax())
        figures["largest"] = {"name": problem.names[v], "ms": int(least[v]) / 1e6}
        figures["heaviest"] = {"name": problem.names[w], "weights_mib": int(problem.weights[w]) / _MIB}
    classes = Counter(device.kind for device in system.devices)
    limits = problem.memory[problem.memory >= 0]
    return figures | {
        "devices": len(system.devices),
        "classes": dict(sorted(classes.items())),
        "memory_limit_mib": int(limits.sum()) / _MIB if len(limits) == problem.devices else None,
        "least_memory_limit_mib": int(limits.min()) / _MIB if limits.size else None,
        "links": None if system.links is None else msgspec.to_builtins(system.links),
        "routes": len(system.routes),
        "task": msgspec.to_builtins(instance.task),
        "measured_times": sum(time is not None for times in instance.time_ns.values() for time in times),
        "fixed": int((problem.allowed.sum(axis=1) == 1).sum()) if problem.devices > 1 else 0,
        "pins": len(instance.pins),
        "forbidden": len(instance.forbidden),
        "together": len(instance.together),
        "apart": len(instance.apart),
        "notes": instance.notes,
    }
