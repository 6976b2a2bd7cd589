"""Options and boxes of the kernels in the MIP: C0 to C3, and the symmetry of the fabric."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.wafer.choices import Sizing


def c0_domain(block: pyo.Block, made: Sizing) -> None:
    """C0: Σ_i option[v, i] = 1 for every kernel v."""
    listed = [(v, i) for v, chosen in enumerate(made.options) for i in range(len(chosen))]
    block.option = pyo.Var(listed, domain=pyo.Binary)
    rows = block.c0_domain = pyo.Constraint(pyo.Any)
    for v, chosen in enumerate(made.options):
        look()
        if chosen:
            rows[v] = pyo.quicksum(block.option[v, i] for i in range(len(chosen))) == 1


def c3_memory(block: pyo.Block, made: Sizing) -> None:
    """C3 holds in every option but those that are listed to name it: option[v, i] <= 0 for these."""
    rows = block.c3_memory = pyo.Constraint(pyo.Any)
    for v, beyond in enumerate(made.beyond_memory):
        for i in beyond:
            look()
            rows[v, i] = block.option[v, i] <= 0


def def_box(block: pyo.Block, made: Sizing) -> None:
    """Corners, and width[v] = Σ_i width of option i · option[v, i]; height alike."""
    n = range(made.problem.n)
    block.x = pyo.Var(n, domain=pyo.Integers, bounds=(0, made.problem.width))
    block.y = pyo.Var(n, domain=pyo.Integers, bounds=(0, made.problem.height))
    block.width = pyo.Expression(n, rule=lambda b, v: picked(b, v, [one.width for one in made.options[v]]))
    block.height = pyo.Expression(n, rule=lambda b, v: picked(b, v, [one.height for one in made.options[v]]))


def picked(block: pyo.Block, v: int, amounts: list[int]) -> Any:
    """The amount of the option that kernel ``v`` picks, as a linear expression."""
    return pyo.quicksum(amount * block.option[v, i] for i, amount in enumerate(amounts))


def c1_inside(block: pyo.Block, made: Sizing) -> None:
    """C1: x + width <= W and y + height <= H (x, y >= 0 by their domains)."""
    rows = block.c1_inside = pyo.Constraint(pyo.Any)
    for v in range(made.problem.n):
        look()
        rows[v, "x"] = block.x[v] + block.width[v] <= made.problem.width
        rows[v, "y"] = block.y[v] + block.height[v] <= made.problem.height


def c2_no_overlap(block: pyo.Block, made: Sizing) -> None:
    """C2: of two kernels one is left of, right of, below or above the other: ``before[a, b, direction]``, at least one.

    x_u + width_u <= x_v + M · (1 - [u left of v]); the others alike. M = W + the greatest width of u, so that the row
    is slack where the bracket is 0 without C1, too (or an infeasible model couldn't tell C1 and C2 apart).
    """
    pairs = [(u, v) for v in range(made.problem.n) for u in range(v)]
    before = block.before = pyo.Var(
        [(*key, name) for u, v in pairs for key in ((u, v), (v, u)) for name in "xy"], domain=pyo.Binary
    )
    apart = block.c2_no_overlap_apart = pyo.Constraint(pyo.Any)
    rows = block.c2_no_overlap = pyo.Constraint(pyo.Any)
    for u, v in pairs:
        apart[u, v] = pyo.quicksum(before[a, b, name] for a, b in ((u, v), (v, u)) for name in "xy") >= 1
        for a, b in ((u, v), (v, u)):
            look()
            wide = made.problem.width + max((option.width for option in made.options[a]), default=0)
            high = made.problem.height + max((option.height for option in made.options[a]), default=0)
            rows[a, b, "x"] = block.x[a] + block.width[a] <= block.x[b] + wide * (1 - before[a, b, "x"])
            rows[a, b, "y"] = block.y[a] + block.height[a] <= block.y[b] + high * (1 - before[a, b, "y"])


def sym_reflections(block: pyo.Block, made: Sizing) -> None:
    """The centre of kernel 0 lies in the lower left quarter; where x and y can be swapped, on or above the diagonal.

    Options that break C1 or C3 don't count, so that these rows never stand for those labels.
    """
    genuine = made.options[0][: made.genuine[0]]
    across = 2 * block.x[0] + picked(block, 0, [option.width for option in genuine])
    up = 2 * block.y[0] + picked(block, 0, [option.height for option in genuine])
    rows = block.sym_reflections = pyo.Constraint(pyo.Any)
    rows["x"] = across <= made.problem.width
    rows["y"] = up <= made.problem.height
    if made.square:
        rows["diagonal"] = across <= up
