"""A front of an instance's terms as a table and as a picture."""

from __future__ import annotations

from pathlib import Path

from chipmap.explaining.front import Front, Point
from chipmap.family import family_of
from chipmap.records import InputError, counted
from chipmap.records.quantities import number, percent
from chipmap.report.canvas import COLOURS, INK, MUTED, picture
from chipmap.report.tables import columns

#: Places along an axis at which what the planes prove is drawn.
PLACES = 200


def text(front: Front, title: str) -> str:
    """What `chipmap front` prints: a line per point, and whether there may be others."""
    if not front.points:
        return f"{title}: {'there is no solution' if front.complete else 'no solution was found in time'}\n"
    family = family_of(front.instance)
    heads = [f"{axis.name}, {axis.unit}" if axis.unit else axis.name for axis in front.axes]
    rows: list[tuple[str, ...]] = [(*heads, f"objective, {family.unit}", "gap")]
    for point in front.points:
        amounts = (number(a * axis.per_count) for a, axis in zip(point.amounts, front.axes, strict=True))
        rows.append((*amounts, number(front.objective(point) * family.unit_per_tick), _gap(point)))
    what = "the whole front is proved" if front.complete else "there may be more points, or better ones"
    return f"{title}: {counted(len(front.points), 'point')}, {what}\n{columns(rows)}"


def _gap(point: Point) -> str:
    return "proved" if point.proved else percent(point.gap) if point.gap < 1 else "n/a"


def draw(front: Front, path: str | Path, title: str) -> None:
    """Draw the first two axes; a third one as the points' colour. :class:`InputError` without points or two axes."""
    if len(front.axes) < 2 or not front.points:
        what = "has no point" if not front.points else "has one axis"
        raise InputError(f"the front {what}", str(path), "Leave --out out, or give two terms a weight.")
    across, up = front.axes[:2]
    xs = [point.amounts[0] * across.per_count for point in front.points]
    ys = [point.amounts[1] * up.per_count for point in front.points]
    with picture(Path(path), (6.4, 4.4)) as figure:
        axes = figure.subplots()
        thirds = sorted({point.amounts[2:] for point in front.points})
        for i, third in enumerate(thirds):
            own = [j for j, point in enumerate(front.points) if point.amounts[2:] == third]
            label = f"{third[0] * front.axes[2].per_count:g} {front.axes[2].name}" if third else "solutions"
            for proved, face in ((True, COLOURS[i % len(COLOURS)]), (False, "white")):
                some = [j for j in own if front.points[j].proved is proved]
                named = label if some and some[0] == own[0] else None
                axes.plot([xs[j] for j in some], [ys[j] for j in some], "o", color=COLOURS[i % len(COLOURS)],
                          markerfacecolor=face, label=named, zorder=3)  # fmt: skip
        low, high = min(xs), max(xs)
        places = [low + (high - low) * i / PLACES for i in range(PLACES + 1)]
        if len(front.axes) == 2 and front.planes:
            floor = [
                max((bound - ticks[0] * x / across.per_count) / ticks[1] for ticks, bound in front.planes)
                * up.per_count
                for x in places
            ]
            axes.plot(places, floor, color=INK, linewidth=1.0, label="nothing lies below (proved)", zorder=2)
        axes.set_title(title)
        words = "the whole front" if front.complete else "full: proved, empty: maybe matched by another"
        axes.set_title(words, loc="right", fontsize=8.5, fontweight="normal", color=MUTED, y=-0.19)
        axes.set_xlabel(f"{across.name}, {across.unit}")
        axes.set_ylabel(f"{up.name}, {up.unit}" if up.unit else up.name)
        axes.legend(loc="upper right", fontsize=8)
