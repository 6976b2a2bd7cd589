"""The plot of a dataflow mapping: every format, the numbers behind the bars, mappings that aren't valid, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.patches import Rectangle

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.generators import explicit
from chipmap.records import InputError
from chipmap.report.canvas import blank
from chipmap.report.dataflow.plots import LETTERS, NAMED, _cut, _draw, _line, plot
from chipmap.validation.dataflow.checker import breakdown
from tests.dataflow.test_pairs import MAPPING, staged

RING = Degrees(tensor=2, dimensions=("tensor",))


def instance() -> DataflowInstance:
    found = read("dataflow/tiny-chain")
    assert isinstance(found, DataflowInstance)
    return found


def mapping(*partitions: int) -> DataflowSolution:
    return DataflowSolution(degrees=RING, schemes=("M", "M", "M"), partitions=partitions)


def test_the_legend_says_what_sets_the_pace_of_two_passes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    plot(staged(memory_gbps=1e12), MAPPING, path)
    assert "in pairs the pace is set by compute and DRAM of both," in path.read_text()
    plot(staged(memory_gbps=1e12, schedule="zb-h1"), MAPPING, path)
    assert "in pairs" not in path.read_text()


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_every_format(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        plot(instance(), mapping(0, 1, 2), path)
    assert paths[0].read_bytes() == paths[1].read_bytes() and paths[0].stat().st_size > 1000


def test_the_picture_names_partitions_and_what_is_not_valid(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    plot(instance(), mapping(0, 1, 2), path)
    text = path.read_text()
    for word in ("dataflow/tiny-chain", "compute", "memory", "mode physical"):
        assert word in text
    assert "NOT VALID" not in text and "network" not in text, "no partition waits for the network"
    plot(instance(), mapping(0, 0, 0), path)
    assert "NOT VALID" in path.read_text(), "all three don't fit the SRAM"


def drawn(found: DataflowInstance, solution: DataflowSolution) -> Any:
    """The axes of the picture."""
    axes = blank((6.0, 4.0)).subplots()
    _draw(axes, found, solution)
    return axes


@pytest.mark.parametrize("overlap", [True, False])
def test_bars_are_stacked_only_where_their_sum_counts(overlap: bool) -> None:
    """Where compute and memory overlap the longest counts: no bar then stands on another, and none is higher."""
    found = read("dataflow/tiny-chain", [f"task.overlap={str(overlap).lower()}"])
    assert isinstance(found, DataflowInstance)
    axes = drawn(found, mapping(0, 1, 2))
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    (line,) = axes.collections
    counted = [segment[0][1] for segment in line.get_segments()]
    times = breakdown(found, mapping(0, 1, 2))
    longest = [max(own) if overlap else sum(own) for own in times.values()]
    assert counted == pytest.approx([ticks / 1e3 * counted[0] / (longest[0] / 1e3) for ticks in longest])
    own = [[b for b in bars if abs(b.get_x() + b.get_width() / 2 - x) < 0.45] for x in range(3)]
    tops = [max(bar.get_y() + bar.get_height() for bar in group) for group in own]
    assert tops == pytest.approx(counted)
    assert all(bar.get_y() == 0.0 for bar in bars) == overlap
    assert max(tops) < axes.get_ylim()[1]


def test_long_names_are_cut() -> None:
    assert _cut("short") == "short"
    assert len(_cut("stage.0.block.0.norm1._native_batch_norm")) == LETTERS
    assert _cut("stage.0.block.0.norm1._native_batch_norm").endswith("batch_norm")


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such plot format"):
        plot(instance(), mapping(0, 1, 2), tmp_path / "plot.gif")
    with pytest.raises(InputError, match="can't be written"):
        plot(instance(), mapping(0, 1, 2), tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(InputError, match="2 partitions for 1 x 3 kernels"):
        plot(instance(), mapping(0, 1), tmp_path / "plot.svg")


def test_many_partitions_have_a_line_each() -> None:
    """Kernels that run one by one have their names below them, upwards, where twelve or more wouldn't fit."""
    names = [f"kernel{i}" for i in range(NAMED + 3)]
    light = {"flop": 10**6, "output_bytes": 1000, "weight_bytes": 0}
    found = explicit(kernels=dict.fromkeys(names, light), edges=[], fused=False, sizes=[1], micro_batch=1)
    solution = DataflowSolution(
        degrees=Degrees(dimensions=("data",)), schemes=("NONE",) * 15, partitions=tuple(range(15))
    )
    labels = drawn(found, solution).get_xticklabels()
    assert [label.get_text() for label in labels] == names
    assert {label.get_rotation() for label in labels} == {90.0}
    assert [_line(["a"]), _line(["a", "b", "c"])] == ["a", "a + 2"]
