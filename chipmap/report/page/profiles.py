"""Charts over all runs: the gap of each instance by method, performance profiles, and shares of gaps.

A performance profile (Dolan and Moré 2002) shows, for each factor, on which share of the instances a method reached the
target within that factor of the fastest method's time. Several runs of a method on an instance count by their median.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from chipmap.records import counted
from chipmap.records.quantities import percent
from chipmap.report.page.charts import SERIES, Chart, Corner, Scale, joined, legend
from chipmap.report.page.known import problem
from chipmap.report.progress import TARGETS, seconds_to
from chipmap.result import Result

WIDTH, LEFT, RIGHT, TOP, BOTTOM, ROW = 1000, 300, 230, 16, 48, 20
PLOT = 300
#: Instances in the chart of gaps, those with the widest gaps; the smallest gap that is told from none.
MOST, LEAST = 60, 1e-5
#: Letters of an instance's name beside the chart.
LETTERS = 40

#: Median values by instance and method; infinite where a run didn't get there.
Values = dict[str, dict[str, float]]


def charts(results: Sequence[Result]) -> list[tuple[str, str, Chart]]:
    """(heading, explanation, chart) of each that says something about these runs."""
    names = _names(results)
    methods = list(dict.fromkeys(result.method for result in results))[:SERIES]
    found = [_gaps(results, names, methods)]
    if len(methods) > 1 and len(names) > 1:
        found += [_profile(results, methods), _shares(results, methods)]
    return [one for one in found if one is not None]


def shortened(name: str) -> str:
    """The name with its middle left out where it is long: settings at its end tell instances apart."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS // 3]}…{name[LETTERS // 3 + 1 - LETTERS :]}"


def medians(results: Sequence[Result], of: Callable[[Result], float | None]) -> Values:
    """The median of ``of`` by instance and method."""
    groups: dict[tuple[str, str], list[float]] = {}
    for result in results:
        value = of(result)
        groups.setdefault((problem(result), result.method), []).append(math.inf if value is None else value)
    found: Values = {}
    for (key, method), values in groups.items():
        found.setdefault(key, {})[method] = median(values)
    return found


def profile(times: Values, methods: Sequence[str]) -> dict[str, list[Corner]]:
    """(factor, share of instances) of each method, by rising factors. An instance that no method gets done, or that not
    all methods were given, is left out."""
    whole = [own for own in times.values() if own.keys() >= set(methods) and min(own.values()) < math.inf]
    found: dict[str, list[Corner]] = {}
    for method in methods:
        ratios = sorted(own[method] / max(min(own.values()), 1e-9) for own in whole if own[method] < math.inf)
        found[method] = [(ratio, (i + 1) / len(whole)) for i, ratio in enumerate(ratios)]
    return found if whole else {}


def _names(results: Sequence[Result]) -> dict[str, str]:
    """The name of each problem, with what was changed of it."""
    return {problem(r): " ".join([r.instance, *(f"[{change}]" for change in r.changes)]) for r in results}


def _gaps(results: Sequence[Result], names: dict[str, str], methods: Sequence[str]) -> tuple[str, str, Chart] | None:
    values = {key: own for key, own in medians(results, lambda r: r.gap).items() if min(own.values()) < math.inf}
    if len(values) < 2:
        return None
    order = sorted(values, key=lambda key: -min(values[key].values()))[:MOST]
    height = TOP + ROW * len(order) + BOTTOM
    chart = Chart(WIDTH, max(height, 18 * len(methods) + 40), "gap of each instance by method")
    largest = max(value for key in order for value in values[key].values() if value < math.inf)
    x = Scale(LEAST, max(1.0, largest), LEFT + 30, WIDTH - RIGHT, True)
    for value in x.ticks():
        chart.add("line", class_="axis", x1=x(value), x2=x(value), y1=TOP, y2=height - BOTTOM)
        chart.text("0" if value <= LEAST else f"{100 * value:g}%", x(value), height - BOTTOM + 16, "middle")
    for i, key in enumerate(order):
        y = TOP + ROW * (i + 0.5)
        chart.add("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        name = names[key]
        chart.text(shortened(name), LEFT - 8, y, "end")
        for k, method in enumerate(methods):
            value = values[key].get(method, math.inf)
            if value < math.inf:
                chart.dot(k, x(max(value, LEAST)), y, f"{name}, {method}: {percent(value)}")
    chart.text("gap (logarithmic; 0 at the left end)", (LEFT + WIDTH - RIGHT) / 2, height - 10, "middle")
    legend(chart, methods, WIDTH - RIGHT + 20, TOP + 8)
    left_out = f" The {MOST} of {len(values)} instances with the widest gaps." if len(values) > MOST else ""
    return "Gap by instance and method", f"Each mark is the median gap of a method's runs.{left_out}", chart


def _profile(results: Sequence[Result], methods: Sequence[str]) -> tuple[str, str, Chart] | None:
    """Times to the smallest target that at least two methods reach somewhere, so that the curves say something."""
    for target in reversed(TARGETS):
        times = medians(results, lambda r, target=target: seconds_to(r, target))  # type: ignore[misc]
        curves = profile(times, methods)
        if sum(bool(points) for points in curves.values()) > 1:
            break
    else:
        return None
    most = max(2.0, 1.1 * max(factor for points in curves.values() for factor, _ in points))
    words = f"time to a gap of {100 * target:g}%, as a factor of the fastest method's (logarithmic)"
    chart = _stairs(curves, Scale(1.0, most, LEFT / 4, WIDTH - RIGHT, True), words, lambda value: f"{value:g}×")
    solved = round(1 / min(share for points in curves.values() for _, share in points[:1]))
    said = f"Share of {counted(solved, 'instance')} on which a method got there within a factor of the fastest time."
    return "Performance profile", said + " Instances count that every method was given and some method got done.", chart


def _shares(results: Sequence[Result], methods: Sequence[str]) -> tuple[str, str, Chart] | None:
    values = medians(results, lambda r: r.gap)
    curves: dict[str, list[Corner]] = {}
    for method in methods:
        own = sorted(one[method] for one in values.values() if method in one)
        curves[method] = [(max(gap, LEAST), (i + 1) / len(own)) for i, gap in enumerate(own) if gap < math.inf]
    if not any(curves.values()):
        return None
    most = max(1.0, *(gap for points in curves.values() for gap, _ in points))
    x = Scale(LEAST, most, LEFT / 4, WIDTH - RIGHT, True)
    label = "gap at the end of the run (logarithmic; 0 at the left end)"
    chart = _stairs(curves, x, label, lambda value: "0" if value <= LEAST else f"{100 * value:g}%")
    return "Gaps reached", "Share of the instances that a method was given on which its gap is at most so wide.", chart


def _stairs(curves: dict[str, list[Corner]], x: Scale, label: str, tick: Callable[[float], str]) -> Chart:
    """Shares that rise in steps, from 0 to 100%."""
    chart = Chart(WIDTH, PLOT, label)
    y = Scale(0.0, 1.0, PLOT - BOTTOM, TOP, False)
    for value in y.ticks():
        chart.add("line", class_="axis", x1=x.start, x2=x.end, y1=y(value), y2=y(value))
        chart.text(f"{100 * value:.0f}%", x.start - 8, y(value), "end")
    for value in x.ticks():
        chart.text(tick(value), x(value), PLOT - BOTTOM + 16, "middle")
    chart.text(label, (x.start + x.end) / 2, PLOT - 10, "middle")
    for k, (method, points) in enumerate(curves.items()):
        corners, level = [(x(x.low), y(0.0))], y(0.0)
        for value, share in points:
            corners += [(x(value), level), (x(value), y(share))]
            level = y(share)
        corners.append((x.end, level))
        chart.add("polyline", class_=f"s{k}", points=joined(corners))
        for value, share in points:
            chart.dot(k, x(value), y(share), f"{method}: {100 * share:.0f}% at {tick(value)}", 3.2)
    legend(chart, list(curves), WIDTH - RIGHT + 20, TOP + 8)
    return chart
