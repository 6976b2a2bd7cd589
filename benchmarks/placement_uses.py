"""What a policy's proposal is worth to a placement search: as a start, fixed, near, and as the order of windows.

    python -m benchmarks.placement_uses [--limit 20] [--seeds 5] [--graphs NAME ...] [--out FILE]

How runs are made, :mod:`benchmarks.uses` says (making the start includes the policy's 400 placements, of which it
learns; importing torch and compiling come before). A cell is the geometric mean of the step time as a multiple of the
best of all arms and seeds, with the mean CPU seconds of a run. The page is written after each seed.

- *warm start*: ``placement/search`` from nothing (``none``: its own starts), METIS and the policy;
- *fix*, *proximity*, *windows*: these methods from nothing (the best of one device, human splits, HEFT, HEFT on units
  and ETF) and from the policy; *guide*: ``placement/windows-learned``.

For each pair of arms with and without the policy the table says how often which one is better.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.placement_policy import problems
from benchmarks.uses import Arm, Runs, measured
from chipmap.inputs.reading import read

NEAR = ("fix", "proximity", "windows")
#: Wall-clock seconds of the runs that compile, on a small graph.
WARM = 30.0


def arm(use: str, method: str, start: str) -> Arm:
    """A method of the family."""
    return Arm("placement", use, method, start)


ARMS = (
    *(arm("warm start", "search", start) for start in ("none", "metis", "policy")),
    *(arm(use, use, start) for use in NEAR for start in ("none", "policy")),
    arm("guide", "windows-learned", "none"),
)
PAIRS = (
    *((arm("warm start", "search", "policy"), arm("warm start", "search", start)) for start in ("none", "metis")),
    *((arm(use, use, "policy"), arm(use, use, "none")) for use in NEAR),
    (arm("guide", "windows-learned", "none"), arm("windows", "windows", "none")),
    (arm("guide", "windows-learned", "none"), arm("windows", "windows", "policy")),
)


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--graphs", nargs="+", default=["wavenet-2-pcie"], metavar="NAME")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for one in ARMS:  # compiles and imports
        measured(next(problems()).instance, one, 0, WARM if one == ARMS[0] else 2.0)
    runs = Runs(ARMS, PAIRS)
    for seed in range(arguments.seeds):
        for name in arguments.graphs:
            runs.measure(name, read(f"placement/{name}"), None, seed, arguments.limit)
        if arguments.out:
            command = f"python -m benchmarks.placement_uses --limit {arguments.limit:g} --seeds {seed + 1}"
            command += f" --graphs {' '.join(arguments.graphs)}"
            title = "What a policy's proposal is worth to a placement search"
            runs.write(arguments.out, title, command, arguments.graphs)
    print("\n".join(runs.table(arguments.graphs)))


if __name__ == "__main__":
    main()
