"""What a learned proposal is worth to a ring search: as a start, fixed, near, and as the order of neighbourhoods.

    python -m benchmarks.ring_uses [--limit 6] [--seeds 5] [--graphs NAME ...] [--out FILE]

Each run is one thread in this process, within the same limit of wall-clock seconds, which includes making the start
(the policy's 64 samples too; importing torch and compiling come before). Arms of one graph and seed run one after the
other, so that they meet the same load. Graphs are held-out ones of :mod:`chipmap.learned.data`, whose optima are
proved, and ``ring/bert-large-36``. A cell is the geometric mean of objective / optimum over seeds (1 is the optimum;
without a proved optimum the best of all arms), with the mean CPU seconds of a run.

- *warm start*: a method from nothing (``none``), from heuristics (``greedy``, ``slice``) and from the policy
  (``learned``);
- *fix*, *proximity*: ``ring/fix`` and ``ring/proximity`` round each start;
- *guide*: ``ring/windows`` from greedy's mapping and from the policy's, and ``ring/windows-learned``.

For each pair of arms with and without the policy the table says how often which one is better.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance
from chipmap.learned.data import rows_of
from chipmap.records import ChipmapError
from chipmap.run import SolveOptions
from chipmap.solve import solve


class Arm(NamedTuple):
    """A method and what it starts from."""

    use: str
    method: str
    start: str


ARMS = (
    *(Arm("warm start", m, s) for m in ("auto", "cpsat", "mip") for s in ("none", "greedy", "slice", "learned")),
    *(Arm(use, use, s) for use in ("fix", "proximity") for s in ("greedy", "learned")),
    *(Arm("guide", "windows", s) for s in ("greedy", "learned")),
    Arm("guide", "windows-learned", "greedy"),
)
#: (with the policy, without it).
PAIRS = (
    *(
        (Arm("warm start", m, "learned"), Arm("warm start", m, s))
        for m in ("auto", "cpsat", "mip")
        for s in ("none", "greedy", "slice")
    ),
    *((Arm(use, use, "learned"), Arm(use, use, "greedy")) for use in ("fix", "proximity")),
    (Arm("guide", "windows", "learned"), Arm("guide", "windows", "greedy")),
    (Arm("guide", "windows-learned", "greedy"), Arm("guide", "windows", "greedy")),
)
#: What stands for the ratio of a run that found nothing.
NOTHING = float("inf")


def instance_of(name: str) -> tuple[RingInstance, int | None]:
    """The graph, and its proved optimum in ticks if it is one of the held-out ones."""
    for row in rows_of("test"):
        if row.name == name:
            return row.instance(), row.optimum or None
    instance = read(name)
    assert isinstance(instance, RingInstance)
    return instance, None


def measured(instance: RingInstance, arm: Arm, seed: int, limit: float) -> tuple[int | None, float]:
    """The objective in ticks (None: nothing found), and CPU seconds."""
    options = SolveOptions(time_limit=limit, threads=1, seed=seed, warm_start=arm.start)
    began = time.process_time()
    result = solve(instance, f"ring/{arm.method}", options, isolate=False)
    return (None if result.objective is None else int(result.objective)), time.process_time() - began


def ratios(found: Sequence[int | None], best: int) -> list[float]:
    """Objective / best of each run."""
    return [NOTHING if value is None else value / best for value in found]


def cell(found: Sequence[int | None], seconds: Sequence[float], best: int) -> str:
    """The geometric mean of the runs that found something, how many didn't, and CPU seconds."""
    known = [one for one in ratios(found, best) if one < NOTHING]
    mean = f"{np.exp(np.mean(np.log(known))):.4f}" if known else "nothing"
    lost = f" ({len(found) - len(known)} found nothing)" if known and len(known) < len(found) else ""
    return f"{mean}{lost}, {np.mean(seconds):.1f} s"


def table(
    names: Sequence[str], runs: dict[tuple[str, Arm], tuple[list[int | None], list[float]]], best: dict[str, int]
) -> list[str]:
    """Arms by graphs, then pairs."""
    lines = [f"| use | method | start | {' | '.join(names)} |", f"|---|---|---|{'--:|' * len(names)}"]
    for arm in ARMS:
        cells = [cell(*runs[name, arm], best[name]) for name in names]
        lines.append(f"| {arm.use} | `ring/{arm.method}` | {arm.start} | {' | '.join(cells)} |")
    lines += ["", "| with the policy | without it | better | equal | worse |", "|---|---|--:|--:|--:|"]
    for one, other in PAIRS:
        pairs = [
            pair
            for name in names
            for pair in zip(*(ratios(runs[name, arm][0], best[name]) for arm in (one, other)), strict=True)
        ]
        counts = [sum(test) for test in zip(*((a < b, a == b, a > b) for a, b in pairs), strict=True)]
        words = [f"`ring/{arm.method}` from {arm.start}" for arm in (one, other)]
        lines.append(f"| {' | '.join([*words, *map(str, counts)])} |")
    return lines


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=6.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--graphs", nargs="+", default=["ring/bert-large-36"], metavar="NAME")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[tuple[str, Arm], tuple[list[int | None], list[float]]] = {}
    best: dict[str, int] = {}
    for name in arguments.graphs:
        instance, optimum = instance_of(name)
        for arm in ARMS:  # compiles and imports
            measured(instance, arm, 0, 1.0)
        for seed in range(arguments.seeds):
            for arm in ARMS:
                try:
                    value, seconds = measured(instance, arm, seed, arguments.limit)
                except ChipmapError as error:
                    print(f"{name}, {arm}: {error}", flush=True)
                    value, seconds = None, 0.0
                found = runs.setdefault((name, arm), ([], []))
                found[0].append(value)
                found[1].append(seconds)
                print(f"{name}, seed {seed}, {' '.join(arm)}: {value} ({optimum}), {seconds:.1f} CPU s", flush=True)
        values = [value for arm in ARMS for value in runs[name, arm][0] if value is not None]
        best[name] = optimum or min(values)
    lines = table(arguments.graphs, runs, best)
    print("\n".join(lines))
    if arguments.out:
        command = f"python -m benchmarks.ring_uses --limit {arguments.limit:g} --seeds {arguments.seeds}"
        command += f" --graphs {' '.join(arguments.graphs)}"
        head = f"`{command}`: Python {platform.python_version()}, torch {torch.__version__}, one thread of "
        head += f"{os.cpu_count()} cores, load average at the end {os.getloadavg()[0]:.1f}. "
        head += "What an arm is, the benchmark says."
        title = "# What a learned proposal is worth to a ring search"
        arguments.out.write_text("\n".join([title, "", head, "", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
