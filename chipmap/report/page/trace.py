"""The trace of a run as a chart: incumbent and bound over time, and the gap between them shaded."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.records import Unit
from chipmap.records.quantities import number
from chipmap.report.page.charts import Chart, Corner, Scale, joined
from chipmap.report.rows import sign
from chipmap.result import Result, natural

WIDTH, HEIGHT = 1000, 290
LEFT, RIGHT, TOP, BOTTOM = 90, 170, 14, 48
#: Points that a curve has at most; of more, the first and last ones and every so many between.
MOST_POINTS = 200

Point = tuple[float, float, str]


def trace_chart(result: Result, unit: Unit, most: int = MOST_POINTS) -> Chart | None:
    """The chart, or None when the run has no trace. Times before the first event are not shown."""
    found = {kind: _points(result, event, unit) for kind, event in (("incumbent", "solution"), ("bound", "bound"))}
    curves = {kind: thinned(points, most) for kind, points in found.items() if points}
    if not curves:
        return None
    times, values, _ = zip(*(point for points in curves.values() for point in points), strict=True)
    end = max(result.seconds, *times)
    x, y = _time_scale(min(times), end), _value_scale(min(values), max(values))
    chart = Chart(WIDTH, HEIGHT, f"incumbent and bound over time, in {sign(unit) or 'ticks'}")
    _axes(chart, x, y, sign(unit))
    if len(curves) == 2:
        _shade(chart, curves, end, x, y)
    for kind, points in curves.items():
        chart.add("polyline", class_=kind, points=joined(_steps(points, end, x, y)))
        for seconds, value, source in points:
            said = f"{seconds:.2f} s: {number(value)} {sign(unit)}, {source}"
            chart.add("circle", title=said, class_=kind, r=3.2, cx=x(seconds), cy=y(value))
    _names(chart, {kind: points[-1][1] for kind, points in curves.items()}, y)
    return chart


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most about ``most`` of the points, the first and the last among them."""
    every = -(-len(points) // max(2, most))
    return [point for i, point in enumerate(points) if i % every == 0 or i == len(points) - 1]


def _points(result: Result, event: str, unit: Unit) -> list[Point]:
    """(seconds, value, source) of the improving events of one kind, in order of time."""
    return [
        (max(line.seconds, 0.0), natural(line.value, unit.per_tick) or 0.0, line.source)
        for line in sorted(result.trace, key=lambda line: line.seconds)
        if line.event == event
    ]


def _time_scale(first: float, end: float) -> Scale:
    first = max(first, 1e-3)
    end = max(end, 2 * first)
    wide = end > 20 * first
    return Scale(first if wide else 0.0, end, LEFT, WIDTH - RIGHT, wide)


def _value_scale(low: float, high: float) -> Scale:
    if low > 0 and high > 8 * low:
        return Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low - margin, high + margin, HEIGHT - BOTTOM, TOP, False)


def _axes(chart: Chart, x: Scale, y: Scale, unit: str) -> None:
    for value in y.ticks():
        chart.add("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value))
        chart.text(f"{number(float(f'{value:.6g}'))} {unit}", LEFT - 8, y(value), "end")
    for value in x.ticks():
        chart.text(f"{value:g} s", x(value), HEIGHT - BOTTOM + 16, "middle")
    names = [name for name, scale in (("time", x), ("values", y)) if scale.log]
    words = "seconds into the run" + (f" (logarithmic: {' and '.join(names)})" if names else "")
    chart.text(words, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "middle")


def _steps(points: Sequence[Point], end: float, x: Scale, y: Scale) -> list[Corner]:
    """The corners of the step function through ``points``, drawn on to ``end``."""
    ends = [*(x(seconds) for seconds, _, _ in points[1:]), x(end)]
    levels = [y(value) for _, value, _ in points]
    each = zip((x(points[0][0]), *ends), levels, ends, strict=False)
    return [corner for start, level, stop in each for corner in ((start, level), (stop, level))]


def _shade(chart: Chart, curves: dict[str, list[Point]], end: float, x: Scale, y: Scale) -> None:
    """The area between both curves, from the moment when both exist."""
    start = max(points[0][0] for points in curves.values())
    upper, lower = (_steps(_from(points, start), end, x, y) for points in curves.values())
    chart.add("polygon", class_="shade", points=joined(upper + lower[::-1]))


def _from(points: list[Point], start: float) -> list[Point]:
    before = [point for point in points if point[0] <= start]
    return [(start, before[-1][1], ""), *(point for point in points if point[0] > start)]


def _names(chart: Chart, last: dict[str, float], y: Scale) -> None:
    """Each curve's name and last value at its right end, kept a line apart."""
    heights = [y(value) for value in last.values()]
    if len(heights) == 2 and heights[1] - heights[0] < 16:
        heights = [sum(heights) / 2 - 8, sum(heights) / 2 + 8]
    for at, (kind, value) in zip(heights, last.items(), strict=True):
        chart.text(f"{kind} {number(value)}", WIDTH - RIGHT + 8, at, class_=kind)
