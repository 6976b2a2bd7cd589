"""A problem narrowed to where its layers may run (C6): costs elsewhere are raised above those of any schedule.

Schedules that obey C6 cost what they did, so every lower bound of the narrowed problem holds for them, whatever methods
know of C6. Groups (``together``, ``apart``) are more than chiplets by layer: :func:`narrowed` leaves them out,
:func:`restricted` gives each of their layers one chiplet, and :func:`parted` some, around a schedule. Then searches
obey them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.multimodel.instance import asked_places, places_of
from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem, Segment
from chipmap.records import kept

#: A layer: model, position.
Layer = tuple[int, int]
#: Raised times and energies add up to less: sums of times stay exact in floating point.
MOST_TIME, MOST_ENERGY = 2**52, 2**60
#: Tries to find chiplets for groups, each from the start.
TRIES = 50


@dataclass(frozen=True, eq=False)
class Pinned:
    """C6 by positions: ``allowed`` [L, C] of each model; ``groups`` of layers that share a chiplet, ``apart`` groups of
    layers of which no two do."""

    allowed: tuple[NDArray[np.bool_], ...]
    groups: tuple[tuple[Layer, ...], ...]
    apart: tuple[tuple[Layer, ...], ...]

    @property
    def grouped(self) -> bool:
        """Whether there is more than chiplets by layer."""
        return any(len(group) > 1 for group in (*self.groups, *self.apart))


def pinned(problem: MultiProblem) -> Pinned | None:
    """What C6 asks of the problem; None where it isn't in force."""
    return kept(problem.instance, "_pinned", lambda _: _positions(problem))


def _positions(problem: MultiProblem) -> Pinned | None:
    instance = problem.instance
    if not asked_places(instance).any:
        return None
    places = places_of(instance)
    chips = [chiplet.name for chiplet in instance.module.chiplets]
    at = {f"{model.name}/{one.name}": (m, k) for m, model in enumerate(instance.models)
          for k, one in enumerate(model.layers)}  # fmt: skip
    allowed = tuple(np.ones((model.layers, problem.chiplets), dtype=np.bool_) for model in problem.models)
    for name, left in places.allowed.items():
        m, k = at[name]
        allowed[m][k] = [chip in left for chip in chips]
    groups, apart = (
        tuple(tuple(at[name] for name in group) for group in fields) for fields in (places.groups, places.apart)
    )
    return Pinned(allowed, groups, apart)


def narrowed(problem: MultiProblem) -> MultiProblem:
    """The problem narrowed to its pins and forbidden chiplets; itself where C6 isn't in force."""
    asked = pinned(problem)
    if asked is None or problem.allowed is not None:
        return problem
    return kept(problem.instance, "_narrowed", lambda _: _raised(problem, asked.allowed))


def restricted(problem: MultiProblem, chips: dict[Layer, int]) -> MultiProblem:
    """The problem with single chiplets for these layers, beside its pins and forbidden chiplets."""
    asked = pinned(problem)
    plain = problem.plain or problem
    assert asked is not None
    allowed = tuple(one.copy() for one in asked.allowed)
    for (m, k), c in chips.items():
        allowed[m][k] = np.arange(problem.chiplets) == c
    return _raised(plain, allowed)


def parted(problem: MultiProblem, windows: Sequence[Sequence[Segment]], random: Random) -> MultiProblem:
    """The problem with chiplets for the layers of groups around a schedule that obeys C6: layers that share one keep
    it, and the chiplets that none of a group apart has are dealt out among it. Whatever obeys that obeys the groups."""
    asked, chip = pinned(problem), chips_of(windows)
    plain = problem.plain or problem
    assert asked is not None
    allowed = tuple(one.copy() for one in asked.allowed)
    for group in asked.apart:
        has = {chip[layer]: i for i, layer in enumerate(group)}
        dealt = np.array([has.get(c, random.randrange(len(group))) for c in range(problem.chiplets)])
        for i, (m, k) in enumerate(group):
            allowed[m][k] &= dealt == i
    for m, k in (layer for group in asked.groups for layer in group):
        allowed[m][k] = np.arange(problem.chiplets) == chip[m, k]
    return _raised(plain, allowed)


def _raised(problem: MultiProblem, allowed: tuple[NDArray[np.bool_], ...]) -> MultiProblem:
    layers = sum(model.layers for model in problem.models)
    time = max(0, min(problem.most_time + 1, (MOST_TIME - problem.most_time) // layers))
    energy = max(0, min(problem.most_energy + 1, (MOST_ENERGY - problem.most_energy) // layers))

    def more(model: ModelCosts, own: NDArray[np.bool_]) -> ModelCosts:
        longer: IntArray = np.where(own, 0, -(-time // model.q))
        return replace(model, time=model.time + longer, energy=model.energy + np.where(own, 0, energy))

    models = tuple(more(model, own) for model, own in zip(problem.models, allowed, strict=True))
    return replace(problem, models=models, allowed=allowed, plain=problem)


def obeys(problem: MultiProblem, windows: Sequence[Sequence[Segment]]) -> bool:
    """Whether a schedule that obeys C0 and C1 obeys C6."""
    asked = pinned(problem)
    if asked is None:
        return True
    chip = chips_of(windows)
    return (
        all(asked.allowed[m][k, c] for (m, k), c in chip.items())
        and all(len({chip[layer] for layer in group}) == 1 for group in asked.groups)
        and all(len({chip[layer] for layer in group}) == len(group) for group in asked.apart)
    )


def chips_of(windows: Sequence[Sequence[Segment]]) -> dict[Layer, int]:
    """The chiplet of each layer."""
    return {(m, k): c for window in windows for m, i, j, c in window for k in range(i, j + 1)}


def drawn_chips(
    problem: MultiProblem, random: Random, near: Mapping[Layer, int] | None = None
) -> dict[Layer, int] | None:
    """Chiplets for the layers in groups, drawn so that the groups obey C6, if possible from those that ``near`` says of
    a group's layers; None where no try finds them."""
    asked = pinned(problem)
    assert asked is not None
    near = near or {}
    share = {layer: group for group in asked.groups for layer in group}
    layers = dict.fromkeys(layer for group in (*asked.groups, *asked.apart) for layer in group)
    units = list(dict.fromkeys(share.get(layer, (layer,)) for layer in layers))
    for _ in range(TRIES):
        chips: dict[Layer, int] = {}
        # those with few chiplets first, else by chance
        for unit in sorted(units, key=lambda unit: (int(asked.allowed[unit[0][0]][unit[0][1]].sum()), random.random())):
            taken = {chips[other] for group in asked.apart if not set(unit).isdisjoint(group) for other in group
                     if other in chips}  # fmt: skip
            (m, k) = unit[0]
            free = [int(c) for c in np.flatnonzero(asked.allowed[m][k]) if int(c) not in taken]
            if not free:
                break
            wanted = [near[layer] for layer in unit if near.get(layer) in free]
            chips |= dict.fromkeys(unit, random.choice(wanted or free))
        else:
            return chips
    return None
