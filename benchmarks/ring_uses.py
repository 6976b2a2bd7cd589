"""What a learned proposal is worth to a ring search: as a start, fixed, near, and as the order of neighbourhoods.

    python -m benchmarks.ring_uses [--limit 6] [--seeds 5] [--graphs NAME ...] [--out FILE]

How runs are made, :mod:`benchmarks.uses` says (making the start includes the policy's 64 samples; importing torch and
compiling come before). Graphs are held-out ones of :mod:`chipmap.learned.ring.data`, whose optima are proved, and
``ring/bert-large-36``. A cell is the geometric mean of objective / optimum over seeds (1 is the optimum; without a
proved optimum the best of all arms), with the mean CPU seconds of a run.

- *warm start*: a method from nothing (``none``), from heuristics (``greedy``, ``slice``) and from the policy
  (``learned``);
- *fix*, *proximity*: ``ring/fix`` and ``ring/proximity`` round each start;
- *guide*: ``ring/windows`` from greedy's mapping and from the policy's, and ``ring/windows-learned``.

For each pair of arms with and without the policy the table says how often which one is better.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.uses import Arm, Runs, measured
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance
from chipmap.learned.ring.data import rows_of


def arm(use: str, method: str, start: str) -> Arm:
    """A method of the family."""
    return Arm("ring", use, method, start)


ARMS = (
    *(arm("warm start", m, s) for m in ("auto", "cpsat", "mip") for s in ("none", "greedy", "slice", "learned")),
    *(arm(use, use, s) for use in ("fix", "proximity") for s in ("greedy", "learned")),
    *(arm("guide", "windows", s) for s in ("greedy", "learned")),
    arm("guide", "windows-learned", "greedy"),
)
PAIRS = (
    *(
        (arm("warm start", m, "learned"), arm("warm start", m, s))
        for m in ("auto", "cpsat", "mip")
        for s in ("none", "greedy", "slice")
    ),
    *((arm(use, use, "learned"), arm(use, use, "greedy")) for use in ("fix", "proximity")),
    (arm("guide", "windows", "learned"), arm("guide", "windows", "greedy")),
    (arm("guide", "windows-learned", "greedy"), arm("guide", "windows", "greedy")),
)


def instance_of(name: str) -> tuple[RingInstance, int | None]:
    """The graph, and its proved optimum in ticks if it is one of the held-out ones."""
    for row in rows_of("test"):
        if row.name == name:
            return row.instance(), row.optimum or None
    instance = read(name)
    assert isinstance(instance, RingInstance)
    return instance, None


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=6.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--graphs", nargs="+", default=["ring/bert-large-36"], metavar="NAME")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = Runs(ARMS, PAIRS)
    for name in arguments.graphs:
        instance, optimum = instance_of(name)
        for one in ARMS:  # compiles and imports
            measured(instance, one, 0, 1.0)
        for seed in range(arguments.seeds):
            runs.measure(name, instance, optimum, seed, arguments.limit)
    print("\n".join(runs.table(arguments.graphs)))
    if arguments.out:
        command = f"python -m benchmarks.ring_uses --limit {arguments.limit:g} --seeds {arguments.seeds}"
        command += f" --graphs {' '.join(arguments.graphs)}"
        title = "What a learned proposal is worth to a ring search"
        runs.write(arguments.out, title, command, arguments.graphs)


if __name__ == "__main__":
    main()
