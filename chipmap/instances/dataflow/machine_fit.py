"""A machine's costs and shares, fitted to measured kernels, collectives and steps.

``docs/families/dataflow-calibration.md`` says what is fitted. All kernels are fitted together: the least sum of
ρ(log(fitted / measured)), ρ being quadratic for small errors and linear for large ones (SciPy's ``soft_l1``). Every
fourth row of a group isn't fitted: it judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chipmap.instances.dataflow.machine_rows import CollectiveRow, KernelRow, Rows, StepRow
from chipmap.instances.dataflow.sharding import among_chips, collective_ns
from chipmap.instances.dataflow.system import Chip, Dimension, System
from chipmap.records import InputError, counted, listed
from chipmap.records.decimals import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

#: Blocks of a product that are tried: rows (of weights) and columns (of activations).
BLOCKS = ((64, 16), (128, 16), (64, 32), (128, 32), (64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256))
#: Every so manieth row of a group judges.
JUDGED = 4
#: Errors (in logarithms) above which ρ grows linearly, and evaluations at most.
SCALE, EVALUATIONS = 0.05, 200
#: Significant digits of what is written.
DIGITS = 4


class Errors(NamedTuple):
    """Relative errors of a group: of the rows that weren't fitted (where ``judged`` is 0, of those that were) the
    median and the most, and those of the data sheet."""

    group: str
    fitted: int
    judged: int
    median: float
    worst: float
    sheet_median: float
    sheet_worst: float


class Calibration(NamedTuple):
    """A system with what was fitted, how far it is from the rows, and what to know besides."""

    system: System
    errors: list[Errors]
    notes: list[str]


class Numbers(NamedTuple):
    """What is fitted to kernels: nanoseconds of a launch, the share of DRAM's rate, curves as (least, shares) of
    products by FLOP, of attention by FLOP and of KV caches by bytes, and shares of blocks with the terms before
    them."""

    launch: float
    memory: float
    products: tuple[Vector, Vector]
    attention: tuple[Vector, Vector]
    fetch: tuple[Vector, Vector]
    blocks: Vector
    start: float


class Kernels:
    """Rows as arrays, and what a machine predicts for them."""

    def __init__(self, chip: Chip, rate: float, units: int, rows: Sequence[KernelRow]) -> None:
        self.rows, self.rate, self.units = rows, rate, units
        self.ns = np.array([row.ns for row in rows])
        self.flop = np.array([row.flop / peak(chip, row) for row in rows])
        self.sizes, self.fetch = np.array([row.flop for row in rows]), np.array([row.fetch for row in rows])
        self.moved = np.array([(row.bytes - row.fetch) / rate for row in rows])
        kinds = np.array([row.kind for row in rows])
        self.product, self.attends = kinds == "product", kinds == "attention"
        self.cached, terms = kinds == "cached", np.array([float(row.k) for row in rows])
        self.rounds = np.array([_rounds(row, units) / peak(chip, row) for row in rows]) if units else None
        self.terms = terms

    def predicted(self, by: Numbers) -> Vector:
        """Nanoseconds of each row: the launch, and the longer of compute and DRAM."""
        compute = self.flop.copy()
        if self.rounds is not None and by.blocks.size:
            each = self.rounds * (self.terms[:, None] + by.start) / by.blocks
            compute = np.where(self.product, each.min(axis=1), compute)
        else:
            compute = np.where(self.product, compute / at(by.products, self.sizes), compute)
        compute = np.where(self.attends, compute / at(by.attention, self.sizes), compute)
        cached = np.where(self.cached, self.fetch / self.rate / at(by.fetch, self.fetch), 0.0)
        found: Vector = by.launch + np.maximum(compute, (self.moved + cached) / by.memory)
        return found


def peak(chip: Chip, row: KernelRow) -> float:
    """FLOP per nanosecond at best for the row's format."""
    if row.kind == "element" and chip.vector_tflops is not None:
        return 1000 * chip.vector_tflops
    return 1000 * chip.peaks[row.format] if row.format in chip.peaks else chip.flop_per_ns


def at(curve: tuple[Vector, Vector], amounts: Vector) -> Vector:
    """The share of each amount: of the last line that asks for no more, or of the first; 1 without lines."""
    least, shares = curve
    if not shares.size:
        return np.ones(len(amounts))
    found: Vector = shares[np.maximum(np.searchsorted(least, amounts, side="right") - 1, 0)]
    return found


def _rounds(row: KernelRow, units: int) -> Vector:
    """FLOP of all rounds for each term of a sum, by size of block (page "Blocks")."""
    each = [(r, c, row.outer * -(-row.m // r) * -(-row.n // c)) for r, c in BLOCKS]
    return np.array([2.0 * r * c * units * -(-count // units) for r, c, count in each])


class _Curve(NamedTuple):
    """Shares that never fall: of the log odds the first, and what is added from line to line."""

    least: Vector

    @staticmethod
    def of(amounts: Vector) -> _Curve:
        """A line for each power of ten that rows have."""
        powers = sorted({math.floor(math.log10(one)) for one in amounts if one > 0})
        return _Curve(np.array([0.0, *(10.0**one for one in powers[1:])]) if powers else np.array([]))

    def shares(self, x: Vector) -> tuple[Vector, Vector]:
        return self.least, _share(np.cumsum(x))


def _share(odds: Vector) -> Vector:
    found: Vector = 1 / (1 + np.exp(-odds))
    return found


class _Layout:
    """Which of the fitted numbers stands where in the vector that is varied, its first values and bounds."""

    def __init__(self, one: Kernels) -> None:
        self.blocks = len(BLOCKS) if one.rounds is not None and one.product.any() else 0
        plain = one.sizes[one.product] if not self.blocks else np.array([])
        curves = [_Curve.of(each) for each in (plain, one.sizes[one.attends], one.fetch[one.cached])]
        #: (first, least, most) of each: logarithm of the launch, odds of DRAM's share, then those of the curves.
        every = [(math.log(2000.0), 0.0, math.log(1e7)), (2.0, -6.0, 6.0)]
        for curve in curves:
            every += [(0.5, -8.0, 6.0) if i == 0 else (0.1, 0.0, 6.0) for i in range(len(curve.least))]
        every += [(0.5, -6.0, 6.0)] * self.blocks + [(0.64, 0.0, 50.0)] * (self.blocks > 0)
        self.curves = curves
        self.first, self.low, self.high = np.array(every).T

    def numbers(self, x: Vector) -> Numbers:
        """What the vector stands for."""
        place, found = 2, []
        for curve in self.curves:
            found.append(curve.shares(x[place : place + len(curve.least)]))
            place += len(curve.least)
        blocks = _share(x[place : place + self.blocks])
        start = 100 * float(x[-1]) if self.blocks else 0.0
        products, attention, fetch = found
        return Numbers(float(np.exp(x[0])), float(_share(x[1:2])[0]), products, attention, fetch, blocks, start)


def calibrated(system: System, rows: Rows, units: int = 0, formats: Sequence[str] = ()) -> Calibration:
    """``system`` with costs and shares fitted to ``rows``.

    ``units``: with it, products are fitted by blocks of their shape on so many units, else by FLOP. ``formats``: those
    whose kernels are fitted (none given: all); others are judged.
    """
    errors, notes = list[Errors](), list[str]()
    if rows.kernels:
        system = _kernels(system, rows.kernels, units, formats, errors, notes)
    for i in sorted({row.dimension for row in rows.collectives}):
        system = _collectives(system, i, [row for row in rows.collectives if row.dimension == i], errors, notes)
    if rows.steps:
        system = _steps(system, rows.steps, errors)
    system.check()
    told = "; ".join(f"{one.group}: {one.median:.1%} median, {one.worst:.1%} at most" for one in errors)
    return Calibration(system.replace(notes=f"calibrated, errors: {told}"), errors, notes)


def _kernels(
    system: System,
    rows: list[KernelRow],
    units: int,
    formats: Sequence[str],
    errors: list[Errors],
    notes: list[str],
) -> System:
    """The system with what its kernels tell."""
    from scipy.optimize import least_squares

    fit, judge = divided(rows, formats)
    if not fit:
        what = f"has no kernels of format {listed(formats)}"
        raise InputError(what, "--format", "Give a format that the rows have, or leave it out.")
    chip, rate = system.chip, system.memory.bytes_per_ns
    one = Kernels(chip, rate, units, fit)
    layout = _Layout(one)

    def error(x: Vector) -> Vector:
        found: Vector = np.log(one.predicted(layout.numbers(x)) / one.ns)
        return found

    weights = _weights([row.kind for row in fit])

    def loss(z: Vector) -> Vector:
        """ρ and its two derivatives, each kind of kernel with the same weight."""
        root = np.sqrt(1 + z)
        return np.array([2 * (root - 1), 1 / root, -0.5 / root**3]) * weights

    bounds = layout.low, layout.high
    best = least_squares(error, layout.first, bounds=bounds, loss=loss, f_scale=SCALE, max_nfev=EVALUATIONS)
    by = rounded(layout.numbers(best.x))
    whole = (np.zeros(1), np.ones(1))
    sheet = Numbers(0.0, 1.0, whole, whole, whole, np.array([]), 0.0)
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in judge if row.group == group] or [row for row in fit if row.group == group]
        many = sum(row.group == group for row in fit)
        some = Kernels(chip, rate, units, mine)
        both = [np.abs(some.predicted(numbers) / some.ns - 1) for numbers in (by, sheet)]
        said = [float(f(each)) for each in both for f in (np.median, np.max)]
        errors.append(Errors(group, many, len(mine) if any(row.group == group for row in judge) else 0, *said))
    notes += _doubts(chip, rate, rows, len(fit), len(layout.first))
    return written(system, one, by)


def _doubts(chip: Chip, rate: float, rows: Sequence[KernelRow], fitted: int, numbers: int) -> list[str]:
    """What makes a fit doubtful: few rows, rows that beat the data sheet, formats without a peak."""
    found = []
    if fitted < numbers:
        found.append(
            f"{counted(fitted, 'row')} for {numbers} numbers: those that no row tells stay near where the fit began"
        )
    least = [max(row.flop / peak(chip, row), row.bytes / rate) for row in rows]
    fast = [i for i, (row, ns) in enumerate(zip(rows, least, strict=True), 1) if row.ns < ns]
    if fast:
        what = f"{counted(len(fast), 'kernel')} ran faster than the data sheet allows (row {listed(map(str, fast))})"
        found.append(f"{what}: is --system the machine, are masked FLOP counted, or was data in a cache?")
    missing = sorted({row.format for row in rows if row.format and chip.peaks and row.format not in chip.peaks})
    if missing:
        found.append(f"the system states no peak of {listed(missing)}: its single peak counts")
    return found


def _weights(kinds: Sequence[str]) -> Vector:
    """Of each row the mean number of rows of a kind over that of its own kind."""
    counts = {kind: kinds.count(kind) for kind in kinds}
    return np.array([len(kinds) / len(counts) / counts[kind] for kind in kinds])


def divided(rows: Sequence[KernelRow], formats: Sequence[str] = ()) -> tuple[list[KernelRow], list[KernelRow]]:
    """Rows to fit and rows to judge: of each group of :data:`JUDGED` or more every :data:`JUDGED`-th judges, and all of
    other formats."""
    fit, judge, seen = list[KernelRow](), list[KernelRow](), dict[str, int]()
    for row in rows:
        seen[row.group] = seen.get(row.group, 0) + 1
        other = bool(formats) and row.format not in formats and row.kind in ("product", "attention")
        (judge if other or seen[row.group] % JUDGED == 0 else fit).append(row)
    return fit, judge


def rounded(by: Numbers) -> Numbers:
    """The numbers with few digits, as they are written."""

    def few(values: Vector) -> Vector:
        return np.array([float(f"{one:.{DIGITS}g}") for one in values])

    products, attention, fetch = ((least, few(shares)) for least, shares in (by.products, by.attention, by.fetch))
    launch, memory = (float(f"{one:.{DIGITS}g}") for one in (by.launch, by.memory))
    return Numbers(launch, memory, products, attention, fetch, few(by.blocks), float(round(by.start)))


def written(system: System, one: Kernels, by: Numbers) -> System:
    """The system with these numbers, where rows tell them; blocks that no row needs are left out."""

    def lines(curve: tuple[Vector, Vector]) -> tuple[tuple[float, float], ...]:
        """The curve without lines that change nothing."""
        found = list[tuple[float, float]]()
        for least, share in zip(*(each.tolist() for each in curve), strict=True):
            if not found or share > found[-1][1]:
                found.append((least, share))
        return tuple(found)

    changes: dict[str, Any] = {"launch_ns": by.launch}
    if by.blocks.size and one.rounds is not None:
        each = one.rounds * (one.terms[:, None] + by.start) / by.blocks
        used = sorted(set(each[one.product].argmin(axis=1).tolist()))
        blocks = tuple((*BLOCKS[i], float(by.blocks[i])) for i in used)
        changes |= {"blocks": blocks, "units": one.units, "block_start": round(by.start), "efficiency": ()}
    elif one.product.any():
        changes |= {"efficiency": lines(by.products), "blocks": (), "units": 0, "block_start": 0}
    if one.attends.any():
        changes |= {"attention": lines(by.attention), "attention_cached": lines(by.attention)}
    memory = system.memory.replace(efficiency=by.memory)
    if one.cached.any():
        memory = memory.replace(fetch_efficiency={"": lines(by.fetch)})
    return system.replace(chip=system.chip.replace(**changes), memory=memory)


def _terms(row: CollectiveRow, dimension: Dimension) -> tuple[float, float, float]:
    """What start, latency and 1 / share are multiplied by in the nanoseconds of a collective (page "Sharding")."""
    plain = among_chips(dimension.replace(start_ns=0.0, latency_ns=0.0, efficiency=1.0), row.ranks)
    size = exact(row.bytes)
    moved = collective_ns(row.collective, size, plain, 2)
    return 1.0, float(collective_ns(row.collective, size, plain.replace(latency_ns=1.0), 2) - moved), float(moved)


def _collectives(system: System, i: int, rows: list[CollectiveRow], errors: list[Errors], notes: list[str]) -> System:
    """The system with start, latency and share of the rate of its i-th dimension."""
    from scipy.optimize import least_squares

    if i >= len(system.network):
        what = f"dimension is {i + 1}, but the system has {len(system.network)}"
        raise InputError(what, "collectives", "Give 1 for the first dimension, and a system that has as many.")
    terms = np.array([_terms(row, system.network[i]) for row in rows])
    ns = np.array([row.ns for row in rows])
    judged = np.arange(len(rows)) % JUDGED == JUDGED - 1
    some = terms[~judged] / ns[~judged, None]

    def error(x: Vector) -> Vector:
        found: Vector = np.log(np.maximum(some @ x, 1e-9))
        return found

    scale = np.array([1e3, 1e2, 2.0])
    low, high = np.array([0.0, 0.0, 1.0]), np.array([1e9, 1e9, 1e9])
    best = least_squares(error, scale, bounds=(low, high), loss="soft_l1", f_scale=SCALE, x_scale=scale)
    start, latency, share = (float(f"{one:.{DIGITS}g}") for one in (best.x[0], best.x[1], 1 / best.x[2]))
    if best.x[2] < 1 + 1e-6:
        notes.append(f"dimension {i + 1}: collectives reach more than its rate; its share is taken as 1")
    kept = judged if judged.any() else ~judged
    both = (np.array([start, latency, 1 / share]), np.array([0.0, 0.0, 1.0]))
    off = [np.abs(terms[kept] @ x / ns[kept] - 1) for x in both]
    said = [float(f(each)) for each in off for f in (np.median, np.max)]
    errors.append(Errors(f"collectives of dimension {i + 1}", int((~judged).sum()), int(judged.sum()), *said))
    network = list(system.network)
    network[i] = network[i].replace(start_ns=start, latency_ns=latency, efficiency=share)
    return system.replace(network=tuple(network))


def _steps(system: System, rows: list[StepRow], errors: list[Errors]) -> System:
    """The system with a cost of each step, and what passes between kernels added to its launches.

    Steps of one number of kernels don't tell these apart: all of it is the step's then.
    """
    from scipy.optimize import lsq_linear

    several = len({row.kernels for row in rows}) > 1
    terms = np.array([[1.0, float(row.kernels) if several else 0.0] for row in rows])
    ns, rest = (np.array(each) for each in ([row.ns for row in rows], [row.ns - row.busy_ns for row in rows]))
    best = lsq_linear(terms / ns[:, None], rest / ns, bounds=(0, np.inf))
    step, gap = (float(f"{one:.{DIGITS}g}") if one >= 1e-3 else 0.0 for one in (best.x[0], best.x[1] if several else 0))
    off = np.abs((ns - rest + terms @ np.array([step, gap])) / ns - 1)
    sheet = np.abs((ns - rest) / ns - 1)
    said = (float(f(each)) for each in (off, sheet) for f in (np.median, np.max))
    errors.append(Errors("steps", len(rows), 0, *said))
    launch = float(f"{system.chip.launch_ns + gap:.{DIGITS + 2}g}")
    return system.replace(step_ns=step, chip=system.chip.replace(launch_ns=launch))
