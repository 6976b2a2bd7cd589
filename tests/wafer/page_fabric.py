"""C5 of family ``wafer`` as the page says it, tile by tile, and tiny instances with keep-out areas and defects."""

from __future__ import annotations

from random import Random

from chipmap.instances.wafer import Rectangle, WaferInstance
from tests.wafer import tiny
from tests.wafer.page_pins import Boxes, tiles


def kept_out(instance: WaferInstance, boxes: Boxes) -> bool:
    """Whether no kernel covers a tile of a keep-out area or a defective one."""
    fabric = instance.fabric
    taken = set(fabric.defects).union(*(tiles((r.x, r.y, r.width, r.height)) for r in fabric.keep_out))
    return not any(tiles(box) & taken for box in boxes.values())


def holed_instance(random: Random) -> WaferInstance:
    """A random tiny instance with areas and defects, few or many."""
    three = random.random() < 0.1  # their enumeration takes seconds
    base = tiny.instance(random, kernels=3 if three else 2, side=9, blocks=random.random() < 0.15)
    width, height = base.fabric.width, base.fabric.height
    areas, defects = random.choice(((0, 1), (0, 3), (0, 6), (1, 0), (1, 2), (2, 0), (2, 4), (3, 1)))
    keep_out = tuple(
        Rectangle(
            x=random.randint(-1, width - 1),
            y=random.randint(-1, height - 1),
            width=random.randint(1, 4),
            height=random.randint(1, 4),
        )
        for _ in range(areas)
    )
    spots = tuple((random.randrange(width), random.randrange(height)) for _ in range(defects))
    return base.replace(fabric=base.fabric.replace(keep_out=keep_out, defects=spots))


def optimum(instance: WaferInstance) -> int | None:
    """The least score of all floorplans that obey C5; None where there is none."""
    found = tiny.optimum(instance, lambda boxes: kept_out(instance, boxes))
    return None if found is None else found[0]
