"""Sizes at which a layer's program is quickly run: all but heads and experts divided by one factor."""

from __future__ import annotations

from math import gcd

from chipmap.plans.jax.layouts import AXIS, Layout
from chipmap.plans.jax.planning import Move, Plan, Run
from chipmap.plans.jax.steps import routed_tokens, weights

Size = tuple[int, int, int]
#: The least that an axis, or a head's rows, is cut to.
LEAST = 8


def cut(plan: Plan) -> dict[str, Size]:
    """The size of each tensor, divided by the largest factor that leaves parts equal and nothing below
    :data:`LEAST`; as they are where there is none."""
    heads, fixed = _heads(plan), _choices(plan)
    sizes = plan.layer.sizes
    extents = [rows // heads[name] for name, (rows, _, _) in sizes.items() if name not in fixed]
    extents += [columns for _, _, columns in sizes.values()]
    common = gcd(*extents)
    for factor in sorted((f for f in range(2, common // LEAST + 1) if common % f == 0), reverse=True):
        found = {
            name: (rows if name in fixed else rows // factor, experts, columns // factor)
            for name, (rows, experts, columns) in sizes.items()
        }
        if min(extents) // factor >= LEAST and _equal(plan, found):
            return found
    return dict(sizes)


def _heads(plan: Plan) -> dict[str, int]:
    found = {step.name: step.heads if step.operator == "outer" else step.kernel.outer for step in plan.layer.steps}
    for step in plan.layer.steps:
        if step.operator == "update":
            found[step.name] = plan.layer.step(step.parameters).kernel.outer
    return found | {weights(name): outer for name, outer in found.items()}


def _choices(plan: Plan) -> set[str]:
    """Tensors with a row per expert."""
    steps, found = plan.layer.steps, set[str]()
    for step in steps:
        if step.operator == "choice":
            found |= {step.name, *step.operands, *map(weights, step.operands)}
    for step in steps:
        gradient = step.operator == "choice_b" or (step.operator == "combine_b" and step.which == 2)
        if gradient or (step.operator == "update" and step.parameters in found):
            found.add(step.name)
    return found


def _equal(plan: Plan, sizes: dict[str, Size]) -> bool:
    """Whether all parts are equal, and tokens go to all experts alike."""
    held = [(name, layout) for name, layout in plan.rests.items()]
    for one in plan.instructions:
        if isinstance(one, Move):
            held += [(one.tensor, layout) for layout in (one.change.before, one.change.after)]
        elif isinstance(one, Run):
            held.append((one.made.tensor, one.made.layout))
    if not all(_splits(sizes[name.partition("+")[0]], layout, plan.chips) for name, layout in held):
        return False
    runs = [one for one in plan.instructions if isinstance(one, Run)]
    turned = [one for one in runs if one.step.operator.startswith("rotary")]
    pieces = [(one.made, max(one.step.kernel.outer, one.made.layout.parts)) for one in turned]
    if any(sizes[held.tensor][0] // count % 2 for held, count in pieces):  # a pair of rows would be parted
        return False
    routed = [one.made.layout for one in runs if one.step.operator.startswith(("dispatch", "combine"))]
    parts = {layout.parts if layout.kind == "RS" else 1 for layout in routed}
    return all(routed_tokens(plan.layer, sizes) // one % plan.layer.experts == 0 for one in parts)


def _splits(size: Size, layout: Layout, chips: int) -> bool:
    axis = AXIS.get(layout.kind)
    return axis is None or size[axis] % (chips if axis != 1 else layout.parts) == 0
