"""Latency and rate of a link from measured transfers: the line t = latency + bytes / rate through points (bytes, ns).

Sizes of transfers go from bytes to gigabytes. So the squares of the *relative* errors are summed up: minimise
Σ ((a + b · bytes) / ns - 1)², whose normal equations are two lines. Plain squares would leave the latency to chance, as
one large transfer outweighs all small ones. Where the least is at a latency below 0, the best line through 0 is taken.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from chipmap.instances.placement.system import MAX_BYTES, MAX_NS, Links
from chipmap.records import InputError, Source, amounts, counted

COLUMNS = ("bytes", "ns")
#: Significant digits of the latency and the rate that are written.
DIGITS = 6


@dataclass(frozen=True)
class Fit:
    """Latency (ns) and rate (bytes per ns), with the relative errors of the points: root of the mean square, and worst.

    ``worst``: (bytes, measured ns, fitted ns) of the point that is farthest off. ``cut``: the latency came out below 0
    and is taken as 0.
    """

    latency_ns: float
    bytes_per_ns: float
    points: int
    rms: float
    worst: tuple[float, float, float]
    cut: bool

    def links(self, links: Links) -> Links:
        """``links`` with this latency and rate."""
        return links.replace(latency_ns=self.latency_ns, bytes_per_ns=self.bytes_per_ns)


def measured(path: str) -> list[tuple[float, float]]:
    """The points (bytes, ns) of a CSV file with a header; other columns are left out.

    Raises :class:`InputError` that names the line.
    """
    source = Source(path)
    try:
        text = source.content().decode()
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", source.where, "Give a CSV file with columns bytes and ns.") from None
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        if any(name not in header for name in COLUMNS):
            said = ", ".join(header)[:100] or "nothing"
            what = f"has the columns {said}, not bytes and ns"
            raise InputError(what, f"{source.where}: line 1", "Begin with a line: bytes,ns")
        places = [header.index(name) for name in COLUMNS]
        found = [_point(row, places, f"{source.where}: line {rows.line_num}") for row in rows if any(row)]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", f"{source.where}: line {rows.line_num}", "Write it anew.") from None
    if len({size for size, _ in found}) < 2:
        what = f"has {counted(len(found), 'point')} of one size" if found else "has no points"
        raise InputError(what, source.where, "A line needs transfers of two sizes at least, far apart.")
    return found


def measured_pairs(path: str) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """The points of each pair of devices, where the file has columns ``source`` and ``target``; else none.

    Raises :class:`InputError` for a row without a device, or a pair with one size alone.
    """
    rows = csv.DictReader(io.StringIO(Source(path).content().decode(errors="replace"), newline=""))
    names = {name.strip().lower(): name for name in rows.fieldnames or ()}
    if not {"source", "target"} <= names.keys():
        return {}
    measured(path)  # every line is looked at there
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        where = f"{path}: line {rows.line_num}"
        ends = tuple((row[names[end]] or "").strip() for end in ("source", "target"))
        if not all(ends) or ends[0] == ends[1]:
            raise InputError("names no pair of devices", where, "Give source and target, two devices of the system.")
        point = _point([row[names[name]] or "" for name in COLUMNS], (0, 1), where)
        found.setdefault((ends[0], ends[1]), []).append(point)
    for ends, points in found.items():
        if len({size for size, _ in points}) < 2:
            what = f"{ends[0]} -> {ends[1]} has {counted(len(points), 'point')} of one size"
            raise InputError(what, path, "A line needs transfers of two sizes at least, far apart.")
    return found


def _point(row: Sequence[str], places: Sequence[int], where: str) -> tuple[float, float]:
    values = []
    for name, place, least, most in zip(COLUMNS, places, (0.0, 1e-3), (MAX_BYTES, MAX_NS), strict=True):
        text = row[place].strip() if place < len(row) else ""
        try:
            value = float(text)
        except ValueError:
            amounts.no_doubt(text, where)
            size = name == "bytes"
            found = amounts.quantity(text, "bytes", "B") if size else amounts.quantity(text, "seconds", "ns")
            value = math.nan if found is None else float(min(found * (1 if size else 10**9), Fraction(2 * most)))
        if not least <= value <= most:
            what = f"{name} is {text[:40]!r}" if text else f"{name} is missing"
            unit = "16MiB" if name == "bytes" else "1.5us"
            raise InputError(what, where, f"Give a number from {least:g} to {most:,}, or with its unit: {unit}.")
        values.append(value)
    return values[0], values[1]


def fit(points: Sequence[tuple[float, float]], where: str = "points") -> Fit:
    """The line with the least squares of relative errors.

    Raises :class:`InputError` where times don't grow with sizes.
    """
    weights = [1 / time**2 for _, time in points]
    total = math.fsum(weights)
    mean_x = math.fsum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_t = math.fsum(w * t for w, (_, t) in zip(weights, points, strict=True)) / total
    spread = math.fsum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    both = math.fsum(w * (x - mean_x) * (t - mean_t) for w, (x, t) in zip(weights, points, strict=True))
    if spread <= 0 or both <= 0:
        what = "larger transfers take no longer: the line has no rate"
        raise InputError(what, where, "Measure larger ones too, and check that the columns aren't swapped.")
    slope = both / spread
    latency = mean_t - slope * mean_x
    cut = latency < 0
    if cut:
        latency, slope = 0.0, math.fsum(x / t for x, t in points) / math.fsum((x / t) ** 2 for x, t in points)
    a, rate = float(f"{latency:.{DIGITS}g}"), float(f"{1 / slope:.{DIGITS}g}")
    fitted = [(size, time, a + size / rate) for size, time in points]
    errors = [guess / time - 1 for _, time, guess in fitted]
    worst = max(range(len(errors)), key=lambda i: abs(errors[i]))
    rms = math.sqrt(sum(error**2 for error in errors) / len(errors))
    return Fit(a, rate, len(points), rms, fitted[worst], cut)
