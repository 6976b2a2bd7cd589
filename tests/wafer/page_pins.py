"""C4 of family ``wafer`` as the page says it, tile by tile, and tiny instances with all four fields at random."""

from __future__ import annotations

from random import Random

from chipmap.instances.wafer import Forbidden, Pin, Rectangle, WaferInstance
from chipmap.records import InputError
from tests.wafer import tiny

#: (x, y, width, height) by kernel.
Boxes = dict[str, tuple[int, int, int, int]]
FIELDS = ("pins", "forbidden", "together", "apart")


def tiles(box: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    """The tiles that a box covers."""
    x, y, width, height = box
    return {(a, b) for a in range(x, x + width) for b in range(y, y + height)}


def border(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    """Whether a tile of one is next to a tile of the other, above, below, left or right of it."""
    theirs = tiles(other)
    return any((x + dx, y + dy) in theirs for x, y in tiles(one) for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)))


def obeys(instance: WaferInstance, boxes: Boxes) -> bool:
    """C4 of boxes that don't overlap."""
    for pin in instance.pins:
        x, y, width, height = boxes[pin.kernel]
        if (x, y) != (pin.x, pin.y) or pin.width not in (None, width) or pin.height not in (None, height):
            return False
    for one in instance.forbidden:
        for r in one.rectangles:
            if tiles(boxes[one.kernel]) & tiles((r.x, r.y, r.width, r.height)):
                return False
    for group in instance.together:
        for i, name in enumerate(group[1:], start=1):
            if not any(border(boxes[name], boxes[other]) for other in group[:i]):
                return False
    return not any(
        border(boxes[name], boxes[other])
        for group in instance.apart
        for i, name in enumerate(group)
        for other in group[:i]
    )


def optimum(instance: WaferInstance) -> int | None:
    """The least score of all floorplans that obey the page; None where there is none."""
    found = tiny.optimum(instance, lambda boxes: obeys(instance, boxes))
    return None if found is None else found[0]


def pinned_instance(random: Random) -> WaferInstance:
    """A random tiny instance with pins, forbidden tiles and groups at random; bad ones are drawn again."""
    while True:
        three = random.random() < 0.1  # their enumeration takes seconds
        base = tiny.instance(random, kernels=3 if three else 2, side=9 if three else 7, blocks=False)
        names = [kernel.name for kernel in base.kernels]
        width, height = base.fabric.width, base.fabric.height

        def some(most: int, names: list[str] = names) -> tuple[str, ...]:
            return tuple(random.sample(names, min(len(names), random.randint(0, most))))

        def group(names: list[str] = names) -> tuple[tuple[str, ...], ...]:
            if len(names) < 2 or random.random() < 0.4:
                return ()
            return (tuple(random.sample(names, random.randint(2, len(names)))),)

        pins = tuple(
            Pin(
                kernel=name,
                x=random.randint(0, width // 2),
                y=random.randint(0, height // 2),
                width=random.choice((None, None, 3, 4, 6)),
                height=random.choice((None, None, 2, 3, 4)),
            )
            for name in some(1)
        )
        forbidden = tuple(
            Forbidden(
                kernel=name,
                rectangles=tuple(
                    Rectangle(
                        x=random.randint(-1, width - 2),
                        y=random.randint(-1, height - 2),
                        width=random.randint(1, width),
                        height=random.randint(1, 3),
                    )
                    for _ in range(random.randint(1, 2))
                ),
            )
            for name in some(2)
        )
        try:
            made = base.replace(pins=pins, forbidden=forbidden, together=group(), apart=group())
            made.check()
        except InputError:
            continue
        if any(getattr(made, field) for field in FIELDS):
            return made
