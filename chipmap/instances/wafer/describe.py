"""Figures of a wafer instance for `chipmap info`, and the floorplan in the contest's own format."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from chipmap.instances.pinning import pin_counts
from chipmap.instances.wafer.fabric import Fabric
from chipmap.instances.wafer.instance import WaferInstance, WaferSolution
from chipmap.instances.wafer.paint import write_paint
from chipmap.instances.wafer.problem import TICKS, WaferProblem, conv_time, wafer_problem
from chipmap.records import InputError


def describe(instance: WaferInstance) -> dict[str, Any]:
    """The figures of ``instance``.

    ``types`` counts kernels with different convolutions, ``edges`` those between placed kernels; ``multiplications``
    is the sum of H · W · C · K · R · S / T² over all convolutions, ``longest`` the kernel that takes longest with
    every argument 1, or its slowest choice, and its steps.
    """
    problem = wafer_problem(instance)
    work = [sum(c.H * c.W * c.C * c.K * c.R * c.S // c.T**2 for c in convs) for convs in problem.convs]
    steps = [_longest(problem, t) for t in problem.types.tolist()]
    slowest = max(range(problem.n), key=lambda i: (steps[i], -i))
    return {
        "kernels": problem.n,
        "kinds": dict(sorted(Counter(kernel.kind for kernel in instance.kernels).items())),
        "types": len(problem.type_arrays),
        "convolutions": sum(map(len, problem.convs)),
        "edges": len(problem.edges),
        "multiplications": sum(work),
        "longest": {"name": problem.names[slowest], "steps": steps[slowest] / TICKS},
        "fabric": _fabric(instance.fabric),
        "weights": msgspec.to_builtins(instance.weights),
        "protocol": instance.protocol,
        **pin_counts(instance),
        **{name: len(some) for name in ("sides", "traffic", "crossing") if (some := getattr(instance, name))},
        "notes": instance.notes,
    }


def _longest(problem: WaferProblem, t: int) -> int:
    """Quarters of a kernel of that type with all its arguments 1, or of the slowest choice of its table."""
    if (table := problem.tables[t]) is not None:
        return int(table[:, 2].max())
    return max(int(conv_time(conv, 1, 1, 1, 1)) for conv in problem.type_arrays[t])


def _fabric(fabric: Fabric) -> dict[str, int]:
    """Sides and memory; of tiles that are kept free, how many areas and defects there are."""
    found = {"width": fabric.width, "height": fabric.height, "memory_words": fabric.memory_words}
    counts = {"keep_out": len(fabric.keep_out), "defects": len(fabric.defects)}
    return found | {name: count for name, count in counts.items() if count}


def files(instance: WaferInstance, solution: WaferSolution) -> dict[str, bytes]:
    """The files written beside a solution: ``solution.paint``, unless the format can't hold the kernels' names."""
    try:
        return {"solution.paint": write_paint(instance, solution)}
    except InputError:
        return {}
