"""No six lines stand in two families."""

from __future__ import annotations

from pathlib import Path

from tests.duplicates import ROOT, duplicates


def test_no_six_lines_stand_in_two_families() -> None:
    assert not list(duplicates(ROOT))


def test_a_run_is_found_once_and_whole(tmp_path: Path) -> None:
    """Eight lines, whatever their indentation, with blank lines and a comment in between."""
    lines = [f"a{i} = {i}" for i in range(8)]
    for family, sep in (("ring", "\n"), ("wafer", "\n\n    # of its own\n    ")):
        folder = tmp_path / "chipmap" / "methods" / family
        folder.mkdir(parents=True)
        (folder / "one.py").write_text(f"# {family}\n" + sep.join(lines))
    assert list(duplicates(tmp_path)) == [(8, "methods/ring/one.py:2", "methods/wafer/one.py:2")]
