"""Instances that ask for less or for more than a given one: what is bounded or searched in place of it."""

from __future__ import annotations

from math import gcd

from chipmap.instances.wafer.instance import WaferInstance, pinned, special, tabled
from chipmap.instances.wafer.problem import WaferProblem

#: Edges that stand for one edge of much traffic, at most: where floorplans are looked for, and for bounds.
MOST_EDGES, MOST_FOR_BOUNDS = 8, 64


def without_holes(instance: WaferInstance) -> WaferInstance:
    """``instance`` on a fabric whose tiles are all free (C5 left out)."""
    return instance.replace(fabric=instance.fabric.replace(keep_out=(), defects=()))


def easier(instance: WaferInstance) -> WaferInstance | None:
    """``instance`` without C4, C6, C7, sides and kernels that have tables: no floorplan scores more there, so that its
    bounds hold. None where no kernel is left. Of traffic as much is left as :func:`_multiplied` keeps."""
    kernels = tuple(kernel for kernel in instance.kernels if not kernel.choices)
    names = {kernel.name for kernel in kernels}
    plain = _plain(instance, least=True).replace(fabric=instance.fabric)
    edges = tuple(edge for edge in plain.edges if set(edge) <= names)
    return plain.replace(kernels=kernels, edges=edges) if any(kernel.placed for kernel in kernels) else None


def in_the_open(problem: WaferProblem) -> tuple[WaferInstance, int, int] | None:
    """An instance that all engines know, on the largest free rectangle of the fabric, and that rectangle's corner.

    Its floorplans, moved there, obey C5. Whether they obey C6 and C7, and what they cost with sides and traffic, has to
    be asked anew. None with C4, which names tiles, and with tables; and where all engines know the instance.
    """
    instance, room = problem.instance, problem.room
    if pinned(instance) or tabled(instance) or not special(instance):
        return None
    plain = _plain(instance, least=False)
    if room is None:
        return plain, 0, 0
    areas = [width * int(height) for width, height in enumerate(room.tallest)]
    width = max(range(len(areas)), key=areas.__getitem__)
    if not areas[width]:
        return None
    fabric = plain.fabric.replace(width=width, height=int(room.tallest[width]))
    x, y = room.corner[width].tolist()
    return plain.replace(fabric=fabric), x, y


def _plain(instance: WaferInstance, least: bool) -> WaferInstance:
    """``instance`` without C4 to C7, sides and traffic, its edges multiplied by traffic."""
    edges, wire = _multiplied(instance, least)
    bare = without_holes(instance).replace(edges=edges, weights=instance.weights.replace(wire=wire))
    return bare.replace(pins=(), forbidden=(), together=(), apart=(), sides=(), traffic=(), crossing=())


def _multiplied(instance: WaferInstance, least: bool) -> tuple[tuple[tuple[str, str], ...], int]:
    """Edges without traffic, and a weight of wires, in place of edges with traffic.

    With q of traffic as a unit an edge is given traffic / q times, rounded down (``least``) or to the nearest, and the
    weight of wires is q times as much. Where adapters cost, every edge is given once at most.
    """
    traffic, wire = instance.traffic, instance.weights.wire
    some = [amount for amount in traffic if amount]
    if not some:
        return instance.edges, 0 if traffic else wire
    if instance.weights.adapter:
        unit = max(sorted(set(some)), key=lambda one: one * sum(amount >= one for amount in some))
        edges = zip(instance.edges, traffic, strict=True)
        return tuple(edge for edge, amount in edges if amount >= unit or not least), wire * unit
    unit, most = gcd(*some), MOST_FOR_BOUNDS if least else MOST_EDGES
    if max(some) > most * unit:
        unit = -(-max(some) // most)
    counts = [amount // unit if least else (amount + unit // 2) // unit or min(amount, 1) for amount in traffic]
    edges_of = zip(instance.edges, counts, strict=True)
    return tuple(edge for edge, count in edges_of for _ in range(count)), wire * unit
