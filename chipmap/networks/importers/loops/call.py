"""A step of a program as its rules see it: operands with their layouts, and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from chipmap.networks.graph import Loops
from chipmap.networks.importers.loops.layouts import WHOLE, Layout, Place, Shape, Split, located, placed
from chipmap.networks.importers.steps import Step, Value


class Operand(NamedTuple):
    """A tensor that a step reads: its shape and layout, or None and its ``stored`` bytes if it is known beforehand."""

    shape: Shape
    layout: Layout | None
    stored: int = 0

    @property
    def fixed(self) -> bool:
        """Whether it is a parameter or constant."""
        return self.layout is None


class Outcome(NamedTuple):
    """The loop nest of a step (None: not known), and the layouts of what it makes."""

    loops: Loops | None
    layouts: tuple[Layout, ...]


@dataclass
class Call:
    """A computing step: position, operands in order, and what it makes.

    ``wanted``: readers want blocks that are so many times smaller than what it makes in a row; 0: they need all of it.
    ``asks`` collects such wishes of this step (:meth:`ask`).
    """

    index: int
    step: Step
    operands: list[Operand]
    made: list[Value]
    wanted: int = 1
    asks: dict[int, int] = field(default_factory=dict)

    def argument(self, *names: str) -> Any:
        """The first of these arguments that the step has; None without any."""
        given = self.step.arguments
        return next((given[name] for name in names if given.get(name) is not None), None)

    def numbers(self, *names: str) -> list[int] | None:
        """The first of these arguments that the step has as whole numbers; None if it is anything else."""
        value = self.argument(*names)
        listed = list(value) if isinstance(value, list | tuple) else [value]
        return listed if all(isinstance(one, int) and not isinstance(one, bool) for one in listed) else None

    def axes(self, rank: int, *names: str) -> list[int] | None:
        """The first of these arguments as axes counted from the front; None for anything else."""
        given = self.numbers(*names)
        if given is None or any(not -rank <= axis < max(rank, 1) for axis in given):
            return None
        return [axis % max(rank, 1) for axis in given]

    def axis(self, rank: int, *names: str, default: int | None = None) -> int | None:
        """The first of these arguments as one axis; ``default`` where the step has none of them."""
        if self.argument(*names) is None:
            return default
        axes = self.axes(rank, *names)
        return axes[0] if axes is not None and len(axes) == 1 else None

    def whole(self, loops: Loops | None = None) -> Outcome:
        """What a step does that is not split: every chip makes all of it."""
        return Outcome(loops, (WHOLE,) * len(self.made))

    def ask(self, split: Split, factor: int) -> None:
        """Ask the maker of a split for blocks that are ``factor`` times smaller."""
        if split.maker >= 0 and factor > 1:
            self.asks.setdefault(split.maker, factor)

    def ask_whole(self, operands: Sequence[Operand]) -> None:
        """Operands don't lie alike: ask the makers of those that are smaller than the largest not to split them."""
        split = [operand for operand in operands if isinstance(operand.layout, Split)]
        most = max((prod(operand.shape) for operand in split), default=0)
        for operand in split:
            if isinstance(operand.layout, Split) and operand.layout.maker >= 0 and prod(operand.shape) < most:
                self.asks[operand.layout.maker] = 0

    def chosen(self, axis: int) -> Place | None:
        """A split of the first result's ``axis`` that this step may choose: in smaller blocks where readers want them.

        A product with parameters may give each part whatever features it likes, as parameters lie as they must. None
        where its readers need all of it.
        """
        size = self.made[0].shape[axis]
        if size < 2 or not self.wanted:
            return None
        extent = size // self.wanted if size % self.wanted == 0 and size // self.wanted > 1 else size
        return Place(axis, extent, extent, self.index)

    def needed_whole(self, place: Place, operands: Sequence[Operand], channel: int | None = None) -> int:
        """Bytes of parameters and constants that each part needs all of: they don't reach along the axis that is split.

        With ``channel`` vectors belong to that axis, else axes are counted from the last.
        """
        shape, total = self.made[0].shape, 0
        for operand in operands:
            vector = channel is not None and len(operand.shape) == 1
            axis = place.axis - len(shape) + len(operand.shape)
            along = place.axis == channel if vector else axis >= 0
            if operand.fixed and not (along and operand.shape[0 if vector else axis] == shape[place.axis]):
                total += operand.stored
        return total

    def layouts(self, place: Place) -> tuple[Layout, ...]:
        """Layouts of all results: split at ``place``, where they have such an axis."""
        first = self.made[0].shape
        return tuple(
            placed(place, value.shape)
            if len(value.shape) == len(first) and value.shape[place.axis] == first[place.axis]
            else "lost"
            for value in self.made
        )


def place_of(operand: Operand) -> Place | None:
    """Where an operand is split; None where it isn't, or where that can't be told."""
    return located(operand.layout, operand.shape) if isinstance(operand.layout, Split) else None
