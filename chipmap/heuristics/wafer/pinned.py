"""Floorplans that obey C4, by plain code: pinned kernels first, then one by one to the lowest corner that is allowed.

A kernel of a group of ``together`` goes beside an earlier one of it. Corners are those of the fabric, of the boxes that
stand already, and of the rectangles forbidden to the kernel. Nothing is proved, and a floorplan may be missed.
"""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.deadline import Deadline
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.pinned import Tiles, fastest_in, free_of_rectangles, obeys, touch
from chipmap.instances.wafer.problem import IntArray, WaferProblem, size
from chipmap.instances.wafer.shapes import Shape, front, place
from chipmap.instances.wafer.vectors import arguments, least_widths

#: Target times that are tried, in equal ratios; boxes of a kernel at each.
TARGETS, BOXES = 8, 12


def floorplans(problem: WaferProblem, least: int, deadline: Deadline = Deadline()) -> Iterator[list[Placement]]:
    """Floorplans at target times from the longest one down to ``least`` quarters."""
    longest = max(problem.longest, least, 1)
    ratio = longest / max(1, least)
    taus = sorted({round(longest / ratio ** (step / (TARGETS - 1))) for step in range(TARGETS)}, reverse=True)
    fixed = _fixed(problem, deadline)
    for tau in taus:
        deadline.check()
        if (found := _Corners(problem, tau, fixed, deadline).floorplan()) is not None:
            yield found


def _fixed(problem: WaferProblem, deadline: Deadline) -> dict[str, Placement | None]:
    """The fastest way to fill the box of each pin that gives both sides; None where the kernel has no such box."""
    found, number = dict[str, Placement | None](), {name: v for v, name in enumerate(problem.names)}
    for pin in problem.instance.pins:
        if pin.width is not None and pin.height is not None:
            deadline.check()
            found[pin.kernel] = fastest_in(problem, number[pin.kernel], pin.width, pin.height)
    return found


class _Corners:
    """A floorplan at one target time on its way."""

    def __init__(self, problem: WaferProblem, tau: int, fixed: dict[str, Placement | None], deadline: Deadline) -> None:
        self.problem, self.instance, self.tau, self.fixed, self.deadline = (
            problem,
            problem.instance,
            tau,
            fixed,
            deadline,
        )
        self.fronts = [self._front(convs) for convs in problem.type_arrays]
        self.pins = {pin.kernel: pin for pin in self.instance.pins}
        self.boxes: dict[str, Tiles] = {}
        self.placed: dict[str, Placement] = {}

    def _front(self, convs: IntArray) -> list[Shape]:
        """The boxes worth considering of a type of kernel, by numpy."""
        self.deadline.check()
        limit = max(self.problem.width, self.problem.height)
        widths = least_widths(convs, self.tau, self.problem.memory, limit, arguments(limit))
        return [Shape(*row) for row in front(self.problem, *widths).tolist()]

    def floorplan(self) -> list[Placement] | None:
        """All kernels in the order of the problem; None where one finds no place."""
        names = self.problem.names
        for v in sorted(range(self.problem.n), key=self._rank):
            self.deadline.check()
            if not self._put(v):
                return None
        return [self.placed[name] for name in names] if obeys(self.instance, self.boxes) else None

    def _rank(self, v: int) -> tuple[int, int, int, int]:
        """Pinned kernels first, then groups one by one, then the largest."""
        name = self.problem.names[v]
        group = next((g for g, group in enumerate(self.instance.together) if name in group), None)
        boxes = self.fronts[int(self.problem.types[v])]
        area = min((shape.width * shape.height for shape in boxes), default=0)
        if name in self.pins:
            return 0, 0, 0, -area
        if group is not None:
            return 1, group, self.instance.together[group].index(name), v
        return 2, 0, 0, -area

    def _put(self, v: int) -> bool:
        """Give kernel ``v`` its place."""
        best: tuple[tuple[int, int, int, int], Placement, Tiles] | None = None
        name, pin = self.problem.names[v], self.pins.get(self.problem.names[v])
        for made in self._ways(v):
            width, height = size(made)
            corners = [(pin.x, pin.y)] if pin is not None else self._corners(name, width, height)
            for x, y in corners:
                box = x, y, width, height
                rank = (y + height, x + width, y, x)
                if (best is None or rank < best[0]) and self._allowed(name, box):
                    best = rank, made.replace(x=x, y=y), box
        if best is None:
            return False
        _, self.placed[name], self.boxes[name] = best
        return True

    def _ways(self, v: int) -> Iterator[Placement]:
        """The boxes of kernel ``v``: those of its pin, or a few within the target time."""
        pin = self.pins.get(self.problem.names[v])
        boxes = self.fronts[int(self.problem.types[v])]
        if pin is not None and pin.kernel in self.fixed:
            made = self.fixed[pin.kernel]
            yield from () if made is None else (made,)
            return
        if pin is not None and (pin.width is not None or pin.height is not None):
            for shape in boxes:
                self.deadline.check()
                made = fastest_in(self.problem, v, pin.width or shape.width, pin.height or shape.height)
                yield from () if made is None else (made,)
            return
        for shape in boxes[:: 1 + len(boxes) // BOXES]:
            yield place(self.problem, v, shape._replace(rotated=bool(shape.rotated)), self.tau, 0, 0)

    def _corners(self, name: str, width: int, height: int) -> set[tuple[int, int]]:
        """Corners at which a box of these sides may stand."""
        rectangles = [r for one in self.instance.forbidden if one.kernel == name for r in one.rectangles]
        others = [*self.boxes.values(), *((r.x, r.y, r.width, r.height) for r in rectangles)]
        xs = {0, self.problem.width - width}
        found = {(0, 0), *((x, 0) for x in xs), (0, self.problem.height - height)}
        for a, b, w, h in others:
            found |= {(a + w, b), (a, b + h), (a - width, b), (a, b - height), (a + w, 0), (0, b + h)}
            found |= {(a + w, b + h - height), (a + w - width, b + h), (a + w + 1, b), (a, b + h + 1)}
        return found

    def _allowed(self, name: str, box: Tiles) -> bool:
        """Whether the box lies inside, overlaps none, and obeys what C4 says of it and of those that stand already."""
        x, y, width, height = box
        if x < 0 or y < 0 or x + width > self.problem.width or y + height > self.problem.height:
            return False
        for a, b, w, h in self.boxes.values():
            if x < a + w and a < x + width and y < b + h and b < y + height:
                return False
        if not free_of_rectangles(self.instance, name, box):
            return False
        for group in self.instance.apart:
            if name in group and any(touch(box, self.boxes[other]) for other in group if other in self.boxes):
                return False
        for group in self.instance.together:
            if name in group:
                earlier = [self.boxes[other] for other in group[: group.index(name)] if other in self.boxes]
                if earlier and not any(touch(box, other) for other in earlier):
                    return False
        return True
