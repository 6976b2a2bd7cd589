"""The trace of a run as an SVG chart: incumbent and bound over time, and the gap between them shaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from chipmap.records import Unit
from chipmap.report.markup import Markup, join, tag
from chipmap.report.rows import natural, sign
from chipmap.report.tables import number
from chipmap.result import Result

WIDTH, HEIGHT = 1000, 270
LEFT, RIGHT, TOP, BOTTOM = 84, 150, 14, 34

Point = tuple[float, float, str]


@dataclass(frozen=True)
class _Scale:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``, by logarithm if ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        of: Callable[[float], float] = math.log10 if self.log else float
        value = min(max(value, self.low), self.high)
        span = of(self.high) - of(self.low)
        return self.start + (self.end - self.start) * ((of(value) - of(self.low)) / span if span else 0.5)

    def ticks(self) -> list[float]:
        """Round values inside the range: powers of ten with 2 and 5 between, or about five equal steps."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            marks = (1, 2, 5) if len(powers) <= 3 else (1,)
            found = [m * 10.0**p for p in powers for m in marks]
        else:
            raw = (self.high - self.low) / 5
            step = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
            step *= next(m for m in (1, 2, 5, 10) if m * step >= raw)
            first = math.ceil(self.low / step)
            found = [i * step for i in range(first, first + 7)]
        return [value for value in found if self.low <= value <= self.high]


def trace_chart(result: Result, unit: Unit) -> Markup | None:
    """The chart, or None when the run has no trace. Times before the first event are not shown."""
    incumbents = _points(result, "solution", unit.per_tick)
    bounds = _points(result, "bound", unit.per_tick)
    if not incumbents and not bounds:
        return None
    end = max(result.seconds, *(point[0] for point in (*incumbents, *bounds)))
    x, y = _time_scale([point[0] for point in (*incumbents, *bounds)], end), _value_scale(incumbents, bounds)
    chart = tag(
        "svg",
        *_axes(x, y, sign(unit)),
        _shade(incumbents, bounds, end, x, y),
        _curve(incumbents, "incumbent", end, x, y),
        _curve(bounds, "bound", end, x, y),
        *_names(incumbents, bounds, y),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label="incumbent and bound over time",
    )
    return tag("div", chart, class_="scroll")


def _points(result: Result, event: str, unit_per_tick: float) -> list[Point]:
    """(seconds, value, source) of the improving events of one kind, in order of time."""
    return [
        (max(line.seconds, 0.0), natural(line.value, unit_per_tick) or 0.0, line.source)
        for line in sorted(result.trace, key=lambda line: line.seconds)
        if line.event == event
    ]


def _time_scale(times: list[float], end: float) -> _Scale:
    first = max(min(times), 1e-3)
    end = max(end, 2 * first)
    wide = end > 20 * first
    return _Scale(first if wide else 0.0, end, LEFT, WIDTH - RIGHT, wide)


def _value_scale(incumbents: list[Point], bounds: list[Point]) -> _Scale:
    values = [point[1] for point in (*incumbents, *bounds)]
    low, high = min(values), max(values)
    log = low > 0 and high > 8 * low
    if log:
        return _Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return _Scale(low - margin, high + margin, HEIGHT - BOTTOM, TOP, False)


def _axes(x: _Scale, y: _Scale, unit: str) -> list[Markup]:
    drawn = []
    for value in y.ticks():
        at = f"{y(value):.1f}"
        drawn.append(tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at))
        label = f"{number(float(f'{value:.6g}'))} {unit}"
        drawn.append(tag("text", label, x=LEFT - 8, y=at, text_anchor="end", dominant_baseline="middle"))
    for value in x.ticks():
        label = f"{value:g} s"
        drawn.append(tag("text", label, x=f"{x(value):.1f}", y=HEIGHT - BOTTOM + 20, text_anchor="middle"))
    return drawn


def _steps(points: list[Point], end: float, x: _Scale, y: _Scale) -> list[tuple[float, float]]:
    """The corners of the step function through ``points``, drawn on to ``end``."""
    corners: list[tuple[float, float]] = []
    for seconds, value, _ in points:
        if corners:
            corners.append((x(seconds), corners[-1][1]))
        corners.append((x(seconds), y(value)))
    if corners:
        corners.append((x(end), corners[-1][1]))
    return corners


def _join(corners: list[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)


def _curve(points: list[Point], kind: str, end: float, x: _Scale, y: _Scale) -> Markup:
    dots = [
        tag("circle", tag("title", f"{seconds:.2f} s: {number(value)}, {source}"), class_=kind, r=3.2,
            cx=f"{x(seconds):.1f}", cy=f"{y(value):.1f}")
        for seconds, value, source in points
    ]  # fmt: skip
    return join(tag("polyline", class_=kind, points=_join(_steps(points, end, x, y))), *dots)


def _shade(incumbents: list[Point], bounds: list[Point], end: float, x: _Scale, y: _Scale) -> Markup | None:
    """The area between both curves, from the moment when both exist."""
    if not incumbents or not bounds:
        return None
    start = max(incumbents[0][0], bounds[0][0])
    upper, lower = (_steps(_from(points, start), end, x, y) for points in (incumbents, bounds))
    return tag("polygon", class_="shade", points=_join(upper + lower[::-1]))


def _from(points: list[Point], start: float) -> list[Point]:
    before = [point for point in points if point[0] <= start]
    return [(start, before[-1][1], ""), *(point for point in points if point[0] > start)]


def _names(incumbents: list[Point], bounds: list[Point], y: _Scale) -> list[Markup]:
    """Each curve's name and last value at its right end, kept a line apart."""
    ends = [(y(points[-1][1]), kind, points[-1][1]) for points, kind in ((incumbents, "incumbent"), (bounds, "bound"))
            if points]  # fmt: skip
    if len(ends) == 2 and ends[1][0] - ends[0][0] < 16:
        middle = (ends[0][0] + ends[1][0]) / 2
        ends = [(middle - 8, *ends[0][1:]), (middle + 8, *ends[1][1:])]
    return [
        tag("text", f"{kind} {number(value)}", class_=kind, x=WIDTH - RIGHT + 8, y=f"{at:.1f}",
            dominant_baseline="middle")
        for at, kind, value in ends
    ]  # fmt: skip
