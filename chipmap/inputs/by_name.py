"""Where everything runs, by the names of the instance: what ``result.mapping`` says of each family's solutions."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.wafer.instance import WaferInstance, WaferSolution


def chips(instance: RingInstance, solution: RingSolution) -> dict[str, int]:
    """``ring``: the chip of each operation."""
    return {one.name: chip for one, chip in zip(instance.graph.operations, solution.chips, strict=True)}


def devices(instance: PlacementInstance, solution: PlacementSolution) -> dict[str, str]:
    """``placement``: the device of each operation, in the order of the graph."""
    names = [one.name for one in instance.graph.operations]
    return {name: solution.devices[name] for name in names if name in solution.devices}


def schemes(instance: DataflowInstance, solution: DataflowSolution) -> dict[str, Any]:
    """``dataflow``: of each kernel ``scheme`` and ``partition``, and ``stage`` where stages share out kernels; a list
    of these, layer by layer, where layers differ; on groups of unequal chips each stage as it is."""
    if solution.stage_groups:
        return {f"stage {s}": msgspec.to_builtins(one) for s, one in enumerate(solution.stage_groups)}
    found: dict[str, list[dict[str, Any]]] = {kernel.name: [] for kernel in instance.workload.kernels}
    names = [kernel.name for kernel in instance.workload.kernels]
    for i, (scheme, partition) in enumerate(zip(solution.schemes, solution.partitions, strict=True)):
        stage = {"stage": solution.stages[partition]} if solution.stages else {}
        found[names[i % len(names)]].append({"scheme": scheme, "partition": partition, **stage})
    return {name: layers[0] if len(layers) == 1 else layers for name, layers in found.items()}


def floorplan(instance: WaferInstance, solution: WaferSolution) -> dict[str, dict[str, Any]]:
    """``wafer``: of each kernel the lower left corner ``x``, ``y``, its arguments and whether it is turned."""
    plain = {one.kernel: msgspec.to_builtins(one) for one in solution.placements}
    names = [kernel.name for kernel in instance.kernels if kernel.name in plain]
    return {name: {key: plain[name][key] for key in ("x", "y", "h", "w", "c", "k", "rotated")} for name in names}


def segments(instance: MultiInstance, solution: MultiSolution) -> dict[str, list[dict[str, Any]]]:
    """``multimodel``: of each model its segments in order, with ``window``, ``first_layer``, ``last_layer`` and
    ``chiplet``."""
    layers = {model.name: [layer.name for layer in model.layers] for model in instance.models}
    pieces = [(one.model, window, one.first, one) for window, ones in enumerate(solution.windows) for one in ones]
    pieces.sort(key=lambda piece: piece[:3])
    found = {
        model: [
            {
                "window": window,
                "first_layer": layers[model][one.first],
                "last_layer": layers[model][one.last],
                "chiplet": one.chiplet,
            }
            for _, window, _, one in several
        ]
        for model, several in groupby(pieces, key=lambda piece: piece[0])
    }
    return {model: found[model] for model in layers if model in found}
