"""The README's two pictures, drawn by `chipmap plot` and `chipmap bench`: a floorplan and a chart of gaps.

    python -m benchmarks.readme_pictures

The floorplan is the best known one of a contest's input (``chipmap/known``), with the bound of `wafer/bounds` after
about half a minute. The chart compares `ring/greedy` with `ring/auto` on ResNet-50 (``examples/greedy.json``): seconds.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import chipmap
from chipmap.cli import main as command
from chipmap.known.registry import known, solution_of

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
FLOORPLAN = "wafer/ispd2020-J"


def main() -> None:
    """Draw both."""
    entry = known(chipmap.read(FLOORPLAN))
    assert entry is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "best.json").write_text(json.dumps(solution_of(entry)), encoding="utf-8")
        bounds = ["solve", FLOORPLAN, "--method", "wafer/bounds", "--warm-start", str(folder / "best.json")]
        drawn = [command([*bounds, "--time-limit", "100", "--out", str(folder / "proved")])]
        drawn.append(command(["plot", FLOORPLAN, str(folder / "proved"), "--out", str(PICTURES / "floorplan.png")]))
        sweep = ["bench", str(ROOT / "examples" / "greedy.json"), "--workers", "1", "--out", str(folder / "runs")]
        drawn.append(command([*sweep, "--plots", str(folder / "plots")]))
        assert drawn == [0, 0, 0]
        (PICTURES / "gaps.png").write_bytes((folder / "plots" / "objectives.png").read_bytes())


if __name__ == "__main__":
    main()
