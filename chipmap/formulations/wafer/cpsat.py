"""The CP-SAT model of family ``wafer``: one option per kernel, two-dimensional intervals, wires in half tiles.

Statement: ``docs/families/wafer.md``. Kernel v has an integer corner (x, y) and picks one of its options
(:mod:`chipmap.formulations.wafer.options`), which fixes its box, its time and what its adapters compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.family import Standing
from chipmap.formulations.wafer.choices import WaferChoices, choose, sizing
from chipmap.formulations.wafer.cpsat_boxes import (
    Builder,
    c0_domain,
    c1_inside,
    c2_no_overlap,
    c3_memory,
    def_box,
    sym_reflections,
)
from chipmap.formulations.wafer.cpsat_terms import (
    cut_blocks,
    cut_pairwise,
    cut_triangles,
    t1_time,
    t2_wire,
    t3_adapters,
)
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import wafer_problem


@dataclass(frozen=True)
class WaferCpChoices(WaferChoices):
    """What only CP-SAT can be asked for, beside :class:`chipmap.formulations.wafer.choices.WaferChoices`.

    ``boxes``: ``variable``, one interval per kernel and direction whose size follows the option; ``optional``, one of
    fixed size per option. ``labels``: ``assume`` gives C1, C2 and C3 a literal each in ``assumptions``, so that an
    infeasible model names those that clash.
    """

    boxes: Literal["variable", "optional"] = "variable"
    labels: Literal["plain", "assume"] = "plain"


@dataclass(frozen=True, eq=False)
class WaferCpVariables:
    """What :func:`add_wafer` added, by kernel v in the order of the problem, for constraints and costs of your own.

    ``x[v]``, ``y[v]``: the lower left corner; ``width[v]``, ``height[v]``: the box in tiles; ``option[v]``: a literal
    for each of ``options[v]``, of which one is true. ``time`` in quarters, ``wires[e]`` in half tiles by edge and
    ``adapters`` (a count) are exact or above; ``cost`` = w_t · time + 2 w_l Σ wires + 4 w_a · adapters ticks.
    """

    builder: Builder
    time: Any
    wires: list[Any]
    adapters: Any
    cost: Any

    @property
    def x(self) -> list[Any]:
        """Left sides."""
        return self.builder.x

    @property
    def y(self) -> list[Any]:
        """Lower sides."""
        return self.builder.y

    @property
    def width(self) -> list[Any]:
        """Widths in tiles."""
        return self.builder.width

    @property
    def height(self) -> list[Any]:
        """Heights in tiles."""
        return self.builder.height

    @property
    def option(self) -> list[list[Any]]:
        """One literal per option."""
        return self.builder.option

    def decode(self, value: Callable[[Any], float]) -> WaferSolution:
        """The floorplan that the variables stand for."""
        builder, problem = self.builder, self.builder.problem
        placements = []
        for v, name in enumerate(problem.names):
            number = next(i for i, literal in enumerate(builder.option[v]) if value(literal) > 0.5)
            x, y = round(value(builder.x[v])), round(value(builder.y[v]))
            placements.append(builder.sizing.options[v][number].placement(name, x, y))
        return WaferSolution(instance=problem.instance.name, placements=tuple(placements))

    def encode(self, solution: WaferSolution) -> list[tuple[Any, float]] | None:
        """Values of corners and options for ``solution`` (or its mirror image), None where no options are within."""
        chosen = choose(self.builder.sizing, solution)
        if chosen is None:
            return None
        pairs: list[tuple[Any, float]] = []
        for v, (number, x, y) in enumerate(chosen):
            if not (0 <= x <= self.builder.problem.width and 0 <= y <= self.builder.problem.height):
                return None
            pairs += [(self.builder.x[v], float(x)), (self.builder.y[v], float(y))]
            pairs += [(literal, float(i == number)) for i, literal in enumerate(self.builder.option[v])]
        return pairs


@dataclass(eq=False)
class WaferCpModel:
    """The CP-SAT model of one instance; ``assumptions``: label -> literal, where the choices ask for them."""

    instance: WaferInstance
    native: cp_model.CpModel
    variables: WaferCpVariables
    standing: Standing
    kind: Literal["mip", "cpsat"] = "cpsat"

    @property
    def assumptions(self) -> dict[str, Any]:
        """The literal that enforces each label's constraints (none with labels ``plain``)."""
        return self.variables.builder.assumptions

    def encode(self, solution: WaferSolution) -> list[tuple[Any, float]] | None:
        """Values of the corners and options, or None if the model has no options within the solution's boxes."""
        return self.variables.encode(solution)

    def decode(self, value: Callable[[Any], float]) -> WaferSolution:
        """The floorplan that the variables stand for."""
        return self.variables.decode(value)


def build(instance: WaferInstance, choices: WaferCpChoices | Mapping[str, Any] = WaferCpChoices()) -> WaferCpModel:
    """The CP-SAT model of ``instance``, minimising its score in ticks."""
    chosen = choices if isinstance(choices, WaferCpChoices) else WaferCpChoices(**choices)
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_wafer(model, instance, chosen)
    model.minimize(variables.cost)
    return WaferCpModel(instance, model, variables, chosen.standing(wafer_problem(instance)))


def add_wafer(
    model: cp_model.CpModel, instance: WaferInstance, choices: WaferCpChoices = WaferCpChoices(), prefix: str = ""
) -> WaferCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective.

    Constraints of your own on places need ``symmetry="none"``; on arguments ``options="all"``, of which only those are
    listed that the instance's own score can need.
    """
    assume = choices.labels == "assume"
    builder = Builder(model, sizing(wafer_problem(instance), choices, assume), prefix, assume)
    c0_domain(builder)
    c3_memory(builder)
    def_box(builder)
    c1_inside(builder)
    c2_no_overlap(builder, choices.boxes)
    if choices.symmetry == "reflections" and not assume:  # it must not stand for C1
        sym_reflections(builder)
    time = t1_time(builder)
    wires = t2_wire(builder)
    adapters = t3_adapters(builder)
    if "pairwise" in choices.cuts:
        cut_pairwise(builder, wires)
    if "triangle" in choices.cuts:
        cut_triangles(builder, wires)
    cut_blocks(builder, wires)
    weights = instance.weights
    cost = weights.time * time + 2 * weights.wire * sum(wires) + 4 * weights.adapter * adapters
    if choices.upper is not None:
        model.add(cost <= choices.upper)
    return WaferCpVariables(builder, time, wires, adapters, cost)
