"""The MIP of family ``ring``: one Pyomo block, to be built alone or inside a larger model.

Statement: ``docs/families/ring.md``; the paper's section 3, equations 1 to 5. Assignment by step variables
step[v, c] = [f(v) <= c], so that C1 and the links are differences of two variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, require_empty, stated, unit
from chipmap.formulations.ring.mip_assignment import (
    c0_domain,
    c0_domain_apart,
    c0_domain_together,
    c1_flow,
    c2_no_skipping,
    def_on,
    def_step,
    def_windows,
)
from chipmap.formulations.ring.mip_loads import c4_memory, def_cross, def_link, def_work, t1_chip, t2_link
from chipmap.formulations.ring.mip_triangle import (
    c3_triangle,
    c3_triangle_edge,
    c3_triangle_path,
    c3_triangle_reach,
    cut_average,
    cut_n1,
)
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem

#: Labels that are separated on demand: the user's function, by cuts (:mod:`chipmap.formulations.ring.mip_cuts`).
LAZY: tuple[str, ...] = ("C5",)


@dataclass(frozen=True)
class RingMipChoices:
    """How the MIP is stated.

    ``family``: ``full`` states C3 with edge and reach variables; ``path`` restricts every flow to f(v) <= f(u) + 1,
    which with C1 is sufficient for C3 (a restriction). ``cuts``: ``n1``, the necessary part of C3 as redundant rows;
    without them a conflict names the labels themselves. ``windows``: (lo, hi) by operation, fixed
    (:func:`chipmap.instances.ring.station_windows.station_windows`). ``upper``: cutoff, only solutions with cost <=
    upper ticks.
    """

    family: Literal["full", "path"] = "full"
    cuts: tuple[Literal["n1"], ...] = ("n1",)
    windows: Mapping[int, tuple[int, int]] | None = None
    upper: int | None = None

    @property
    def scope(self) -> Scope:
        """``path`` and windows of unknown origin leave out solutions; windows with ``upper`` are those of that target.

        With ``upper`` the model holds all solutions up to it: infeasible means that the optimum is above.
        """
        unknown = self.windows is not None and self.upper is None
        return Scope.SUBSET if self.family == "path" or unknown else Scope.WHOLE


def encode(block: pyo.Block, solution: RingSolution) -> list[tuple[Any, float]] | None:
    """Values of the free step variables of a block made by :func:`add_ring`, or None outside its fixings."""
    pairs = []
    if any((v, chip) not in block.step for v, chip in enumerate(solution.chips)):
        return None
    for (v, c), variable in block.step.items():
        if v >= len(solution.chips):
            return None
        value = int(solution.chips[v] <= c)
        if not variable.fixed:
            pairs.append((variable, float(value)))
        elif variable.value != value:
            return None
    return pairs


def decode(block: pyo.Block, instance: RingInstance, value: Callable[[Any], float]) -> RingSolution:
    """The mapping that the step variables of a block made by :func:`add_ring` stand for."""
    chips = [0] * len(instance.graph.operations)
    for (v, _), variable in block.step.items():
        chips[v] += (variable.value if variable.fixed else value(variable)) < 0.5
    return RingSolution(instance=instance.name, chips=tuple(chips))


def build(instance: RingInstance, choices: RingMipChoices | Mapping[str, Any] = RingMipChoices()) -> Built:
    """The MIP of ``instance`` (C1 to C4 as it names them, its cost mode), minimising ``ring.cost`` in ticks."""
    chosen = stated(RingMipChoices, choices)
    model = pyo.ConcreteModel(name=instance.name)
    model.ring = pyo.Block()
    add_ring(model.ring, instance, chosen)
    model.objective = pyo.Objective(expr=model.ring.cost)
    block = model.ring
    coders = partial(encode, block), partial(decode, block, instance)
    return Built("mip", instance, model, block.statement, chosen.scope, *coders)


def add_ring(block: pyo.Block, instance: RingInstance, choices: RingMipChoices = RingMipChoices()) -> None:
    """Fill the empty ``block`` with the MIP of ``instance``, without an Objective.

    Afterwards the block has, in ticks, the linear expressions ``cost``, ``terms["T1"]``, ``terms["T2"]``,
    ``chip_work[c]`` and (modes ``period`` and ``sum_forward``) ``link_load[c]``; with C4, ``chip_memory[c]`` in bytes;
    and the variables ``step[v, c]`` = [f(v) <= c] and ``on[v, c]`` = [f(v) = c]. Loads and memory are exact or above:
    put upper limits or costs on them. ``statement`` has the labels that it states. Raises :class:`InputError` for a
    block in use.
    """
    require_empty(block, "add_ring")
    state = block.statement = Statement(*LAZY)
    problem = ring_problem(instance)
    with PauseGC():
        def_step(block, problem)
        def_on(block, problem)
        if choices.windows is not None:
            def_windows(block, problem, choices.windows)
        state(c0_domain, block, problem)
        state(c0_domain_together, block, problem)
        state(c0_domain_apart, block, problem)
        if problem.has("C1"):
            state(c1_flow, block, problem)
        if problem.has("C2"):
            state(c2_no_skipping, block, problem)
        _triangle(block, problem, choices)
        _costs(block, problem, choices)


def _triangle(block: pyo.Block, problem: RingProblem, choices: RingMipChoices) -> None:
    state = block.statement
    if choices.family == "path":
        state(c3_triangle_path, block, problem)
    if not problem.has("C3"):
        return
    if choices.family == "full" or not problem.has("C1"):
        for function in (c3_triangle_edge, c3_triangle_reach, c3_triangle):
            state(function, block, problem)
    if "n1" in choices.cuts and problem.has("C1"):
        cut_n1(block, problem)


def _costs(block: pyo.Block, problem: RingProblem, choices: RingMipChoices) -> None:
    scale = unit(problem.total_ticks // problem.chips)
    block.slowest = pyo.Var(("T1", "T2"), bounds=(0, None))
    block.period = pyo.Var(bounds=(0, None))
    if problem.cost_mode != "sum":
        def_link(block, problem)
    if problem.cost_mode == "sum" or problem.has("C4"):
        def_cross(block, problem)
    def_work(block, problem)
    if problem.has("C4"):
        block.statement(c4_memory, block, problem, unit(problem.sram_bytes))
    block.statement(t1_chip, block, problem, scale)
    block.statement(t2_link, block, problem, scale)
    cut_average(block, problem, scale)
    block.def_period = pyo.Constraint(("T1", "T2"), rule=lambda b, term: b.period >= b.slowest[term])
    block.terms = pyo.Expression(("T1", "T2"), rule=lambda b, term: scale * b.slowest[term])
    block.cost = pyo.Expression(expr=scale * block.period)
    if choices.upper is not None:
        block.def_upper = pyo.Constraint(expr=block.period <= choices.upper / scale)
