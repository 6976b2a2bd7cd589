"""Part of a floorplan re-placed by CP-SAT at a given target time, the rest as it is.

Two kinds of model, both with a known floorplan among their solutions, so that they can only improve it:

- :func:`window`: some kernels are free in place and sizing, the others fixed.
- :func:`same_order`: all are free, but every two keep the direction in which they are apart; this needs no
  two-dimensional intervals and is solved for many kernels at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built
from chipmap.formulations.wafer.choices import Sizing
from chipmap.formulations.wafer.cpsat import WaferCpChoices, built, state_wires, variables_of
from chipmap.formulations.wafer.cpsat_boxes import Builder, c0_domain, c1_inside, c2_no_overlap, c5_kept_out, def_box
from chipmap.formulations.wafer.cpsat_pins import c4_pins
from chipmap.formulations.wafer.cpsat_terms import cut_pairwise, t1_time, t2_wire, t3_adapters
from chipmap.formulations.wafer.options import Option, channels, option_of
from chipmap.instances.wafer.instance import Placement, pinned
from chipmap.instances.wafer.problem import WaferProblem, least_ks, size

#: All options are within the memory.
BY_DOMAIN: tuple[str, ...] = ("C3",)
#: Options of a free kernel by its number, at the target time.
Menu = dict[int, list[Option]]


def with_labels(
    problem: WaferProblem, v: int, tau: int, tilings: Iterable[tuple[int, int]], wanted: Collection[int]
) -> list[Option]:
    """Options of kernel ``v`` with one of these (h, w), for every largest c; also with c_1 or c_n among ``wanted``.

    These are the sizings that save adapters at neighbours with these arguments. None is dominated by another.
    """
    convs = problem.type_arrays[int(problem.types[v])]
    if not len(convs):
        return []
    best: dict[tuple[object, ...], Option] = {}
    limit = max(problem.width, problem.height)
    for tiling in tilings:
        narrowest: dict[tuple[int, ...], int] = {}
        for largest in range(1, limit // (tiling[0] * tiling[1])):
            ends = [largest, *(one for one in wanted if one < largest)] if len(convs) > 1 else [largest]
            for first, last in product(ends, repeat=2):
                c = channels(len(convs), first, largest, last)
                k = least_ks(convs, *tiling, c, tau, problem.memory)
                if k is None:
                    continue
                upright, turned = (option_of(problem, tiling, c, k, tau, rotated) for rotated in (False, True))
                if upright.width >= narrowest.get(upright.labels, upright.width + 1):
                    continue  # a lower box with these labels is as narrow
                narrowest[upright.labels] = upright.width
                for one in (upright, turned):
                    if one.width <= problem.width and one.height <= problem.height:
                        best[(one.width, one.height, one.labels)] = one
    return list(best.values())


def window(problem: WaferProblem, placements: list[Placement], menu: Menu, tau: int) -> Built:
    """Re-place the kernels in ``menu``, each with one of its options or as it is; the others stay."""
    builder = _builder(problem, placements, menu, tau)
    for v, placement in enumerate(placements):
        if v not in menu:
            builder.model.add(builder.x[v] == placement.x)
            builder.model.add(builder.y[v] == placement.y)
    builder.statement(c2_no_overlap, builder)
    return _finish(builder, placements)


def same_order(problem: WaferProblem, placements: list[Placement], menu: Menu, tau: int) -> Built:
    """Re-place all kernels so that every two stay apart in a direction in which they are now (the widest gap)."""
    builder = _builder(problem, placements, menu, tau)
    builder.statement(c2_no_overlap_in_order, builder, placements)
    return _finish(builder, placements)


def c2_no_overlap_in_order(builder: Builder, placements: list[Placement]) -> None:
    """Sufficient for C2: every two kernels stay apart in the direction with the widest gap between them now."""
    boxes = [size(placement) for placement in placements]
    for v, b in enumerate(placements):
        for u, a in enumerate(placements[:v]):
            gaps = (
                (b.x - a.x - boxes[u][0], u, v, builder.x, builder.width),
                (a.x - b.x - boxes[v][0], v, u, builder.x, builder.width),
                (b.y - a.y - boxes[u][1], u, v, builder.y, builder.height),
                (a.y - b.y - boxes[v][1], v, u, builder.y, builder.height),
            )
            _, before, after, corner, sides = max(gaps, key=lambda gap: gap[0])
            builder.model.add(corner[before] + sides[before] <= corner[after])


def _builder(problem: WaferProblem, placements: list[Placement], menu: Menu, tau: int) -> Builder:
    chosen = []
    for v, placement in enumerate(placements):
        p = placement
        now = option_of(problem, (p.h, p.w), p.c, p.k, tau, p.rotated)
        chosen.append((now, *(option for option in menu.get(v, ()) if option[:4] != now[:4])))
    choices = WaferCpChoices(tau=tau, cuts=("pairwise",), symmetry="none")
    made = Sizing(problem, choices, tuple(chosen), tuple(map(len, chosen)), tuple(() for _ in chosen), 0, tau)
    builder = Builder(cp_model.CpModel(), made, "", False)
    builder.statement.labels.update(BY_DOMAIN)
    builder.statement(c0_domain, builder)
    def_box(builder)
    builder.statement(c1_inside, builder)
    if pinned(problem.instance):
        builder.statement(c4_pins, builder)
    if problem.instance.fabric.has_holes:
        builder.statement(c5_kept_out, builder)
    state_wires(builder)
    return builder


def _finish(builder: Builder, placements: list[Placement]) -> Built:
    """The objective, and the floorplan as it is as a hint."""
    state = builder.statement
    wires = state(t2_wire, builder)
    cut_pairwise(builder, wires)
    variables = variables_of(builder, state(t1_time, builder), wires, state(t3_adapters, builder))
    for v, placement in enumerate(placements):
        builder.model.add_hint(builder.x[v], placement.x)
        builder.model.add_hint(builder.y[v], placement.y)
        for i, literal in enumerate(builder.option[v]):
            builder.model.add_hint(literal, i == 0)
    return built(builder.model, variables, Scope.WINDOW)
