"""Instances that ask for less or for more than a given one: what is bounded or searched in place of it."""

from __future__ import annotations

from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import WaferProblem


def without_holes(instance: WaferInstance) -> WaferInstance:
    """``instance`` on a fabric whose tiles are all free (C5 left out)."""
    return instance.replace(fabric=instance.fabric.replace(keep_out=(), defects=()))


def easier(instance: WaferInstance) -> WaferInstance | None:
    """``instance`` without C4, C5 and kernels that have tables: no floorplan scores more there, so that its bounds
    hold. None where no kernel is left."""
    kernels = tuple(kernel for kernel in instance.kernels if not kernel.choices)
    names = {kernel.name for kernel in kernels}
    edges = tuple(edge for edge in instance.edges if set(edge) <= names)
    bare = without_holes(instance).replace(pins=(), forbidden=(), together=(), apart=())
    return bare.replace(kernels=kernels, edges=edges) if any(kernel.placed for kernel in kernels) else None


def in_the_open(problem: WaferProblem) -> tuple[WaferInstance, int, int] | None:
    """The instance on the largest free rectangle of the fabric, and that rectangle's corner: its floorplans, moved
    there, obey C5. None with C4, which names tiles, and where all tiles are free."""
    instance, room = problem.instance, problem.room
    plain = easier(instance)
    if room is None or plain is None or plain.replace(fabric=instance.fabric) != instance:
        return None
    areas = [width * int(height) for width, height in enumerate(room.tallest)]
    width = max(range(len(areas)), key=areas.__getitem__)
    if not areas[width]:
        return None
    fabric = plain.fabric.replace(width=width, height=int(room.tallest[width]))
    x, y = room.corner[width].tolist()
    return plain.replace(fabric=fabric), x, y
