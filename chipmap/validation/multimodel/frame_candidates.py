"""All schedules of frames of a tiny instance, for brute force: mappings, frames dropped, and whole starts.

A frame's segments begin at all whole times from its release on such that each takes at least 1 ns and the frame ends
by its deadline. So runs may overlap (C2), be too short for their segments (C7), or not follow (C8), which the checker
says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, prod

from chipmap.instances.multimodel.instance import FrameRun, MultiInstance, MultiSolution, Piece
from chipmap.validation.multimodel.frames import due, period, release


def count(instance: MultiInstance, parts: Sequence[Sequence[tuple[tuple[Piece, ...], ...]]]) -> int:
    """How many there are with these parts of the models (a single window each)."""
    total = 1
    for m, listed in enumerate(parts):
        spans = [_room(instance, m, number) for number in range(period(instance)[1][m])]
        total *= sum(prod(1 + comb(room, len(part[0])) for room in spans) for part in listed)
    return total


def candidates(
    instance: MultiInstance, parts: Sequence[Sequence[tuple[tuple[Piece, ...], ...]]]
) -> Iterator[MultiSolution]:
    """Every one."""
    for chosen in product(*parts):
        pieces = tuple(piece for part in chosen for piece in part[0])
        if any(len({piece.chiplet for piece in part[0]}) < len(part[0]) for part in chosen):
            continue
        ways = [
            _ways(instance, m, number, len(part[0]))
            for m, part in enumerate(chosen)
            for number in range(period(instance)[1][m])
        ]
        for runs in product(*ways):
            ran = tuple(run for run in runs if run is not None)
            yield MultiSolution(instance=instance.name, windows=(pieces,), frames=ran)


def _room(instance: MultiInstance, m: int, number: int) -> int:
    return due(instance, m, number) - release(instance, m, number)


def _ways(instance: MultiInstance, m: int, number: int, segments: int) -> list[FrameRun | None]:
    """Dropped, or run with these starts."""
    first, last = release(instance, m, number), due(instance, m, number)
    name = instance.models[m].name
    starts = combinations(range(first, last), segments)
    return [None, *(FrameRun(model=name, frame=number, starts=one) for one in starts)]
