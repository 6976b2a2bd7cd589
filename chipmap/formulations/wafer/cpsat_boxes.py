"""Options and boxes of the kernels for CP-SAT: C0 to C3, C5, and the symmetry of the fabric."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from chipmap.formulations.built import Statement
from chipmap.formulations.cpsat import LabelledModel
from chipmap.formulations.wafer.choices import Sizing
from chipmap.instances.wafer.holes import obstacles
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
        self.spans: tuple[list[Any], list[Any]] | None = None

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
    builder.model.add_no_overlap_2d(*spans(builder, builder.assumption("c2_no_overlap")))


def c5_kept_out(builder: Builder) -> None:
    """C5: the boxes and the obstacles don't overlap; under an assumption, each box lies on a side of each obstacle."""
    model, problem = builder.model, builder.problem
    areas = obstacles(problem.instance.fabric)
    if not builder.assumption("c5_kept_out"):
        x_intervals, y_intervals = spans(builder, [])
        x_intervals = [*x_intervals, *(model.new_fixed_size_interval_var(x, width, "") for x, _, width, _ in areas)]
        y_intervals = [*y_intervals, *(model.new_fixed_size_interval_var(y, height, "") for _, y, _, height in areas)]
        model.add_no_overlap_2d(x_intervals, y_intervals)
        return
    for v in range(problem.n):
        x, y = builder.x[v], builder.y[v]
        right, top = x + builder.width[v], y + builder.height[v]
        for left, low, width, height in areas:
            ways = [right <= left, x >= left + width, top <= low, y >= low + height]
            literals = [builder.literal("beside") for _ in ways]
            for way, literal in zip(ways, literals, strict=True):
                model.add(way).only_enforce_if(literal)
            builder.clause("c5_kept_out", literals)


def spans(builder: Builder, assumed: list[Any]) -> tuple[list[Any], list[Any]]:
    """The intervals that the boxes cover in x and in y, made once; under a literal, where one is ``assumed``."""
    if builder.spans is not None:
        return builder.spans
    x_intervals: list[Any] = []
    y_intervals: list[Any] = []
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
    builder.spans = x_intervals, y_intervals
    return builder.spans


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
