"""What formats of layers share: reasons, comments of their files, and a plan that was read as one of an instance."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.plans import chips, devices
from chipmap.plans.layers import dataflow, graphs
from chipmap.plans.layers.graphs import Layers
from chipmap.plans.layers.plan import LayerPlan
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, counted

#: What a comment calls the devices of stages, and what dimensions of a network carry.
_STAGES, _DIMENSIONS = "# stages: ", "# dimensions: "


def reason(instance: Any, solution: Any, plan: Callable[[Any, Any], LayerPlan]) -> str | None:
    """Why ``plan`` can't be made of the mapping, with what would be one; None: it can."""
    if isinstance(instance, DataflowInstance) and (why := dataflow.why_no_layers(instance)):
        return why
    try:
        if solution is not None:
            plan(instance, solution)
        elif not isinstance(instance, DataflowInstance):
            graphs.layers(instance)
    except InputError as error:
        return f"{error.what}. {error.remedy}".removesuffix(".")
    return None


def comments(instance: Any, plan: LayerPlan, options: EmitOptions, usage: str) -> list[str]:
    """The first lines of a file: how it is used, the run that it is from, what it leaves open."""
    lines = [f"# {usage}", f"# {options.told.line}"]
    if isinstance(instance, DataflowInstance):
        chips = plan.stages * plan.tensor * plan.context * (plan.data or 1)
        lines.append(f"# {counted(chips, 'chip')}: {plan.text}, data {plan.data}")
        lines.append("# open: how kernels are split and fused, for which the runtime has rules of its own")
    if plan.names:
        lines.append((_DIMENSIONS if isinstance(instance, DataflowInstance) else _STAGES) + ", ".join(plan.names))
    return lines


def names_said(text: str) -> tuple[str, ...]:
    """The devices of stages, or what dimensions of the network carry, where a comment says so."""
    found = re.search(rf"^(?:{_STAGES}|{_DIMENSIONS})(.*)$", text, re.MULTILINE)
    return tuple(one.strip() for one in found[1].split(",")) if found else ()


def adopted(instance: Any, plan: LayerPlan, where: str, of: Layers | None = None) -> Plan:
    """The plan for ``instance``: pins of operations (of the parts ``of``), or what a task asks for."""
    if isinstance(instance, DataflowInstance):
        made, notes = dataflow.pinned(instance, plan, where)
        said = "degrees, stages and how a batch is run, not how kernels are split and fused"
        return Plan(pinned=made, covered=said, notes=notes, finish=partial(dataflow.lifted, of=made))
    if plan.tensor > 1 or plan.context > 1 or (plan.expert or 1) > 1:
        what = f"shares layers among chips ({plan.text}), which this family doesn't"
        raise InputError(what, where, "Adopt it for an instance of family dataflow.")
    if isinstance(instance, PlacementInstance):
        known = [device.name for device in instance.system.devices]
        stages = list(plan.names) if set(plan.names) <= set(known) and len(plan.names) == plan.stages else known
        if plan.stages > len(stages):
            what = f"has {plan.stages} stages, the system {counted(len(known), 'device')}"
            raise InputError(what, where, f"Judge it on as many: --set or --system with {plan.stages} devices.")
        placed = graphs.named(instance, plan, stages[: plan.stages], where, of)
        return devices.plan_of(instance, {name: str(place) for name, place in placed.items()}, where)
    if plan.parts > 1:
        what = f"has {plan.parts} parts of each stage, but tensors go round a ring of chips once"
        raise InputError(what, where, "Adopt it for family placement, objective throughput.")
    if plan.stages > instance.package.chips:
        what = f"has {plan.stages} stages, the package {counted(instance.package.chips, 'chip')}"
        raise InputError(what, where, f"Judge it on as many: --set package.chips={plan.stages}")
    placed = graphs.named(instance, plan, range(plan.stages), where, of)
    return chips.plan_of(instance, {name: int(place) for name, place in placed.items()}, where)
