"""The CP-SAT model of family ``wafer``: one option per kernel, two-dimensional intervals, wires in half tiles.

Statement: ``docs/families/wafer-models.md``. Kernel v has an integer corner (x, y) and picks one of its options
(:mod:`chipmap.formulations.wafer.options`), which fixes its box, its time and what its adapters compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, stated
from chipmap.formulations.wafer.choices import Decisions, WaferChoices, sizing, unreflected
from chipmap.formulations.wafer.cpsat_boxes import (
    Builder,
    c0_domain,
    c1_inside,
    c2_no_overlap,
    c3_memory,
    c5_kept_out,
    def_box,
    sym_reflections,
)
from chipmap.formulations.wafer.cpsat_pins import c4_pins
from chipmap.formulations.wafer.cpsat_terms import (
    cut_pairwise,
    cut_triangles,
    t1_time,
    t2_wire,
    t3_adapters,
    weighted,
)
from chipmap.formulations.wafer.cpsat_wires import c6_sides, c7_crossing
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.instance import pinned
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem


@dataclass(frozen=True)
class WaferCpChoices(WaferChoices):
    """What only CP-SAT can be asked for, beside :class:`chipmap.formulations.wafer.choices.WaferChoices`.

    ``labels``: ``assume`` gives C1 to C5 a literal each in ``assumptions``, so that an infeasible model names
    those that clash. ``most``: only floorplans with at most so many quarters of T1, half tiles of T2 (times traffic)
    and adapters of T3, without their weights (None: any); a term without a weight has no limit.
    """

    labels: Literal["plain", "assume"] = "plain"
    most: tuple[int | None, int | None, int | None] = (None, None, None)

    def scope(self, problem: WaferProblem) -> Scope:
        """Limits leave out floorplans that the instance allows."""
        return super().scope(problem) if self.most == (None, None, None) else Scope.QUESTION


@dataclass(frozen=True, eq=False)
class WaferCpVariables:
    """What :func:`add_wafer` added, by kernel v in the order of the problem, for constraints and costs of your own.

    ``x[v]``, ``y[v]``: the lower left corner; ``width[v]``, ``height[v]``: the box in tiles; ``option[v]``: a literal
    for each of its options, of which one is true. ``time`` in quarters, ``wires[e]`` in half tiles by edge, ``wire``
    their sum weighted by traffic, with those to sides of the fabric, and ``adapters`` (a count) are exact or above;
    ``cost`` = w_t · time + 2 w_l · wire + 4 w_a · adapters ticks.
    """

    x: list[Any]
    y: list[Any]
    width: list[Any]
    height: list[Any]
    option: list[list[Any]]
    time: Any
    wires: list[Any]
    wire: Any
    adapters: Any
    cost: Any
    decisions: Decisions
    assumptions: dict[str, Any]
    statement: Statement

    def decode(self, value: Callable[[Any], float]) -> WaferSolution:
        """The floorplan that the variables stand for."""
        return self.decisions.decode(value)


def state_wires(builder: Builder) -> None:
    """C6 and C7, where they are in force."""
    if builder.problem.touching:
        builder.statement(c6_sides, builder)
    if builder.problem.instance.crossing:
        builder.statement(c7_crossing, builder)


def variables_of(builder: Builder, time: Any, wires: list[Any], adapters: Any) -> WaferCpVariables:
    """The variables of a model whose boxes and terms are stated."""
    weights = builder.problem.instance.weights
    wire = weighted(builder, wires)
    cost = weights.time * time + 2 * weights.wire * wire + 4 * weights.adapter * adapters
    decisions = Decisions(builder.sizing, builder.x, builder.y, lambda v, i: builder.option[v][i])
    boxes = (builder.x, builder.y, builder.width, builder.height, builder.option)
    more = decisions, builder.assumptions, builder.statement
    return WaferCpVariables(*boxes, time, wires, wire, adapters, cost, *more)


def built(model: cp_model.CpModel, variables: WaferCpVariables, scope: Scope) -> Built:
    """The model that minimises the score."""
    model.minimize(variables.cost)
    statement, decisions = variables.statement, variables.decisions
    instance = decisions.sizing.problem.instance
    return Built("cpsat", instance, model, statement, scope, decisions.encode, decisions.decode, variables)


def build(instance: WaferInstance, choices: WaferCpChoices | Mapping[str, Any] = WaferCpChoices()) -> Built:
    """The CP-SAT model of ``instance``, minimising its score in ticks."""
    chosen = stated(WaferCpChoices, choices)
    model = cp_model.CpModel()
    model.name = instance.name
    return built(model, add_wafer(model, instance, chosen), chosen.scope(wafer_problem(instance)))


def add_wafer(
    model: cp_model.CpModel, instance: WaferInstance, choices: WaferCpChoices = WaferCpChoices(), prefix: str = ""
) -> WaferCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective.

    Constraints of your own on places need ``symmetry="none"``; on arguments ``options="all"``, of which only those are
    listed that the instance's own score can need.
    """
    assume, choices = choices.labels == "assume", unreflected(wafer_problem(instance), choices)
    builder = Builder(model, sizing(wafer_problem(instance), choices, assume), prefix, assume)
    state = builder.statement
    state(c0_domain, builder)
    state(c3_memory, builder)
    def_box(builder)
    state(c1_inside, builder)
    state(c2_no_overlap, builder)
    if pinned(instance):
        state(c4_pins, builder)
    if instance.fabric.has_holes:
        state(c5_kept_out, builder)
    state_wires(builder)
    if choices.symmetry == "reflections" and not assume:  # it must not stand for C1
        sym_reflections(builder)
    wires = state(t2_wire, builder)
    variables = variables_of(builder, state(t1_time, builder), wires, state(t3_adapters, builder))
    if "pairwise" in choices.cuts:
        cut_pairwise(builder, wires)
    if "triangle" in choices.cuts:
        cut_triangles(builder, wires)
    if choices.upper is not None:
        model.add(variables.cost <= choices.upper)
    _limit(builder, variables, choices.most)
    return variables


def _limit(builder: Builder, variables: WaferCpVariables, most: tuple[int | None, int | None, int | None]) -> None:
    """The terms that have a weight keep to their limits."""
    weights = builder.problem.instance.weights
    terms = (weights.time, variables.time), (weights.wire, variables.wire), (weights.adapter, variables.adapters)
    for (weight, term), limit in zip(terms, most, strict=True):
        if weight and limit is not None:
            builder.model.add(term <= limit)
