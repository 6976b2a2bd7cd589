"""The plot of a ring mapping: every format, every cost mode, mappings that the checker refuses, bad input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chipmap.instances.ring import Package, RingSolution
from chipmap.records import InputError
from chipmap.report.ring.plots import _arcs, _beside_a_longer_way, _view, plot
from tests.report.samples import chain

BALANCED = RingSolution(chips=(0, 0, 1, 1, 2, 2, 3, 3))
HEADS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", HEADS)
def test_formats(tmp_path: Path, suffix: str) -> None:
    plot(chain(), BALANCED, tmp_path / f"plot{suffix}")
    assert (tmp_path / f"plot{suffix}").read_bytes().startswith(HEADS[suffix])


def test_same_mapping_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot(chain(), BALANCED, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("fields", "chips"),
    [
        ({"cost_mode": "sum"}, (0, 0, 1, 1, 2, 2, 3, 3)),
        ({"cost_mode": "sum_forward"}, (0, 0, 1, 1, 2, 2, 3, 3)),
        ({}, (3, 3, 2, 2, 1, 1, 0, 0)),
        ({}, (0, 2, 1, 2, 3, 3, 3, 3)),
        ({"package": Package(chips=1, link_bytes_per_ns=None)}, (0,) * 8),
        ({"package": Package(chips=300, sram_bytes=0)}, (0, 0, 1, 1, 2, 2, 3, 3)),
        ({"time_ns": (0.0,) * 8}, (0, 0, 1, 1, 2, 2, 3, 3)),
    ],
)
def test_any_mapping_can_be_drawn(tmp_path: Path, fields: dict[str, object], chips: tuple[int, ...]) -> None:
    instance = chain().replace(**fields)
    plot(instance, RingSolution(chips=chips), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 10_000


def test_arcs_are_bytes_between_chips() -> None:
    assert _arcs(_view(chain(), BALANCED)) == {(0, 1): 8000, (1, 2): 8000, (2, 3): 8000}


def test_arcs_beside_a_longer_way() -> None:
    assert _beside_a_longer_way([(0, 1), (1, 2)], 4) == set()
    assert _beside_a_longer_way([(0, 1), (1, 2), (0, 2)], 4) == {(0, 2)}
    assert _beside_a_longer_way([(0, 1), (1, 3), (3, 2), (0, 2)], 4) == {(0, 2)}


@pytest.mark.parametrize("name", ["plot.gif", "plot", "plot.jpg"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        plot(chain(), BALANCED, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chips", [(0, 1), (0, 0, 1, 1, 2, 2, 3, 4), (-1, 0, 0, 0, 0, 0, 0, 0)])
def test_misfit_solution_is_refused(tmp_path: Path, chips: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"solution\.chips"):
        plot(chain(), RingSolution(chips=chips), tmp_path / "plot.svg")


def test_unwritable_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        plot(chain(), BALANCED, tmp_path / "missing" / "plot.svg")


def test_a_disk_that_is_full_leaves_no_part_of_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="can't be written: No space left on device"):
        plot(chain(), BALANCED, tmp_path / "plot.svg")
    assert list(tmp_path.iterdir()) == []
