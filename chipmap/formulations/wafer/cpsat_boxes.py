"""Options and boxes of the kernels for CP-SAT: C0 to C3, and the symmetry of the fabric."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from chipmap.formulations.built import Statement
from chipmap.formulations.cpsat import LabelledModel
from chipmap.formulations.wafer.choices import Sizing
from chipmap.instances.wafer.problem import WaferProblem


class Builder(LabelledModel):
    """A ``CpModel`` on its way: corner, box and option literals of each kernel; ``statement`` is what it states."""

    def __init__(self, model: cp_model.CpModel, sizing: Sizing, prefix: str, assume: bool) -> None:
        super().__init__(model, prefix, assume)
        self.sizing, self.statement = sizing, Statement()
        problem = self.problem
        self.x = [self.integer(0, problem.width, f"x[{v}]") for v in range(problem.n)]
        self.y = [self.integer(0, problem.height, f"y[{v}]") for v in range(problem.n)]
        self.option = [
            [model.new_bool_var(f"{prefix}option[{v},{i}]") for i in range(len(chosen))]
            for v, chosen in enumerate(sizing.options)
        ]
        self.width: list[Any] = []
        self.height: list[Any] = []

    @property
    def problem(self) -> WaferProblem:
        """The arrays of the instance."""
        return self.sizing.problem

    def picked(self, v: int, amounts: list[int]) -> Any:
        """The amount of the option that kernel ``v`` picks, as a linear expression."""
        return cp_model.LinearExpr.weighted_sum(self.option[v], amounts)


def c0_domain(builder: Builder) -> None:
    """C0: every kernel runs in exactly one way."""
    for literals in builder.option:
        if literals:
            builder.model.add_exactly_one(literals)


def c3_memory(builder: Builder) -> None:
    """C3 holds in every option but those that are listed to name it. A kernel without options has no place."""
    for literals, beyond in zip(builder.option, builder.sizing.beyond_memory, strict=True):
        if not literals:
            builder.model.add_bool_or([])
        for i in beyond:
            builder.enforce("c3_memory", builder.model.add_bool_and([~literals[i]]))


def def_box(builder: Builder) -> None:
    """width[v] = Σ width of option i · option[v, i]; height alike."""
    for v, chosen in enumerate(builder.sizing.options):
        builder.width.append(_side(builder, v, [option.width for option in chosen], "width"))
        builder.height.append(_side(builder, v, [option.height for option in chosen], "height"))


def _side(builder: Builder, v: int, sizes: list[int], name: str) -> cp_model.IntVar:
    domain = cp_model.Domain.from_values(sizes or [0])
    variable = builder.model.new_int_var_from_domain(domain, f"{builder.prefix}{name}[{v}]")
    builder.model.add(variable == builder.picked(v, sizes))
    return variable


def c1_inside(builder: Builder) -> None:
    """C1: x + width <= W and y + height <= H (x, y >= 0 by domain)."""
    problem = builder.problem
    for v in range(problem.n):
        builder.enforce("c1_inside", builder.model.add(builder.x[v] + builder.width[v] <= problem.width))
        builder.enforce("c1_inside", builder.model.add(builder.y[v] + builder.height[v] <= problem.height))


def c2_no_overlap(builder: Builder) -> None:
    """C2: the boxes don't overlap."""
    x_intervals: list[Any] = []
    y_intervals: list[Any] = []
    assumed = builder.assumption("c2_no_overlap")
    for v in range(builder.problem.n):
        for start, sizes, intervals, end in (
            (builder.x[v], builder.width[v], x_intervals, "right"),
            (builder.y[v], builder.height[v], y_intervals, "top"),
        ):
            stop = start + sizes
            name = f"{builder.prefix}{end}[{v}]"
            if assumed:
                side = builder.integer(0, builder.problem.width + builder.problem.height, name)
                intervals.append(builder.model.new_optional_interval_var(start, sizes, side, assumed[0], name))
            else:
                intervals.append(builder.model.new_interval_var(start, sizes, _end(builder, stop, name), name))
    builder.model.add_no_overlap_2d(x_intervals, y_intervals)


def _end(builder: Builder, stop: Any, name: str) -> cp_model.IntVar:
    """A variable equal to ``stop`` (intervals take no sum of two variables)."""
    side = builder.integer(0, max(builder.problem.width, builder.problem.height), name)
    builder.model.add(side == stop)
    return side


def sym_reflections(builder: Builder) -> None:
    """The centre of kernel 0 lies in the lower left quarter; where x and y can be swapped, on or above the diagonal."""
    across = 2 * builder.x[0] + builder.width[0]
    up = 2 * builder.y[0] + builder.height[0]
    builder.model.add(across <= builder.problem.width)
    builder.model.add(up <= builder.problem.height)
    if builder.sizing.square:
        builder.model.add(across <= up)
