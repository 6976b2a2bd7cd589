"""The plot of a dataflow mapping: every format, the numbers behind the bars, mappings that aren't valid, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.records import InputError
from chipmap.report.dataflow.plots import plot

RING = Degrees(tensor=2, dimensions=("tensor",))


def instance() -> DataflowInstance:
    found = read("dataflow/tiny-chain")
    assert isinstance(found, DataflowInstance)
    return found


def mapping(*partitions: int) -> DataflowSolution:
    return DataflowSolution(degrees=RING, schemes=("M", "M", "M"), partitions=partitions)


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
    for word in ("dataflow/tiny-chain", "compute", "memory", "network", "mode physical"):
        assert f"<!-- {word}" in text or word in text
    assert "NOT VALID" not in text
    plot(instance(), mapping(0, 0, 0), path)
    assert "NOT VALID" in path.read_text(), "all three don't fit the SRAM"


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such plot format"):
        plot(instance(), mapping(0, 1, 2), tmp_path / "plot.gif")
    with pytest.raises(InputError, match="can't be written"):
        plot(instance(), mapping(0, 1, 2), tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(InputError, match="2 partitions for 1 x 3 kernels"):
        plot(instance(), mapping(0, 1), tmp_path / "plot.svg")
