"""Pairs of family ``wafer``: words of memory, width and height one unit apart, by ``docs/families/wafer.md``.

Whether boxes fit is tried place by place. Memory falls in c and k, so that for a height each convolution has the
greatest c that it leaves, and the least k that fits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from random import Random
from typing import Any

from benchmarks.infeasible.pairs import Labels, Pair
from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.generators import explicit

COMPLETE = ("auto", "mip", "cpsat", "exact")
OTHERS = ("bounds", "greedy", "rows")
#: H, W, R, S, C, K of a convolution (the stride plays no part in its box).
Conv = tuple[int, int, int, int, int, int]


def convolutions(kernel: Any) -> tuple[Conv, ...]:
    """The convolutions of a kernel, by the page's table."""
    a = kernel.arguments
    if kernel.kind == "conv":
        return ((a["H"], a["W"], a["R"], a["S"], a["C"], a["K"]),)
    h, w, f = a["H"], a["W"], a["F"]
    return (h, w, 1, 1, f, f // 4), (h, w, 3, 3, f // 4, f // 4), (h, w, 1, 1, f // 4, f)


def words(conv: Conv, h: int, w: int, c: int, k: int) -> Fraction:
    """Memory in words per tile."""
    height, width, r, s, channels, out = conv
    whole = Fraction(channels, c) * Fraction(out, k) * r * s
    return whole + Fraction(width + s - 1, w) * Fraction(height + r - 1, h) * Fraction(out, k)


@cache
def boxes(convs: tuple[Conv, ...], most: int, memory: int | None) -> frozenset[tuple[int, int]]:
    """The least widths by height, up to ``most`` tiles a side, both orientations; ``memory`` None: any."""
    found = set[tuple[int, int]]()
    for h in range(1, most // 2 + 1):
        for w in range(1, most // (2 * h) + 1):
            for c in range(1, most // (h * w)):
                least = [_least(conv, h, w, c, memory, most) for conv in convs]
                if all(least):
                    size = (h * w * (c + 1), 3 * sum(least))
                    found |= {size, size[::-1]}
    return frozenset(size for size in found if max(size) <= most)


def _least(conv: Conv, h: int, w: int, c: int, memory: int | None, most: int) -> int:
    return next((k for k in range(1, most // 3 + 1) if memory is None or words(conv, h, w, c, k) <= memory), 0)


def fit(kernels: tuple[tuple[Conv, ...], ...], width: int, height: int, memory: int | None, apart: bool) -> bool:
    """Whether all kernels have boxes on the fabric, without overlap where they must be ``apart``."""
    sizes = []
    for convs in kernels:
        own = {(x, y) for x, y in boxes(convs, max(width, height), memory) if x <= width and y <= height}
        own = {one for one in own if not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in own)}
        if not own:
            return False
        sizes.append(sorted(own))
    return not apart or _placed(sorted(sizes, key=len), width, height, 0)


def _placed(sizes: list[list[tuple[int, int]]], width: int, height: int, taken: int) -> bool:
    """Whether boxes of all kernels find places beside the tiles ``taken`` (bits)."""
    if not sizes:
        return True
    for x, y in sizes[0]:
        row = (1 << x) - 1
        box = sum(row << (width * i) for i in range(y))
        for j in range(height - y + 1):
            for i in range(width - x + 1):
                here = box << (width * j + i)
                if not here & taken and _placed(sizes[1:], width, height, taken | here):
                    return True
    return False


def _fits(instance: WaferInstance, labels: Labels = frozenset(("C1", "C2", "C3"))) -> bool:
    """Whether ``labels`` can hold together. Without C1 there is room for everything beyond the fabric."""
    if "C1" not in labels:
        return True
    fabric, kernels = instance.fabric, tuple(convolutions(kernel) for kernel in instance.kernels)
    memory = fabric.memory_words if "C3" in labels else None
    return fit(kernels, fabric.width, fabric.height, memory, "C2" in labels)


def drawn(random: Random) -> WaferInstance:
    """One to three convolutions, or a block and a convolution, on a fabric of a few tiles."""
    width, height = random.choice(((6, 3), (7, 4), (9, 2), (5, 5), (4, 4), (3, 8), (12, 2), (6, 5), (8, 4)))
    kernels: dict[str, dict[str, Any]] = {}
    for name in "abc"[: random.choice((1, 2, 2, 3))]:
        sides = {key: random.randint(1, 6) for key in "HWCK"}
        kernels[name] = {**sides, "R": random.choice((1, 3)), "S": random.choice((1, 2)), "T": random.choice((1, 2))}
    if random.random() < 0.15:
        width, height = random.choice(((9, 4), (10, 4), (9, 5)))
        kernels["a"] = {"kind": "dblock", "H": random.randint(1, 4), "W": random.randint(1, 4), "F": 4}
        kernels.pop("c", None)
    pairs = [[a, b] for a in kernels for b in kernels if a < b and random.random() < 0.4]
    return explicit(
        kernels=kernels,
        edges=pairs,
        width=width,
        height=height,
        memory_words=random.choice((12, 20, 40, 200, 24576)),
        wire_weight=random.choice((0, 1)),
        adapter_weight=random.choice((0, 5)),
        name="pair",
    )


def pair(random: Random) -> Pair | None:
    """A pair from a random instance; None where it gives none."""
    near = drawn(random)
    field = random.choice(("memory_words", "width", "height"))
    if not _fits(near):
        return None
    while getattr(near.fabric, field) > 1:
        tight = _changed(near, field, getattr(near.fabric, field) - 1)
        if not _fits(tight):
            labels = frozenset(("C1", "C2", "C3"))
            return Pair(field, tight, near, labels, partial(_contradict, tight))
        near = _lowest(near, field) if field == "memory_words" else tight
    return None


def _contradict(instance: WaferInstance, labels: Labels) -> bool:
    return not _fits(instance, labels)


def _changed(instance: WaferInstance, field: str, value: int) -> WaferInstance:
    return instance.replace(fabric=instance.fabric.replace(**{field: value}))


def _lowest(instance: WaferInstance, field: str) -> WaferInstance:
    """The instance with the least value with which it has a floorplan, by bisection."""
    low, high = 0, getattr(instance.fabric, field)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(_changed(instance, field, middle)) else (middle, high)
    return _changed(instance, field, high)
