"""``front``: the exact front of tiny instances is that of enumeration; by weights every point and plane holds."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.explaining.front import Regions, front, matches, undominated
from chipmap.explaining.wafer import front as work
from chipmap.explaining.wafer.front import weightings
from chipmap.family import Family
from chipmap.instances.wafer import WaferInstance, WaferSolution, Weights
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.instances.wafer.wires import MAX_TRAFFIC
from chipmap.methods.wafer import chain
from chipmap.records import InputError
from chipmap.report.front import draw, text
from chipmap.run import Run, SolveOptions
from tests.lanes import of_all
from tests.wafer import cases, tiny

#: Tiny instances of one or two kernels that have a floorplan, those first whose front has several points.
TWO = (208, 93, 76, 7, 12, 16, 60, 156, 1, 2, 23, 25, 36)
EVERY = Weights(time=1, wire=3, adapter=5)


def enumerated(one: WaferInstance) -> set[tuple[int, ...]]:
    """The front of one or two kernels: (quarters, half tiles, adapters) of all pairs of arguments and corners."""
    problem = wafer_problem(one)
    tables = [tiny.ways(problem, v).table for v in range(problem.n)]
    found: set[tuple[int, ...]] = set()
    for row in tables[0]:
        if problem.n == 1:
            found.add((int(row[2]), 0, 0))
            continue
        width, height, times, x, y = (tables[1][:, i] for i in (0, 1, 2, 7, 8))
        apart = (x + width <= row[7]) | (row[7] + row[0] <= x) | (y + height <= row[8]) | (row[8] + row[1] <= y)
        length = np.abs(2 * x + width - 2 * row[7] - row[0]) + np.abs(2 * y + height - 2 * row[8] - row[1])
        wire, adapters = np.zeros(len(x), int), np.zeros(len(x), int)
        for first, _ in problem.edges.tolist():
            made, read = (row[6], tables[1][:, 5]) if first == 0 else (tables[1][:, 6], row[5])
            adapters += (tables[1][:, 3] != row[3]).astype(int) + (tables[1][:, 4] != row[4]) + (made != read)
            wire += length
        columns = np.stack([np.maximum(times, row[2]), wire, adapters], axis=1)[apart]
        found |= {tuple(values) for values in np.unique(columns, axis=0).tolist()}
    return {one for one in found if not any(other != one and matches(other, one) for other in found)}


def on_axes(found: set[tuple[int, ...]], one: WaferInstance) -> set[tuple[int, ...]]:
    """The front of the terms that have a weight."""
    kept = [i for i, weight in enumerate((one.weights.time, one.weights.wire, one.weights.adapter)) if weight]
    cut = {tuple(values[i] for i in kept) for values in found}
    return {a for a in cut if not any(b != a and matches(b, a) for b in cut)}


@pytest.mark.parametrize("seed", TWO[: of_all(len(TWO), few=1)])
@pytest.mark.parametrize("weights", [EVERY, Weights(time=1, wire=1, adapter=0)], ids=["three", "two"])
def test_the_exact_front_is_that_of_enumeration(seed: int, weights: Weights) -> None:
    one = cases.instance(seed).replace(weights=weights)
    found = front(one)
    assert found.complete and all(point.proved and point.gap == 0 for point in found.points)
    assert {point.amounts for point in found.points} == on_axes(enumerated(one), one)
    least = min(found.objective(point) for point in found.points)
    assert least == tiny.optimum(one)[0]  # type: ignore[index]


def test_by_weights_every_point_is_a_floorplan_and_none_lies_below_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "small", lambda _: False)
    one = cases.instance(TWO[0]).replace(weights=EVERY)
    found, every = front(one, SolveOptions(time_limit=600.0), solves=3), enumerated(one)
    problem = wafer_problem(one)
    assert found.points and len(found.planes) == 3
    for point in found.points:
        assert isinstance(point.solution, WaferSolution) and tiny.valid(problem, point.solution)
        assert tiny.score(problem, point.solution) == found.objective(point)
        assert any(matches(known, point.amounts) for known in every)
        assert not point.proved or point.amounts in every
    for ticks, bound in found.planes:
        assert bound <= min(sum(t * a for t, a in zip(ticks, known, strict=True)) for known in every)


def test_no_weights_are_larger_than_an_instance_may_have() -> None:
    one = cases.instance(TWO[0]).replace(weights=EVERY)
    heavy = one.replace(traffic=[MAX_TRAFFIC // 50] * len(one.edges))
    assert max(weights.wire for weights in weightings(one)) > 50
    for weights in weightings(heavy):
        heavy.replace(weights=weights).check()


def test_regions_hold_exactly_what_no_point_matches() -> None:
    random = Random(1)
    for axes in (1, 2, 3):
        regions, points = Regions(axes), list[tuple[int, ...]]()
        for _ in range(12):
            points.append(tuple(random.randint(0, 7) for _ in range(axes)))
            regions.point(points[-1])
            for _ in range(20):
                place = tuple(random.randint(0, 8) for _ in range(axes))
                inside = any(all(p < c for p, c in zip(place, corner, strict=True)) for corner in regions.open)
                assert inside == (not any(matches(point, place) for point in points))


def test_weights_and_instances_without_a_front(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = cases.instance(TWO[0])
    with pytest.raises(InputError, match="all weights are 0"):
        front(one.replace(weights=Weights(time=0, wire=0, adapter=0)))
    with pytest.raises(InputError, match="follows the clock"):
        front(one, SolveOptions(deterministic=True))
    for words, says in (
        (["ring/tiny-skip"], "has no front"),
        (["wafer/tiny-adapters", "--solves", "0"], "--solves: is 0"),
        (["wafer/tiny-adapters", "--out", "front.txt"], "no such plot format"),
    ):
        assert main(["front", *words]) == 1
        told = capsys.readouterr()
        assert says in told.err and not told.out
    nothing = front(cases.instance(cases.IMPOSSIBLE[0]).replace(weights=EVERY))
    assert nothing.complete and not nothing.points and "no solution" in text(nothing, "tiny")
    with pytest.raises(InputError, match="has no point"):
        draw(nothing, tmp_path / "front.svg", "tiny")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"])
def test_an_interrupt_keeps_the_points_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    solves = list[int]()

    def auto(instance: WaferInstance, run: Run) -> None:
        """One floorplan, and the signal."""
        chain.auto(instance, run)
        solves.append(1)
        signal.raise_signal(number)

    monkeypatch.setattr(work, "small", lambda _: False)
    monkeypatch.setattr(work, "auto", auto)
    assert main(["front", "wafer/tiny-adapters", "--time-limit", "1h"]) == code and len(solves) == 1
    told = capsys.readouterr()
    assert "interrupted" in told.err and "there may be more points" in told.out


def test_ctrl_c_in_python_keeps_the_points_too(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cases.instance(TWO[0]).replace(weights=EVERY)

    def press(words: str) -> None:
        """Press Ctrl-C before the second solve."""
        if "(2 of" in words:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(work, "small", lambda _: False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a command run by another test may ignore it
    try:
        found = front(one, SolveOptions(time_limit=600.0), told=press)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.points and len(found.planes) == 1


@pytest.mark.parametrize("plain", [60.0, 0.0])
def test_a_small_instance_compiles_only_where_plain_python_is_too_slow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], plain: float
) -> None:
    """Without a second to spare the first kernel asks for all to be compiled; then the front begins anew."""
    compiled = list[str]()

    def compile_first(family: Family, quiet: bool) -> None:
        """Nothing is compiled: from now on there is time for plain Python."""
        compiled.append(family.name)
        monkeypatch.setattr("chipmap.kernels.PLAIN", 60.0)

    monkeypatch.setattr("chipmap.cli.progress.compile_first", compile_first)
    monkeypatch.setattr("chipmap.process.warming.is_warm", lambda _: False)
    monkeypatch.setattr("chipmap.kernels.PLAIN", plain)
    assert main(["front", "wafer/tiny-adapters", "--quiet"]) == 0
    assert "3 points, the whole front is proved" in capsys.readouterr().out
    assert compiled == ([] if plain else ["wafer"])


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "front.svg"
    assert main(["front", "wafer/tiny-adapters", "--quiet", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "3 points, the whole front is proved" in printed and out.stat().st_size > 1000
    assert undominated([((1, 2), cases.instance(1)), ((1, 1), cases.instance(1))])[0][0] == (1, 1)
