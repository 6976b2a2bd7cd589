"""All schedules of a tiny instance of family ``multimodel``, for brute force.

Every model's layers are dealt to windows in all non-decreasing ways, each window's range is cut in all ways, and its
segments are put on all sequences of chiplets (C1 holds). Left out are schedules with an empty window before a
used one, and those in which two segments share a chiplet (they break C2); one of the latter comes first where there is
any, so that the checker has something to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, groupby, permutations, product
from math import prod

from chipmap.instances.multimodel.instance import Model, MultiInstance, MultiSolution, Piece
from chipmap.validation.multimodel import frame_candidates

#: A model's part: for each window its segments.
Part = tuple[tuple[Piece, ...], ...]
#: No more parts of one model than this are listed.
_FEW = 100_000


def count(instance: MultiInstance) -> int:
    """The number of combinations of the models' parts (and of their frames): at least that of the candidates."""
    if instance.task.objective == "frames":
        return frame_candidates.count(instance, _mappings(instance))
    return prod(len(_parts(instance, model)) for model in instance.models)


def candidates(instance: MultiInstance) -> Iterator[MultiSolution]:
    """Every schedule, but for those that the module's docstring leaves out."""
    if instance.task.objective == "frames":
        yield from frame_candidates.candidates(instance, _mappings(instance))
        return
    listed = [_parts(instance, model) for model in instance.models]
    refused = False
    for chosen in product(*listed):
        windows = [tuple(piece for part in chosen for piece in part[w]) for w in range(instance.task.windows)]
        used = [w for w, window in enumerate(windows) if window]
        if used != list(range(len(used))):
            continue
        shared = any(len({piece.chiplet for piece in window}) < len(window) for window in windows)
        if shared and refused:
            continue
        refused |= shared
        yield MultiSolution(instance=instance.name, windows=tuple(window for window in windows if window))


def _mappings(instance: MultiInstance) -> list[list[Part]]:
    """All ways to map each model for its frames: those of a single window."""
    single = instance.replace(task=instance.task.replace(windows=1))
    return [_parts(single, model) for model in instance.models]


def _parts(instance: MultiInstance, model: Model) -> list[Part]:
    """All ways to run ``model`` by itself."""
    found: list[Part] = []
    for dealt in combinations_with_replacement(range(instance.task.windows), len(model.layers)):
        runs = {w: [layer for layer, _ in group] for w, group in groupby(enumerate(dealt), key=lambda pair: pair[1])}
        ways = [list(_ways(instance, model, runs.get(w, []))) for w in range(instance.task.windows)]
        for part in product(*ways):
            found.append(part)
            if len(found) > _FEW:
                return found
    return found


def _ways(instance: MultiInstance, model: Model, layers: list[int]) -> Iterator[tuple[Piece, ...]]:
    """All cuts of consecutive ``layers`` into segments on different chiplets."""
    if not layers:
        yield ()
        return
    for cuts in range(min(len(layers), len(instance.module.chiplets))):
        for inner in combinations(layers[1:], cuts):
            firsts = (layers[0], *inner)
            lasts = (*(first - 1 for first in inner), layers[-1])
            for path in permutations((chiplet.name for chiplet in instance.module.chiplets), len(firsts)):
                yield tuple(
                    Piece(model=model.name, first=first, last=last, chiplet=chiplet)
                    for first, last, chiplet in zip(firsts, lasts, path, strict=True)
                )
