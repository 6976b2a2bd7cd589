"""The CP-SAT model of family ``ring``: integer chips, literals within windows, clauses for the chip triangle.

Statement: ``docs/families/ring.md``; the paper's section 3, equations 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, stated
from chipmap.formulations.ring.cpsat_assignment import (
    Builder,
    Neighbourhood,
    c0_domain,
    c0_domain_apart,
    c0_domain_together,
    c1_flow,
    c2_no_skipping,
)
from chipmap.formulations.ring.cpsat_loads import Moves, c4_memory, t1_chip, t2_link
from chipmap.formulations.ring.cpsat_triangle import c3_triangle, c3_triangle_edge, c3_triangle_reach, cut_n1
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem

#: Labels that live in variable domains: the chips 0 … C - 1, windows, pins and forbidden chips.
BY_DOMAIN: tuple[str, ...] = ("C0",)
#: Labels that are separated on demand: the user's function, by cuts (:mod:`chipmap.formulations.ring.cpsat_cuts`).
LAZY: tuple[str, ...] = ("C5",)


@dataclass(frozen=True)
class RingCpChoices:
    """How the CP-SAT model is stated.

    ``objective``: ``minimise`` the period, or find any ``feasible`` mapping (with ``upper``: one at most that long).
    ``cuts``: ``n1``, the necessary part of C3 as redundant clauses. ``windows``, ``upper`` as for the MIP. ``labels``:
    ``assume`` gives every label a literal in ``assumptions``, so that an infeasible model names the constraints that
    clash (windows are left out). ``around``: only the operations on some adjacent chips of a mapping move, among these
    chips; ``upper`` and the period speak of these chips (and the links between them) alone.
    """

    objective: Literal["minimise", "feasible"] = "minimise"
    cuts: tuple[Literal["n1"], ...] = ("n1",)
    windows: Mapping[int, tuple[int, int]] | None = None
    upper: int | None = None
    labels: Literal["plain", "assume"] = "plain"
    around: Neighbourhood | None = None

    @property
    def scope(self) -> Scope:
        """Windows of unknown origin (no ``upper``) leave out solutions.

        With ``upper``, infeasible means: the optimum is above.
        """
        if self.around is not None:
            return Scope.WINDOW
        if self.objective == "feasible":
            return Scope.QUESTION
        unknown = self.windows is not None and self.upper is None and self.labels == "plain"
        return Scope.SUBSET if unknown else Scope.WHOLE


@dataclass(frozen=True, eq=False)
class RingCpVariables:
    """What :func:`add_ring` added: ``chip[v]`` is f(v); linear expressions in ticks and bytes for side constraints.

    ``cost`` is the period (None for objective ``feasible``). ``terms`` holds what T1 and T2 are the maximum of, one
    expression per chip and per link; ``chip_memory`` the bytes per chip (empty without C4); with a neighbourhood only
    for its own. Loads and memory are exact or above. ``on(v, c)`` gives the literal [f(v) = c].
    """

    chip: list[cp_model.IntVar]
    cost: cp_model.IntVar | None
    terms: dict[str, list[Any]]
    chip_memory: list[Any]
    on: Callable[[int, int], Any]
    assumptions: dict[str, Any]
    statement: Statement


def build(instance: RingInstance, choices: RingCpChoices | Mapping[str, Any] = RingCpChoices()) -> Built:
    """The CP-SAT model of ``instance`` (C1 to C4 as it names them, its cost mode)."""
    chosen = stated(RingCpChoices, choices)
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_ring(model, instance, chosen)
    if variables.cost is not None:
        model.minimize(variables.cost)
    return Built("cpsat", instance, model, variables.statement, chosen.scope, *coders(variables, instance), variables)


def coders(variables: RingCpVariables, instance: RingInstance) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """:func:`encode` and :func:`decode` for the variables of a model."""
    return partial(encode, variables.chip), partial(decode, variables.chip, instance)


def encode(chips: list[cp_model.IntVar], solution: RingSolution) -> list[tuple[Any, float]] | None:
    """Values of the chip variables, or None if the mapping is outside their domains."""
    if len(chips) != len(solution.chips):
        return None
    pairs = list(zip(chips, solution.chips, strict=True))
    return [(chip, float(c)) for chip, c in pairs] if all(chip.domain.contains(c) for chip, c in pairs) else None


def decode(chips: list[cp_model.IntVar], instance: RingInstance, value: Callable[[Any], float]) -> RingSolution:
    """The mapping that the chip variables stand for."""
    return RingSolution(instance=instance.name, chips=tuple(round(value(chip)) for chip in chips))


def add_ring(
    model: cp_model.CpModel, instance: RingInstance, choices: RingCpChoices = RingCpChoices(), prefix: str = ""
) -> RingCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective."""
    problem = ring_problem(instance)
    assume = choices.labels == "assume"
    builder = Builder(model, problem, None if assume else choices.windows, prefix, assume, choices.around)
    state = Statement(*BY_DOMAIN, *LAZY)
    state(c0_domain, builder)
    state(c0_domain_together, builder)
    state(c0_domain_apart, builder)
    if problem.has("C1"):
        state(c1_flow, builder)
    if problem.has("C2"):
        state(c2_no_skipping, builder)
    def_on(builder)
    if problem.has("C3"):
        edge = state(c3_triangle_edge, builder)
        state(c3_triangle, builder, edge, state(c3_triangle_reach, builder, edge))
        if "n1" in choices.cuts and problem.has("C1") and not assume:
            cut_n1(builder)
    moves = Moves(builder)
    memory = state(c4_memory, builder, moves) if problem.has("C4") else []
    cost, limit = _period(builder, choices)
    terms: dict[str, list[Any]] = {"T1": [], "T2": []}
    if limit is not None:
        terms = {"T1": state(t1_chip, builder, moves, limit), "T2": state(t2_link, builder, moves, limit)}
    return RingCpVariables(builder.chip, cost, terms, memory, builder.on, builder.assumptions, state)


def def_on(builder: Builder) -> None:
    """Every computing operation is on exactly one chip of its domain."""
    for v in np.flatnonzero(builder.problem.computing).tolist():
        if len(builder.domain[v]) > 1:
            builder.model.add_exactly_one([builder.on(v, c) for c in builder.domain[v]])


def _period(builder: Builder, choices: RingCpChoices) -> tuple[cp_model.IntVar | None, Any]:
    """(the period variable or None, what the loads must not exceed: the variable, the cutoff, or None)."""
    if choices.objective == "feasible":
        return None, choices.upper
    problem = builder.problem
    floor = problem.least_ticks
    top = problem.most_ticks if choices.upper is None else choices.upper
    if top < floor:
        builder.clause("t1_chip", [])
    period = builder.model.new_int_var(min(floor, top), max(floor, top), f"{builder.prefix}period")
    return period, period
