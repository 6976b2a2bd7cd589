"""How a model of family ``wafer`` may be stated: what the MIP and the CP-SAT model have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from chipmap.family import Scope
from chipmap.formulations.wafer.options import (
    Kept,
    Limits,
    Option,
    boxed,
    exact,
    labels_of,
    least_time,
    option_of,
    options,
)
from chipmap.instances.wafer.instance import Placement, WaferSolution, lopsided
from chipmap.instances.wafer.pinned import fastest_in
from chipmap.instances.wafer.problem import IntArray, WaferProblem, memory_k, size
from chipmap.records import InputError

#: As the choices that are given.
Asked = TypeVar("Asked", bound="WaferChoices")
Cut = Literal["area", "pairwise", "triangle"]


@dataclass(frozen=True)
class WaferChoices:
    """What both models can be asked for.

    ``tau``: every kernel within that many quarters, which the cost then counts as the time; None: the time is a
    variable over all attainable levels. ``upper``: cutoff, only floorplans with cost <= upper ticks. ``options``: which
    sizings are listed (:mod:`chipmap.formulations.wafer.options`).

    ``cuts``, redundant rows: ``area`` leaves out times at which the least areas of all kernels don't fit the fabric;
    ``pairwise``: centres of kernels that don't overlap are at least half the sum of their shorter sides apart (page
    of the models, "Valid inequalities"); ``triangle``: three connected kernels need half a perimeter of that sum
    and the shortest again.
    ``symmetry``: of the floorplans that reflections of the fabric make of each other, keep one; choose ``none`` if
    constraints of your own tell left from right.
    """

    tau: int | None = None
    upper: int | None = None
    options: Kept = "all"
    cuts: tuple[Cut, ...] = ("area", "pairwise", "triangle")
    symmetry: Literal["reflections", "none"] = "reflections"

    def scope(self, problem: WaferProblem) -> Scope:
        """A given ``tau`` may lie above the floorplan's own time; a short list leaves out solutions."""
        if self.tau is not None:
            return Scope.QUESTION
        return Scope.WHOLE if exact(problem, self.options) else Scope.SUBSET


@dataclass(frozen=True, eq=False)
class Sizing:
    """The options of each kernel, and what follows from them and the choices for every model.

    ``options[v]`` are those of kernel v, the first ``genuine[v]`` of them within C1 and C3; ``beyond_memory[v]`` those
    that break C3. ``earliest`` and ``latest`` quarters bound the time.
    """

    problem: WaferProblem
    choices: WaferChoices
    options: tuple[tuple[Option, ...], ...]
    genuine: tuple[int, ...]
    beyond_memory: tuple[tuple[int, ...], ...]
    earliest: int
    latest: int

    @property
    def thinnest(self) -> list[int]:
        """For each kernel the least shorter side of its options (0 where it has none)."""
        each = zip(self.options, self.genuine, strict=True)
        return [min((option.thin for option in chosen[:count]), default=0) for chosen, count in each]

    def by_label(self, v: int, label: int) -> dict[int, list[int]]:
        """value -> the options of kernel ``v`` with that label."""
        found: dict[int, list[int]] = {}
        for i, option in enumerate(self.options[v]):
            found.setdefault(option.labels[label], []).append(i)
        return found

    @property
    def labelled(self) -> bool:
        """Whether the options' labels cost something."""
        return self.problem.instance.weights.adapter > 0

    @cached_property
    def square(self) -> bool:
        """Whether swapping x and y is a symmetry: of the fabric, and of the options with their labels."""
        sides = [{self._side(option, 1) for option in chosen} for chosen in self.options]
        turned = [{self._side(option, -1) for option in chosen} for chosen in self.options]
        return self.problem.width == self.problem.height and sides == turned

    def swapped(self, v: int, number: int) -> int:
        """The option of kernel ``v`` like that one with width and height swapped, where ``square`` holds."""
        wanted = self._side(self.options[v][number], -1)
        return next(other for other, option in enumerate(self.options[v]) if self._side(option, 1) == wanted)

    def _side(self, option: Option, step: int) -> tuple[object, ...]:
        return (*option[:2][::step], option.time, option.labels if self.labelled else ())


def unreflected(problem: WaferProblem, choices: Asked) -> Asked:
    """The choices without the symmetry of reflections where C4 to C7 or sides tell left from right."""
    return replace(choices, symmetry="none") if lopsided(problem.instance) else choices


def sizing(problem: WaferProblem, choices: WaferChoices, witnesses: bool) -> Sizing:
    """The options that the choices ask for; ``witnesses``: also some that the model has to forbid by C1 or C3.

    Raises :class:`InputError` for a tau or upper below 0.
    """
    for name in ("tau", "upper"):
        value = getattr(choices, name)
        if value is not None and value < 0:
            raise InputError(f"is {value}", name, "Give a number of quarters or ticks, at least 0.")
    by_type, earliest = _listed(problem, choices)
    slowest = max((option.time for one in by_type for option in one), default=earliest)
    first = max((min((option.time for option in one), default=0) for one in by_type), default=0)
    more = [_witnesses(problem, t, one, earliest) if witnesses else [] for t, one in enumerate(by_type)]
    own = _pinned_boxes(problem, choices)
    broken = [
        [len(by_type[t]) + len(own[v]) + i for i, (_, memory) in enumerate(more[t]) if memory]
        for v, t in enumerate(problem.types.tolist())
    ]
    return Sizing(
        problem,
        choices,
        tuple((*by_type[t], *own[v], *(option for option, _ in more[t])) for v, t in enumerate(problem.types.tolist())),
        tuple(len(by_type[t]) + len(own[v]) for v, t in enumerate(problem.types.tolist())),
        tuple(map(tuple, broken)),
        max(first, earliest),
        max(slowest, earliest),
    )


def _pinned_boxes(problem: WaferProblem, choices: WaferChoices) -> list[tuple[Option, ...]]:
    """For each kernel the option of the box that C4 pins it to, where a short list may lack it."""
    sides = {pin.kernel: (pin.width, pin.height) for pin in problem.instance.pins if pin.width and pin.height}
    found: list[tuple[Option, ...]] = [() for _ in problem.names]
    for v, name in enumerate(problem.names):
        if choices.options != "front" or name not in sides:
            continue
        p = fastest_in(problem, v, *map(int, sides[name]))
        if p is not None:
            time = problem.time_of(v, p)
            if choices.tau is None or time <= choices.tau:
                found[v] = (option_of(problem, (p.h, p.w), p.c, p.k, choices.tau or time, p.rotated),)
    return found


def _listed(problem: WaferProblem, choices: WaferChoices) -> tuple[tuple[tuple[Option, ...], ...], int]:
    """(options by type, the earliest time)."""
    weight = problem.instance.weights.time
    latest = choices.upper // weight if choices.upper is not None and weight else None
    earliest = 0
    if choices.tau is not None:
        limits = Limits(choices.options, tau=choices.tau, boxes=boxed(problem))
    else:
        earliest = least_time(problem) or 0 if "area" in choices.cuts else 0
        limits = Limits(choices.options, latest=latest, earliest=earliest, boxes=boxed(problem))
    by_type = options(problem, limits)
    if latest is not None and earliest > latest:
        by_type = tuple(() for _ in by_type)
    return by_type, earliest


def _witnesses(problem: WaferProblem, t: int, genuine: tuple[Option, ...], earliest: int) -> list[tuple[Option, bool]]:
    """Options of type ``t`` that break C1 or C3 (True), so that a model can say which labels clash.

    The smallest box of all, where the memory or the fabric refuses it: without C3 or C1 it would do. A kernel without
    any option also has one larger than the fabric: with enough columns any memory suffices.
    """
    convs, table = problem.type_arrays[t], problem.tables[t]
    if table is not None:
        return _beyond_table(problem, table, earliest)
    one = (1,) * len(convs)
    fits = all(memory_k(conv, 1, 1, 1, problem.memory) == 1 for conv in convs)
    boxes = [(3 * len(convs), 2), (2, 3 * len(convs))]
    found = [
        (Option(*box, earliest, (1, 1, 1, 1), one, one, bool(rotated)), not fits)
        for rotated, box in enumerate(boxes)
        if not fits or box[0] > problem.width or box[1] > problem.height
    ]
    if not genuine:
        found.append((Option(problem.width + 1, problem.height + 1, earliest, (1, 1, 1, 1), one, one, False), False))
    return found


def _beyond_table(problem: WaferProblem, table: IntArray, earliest: int) -> list[tuple[Option, bool]]:
    """The choices of a table that break C1 or C3 (True), both ways round."""
    found = []
    for width, height, time, words in table.tolist():
        for rotated in (False, True):
            option = option_of(problem, (height, width), (), (), max(time, earliest), rotated)
            if words > problem.memory or option.width > problem.width or option.height > problem.height:
                found.append((option, words > problem.memory))
    return found


def triangles(problem: WaferProblem) -> list[tuple[int, int, int]]:
    """Kernels a < b < c with an edge between every two of them."""
    joined: dict[int, set[int]] = {}
    for u, v in problem.edges.tolist():
        joined.setdefault(min(u, v), set()).add(max(u, v))
    return [
        (a, b, c)
        for a, later in sorted(joined.items())
        for b in sorted(later)
        for c in sorted(later & joined.get(b, set()))
    ]


def triangle_length(sides: list[int]) -> int:
    """A triangle's wires in half tiles are at least this, for rectangles with these shorter sides.

    Σ of the three distances is twice the width plus the height of the box round the centres. Either the rectangles
    stand in a row, or two pairs that share one are apart in different directions: width plus height >= half of the sum
    of the three sides and the least again.
    """
    return 2 * (sum(sides) + min(sides))


Chosen = tuple[int, int, int]


def choose(sizing: Sizing, solution: WaferSolution) -> list[Chosen] | None:
    """For each kernel (number of its option, x, y): ``solution`` with each box replaced by an option inside it.

    None where a kernel has no such option. Labels are kept where adapters cost, centres where wires do. With symmetry,
    the floorplan is reflected as the models want it.
    """
    problem = sizing.problem
    placed = {placement.kernel: placement for placement in solution.placements}
    if set(placed) != set(problem.names):
        return None
    found = []
    for v, name in enumerate(problem.names):
        chosen = _choose(sizing, v, placed[name])
        if chosen is None:
            return None
        found.append(chosen)
    return reflect(sizing, found) if sizing.choices.symmetry == "reflections" else found


def _choose(sizing: Sizing, v: int, placement: Placement) -> Chosen | None:
    problem = sizing.problem
    weights = problem.instance.weights
    width, height = size(placement)
    time = problem.time_of(v, placement)
    tau = sizing.choices.tau
    if tau is not None and time > tau:
        return None
    time = max(time, sizing.earliest if tau is None else tau)
    labels = labels_of(problem, (placement.h, placement.w), placement.c, placement.k)
    best = None
    for number, option in enumerate(sizing.options[v][: sizing.genuine[v]]):
        left, low = width - option.width, height - option.height
        if boxed(problem) and (left or low):
            continue
        if left < 0 or low < 0 or option.time > time or (weights.adapter and option.labels != labels):
            continue
        rank = (left % 2 + low % 2, option.time, number)
        if best is None or rank < best[0]:
            best = (rank, (number, placement.x + left // 2, placement.y + low // 2))
    return best[1] if best else None


def reflect(sizing: Sizing, chosen: list[Chosen]) -> list[Chosen]:
    """The mirror image of a floorplan in which kernel 0 lies in the part of the fabric that symmetry leaves it."""
    problem = sizing.problem
    first = sizing.options[0][chosen[0][0]]
    flip_x = 2 * chosen[0][1] + first.width > problem.width
    flip_y = 2 * chosen[0][2] + first.height > problem.height
    turned = []
    for v, (number, x, y) in enumerate(chosen):
        option = sizing.options[v][number]
        x = problem.width - option.width - x if flip_x else x
        y = problem.height - option.height - y if flip_y else y
        turned.append((number, x, y))
    _, x, y = turned[0]
    if 2 * x + first.width <= 2 * y + first.height or not sizing.square:
        return turned
    return [(sizing.swapped(v, number), y, x) for v, (number, x, y) in enumerate(turned)]


class Decisions(NamedTuple):
    """The decision variables of a model: corners ``x[v]``, ``y[v]``, and ``option(v, i)``, 1 where kernel v runs as its
    option i."""

    sizing: Sizing
    x: Any
    y: Any
    option: Callable[[int, int], Any]

    def encode(self, solution: WaferSolution) -> list[tuple[Any, float]] | None:
        """Values for ``solution`` (or its mirror image); None where no options lie within its boxes."""
        chosen, problem = choose(self.sizing, solution), self.sizing.problem
        if chosen is None or any(not (0 <= x <= problem.width and 0 <= y <= problem.height) for _, x, y in chosen):
            return None
        pairs: list[tuple[Any, float]] = []
        for v, (number, x, y) in enumerate(chosen):
            pairs += [(self.x[v], float(x)), (self.y[v], float(y))]
            pairs += [(self.option(v, i), float(i == number)) for i in range(len(self.sizing.options[v]))]
        return pairs

    def decode(self, value: Callable[[Any], float]) -> WaferSolution:
        """The floorplan that they stand for."""
        problem, placements = self.sizing.problem, []
        for v, (name, listed) in enumerate(zip(problem.names, self.sizing.options, strict=True)):
            number = max(range(len(listed)), key=lambda i: value(self.option(v, i)))
            placements.append(listed[number].placement(name, round(value(self.x[v])), round(value(self.y[v]))))
        return WaferSolution(instance=problem.instance.name, placements=tuple(placements))
