"""Tiny random instances whose pipelines' stages share out kernels."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from tests.dataflow.random_instances import _kernel, made, on_tiles, with_little_dram

#: Sizes of networks and the degrees that fix them: at most three stages.
NETWORKS: tuple[tuple[list[int], dict[str, Any] | None], ...] = (
    ([2], {"pipeline": 2, "dimensions": ["pipeline"]}),
    ([3], {"pipeline": 3, "dimensions": ["pipeline"]}),
    ([2, 3], {"tensor": 2, "pipeline": 3, "dimensions": ["tensor", "pipeline"]}),
    ([2, 2], {"tensor": 2, "pipeline": 2, "dimensions": ["tensor", "pipeline"]}),
    ([2], None),
)


def staged_instance(random: Random, dram: bool = False) -> DataflowInstance:
    """Two to five kernels (copies of all layers) in one to three stages, with any features side by side.

    ``dram``: with the DRAM that some mapping takes, or a byte less.
    """
    names = "abcde"[: random.choice((2, 3, 3, 4, 4, 5))]
    layers = 2 if len(names) == 2 and random.random() < 0.7 else 1
    kernels = {name: _kernel(random) for name in names}
    for name in names:
        if random.random() < (0.7 if len(names) > 4 else 0.2):
            kernels[name] |= {"schemes": random.choice((["M"], ["NONE"]))}
    dense, overlap = random.choice((0.3, 0.6)), random.random() < 0.75
    sizes, degrees = random.choice(NETWORKS)
    partitions = random.choice((None, None, 1, 1, 2))
    instance = made(
        kernels,
        " ".join(u + v for u in names for v in names if u < v and random.random() < dense),
        layers=layers,
        across_layers=layers > 1 or random.random() < 0.5,
        carries=names[-1] + names[0] if random.random() < 0.7 else "",
        stages="kernels",
        mode=random.choice(("dfmodel", "physical", "physical")),
        sizes=sizes,
        degrees=degrees,
        topology=random.choice(("ring", "switch", "full")),
        latency_ns=random.choice((0.0, 50.0)),
        link_gbps=random.choice((0.5, 5.0, 25.0)),
        memory_gbps=random.choice((5.0, 20.0, 200.0)),
        sram_bytes=random.choice((80_000, 160_000, 300_000, 10**6, 10**6)),
        batch=random.choice((2, 6)),
        tile_tokens=random.choice((1, 16)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.3,
        fused=random.random() < 0.9,
        together=random.choice(([], [], [], [names[:2]])),
        purpose=random.choice(("training", "prefill", "decode")),
        overlap=overlap,
        utilisation=random.choice((0.9, 0.9, None)) if overlap else 0.9,
    )
    if instance.task.utilisation is None:
        instance = on_tiles(instance, random.choice((3, 7, 40)))
    return with_little_dram(instance, random) if dram else instance
