"""The front of an instance's terms: solutions of which none is as good as another in all terms and better in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chipmap.deadline import Deadline
from chipmap.family import family_of, resolve
from chipmap.kernels import plainly
from chipmap.records import InputError, Record
from chipmap.run import SolveOptions

#: Amounts of the terms of one solution, without weights.
Amounts = tuple[int, ...]
Found = TypeVar("Found", bound=Record)


@dataclass(frozen=True)
class Axis:
    """A term that the objective weights: its ``label`` and ``name``, and ``unit``, of which one count is ``per_count``.

    The term costs ``ticks`` a count.
    """

    label: str
    name: str
    unit: str
    per_count: float
    ticks: int


@dataclass(frozen=True)
class Point:
    """A solution that the checker accepts, with its amounts on every axis.

    ``proved``: no solution is as good on all axes and better on one. ``gap``: with the weights of one of the solves,
    no solution has less than 1 - gap times this one's sum; 0 where it is proved, 1 where nothing is known.
    """

    amounts: Amounts
    solution: Record
    proved: bool
    gap: float


@dataclass(frozen=True)
class Front:
    """The points by their amounts. ``complete``: every solution is matched by one of them on all axes.

    ``planes``: no solution's amounts times the weights sum to less than the bound.
    """

    instance: Record
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    complete: bool
    planes: tuple[tuple[Amounts, int], ...] = ()

    def objective(self, point: Point) -> int:
        """The instance's objective of a point in ticks."""
        return sum(axis.ticks * amount for axis, amount in zip(self.axes, point.amounts, strict=True))

    def natural(self) -> dict[str, Any]:
        """The front as plain data, amounts in the units of their axes."""
        import msgspec

        return {
            "instance": getattr(self.instance, "name", ""),
            "axes": [{"term": axis.label, "name": axis.name, "unit": axis.unit} for axis in self.axes],
            "complete": self.complete,
            "points": [
                {
                    "amounts": [a * axis.per_count for a, axis in zip(point.amounts, self.axes, strict=True)],
                    "objective": self.objective(point) * family_of(self.instance).unit_per_tick,
                    "proved": point.proved,
                    "gap": point.gap,
                    "solution": msgspec.to_builtins(point.solution),
                }
                for point in self.points
            ],
        }


def matches(a: Amounts, b: Amounts) -> bool:
    """Whether ``a`` is as good as ``b`` on all axes."""
    return all(x <= y for x, y in zip(a, b, strict=True))


def undominated(found: Iterable[tuple[Amounts, Found]]) -> list[tuple[Amounts, Found]]:
    """Those that no other is as good as on all axes, one of each kind, by their amounts."""
    kept: list[tuple[Amounts, Found]] = []
    for amounts, solution in sorted(found, key=lambda one: one[0]):
        if not any(matches(other, amounts) for other, _ in kept):
            kept.append((amounts, solution))
    return kept


class Regions:
    """Where solutions may lie that no known point matches, as boxes: amounts below a corner on every axis.

    ``open`` are the corners to search (None: no limit). A point cuts every region in which it lies into one part per
    axis, in which that axis is below the point's. Parts within another region, or within an empty one, go.
    """

    def __init__(self, axes: int) -> None:
        self.open: list[tuple[float, ...]] = [(float("inf"),) * axes]
        self.empty: list[tuple[float, ...]] = []

    def point(self, amounts: Sequence[int]) -> None:
        """Cut the regions by a point."""
        parts: list[tuple[float, ...]] = []
        for corner in self.open:
            if all(x < y for x, y in zip(amounts, corner, strict=True)):
                parts += [(*corner[:i], amount, *corner[i + 1 :]) for i, amount in enumerate(amounts)]
            else:
                parts.append(corner)
        self.open = []
        for i, part in enumerate(parts):
            others = [*self.empty, *parts[:i], *(one for one in parts[i + 1 :] if one != part)]
            if not any(all(x <= y for x, y in zip(part, other, strict=True)) for other in others):
                self.open.append(part)

    def nothing(self, corner: tuple[float, ...]) -> None:
        """There is no solution in the region of that corner."""
        self.open.remove(corner)
        self.empty.append(corner)


def front(
    instance: Record,
    options: SolveOptions | None = None,
    solves: int = 9,
    told: Callable[[str], None] | None = None,
    outer: Deadline | None = None,
    ready: bool = True,
) -> Front:
    """The front of ``instance`` within the time limit; where it isn't found exactly, by so many ``solves``.

    ``told`` hears of each step. ``outer`` may end it, and so does Ctrl-C, with the points so far. Small instances run
    as plain Python for a while. Raises :class:`InputError` for a family that has none, and unless ``ready``
    :class:`chipmap.deadline.Unready` where a small instance needs compiled functions.
    """
    family = family_of(instance)
    if not family.front:
        what = f"family {family.name!r} has no front of its terms"
        raise InputError(what, "front", "`chipmap bench` solves an instance for several limits or weights.")
    options = options or SolveOptions()
    options.check()
    if solves < 1:
        raise InputError(f"is {solves}", "--solves", "Give 1 or more.")
    if options.deterministic:
        raise InputError("a front follows the clock", "--deterministic", "Leave it out.")
    words = told or (lambda _: None)
    with plainly(family.is_small(instance), ready):
        found: Front = resolve(family.front)(instance, options, solves, words, outer or Deadline())
    return found
