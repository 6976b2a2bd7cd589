"""The trace of a run as an SVG chart: incumbent and bound over time, and the gap between them shaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from chipmap.records import Unit
from chipmap.records.quantities import number
from chipmap.report.markup import Markup, join, tag
from chipmap.report.rows import sign
from chipmap.result import Result, natural

WIDTH, HEIGHT = 1000, 270
LEFT, RIGHT, TOP, BOTTOM = 84, 150, 14, 34
#: Colours of the curves where the page's style sheet doesn't reach (a reader of mails, a drawing program).
PLAIN = {"incumbent": "#0072b2", "bound": "#c2570c"}

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
    found = {kind: _points(result, event, unit) for kind, event in (("incumbent", "solution"), ("bound", "bound"))}
    curves = {kind: points for kind, points in found.items() if points}
    if not curves:
        return None
    times, values, _ = zip(*(point for points in curves.values() for point in points), strict=True)
    end = max(result.seconds, *times)
    x, y = _time_scale(min(times), end), _value_scale(min(values), max(values))
    chart = tag(
        "svg",
        *_axes(x, y, sign(unit)),
        _shade(found, end, x, y) if len(curves) == 2 else None,
        *(_curve(points, kind, end, x, y) for kind, points in curves.items()),
        *_names({kind: points[-1][1] for kind, points in curves.items()}, y),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        font_size=12,
        role="img",
        aria_label="incumbent and bound over time",
    )
    return tag("div", chart, class_="scroll")


def _points(result: Result, event: str, unit: Unit) -> list[Point]:
    """(seconds, value, source) of the improving events of one kind, in order of time."""
    return [
        (max(line.seconds, 0.0), natural(line.value, unit.per_tick) or 0.0, line.source)
        for line in sorted(result.trace, key=lambda line: line.seconds)
        if line.event == event
    ]


def _time_scale(first: float, end: float) -> _Scale:
    first = max(first, 1e-3)
    end = max(end, 2 * first)
    wide = end > 20 * first
    return _Scale(first if wide else 0.0, end, LEFT, WIDTH - RIGHT, wide)


def _value_scale(low: float, high: float) -> _Scale:
    if low > 0 and high > 8 * low:
        return _Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return _Scale(low - margin, high + margin, HEIGHT - BOTTOM, TOP, False)


def _axes(x: _Scale, y: _Scale, unit: str) -> list[Markup]:
    drawn = []
    for value in y.ticks():
        at = f"{y(value):.1f}"
        drawn.append(tag("line", class_="axis", stroke="#dfe4ea", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at))
        label = f"{number(float(f'{value:.6g}'))} {unit}"
        drawn.append(tag("text", label, x=LEFT - 8, y=at, text_anchor="end", dominant_baseline="middle"))
    for value in x.ticks():
        label = f"{value:g} s"
        drawn.append(tag("text", label, x=f"{x(value):.1f}", y=HEIGHT - BOTTOM + 20, text_anchor="middle"))
    names = [name for name, scale in (("seconds", x), ("values", y)) if scale.log]
    if names:
        words = f"logarithmic: {' and '.join(names)}"
        drawn.append(tag("text", words, x=WIDTH - RIGHT + 8, y=HEIGHT - BOTTOM + 20))
    return drawn


def _steps(points: list[Point], end: float, x: _Scale, y: _Scale) -> list[tuple[float, float]]:
    """The corners of the step function through ``points``, drawn on to ``end``."""
    moments = [*(x(seconds) for seconds, _, _ in points[1:]), x(end)]
    levels = [y(value) for _, value, _ in points]
    each = zip((x(points[0][0]), *moments), levels, moments, strict=False)
    return [corner for start, level, stop in each for corner in ((start, level), (stop, level))]


def _join(corners: list[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)


def _curve(points: list[Point], kind: str, end: float, x: _Scale, y: _Scale) -> Markup:
    dots = [
        tag("circle", tag("title", f"{seconds:.2f} s: {number(value)}, {source}"), class_=kind, r=3.2, fill=PLAIN[kind],
            cx=f"{x(seconds):.1f}", cy=f"{y(value):.1f}")
        for seconds, value, source in points
    ]  # fmt: skip
    line = tag("polyline", class_=kind, points=_join(_steps(points, end, x, y)), fill="none", stroke=PLAIN[kind])
    return join(line, *dots)


def _shade(curves: dict[str, list[Point]], end: float, x: _Scale, y: _Scale) -> Markup:
    """The area between both curves, from the moment when both exist."""
    start = max(points[0][0] for points in curves.values())
    upper, lower = (_steps(_from(points, start), end, x, y) for points in curves.values())
    return tag("polygon", class_="shade", points=_join(upper + lower[::-1]), fill="#e8f1f8")


def _from(points: list[Point], start: float) -> list[Point]:
    before = [point for point in points if point[0] <= start]
    return [(start, before[-1][1], ""), *(point for point in points if point[0] > start)]


def _names(last: dict[str, float], y: _Scale) -> list[Markup]:
    """Each curve's name and last value at its right end, kept a line apart."""
    heights = [y(value) for value in last.values()]
    if len(heights) == 2 and heights[1] - heights[0] < 16:
        heights = [sum(heights) / 2 - 8, sum(heights) / 2 + 8]
    return [
        tag("text", f"{kind} {number(value)}", class_=kind, x=WIDTH - RIGHT + 8, y=f"{at:.1f}",
            dominant_baseline="middle")
        for at, (kind, value) in zip(heights, last.items(), strict=True)
    ]  # fmt: skip
