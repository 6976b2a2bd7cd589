"""Random instances that nobody tuned to: how near do `multimodel/auto`'s schedules and bounds come in a minute?

    python -m benchmarks.multimodel_random [--time-limit 60] [--seeds 100 160] > benchmarks/results/multimodel-random.md

Each seed from 100 on is an instance of 2 to 4 models, 10 to 200 layers in all, 4 to 16 chiplets of two classes and up
to six windows, with random costs (`multimodel/random`). Objectives take turns: EDP, latency, weighted, energy. Sizes
are drawn by the seed alone, so that the rows are the same on every machine. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import NamedTuple, cast

from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.modules import Pattern

OBJECTIVES = ("edp", "latency", "weighted", "energy")
GRIDS = ((2, 2), (2, 3), (2, 4), (3, 3), (2, 5), (3, 4), (2, 7), (3, 5), (4, 4))
PATTERNS = ("sides", "checkerboard", "cross")


class Row(NamedTuple):
    """A run's objective and bound in ticks, what proves the bound, who found the schedule, and CPU seconds."""

    objective: int
    bound: int
    proved: str
    found: str
    seconds: float

    @property
    def gap(self) -> float:
        """Of the objective."""
        return 1 - self.bound / self.objective if self.objective else 0.0


def instance(seed: int) -> MultiInstance:
    """The instance of a seed."""
    random = Random(seed)
    models, layers = random.randint(2, 4), round(10 * 20 ** random.random())
    cuts = sorted(random.sample(range(1, layers), models - 1))
    counts = tuple(high - low for low, high in zip((0, *cuts), (*cuts, layers), strict=True))
    rows, columns = random.choice(GRIDS)
    batch = random.choice((1, 2, 4, 8, 16))
    return random_instance(
        counts,
        rows,
        columns,
        cast(Pattern, random.choice(PATTERNS)),
        batch=batch,
        mini_batch=random.choice((1, batch)),
        seed=seed,
        task={"objective": OBJECTIVES[seed % 4], "windows": random.randint(1, 6)},
        name=f"random-{seed}",
    )


def measure(seed: int, method: str, limit: float) -> Row:
    """One run, on one thread."""
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    before = _spent()
    result = solve(instance(seed), f"multimodel/{method}", SolveOptions(time_limit=limit, threads=1))
    assert result.objective is not None
    value, source = max(((bound.value, bound.source) for bound in result.bounds), default=(0, "none"))
    found = result.incumbent_source
    return Row(int(result.objective), int(value), source, found, _spent() - before)


def _spent() -> float:
    return sum(os.times()[:4])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 160], help="first and end, or with --only a list")
    parser.add_argument("--only", action="store_true", help="exactly these seeds")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--method", default="auto")
    args = parser.parse_args()
    seeds = args.seeds if args.only else range(args.seeds[0], args.seeds[1])
    print("# Random instances\n")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {args.time_limit:.0f} s on one thread.\n")
    print("| seed | layers | batch | chiplets | W | objective | value | gap | bound by | found by | CPU s |")
    print("|--:|---|---|--:|--:|---|--:|--:|---|---|--:|", flush=True)
    gaps = []
    for seed in seeds:
        made = instance(seed)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            row = pool.submit(measure, seed, args.method, args.time_limit).result()
        gaps.append(row.gap)
        counts = "+".join(str(len(model.layers)) for model in made.models)
        batch = f"{made.models[0].batch}/{made.models[0].mini_batch}"
        print(
            f"| {seed} | {counts} | {batch} | {len(made.module.chiplets)} | {made.task.windows} "
            f"| {made.task.objective} | {row.objective} | {row.gap:.2%} | {row.proved} | {row.found} "
            f"| {row.seconds:.0f} |",
            flush=True,
        )
        print(seed, file=sys.stderr, flush=True)
    print(f"\nMedian gap {statistics.median(gaps):.2%}, largest {max(gaps):.2%}, of {len(gaps)}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
