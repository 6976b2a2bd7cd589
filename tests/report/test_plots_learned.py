"""Pictures of learned policies: gaps by graph and strategy."""

from __future__ import annotations

from pathlib import Path

from chipmap.report.learned import plot_gaps

GAPS = {"one": {"greedy": [0.1], "zero-shot": [0.2, 0.3]}, "two $x": {"greedy": [0.0]}}


def test_every_graph_and_strategy_is_there_and_the_file_is_reproducible(tmp_path: Path) -> None:
    """A strategy may lack a graph; names are names."""
    for name in ("a.svg", "b.svg"):
        plot_gaps(GAPS, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in ("one", "two $x", "greedy", "zero-shot"))
    assert text == (tmp_path / "b.svg").read_text()
