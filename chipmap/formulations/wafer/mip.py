"""The MIP of family ``wafer``: one Pyomo block, to be built alone or inside a larger model.

Statement: ``docs/families/wafer-models.md``. Shapes are disaggregated: kernel v picks one of its options by a binary,
and box, time and labels are linear in these. Two kernels are apart in one of four directions, by one binary each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from chipmap.formulations.built import Built, Statement, require_empty, stated
from chipmap.formulations.wafer.choices import Decisions, Sizing, WaferChoices, sizing, unreflected
from chipmap.formulations.wafer.mip_boxes import (
    c0_domain,
    c1_inside,
    c2_no_overlap,
    c3_memory,
    def_box,
    sym_reflections,
)
from chipmap.formulations.wafer.mip_pins import c4_pins, c5_kept_out
from chipmap.formulations.wafer.mip_terms import (
    cut_pairwise,
    cut_triangles,
    t1_time,
    t2_wire,
    t3_adapters,
    weighted,
)
from chipmap.formulations.wafer.mip_wires import c6_sides, c7_crossing
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.instance import pinned
from chipmap.instances.wafer.problem import wafer_problem


def build(instance: WaferInstance, choices: WaferChoices | Mapping[str, Any] = WaferChoices()) -> Built:
    """The MIP of ``instance``, minimising ``wafer.cost``, its score in ticks."""
    chosen = stated(WaferChoices, choices)
    model = pyo.ConcreteModel(name=instance.name)
    model.wafer = pyo.Block()
    add_wafer(model.wafer, instance, chosen)
    model.objective = pyo.Objective(expr=model.wafer.cost)
    scope, decisions = chosen.scope(wafer_problem(instance)), decisions_of(model.wafer)
    return Built("mip", instance, model, model.wafer.statement, scope, decisions.encode, decisions.decode)


def decisions_of(block: pyo.Block) -> Decisions:
    """The decision variables of a block made by :func:`add_wafer`."""
    return Decisions(block.sizing, block.x, block.y, lambda v, i: block.option[v, i])


def decode(block: pyo.Block, value: Callable[[Any], float]) -> WaferSolution:
    """The floorplan that the variables of a block made by :func:`add_wafer` stand for."""
    return decisions_of(block).decode(value)


def add_wafer(block: pyo.Block, instance: WaferInstance, choices: WaferChoices = WaferChoices()) -> None:
    """Fill the empty ``block`` with the MIP of ``instance``, without an Objective.

    Afterwards the block has the variables ``x[v]``, ``y[v]`` (lower left corners) and ``option[v, i]`` (1 where kernel
    v runs as ``sizing.options[v][i]``) and the linear expressions ``width[v]``, ``height[v]`` (tiles), ``wire[e]``
    (half tiles, by edge), ``terms["T1"]`` (quarters), ``terms["T2"]`` (half tiles, weighted by traffic, with wires to
    sides), ``terms["T3"]`` (adapters) and ``cost`` (ticks). Terms are exact or above: put upper limits or costs on
    them. Constraints on places need ``symmetry="none"``. ``statement`` has the labels that it states. Raises
    :class:`InputError` for a block in use.
    """
    require_empty(block, "add_wafer")
    choices = unreflected(wafer_problem(instance), choices)
    made = sizing(wafer_problem(instance), choices, witnesses=True)
    block.sizing = made
    state = block.statement = Statement()
    with PauseGC():
        state(c0_domain, block, made)
        state(c3_memory, block, made)
        def_box(block, made)
        state(c1_inside, block, made)
        state(c2_no_overlap, block, made)
        if pinned(instance):
            state(c4_pins, block, made)
        if instance.fabric.has_holes:
            state(c5_kept_out, block, made)
        if made.problem.touching:
            state(c6_sides, block, made)
        if instance.crossing:
            state(c7_crossing, block, made)
        if choices.symmetry == "reflections":
            sym_reflections(block, made)
        _terms(block, made, choices)


def _terms(block: pyo.Block, made: Sizing, choices: WaferChoices) -> None:
    weights = made.problem.instance.weights
    state = block.statement
    time = state(t1_time, block, made)
    state(t2_wire, block, made)
    adapters = state(t3_adapters, block, made)
    if "pairwise" in choices.cuts:
        cut_pairwise(block, made)
    if "triangle" in choices.cuts:
        cut_triangles(block, made)
    terms = {"T1": time, "T2": weighted(block, made), "T3": adapters}
    block.terms = pyo.Expression(("T1", "T2", "T3"), rule=lambda b, term: terms[term])
    scales = {"T1": weights.time, "T2": 2 * weights.wire, "T3": 4 * weights.adapter}
    block.cost = pyo.Expression(expr=sum(scale * block.terms[term] for term, scale in scales.items()))
    if choices.upper is not None:
        block.def_upper = pyo.Constraint(expr=block.cost <= choices.upper)
