"""All floorplans of a tiny instance of family ``wafer``, for brute force.

Why they are all: a kernel's box is max h · w · (c_i + 1) by 3 · Σ k_i tiles, so that only finitely many arguments give
a box within the fabric, and every one of them is tried, in both orientations, at every place. None is left out for
being dominated (a wider box can have its centre nearer). Two things are left out. Floorplans with an overlap break C2,
whatever their arguments; one of them comes first, so that the checker has something to refuse. And a mirrored
floorplan obeys the same constraints at the same objective, so that the first kernel's centre need not lie in the right
or the upper half of the fabric; unless C4 to C7 or sides name places of the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import prod

from chipmap.instances.wafer.instance import Kernel, Placement, WaferInstance, WaferSolution
from chipmap.validation.wafer.facts import Box, box, convolutions

#: Above so many combinations of single placements none are counted one by one.
COUNTED = 4_000_000
#: No more placements than this of one kernel are listed; then the count exceeds every limit.
_FEW = 50_000

Option = tuple[Placement, Box]


def count(instance: WaferInstance) -> int:
    """The number of candidates, or of combinations with overlap where these are too many to tell them apart."""
    options = _options(instance)
    total = prod(map(len, options))
    if max(map(len, options)) >= _FEW:
        return max(total, COUNTED + 1)
    if total > COUNTED or not total:
        return total
    return 1 + sum(1 for _ in _apart(options, []))


def candidates(instance: WaferInstance) -> Iterator[WaferSolution]:
    """Every floorplan in the domain C0 and within C1, but for those that the module's docstring leaves out."""
    options = _options(instance)
    if all(options):
        yield WaferSolution(instance=instance.name, placements=tuple(one[0][0] for one in options))
        for chosen in _apart(options, []):
            yield WaferSolution(instance=instance.name, placements=tuple(placement for placement, _ in chosen))


def _options(instance: WaferInstance) -> list[list[Option]]:
    """For each kernel its placements within the fabric; of the first those in the lower left, if mirrors are alike."""
    found: list[list[Option]] = []
    for kernel in (kernel for kernel in instance.kernels if kernel.placed):
        found.append(list(islice(_placements(instance, kernel), _FEW)))
        if prod(map(len, found)) > 8 * COUNTED:  # too many already, also after mirrors are left out
            return found
    width, height = instance.fabric.width, instance.fabric.height
    named = instance.pins or instance.forbidden or instance.fabric.has_holes
    lopsided = named or instance.sides or instance.crossing
    if len(found[0]) < _FEW and not lopsided:
        found[0] = [(p, b) for p, b in found[0] if b.centre2[0] <= width and b.centre2[1] <= height]
    return found


def _placements(instance: WaferInstance, kernel: Kernel) -> Iterator[Option]:
    fabric, many = instance.fabric, len(convolutions(kernel))
    side = max(fabric.width, fabric.height)
    for w, h in dict.fromkeys((one.width, one.height) for one in kernel.choices):
        for rotated in (False, True):
            wide, high = (h, w) if rotated else (w, h)
            for x, y in product(range(fabric.width - wide + 1), range(fabric.height - high + 1)):
                p = Placement(kernel=kernel.name, h=h, w=w, c=(), k=(), x=x, y=y, rotated=rotated)
                yield p, Box(x, y, wide, high)
    if kernel.choices:
        return
    for h, w in product(range(1, side // 2 + 1), repeat=2):
        tallest, widest = side // (h * w) - 1, side // 3 - many + 1
        for c in product(range(1, tallest + 1), repeat=many):
            for k in product(range(1, widest + 1), repeat=many):
                for rotated in (False, True):
                    p = Placement(kernel=kernel.name, h=h, w=w, c=c, k=k, x=0, y=0, rotated=rotated)
                    b = box(p)
                    for x, y in product(range(fabric.width - b.width + 1), range(fabric.height - b.height + 1)):
                        there = Placement(kernel=kernel.name, h=h, w=w, c=c, k=k, x=x, y=y, rotated=rotated)
                        yield there, Box(x, y, b.width, b.height)


def _apart(options: list[list[Option]], chosen: list[Option]) -> Iterator[list[Option]]:
    """Every choice of one option per kernel without overlap."""
    if len(chosen) == len(options):
        yield chosen
        return
    for option in options[len(chosen)]:
        if not any(_overlap(option[1], other) for _, other in chosen):
            yield from _apart(options, [*chosen, option])


def _overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height
