"""What the page says about a kernel of family ``wafer`` with given execution arguments, in whole numbers.

Section "What a kernel needs" of ``docs/families/wafer.md``. Written from the page alone; it shares nothing with the
arrays that models and heuristics work on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from chipmap.instances.wafer.instance import Choice, Kernel, Placement

#: Ticks per unit of the score: times are multiples of a quarter.
TICKS = 4


@dataclass(frozen=True)
class Conv:
    """One convolution: height and width of its input, of its filter, channels in and out, stride, and how many
    thousandths of the formula's time it takes."""

    height: int
    width: int
    filter_height: int
    filter_width: int
    inputs: int
    outputs: int
    stride: int
    permille: int = 1000

    def ticks(self, h: int, w: int, c: int, k: int) -> int:
        """Time in quarters of a step, rounded up: 4 · ⌈H/h⌉ ⌈W/w⌉ ⌈C/c⌉ ⌈K/k⌉ · RS / T² · φ."""
        rounds = _up(self.height, h) * _up(self.width, w) * _up(self.inputs, c) * _up(self.outputs, k)
        return _up(TICKS * rounds * self.filter_height * self.filter_width * self.permille, 1000 * self.stride**2)

    def words(self, h: int, w: int, c: int, k: int) -> Fraction:
        """Words of memory per tile: C/c · K/k · RS of weights and (W+S-1)/w · (H+R-1)/h · K/k of tensor."""
        weights = Fraction(self.inputs * self.outputs * self.filter_height * self.filter_width, c * k)
        across, down = self.width + self.filter_width - 1, self.height + self.filter_height - 1
        return weights + Fraction(across * down * self.outputs, w * h * k)


def convolutions(kernel: Kernel) -> tuple[Conv, ...]:
    """The convolutions of a kernel, in order."""
    return tuple(replace(conv, permille=kernel.time_permille) for conv in _formulas(kernel))


def _formulas(kernel: Kernel) -> tuple[Conv, ...]:
    a = kernel.arguments
    if kernel.kind == "conv":
        return (Conv(a["H"], a["W"], a["R"], a["S"], a["C"], a["K"], a["T"]),)
    if kernel.kind == "dblock":
        quarter = a["F"] // 4
        return (
            Conv(a["H"], a["W"], 1, 1, a["F"], quarter, 1),
            Conv(a["H"], a["W"], 3, 3, quarter, quarter, 1),
            Conv(a["H"], a["W"], 1, 1, quarter, a["F"], 1),
        )
    if kernel.kind == "cblock":
        half, quarter = a["F"] // 2, a["F"] // 4
        return (
            Conv(a["H"], a["W"], 1, 1, half, quarter, 1),
            Conv(a["H"], a["W"], 3, 3, quarter, quarter, 2),
            Conv(a["H"] // 2, a["W"] // 2, 1, 1, quarter, a["F"], 1),
            Conv(a["H"], a["W"], 1, 1, half, a["F"], 2),
        )
    return ()


@dataclass(frozen=True)
class Box:
    """The tiles that a placed kernel covers: [x, x + width) × [y, y + height)."""

    x: int
    y: int
    width: int
    height: int

    @property
    def centre2(self) -> tuple[int, int]:
        """Twice the centre's coordinates."""
        return 2 * self.x + self.width, 2 * self.y + self.height


def box(p: Placement) -> Box:
    """Height max h · w · (c_i + 1), width Σ 3 · k_i; h and w of a kernel with a table; R90 swaps them."""
    width = sum(3 * k for k in p.k) if p.k else p.w
    height = max(p.h * p.w * (c + 1) for c in p.c) if p.c else p.h
    return Box(p.x, p.y, height, width) if p.rotated else Box(p.x, p.y, width, height)


def takes_room(kernel: Kernel) -> bool:
    """Whether a kernel is placed: it runs convolutions, or has a table of choices."""
    return bool(convolutions(kernel) or kernel.choices)


def chosen(kernel: Kernel, p: Placement, memory: int) -> Choice | None:
    """The fastest choice of a table with that box within so many words; where none is, that of the fewest words."""
    boxes = [one for one in kernel.choices if (one.width, one.height) == (p.w, p.h)]
    fits = [one for one in boxes if one.memory_words <= memory]
    return min(fits, key=lambda one: one.time) if fits else min(boxes, key=lambda one: one.memory_words, default=None)


def _up(a: int, b: int) -> int:
    return -(-a // b)
