"""Objectives and bounds of any family's sweep: what each point came to, and what is proved, over the last axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep
from chipmap.records.quantities import percent
from chipmap.report.canvas import COLOURS, blank, groups, labels
from chipmap.report.rows import sign
from chipmap.report.sweeps.tables import units_of
from chipmap.result import gap, natural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(sweep: Sweep, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    """A picture for each unit: a curve of objectives for every combination of the other axes, methods and seeds, with
    the bounds as crosses of its colour. Without an axis the instances stand side by side."""
    by_unit: dict[str, list[Row]] = {}
    for row in rows:
        by_unit.setdefault(sign(units_of(row).objective), []).append(row)
    for k, (unit, own) in enumerate(by_unit.items()):
        yield "objectives" if len(by_unit) == 1 else f"objectives-{k + 1}", _curves(sweep, own, unit)


def _curves(sweep: Sweep, rows: Sequence[Row], unit: str) -> Figure:
    names = list(dict.fromkeys(name for row in rows for name in row.labels))
    across = sweep.axes[-1].name if sweep.axes else names[-1] if names else ""
    others = [name for name in names if name != across]
    places = labels(rows, across) if across else [""]
    figure = blank((6.4, 4.0), layout="constrained")
    plane = figure.subplots()
    apart = groups(rows, others)
    step = min(0.08, 0.5 / len(apart))  # equal curves stand side by side
    for k, (colour, (group, own)) in enumerate(zip(cycle(COLOURS), apart.items())):
        aside = step * (k - (len(apart) - 1) / 2)
        for mark, of_row in (("o-", lambda row: row.objective), ("x:", lambda row: row.bound)):
            spots = [
                (places.index(row.labels.get(across, "")) if across else 0, natural(of_row(row), _per_tick(row)) or 0.0)
                for row in own
                if of_row(row) is not None
            ]
            label = " ".join(group) or "objective" if mark == "o-" else None
            plane.plot(
                [x + aside for x, _ in spots], [y for _, y in spots], mark, color=colour, label=label, markersize=4
            )
    plane.set_xticks(range(len(places)), places, rotation=45 if max(map(len, places)) > 8 else 0, ha="right")
    plane.set_xlabel(across)
    plane.set_ylabel(f"objective (dots) and bound (crosses), {unit}")
    plane.set_ylim(bottom=0.0)
    if others:
        plane.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=", ".join(others))
    gaps = [share for row in rows if (share := gap(row.objective, row.bound)) is not None]
    told = f"gaps up to {percent(max(gaps))}" if any(gaps) else "all gaps 0%"
    figure.suptitle(f"{sweep.name}: {told}" if gaps else sweep.name)
    return figure


def _per_tick(row: Row) -> float:
    return units_of(row).objective.per_tick
