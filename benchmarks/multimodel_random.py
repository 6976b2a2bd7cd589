"""Random instances that nobody tuned to: how near do `multimodel/auto`'s schedules and bounds come in a minute?

    python -m benchmarks.multimodel_random [--time-limit 60] [--seeds 100 160] > benchmarks/results/multimodel-random.md

Each seed from 100 on is an instance of 2 to 4 models, 10 to 200 layers in all, 4 to 16 chiplets of two classes and up
to six windows, with random costs (`multimodel/random`). Objectives take turns: EDP, latency, weighted, energy. Sizes
are drawn by the seed alone, so that the rows are the same on every machine. Seconds are those of the processor.
"""

from __future__ import annotations

from random import Random
from typing import cast

from benchmarks.multimodel_runs import OBJECTIVES, table
from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.modules import Pattern

GRIDS = ((2, 2), (2, 3), (2, 4), (3, 3), (2, 5), (3, 4), (2, 7), (3, 5), (4, 4))
PATTERNS = ("sides", "checkerboard", "cross")


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


if __name__ == "__main__":
    raise SystemExit(table("Random instances", __doc__ or "", instance, (100, 160), 60.0))
