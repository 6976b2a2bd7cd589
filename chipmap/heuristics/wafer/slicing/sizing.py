"""Which execution arguments can give a kernel's best box at any target time, and the box curves that follow.

For one type, (h, w, c) is superfluous if another choice is no taller and no convolution of it needs more steps per
round of k or more memory: at every target time the other box fits into its own. What is left, a tenth or less, is sized
anew for each target time in microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from chipmap.deadline import look
from chipmap.heuristics.wafer.slicing.kernel import NONE, Options, SideArray, leaf_curve, option_width
from chipmap.instances.wafer.problem import IntArray, WaferProblem, ceil_div, longest, memory_k
from chipmap.instances.wafer.shapes import Shape
from chipmap.kernels import njit

#: Most convolutions of a kernel (a ``cblock``'s).
MOST = 4
#: Entries that another is compared with, and heights between two looks at the clock.
REACH, HEIGHTS = 4096, 256


@njit(cache=True, nogil=True)
def _entry(convs: IntArray, h: int, w: int, c: int, memory: int, out: IntArray) -> None:
    """Into ``out`` [12]: height, h, w, c, 4·A of each convolution, and the k that its memory asks for."""
    out[0], out[1], out[2], out[3] = h * w * (c + 1), h, w, c
    for i in range(MOST):
        out[4 + i] = out[4 + MOST + i] = 0
    for i in range(len(convs)):
        conv = convs[i]
        steps = ceil_div(conv[0], h) * ceil_div(conv[1], w) * ceil_div(conv[4], c)
        out[4 + i] = 4 * steps * conv[2] * conv[3] * conv[7]
        out[4 + MOST + i] = memory_k(conv, h, w, c, memory)


@njit(part=True)
def _superfluous(kept: IntArray, first: int, count: int) -> bool:
    """Whether entry ``count`` demands nowhere less than one of those from ``first`` on."""
    for o in range(count - 1, first - 1, -1):
        worse = True
        for i in range(4, 4 + 2 * MOST):
            if kept[o, i] > kept[count, i]:
                worse = False
                break
        if worse:
            return True
    return False


@njit(cache=True, nogil=True)
def _entries(convs: IntArray, memory: int, begin: int, end: int, kept: IntArray, count: int) -> int:
    """Into ``kept`` [.., 12], after the ``count`` entries of smaller heights: those of ``begin`` .. ``end`` - 1 that
    aren't superfluous, by height. Returns how many there are then, or -1 for too many.

    Only the last :data:`REACH` entries kept are compared with, which bounds the time on large fabrics.
    """
    for height in range(begin, end):
        for parts in range(height, 1, -1):
            if height % parts:
                continue
            for h in range(1, height // parts + 1):
                if (height // parts) % h:
                    continue
                if count == len(kept):
                    return -1
                _entry(convs, h, height // parts // h, parts - 1, memory, kept[count])
                if not _superfluous(kept, max(0, count - REACH), count):
                    count += 1
    return count


def _options(convs: IntArray, memory: int, limit: int, pair: tuple[int, int] | None) -> IntArray:
    """[options, 12] the entries of one type, with h and w as in ``pair`` where given."""
    if pair is not None:
        given = np.empty((max(0, limit // (pair[0] * pair[1]) - 1), 4 + 2 * MOST), np.int64)
        for c in range(1, len(given) + 1):
            _entry(convs, pair[0], pair[1], c, memory, given[c - 1])
        return given
    kept, count, begin = np.empty((REACH, 4 + 2 * MOST), np.int64), 0, 2
    while begin <= limit:
        look()
        end = min(begin + HEIGHTS, limit + 1)
        reached = _entries(convs, memory, begin, end, kept, count)
        if reached < 0:
            kept = np.concatenate((kept[:count], np.empty((7 * len(kept), kept.shape[1]), np.int64)))
        else:
            count, begin = reached, end
    return kept[:count]


class Sizing:
    """The box curves of every type of a problem, by ``options``; with ``pair``, of boxes with that h and w only.

    One h and w for all kernels leaves only the adapters of c, at the cost of area. On fabrics of thousands of tiles a
    side it takes seconds: it raises :class:`chipmap.deadline.Stop` where the work around it must end.
    """

    def __init__(self, problem: WaferProblem, pair: tuple[int, int] | None = None) -> None:
        self.problem = problem
        self.limit = max(problem.width, problem.height)
        found = [_options(convs, problem.memory, self.limit, pair) for convs in problem.type_arrays]
        kernels = np.ones((len(found), MOST, 3), np.int64)
        for kind, convs in enumerate(problem.type_arrays):
            kernels[kind, : len(convs), 0] = convs[:, 5]
            kernels[kind, : len(convs), 1] = convs[:, 6] ** 2 * convs[:, 8]
            kernels[kind, : len(convs), 2] = [longest(conv) for conv in convs]
        entries = np.concatenate(found)
        self.options = Options(
            arguments=np.ascontiguousarray(entries[:, :4]),
            steps=np.ascontiguousarray(entries[:, 4 : 4 + MOST]),
            least=np.ascontiguousarray(entries[:, 4 + MOST :]),
            start=np.cumsum([0, *(len(part) for part in found)]),
            kernels=kernels,
        )

    def choices(self, tau: int) -> tuple[SideArray, SideArray]:
        """[types, L + 1] each: the least width of each type within each height, in either orientation, at ``tau``, and
        the option that gives it (-1 for none).
        """
        curves = np.empty((len(self.problem.type_arrays), self.limit + 1), np.int32)
        choices = np.empty_like(curves)
        for kind in range(len(curves)):
            leaf_curve(self.options, kind, tau, curves[kind], choices[kind])
        return curves, choices

    def curves(self, tau: int) -> SideArray:
        """[types, L + 1]: the least widths of :meth:`choices`."""
        return self.choices(tau)[0]

    def fits(self, tau: int) -> bool:
        """Whether every kernel can run within ``tau`` on the fabric, and all their least areas together."""
        curves = self.curves(tau)[:, : self.problem.height + 1].astype(np.int64)
        areas = np.where(curves <= self.problem.width, curves * np.arange(curves.shape[1]), NONE)[:, 1:].min(axis=1)
        return int(areas[self.problem.types].sum()) <= self.problem.width * self.problem.height

    def area_time(self) -> int:
        """The least time (quarters) at which the least areas of all kernels sum to the fabric's area at most.

        A lower bound on the maximum time of every layout. The memory can make it infinite: 0 is returned then.
        """
        return least_time(self.fits, 1, self.problem.longest)

    def shape(self, tau: int, option: int, kind: int, width: int, height: int) -> Shape:
        """The box of that option within ``width`` x ``height``, upright where it fits so.

        Raises ValueError where it fits neither way.
        """
        wide = int(option_width(self.options, kind, option, tau))
        tall, h, w, c = (int(a) for a in self.options.arguments[option])
        for rotated, (a, b) in enumerate(((wide, tall), (tall, wide))):
            if 0 < a <= width and 0 < b <= height:
                return Shape(a, b, h, w, c, bool(rotated))
        raise ValueError(f"option {option} does not fit {width} x {height} tiles within {tau} quarters")


def least_time(feasible: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer in ``low`` .. ``high`` that is ``feasible`` (which never turns false again); 0 for none."""
    return low + bisect_left(range(low, high), True, key=feasible) if feasible(high) else 0
