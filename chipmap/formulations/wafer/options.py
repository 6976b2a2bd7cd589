"""The ways in which a model may run each kernel: its boxes in tiles with their times and execution arguments.

Time depends on the arguments by ceilings of quotients and a box by their products, so the models take sizing as a
finite list of options. :func:`options` keeps those that an optimum can need:

- Within ``tau`` quarters the columns k_i are the fewest that meet time and memory; between one such sizing and the next
  nothing is gained. Time, memory and width are monotone in every k_i.
- Only the first and the last c_i show in adapters, so those between them equal the largest (fewer k, same height).
- An option is dropped for one that is as narrow, as low and as fast, has the same labels (what adapters compare) and
  whose sides are even or odd alike: then it fits in the same place around the same centre. (A side of the other
  parity moves the centre by half a tile, which can cost wire.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import IntArray, WaferProblem, conv_time, least_k, least_ks, memory_k
from chipmap.instances.wafer.shapes import Shape, fewest_tiles, place, shapes
from chipmap.records import InputError

#: ``all``: every option that an optimum can need. ``front``: one sizing for each Pareto-minimal box, whatever its
#: labels and the parity of its sides.
Kept = Literal["all", "front"]
#: More sizings of one kernel than this are refused before they are listed.
MAX_SIZINGS = 400_000


class Option(NamedTuple):
    """One way to run a kernel: its box in tiles, its time in quarters, the labels h, w, c_in, c_out, its arguments."""

    width: int
    height: int
    time: int
    labels: tuple[int, int, int, int]
    c: tuple[int, ...]
    k: tuple[int, ...]
    rotated: bool

    @property
    def thin(self) -> int:
        """The shorter side."""
        return min(self.width, self.height)

    def placement(self, kernel: str, x: int, y: int) -> Placement:
        """The kernel of that name, run so, with its lower left corner at (x, y)."""
        h, w = self.labels[:2]
        return Placement(kernel=kernel, h=h, w=w, c=self.c, k=self.k, x=x, y=y, rotated=self.rotated)


class Limits(NamedTuple):
    """Which options are wanted.

    ``tau``: those of that one target time. ``latest``: nothing slower. ``earliest``: no floorplan is faster, so among
    options within it the time doesn't matter. ``boxes``: the fastest option of each box, where kernels are pinned or
    have to touch (C4), so that a smaller box isn't as good. ``parities``: with "front" and ``tau``, one sizing for each
    box that is Pareto-minimal among those whose sides are even or odd alike.
    """

    kept: Kept = "all"
    tau: int | None = None
    latest: int | None = None
    earliest: int = 0
    boxes: bool = False
    parities: bool = False


def options(problem: WaferProblem, limits: Limits) -> tuple[tuple[Option, ...], ...]:
    """For each type the options that have a place on the fabric, sorted by time, width and height (empty: none fits).

    With ``kept="all"`` labels count only where adapters have a weight, and parity where centres count. Raises
    :class:`InputError` where the list would be too long.
    """
    if limits.tau is not None and limits.kept == "front":
        boxes = shapes(problem, limits.tau, parities=limits.parities)
        return tuple(_front(problem, t, rows, limits.tau) for t, rows in enumerate(boxes))
    return tuple(tuple(_undominated(problem, t, limits)) for t in range(len(problem.type_arrays)))


def exact(problem: WaferProblem, kept: Kept) -> bool:
    """Whether a list of that kind loses no optimum of the instance."""
    adapters = problem.instance.weights.adapter
    return kept == "all" or (adapters == 0 and not centred(problem) and not boxed(problem))


def centred(problem: WaferProblem) -> bool:
    """Whether half a tile of a kernel's centre counts: for a wire, or for a line that it crosses (C7)."""
    return bool(problem.instance.weights.wire or problem.instance.crossing)


def boxed(problem: WaferProblem) -> bool:
    """Whether every box counts, because C4 pins corners or wants borders shared, or C6 has kernels at sides."""
    return bool(problem.instance.pins or problem.instance.together or problem.touching)


def least_time(problem: WaferProblem) -> int | None:
    """The area bound on the time in quarters: the least tau at which the least areas sum to at most the fabric's.

    None where no time is enough.
    """

    def fits(tau: int) -> bool:
        """Whether all types, each in its fewest tiles within time ``tau``, fit the fabric's area."""
        area = 0
        for t in range(len(problem.type_arrays)):
            tiles = fewest_tiles(problem, t, tau, problem.memory)
            if not tiles:
                return False
            area += tiles * int((problem.types == t).sum())
        return area <= problem.free_tiles

    high = problem.longest
    return bisect_left(range(high), True, key=fits) if fits(high) else None


def _front(problem: WaferProblem, t: int, boxes: IntArray, tau: int) -> tuple[Option, ...]:
    """The options of the Pareto-minimal ``boxes`` of type ``t`` within ``tau``."""
    kernel = int(np.flatnonzero(problem.types == t)[0])
    found = []
    for row in boxes.tolist():
        shape = Shape(*row)
        p = place(problem, kernel, shape, tau, 0, 0)
        found.append(option_of(problem, (p.h, p.w), p.c, p.k, tau, p.rotated))
    return tuple(found)


def labels_of(
    problem: WaferProblem, tiling: tuple[int, int], c: tuple[int, ...], k: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """What adapters compare: h, w, the first c, and what the kernel offers to the next (0 and 0 of a table)."""
    if not k:
        return *tiling, 0, 0
    return *tiling, c[0], c[-1] if problem.instance.protocol == "c_n" else min(c[-1], k[-1])


def option_of(
    problem: WaferProblem, tiling: tuple[int, int], c: tuple[int, ...], k: tuple[int, ...], time: int, rotated: bool
) -> Option:
    """The option with these arguments: (h, w), c and k."""
    height, width = tiling
    if k:
        width, height = 3 * sum(k), tiling[0] * tiling[1] * (max(c) + 1)
    box = (height, width) if rotated else (width, height)
    return Option(*box, time, labels_of(problem, tiling, c, k), c, k, rotated)


def channels(count: int, first: int, largest: int, last: int) -> tuple[int, ...]:
    """The c of so many convolutions, all but the first and the last the largest (which one alone has)."""
    return (first, *[largest] * (count - 2), last) if count > 1 else (largest,)


def _undominated(problem: WaferProblem, t: int, limits: Limits) -> list[Option]:
    weights = problem.instance.weights
    labelled = limits.kept == "all" and weights.adapter > 0
    parity = 2 if limits.kept == "all" and centred(problem) else 1
    table = problem.tables[t]
    every = (
        _every(problem, problem.type_arrays[t], limits, labelled) if table is None else _tabled(problem, table, limits)
    )
    listed = sorted(
        _placeable(problem, every),
        key=lambda option: (option.time, *option[:2], option.rotated),
    )
    lowest: dict[tuple[object, ...], IntArray] = {}
    kept = []
    for option in listed:
        sides = option[:2] if limits.boxes else (option.width % parity, option.height % parity)
        group = (option.labels if labelled else (), *sides)
        if group not in lowest:
            lowest[group] = np.full(problem.width + 1, problem.height + 1, dtype=np.int64)
        line = lowest[group]
        if option.height < line[option.width]:
            kept.append(option)
            np.minimum(line[option.width :], option.height, out=line[option.width :])
    return kept


def _tabled(problem: WaferProblem, table: IntArray, limits: Limits) -> Iterator[Option]:
    """The choices of a table within the memory and the limits on the time, both ways round."""
    latest = limits.latest if limits.tau is None else limits.tau
    for width, height, time, words in table.tolist():
        if words <= problem.memory and (latest is None or time <= latest):
            time = max(time, limits.earliest) if limits.tau is None else limits.tau
            yield option_of(problem, (height, width), (), (), time, False)
            yield option_of(problem, (height, width), (), (), time, True)


def _placeable(problem: WaferProblem, every: Iterator[Option]) -> list[Option]:
    """The options whose box has a place on the fabric."""
    inside = [option for option in every if option.width <= problem.width and option.height <= problem.height]
    sides = np.array([option[:2] for option in inside], dtype=np.int64).reshape(-1, 2)
    return [option for option, fits in zip(inside, problem.fits(*sides.T).tolist(), strict=True) if fits]


def _every(problem: WaferProblem, convs: IntArray, limits: Limits, labelled: bool) -> Iterator[Option]:
    limit = max(problem.width, problem.height)
    unequal = labelled and len(convs) > 1
    count = _tilings_in_all(limit, unequal)
    if count > MAX_SIZINGS:
        raise InputError(
            f"a kernel has {count:,} sizings with different adapters",
            problem.instance.name,
            f'At most {MAX_SIZINGS:,} are listed: use the option list "front", or convolutions instead of blocks.',
        )
    for h, w, largest, first, last in _tilings(limit, unequal):
        c = channels(len(convs), first, largest, last)
        for k, time in _sizings(convs, (h, w), c, problem.memory, limit, limits):
            for more in _columns(problem, c, k, limits, labelled):
                yield option_of(problem, (h, w), c, more, time, False)
                yield option_of(problem, (h, w), c, more, time, True)


def _tilings(limit: int, unequal: bool) -> Iterator[tuple[int, int, int, int, int]]:
    """(h, w, largest c, first c, last c) with h · w · (largest c + 1) <= ``limit``; all c equal, or not."""
    for h in range(1, limit // 2 + 1):
        for w in range(1, limit // (2 * h) + 1):
            for c in range(1, limit // (h * w)):
                if not unequal:
                    yield h, w, c, c, c
                    continue
                for first in range(1, c + 1):
                    for last in range(1, c + 1):
                        yield h, w, c, first, last


def _tilings_in_all(limit: int, unequal: bool) -> int:
    """How many :func:`_tilings` gives: of each h · w, one for each c, or c² with unequal first and last c."""
    largest = [limit // (h * w) - 1 for h in range(1, limit // 2 + 1) for w in range(1, limit // (2 * h) + 1)]
    return sum(c * (c + 1) * (2 * c + 1) // 6 if unequal else c for c in largest)


def _sizings(
    convs: IntArray, tiling: tuple[int, int], c: tuple[int, ...], memory: int, limit: int, limits: Limits
) -> Iterator[tuple[tuple[int, ...], int]]:
    """(k, time) from the slowest to the fastest: no fewer columns are as fast. 3 Σ k <= ``limit``."""
    h, w = tiling
    latest = limits.latest if limits.tau is None else limits.tau
    if latest is None:
        k = [int(memory_k(conv, h, w, c[i], memory)) for i, conv in enumerate(convs)]
    else:
        k = list(least_ks(convs, h, w, c, latest, memory) or [limit])
    while 3 * sum(k) <= limit:
        times = [int(conv_time(conv, h, w, c[i], k[i])) for i, conv in enumerate(convs)]
        time = max(times)
        if limits.tau is not None:
            yield tuple(k), limits.tau
            return
        yield tuple(k), max(time, limits.earliest)
        if time <= limits.earliest:
            return
        for i, conv in enumerate(convs):
            if times[i] == time:
                k[i] = int(least_k(conv, h, w, c[i], time - 1, memory)) or limit


def _columns(
    problem: WaferProblem, c: tuple[int, ...], k: tuple[int, ...], limits: Limits, labelled: bool
) -> Iterator[tuple[int, ...]]:
    """``k`` and what more columns are good for: a width of the other parity, any width (C4), a larger min(c_n, k_n)."""
    parity = limits.kept == "all" and centred(problem)
    tall = labelled and problem.instance.protocol == "min_c_k"
    limit = max(problem.width, problem.height) // 3
    for last in range(k[-1], max(k[-1], c[-1] if tall else 0) + 1):
        for extra in range(1 + (max(parity, limit - sum(k)) if limits.boxes else parity)):
            yield (k[0] + extra, *k[1:-1], last) if len(k) > 1 else (last + extra,)
