"""The plot of a wafer floorplan: every format, before and after, floorplans that the checker refuses, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.wafer import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.records import InputError
from chipmap.report.wafer.plots import boxes, ordered, plot, plot_both


def at(kernel: str, x: int, y: int, k: int = 1, rotated: bool = False) -> Placement:
    return Placement(kernel=kernel, h=1, w=1, c=(1,), k=(k,), x=x, y=y, rotated=rotated)


def instance() -> WaferInstance:
    found = read("wafer/tiny-skip")
    assert isinstance(found, WaferInstance)
    return found


PLAN = WaferSolution(placements=(at("b", 3, 0, rotated=True), at("a", 0, 0), at("c", 5, 0)))
OUTSIDE = WaferSolution(placements=(at("a", -4, 0), at("b", 0, 0, k=5), at("c", 1, 1)))


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_formats(tmp_path: Path, suffix: str, begins: bytes) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        plot(instance(), PLAN, path)
    assert paths[0].read_bytes().startswith(begins)
    assert paths[0].read_bytes() == paths[1].read_bytes(), "the same plan gives the same picture"


def test_any_floorplan_can_be_drawn(tmp_path: Path) -> None:
    plot(instance(), OUTSIDE, tmp_path / "plot.svg")
    one = (tmp_path / "plot.svg").read_text()
    assert "#c81e1e" in one and one.count(">a</text>") == 1 and "no bound given" in one
    plot_both(instance(), OUTSIDE, PLAN, tmp_path / "both.svg")
    both = (tmp_path / "both.svg").read_text()
    assert both.count(">a</text>") == 2 and both.count("objective") == 2
    plot(instance(), PLAN, tmp_path / "plot.svg", bound=100)
    one = (tmp_path / "plot.svg").read_text()
    assert "gap" in one and ">1: " in one, "the legend has the stages"


def test_boxes_are_to_scale() -> None:
    problem = wafer_problem(instance())
    drawn = boxes(problem, ordered(problem, PLAN))
    assert [(box.name, box.x, box.y, box.width, box.height) for box in drawn] == [
        ("a", 0, 0, 3, 2),
        ("b", 3, 0, 2, 3),
        ("c", 5, 0, 3, 2),
    ]
    assert [box.stage for box in drawn] == [0, 1, 2]
    assert [box.time for box in drawn] == [4 * 4**4, 4 * 64, 4 * 64]


def test_a_large_graph(tmp_path: Path) -> None:
    large = read("wafer/resnet-1000")
    assert isinstance(large, WaferInstance)
    names = wafer_problem(large).names
    plan = WaferSolution(placements=tuple(at(name, 3 * (i % 200), 2 * (i // 200)) for i, name in enumerate(names)))
    plot(large, plan, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["plot.gif", "plot"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        plot(instance(), PLAN, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "placements",
    [
        PLAN.placements[:2],
        (*PLAN.placements, at("a", 0, 0)),
        (*PLAN.placements[:2], at("d", 0, 0)),
        (*PLAN.placements[:2], at("c", 0, 0, k=0)),
        (*PLAN.placements[:2], at("c", 10**9, 0)),
        (*PLAN.placements[:2], Placement(kernel="c", h=1, w=1, c=(1, 1), k=(1,), x=0, y=0)),
    ],
)
def test_misfit_solutions_are_refused(tmp_path: Path, placements: tuple[Placement, ...]) -> None:
    with pytest.raises(InputError, match=r"solution\.placements"):
        plot(instance(), WaferSolution(placements=placements), tmp_path / "plot.svg")


def test_unwritable_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        plot(instance(), PLAN, tmp_path / "missing" / "plot.svg")
