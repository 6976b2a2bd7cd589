"""Fronts of latency and energy: bounds within limits, the picture, the shipped sweeps."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.bench.point import Row, solve_point
from chipmap.bench.sweep import Sweep, points, read_sweep
from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, bound
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.report.multimodel.front import Front, Step, draw, fronts_of
from chipmap.report.sweeps.plots import plots
from chipmap.report.sweeps.tables import table
from chipmap.validation.brute_force import count
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import tiny_instance
from tests.multimodel.test_outcome import words


def test_bounds_within_a_limit_hold_for_the_whole_front() -> None:
    """On every point (T1, T2) of random instances' fronts, and sharper than the least energy on some of them."""
    random, sharper, compared = Random(4), 0, 0
    while compared < 150:
        instance = tiny_instance(random)
        plain = instance.replace(task=instance.task.replace(objective="energy", latency_limit_ns=None))
        if count(plain) > 2_000:
            continue
        every = [one.terms for one in (check(plain, solution) for solution in candidates(plain)) if one.feasible]
        for limit in sorted({one["T1"] for one in every})[:8]:
            limited = plain.replace(task=plain.task.replace(latency_limit_ns=limit))
            program = AnyWindows(multi_problem(limited))
            value = bound(program, [], 1.0)
            assert value <= min(one["T2"] for one in every if one["T1"] <= limit)
            sharper += value > program.least[1]
            compared += 1
    assert sharper > 20, sharper


def front_rows(folder: Path) -> tuple[Sweep, list[Row]]:
    """A tiny front, solved."""
    limits = [95_000, 120_000, 140_000, 180_000, 250_000]
    fields: dict[str, Any] = {
        "name": "front",
        "instance": "multimodel/tiny-latency",
        "set": {"task.objective": "energy"},
        "axes": [{"name": "limit", "path": "task.latency_limit_ns", "values": limits}],
        "methods": ["multimodel/cpsat"],
        "time_limit_s": 30.0,
    }
    sweep = Sweep.make(**fields)
    return sweep, [solve_point(point) for point in points(sweep)]


def test_a_front_is_proved_and_drawn(tmp_path: Path) -> None:
    """Each point of a small front is the least energy within its limit; the floor of the picture is those energies."""
    sweep, rows = front_rows(tmp_path)
    instance = read("multimodel/tiny-latency")
    assert isinstance(instance, MultiInstance)
    every = [check(instance, solution) for solution in candidates(instance)]
    least = []
    for point in points(sweep):
        limit = point.set["task.latency_limit_ns"]
        least.append(min(one.terms["T2"] for one in every if one.feasible and one.terms["T1"] <= limit))
    assert [row.objective for row in rows] == least == [row.bound for row in rows] and len(set(least)) == 5
    (front,) = fronts_of(sweep, rows[::-1])
    assert [energy for _, energy in front.floor] == [one / 1e12 for one in least]
    assert all(step.time <= step.limit and step.gap == 0 for step in front.steps)
    drawn = plots(sweep, rows, tmp_path)
    assert [path.name for path in drawn] == ["multimodel-tiny-latency.png"] and drawn[0].stat().st_size > 1000
    draw(front, tmp_path / "front.svg")
    text = words(tmp_path / "front.svg")
    assert (
        "no schedule (proved)" in text
        and "latency T1, s (logarithmic)" in text
        and "energy T2, J" in text
        and "J·s" in text
    )
    units = next(csv.DictReader(io.StringIO(table(sweep, rows))))
    assert units["unit"] == "J" and float(units["objective"]) == pytest.approx(least[0] / 1e12)


def test_a_bound_holds_within_smaller_limits_too() -> None:
    steps = tuple(Step(limit, limit, 5.0, low) for limit, low in ((1.0, 1.0), (2.0, 3.0), (3.0, 2.0)))
    assert Front("f", steps).floor == [(1.0, 3.0), (2.0, 3.0), (3.0, 2.0)]


@pytest.mark.parametrize("name", ["multimodel/front-8-pipelined", "multimodel/front-8-whole"])
def test_shipped_fronts(name: str) -> None:
    """16 limits that rise, the same instance but for its task."""
    found = points(read_sweep(name))
    limits = [point.set["task.latency_limit_ns"] for point in found]
    assert len(found) == 16 and limits == sorted(set(limits))
    first, plain = found[0].build(), read(found[0].instance or "")
    assert isinstance(first, MultiInstance) and isinstance(plain, MultiInstance)
    assert first.task == plain.task.replace(objective="energy", latency_limit_ns=limits[0])
    assert first.models == plain.models
