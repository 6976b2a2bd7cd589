"""Sweeps of placements: what a row says adds up to the checker's terms, and the picture shows it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from chipmap.bench.placement.measures import measures
from chipmap.bench.point import Row, solve_point
from chipmap.bench.sweep import Sweep, points, read_sweep
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.report.placement.scaling import PARTS, scaling
from chipmap.report.sweeps.plots import plots
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import tiny_instance
from tests.placement.test_outcome import instances


def test_the_parts_add_up_to_the_step_time() -> None:
    for instance, solution in instances(80, 23):
        found, certificate = measures(instance, solution), check(instance, solution)
        t1 = certificate.terms["T1"]
        assert sum(found[name] for name, _, _ in PARTS) * 1e6 == pytest.approx(t1)
        assert t1 == 0 or sum(
            found[f"{name}_share"] for name in ("computing", "transfers", "waiting")
        ) == pytest.approx(1)
        peaks = [value for name, value in certificate.figures.items() if name.startswith("peak_bytes")]
        assert not peaks or found["peak_gib"] * 2**30 == max(peaks)
        assert 0 <= found["utilisation"] <= 1


def test_the_parts_add_up_to_the_load() -> None:
    random, seen = Random(8), set[bool]()
    while len(seen) < 2:
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        if problem.timed:
            continue
        choice = {v: random.choice(np.flatnonzero(problem.allowed[v]).tolist()) for v in range(problem.operations)}
        solution = PlacementSolution(devices={problem.names[v]: problem.device_names[d] for v, d in choice.items()})
        found = measures(instance, solution)
        assert sum(found[name] for name, _, _ in PARTS) * 1e6 == pytest.approx(check(instance, solution).terms["T2"])
        seen.add(instance.task.overlap)
    assert measures(instance, None) == {}


def test_the_shipped_sweep() -> None:
    """Each workload on 1, 2, 4 and 8 devices over both links, the same graph throughout."""
    found = points(read_sweep("placement/scaling"))
    assert len(found) == 32 and {tuple(point.labels) for point in found} == {("workload", "links", "devices")}
    some = [point for point in found if point.labels["workload"] == "wavenet-2"]
    built = [point.build() for point in some]
    assert all(isinstance(one, PlacementInstance) for one in built)
    assert {len(one.system.devices) for one in built} == {1, 2, 4, 8}  # type: ignore[attr-defined]
    assert len({one.system.links for one in built}) == 2  # type: ignore[attr-defined]
    assert len({one.graph for one in built}) == 1  # type: ignore[attr-defined]


def small() -> tuple[Sweep, list[Row]]:
    """Random graphs on one to three devices over two kinds of links, solved."""
    fields: dict[str, Any] = {
        "name": "small",
        "generator": "placement-random",
        "parameters": {"operations": 5, "seed": 4, "task": {"memory": "none"}},
        "axes": [
            {"name": "links", "parameter": "links", "values": ["pair", "bus"]},
            {"name": "devices", "parameter": "devices", "values": [1, 2, 3]},
        ],
        "time_limit_s": 20.0,
    }
    sweep = Sweep.make(**fields)
    return sweep, [solve_point(point) for point in points(sweep)]


def test_a_sweep_is_solved_and_drawn(tmp_path: Path) -> None:
    """Bars as high as step times, their parts the row's, lines at the bounds."""
    sweep, rows = small()
    assert {row.status for row in rows} == {"optimal"}
    figure = scaling(rows, ("links", "devices"), "t")
    assert [plane.get_title(loc="left") for plane in figure.axes] == ["pair", "bus"]
    for plane, links in zip(figure.axes, ("pair", "bus"), strict=True):
        own = [row for row in rows if row.labels["links"] == links]
        tops = [0.0] * 3
        for bar in (one for one in plane.patches if isinstance(one, Rectangle)):
            x = round(bar.get_x() + bar.get_width() / 2)
            tops[x] = max(tops[x], bar.get_y() + bar.get_height())
        assert tops == pytest.approx([(row.objective or 0) / 1e6 for row in own])
        lines = [one.get_segments()[0][0][1] for one in plane.collections if isinstance(one, LineCollection)]
        assert lines == pytest.approx([(row.bound or 0) / 1e6 for row in own])
        assert [text.get_text().endswith("optimal") for text in plane.texts] == [True] * 3
    (path,) = plots(sweep, rows, tmp_path)
    assert path.name == "scaling.png" and path.stat().st_size > 5_000


def test_a_point_without_a_placement_is_told() -> None:
    _, rows = small()
    lost = rows[4].replace(objective=None, bound=None, figures={}, status="infeasible")
    figure = scaling([*rows[:4], lost, rows[5]], ("links", "devices"), "t")
    assert [text.get_text() for text in figure.axes[1].texts][1] == "none"
