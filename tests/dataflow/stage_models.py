"""Tiny random instances whose stages share out kernels, and brute force over their mappings by the checker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.instance import allowed_degrees
from chipmap.validation.dataflow import check
from chipmap.validation.dataflow_facts import allowed
from tests.dataflow.random_instances import made, on_tiles

STAGED = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
ROW = Degrees(pipeline=3, dimensions=("pipeline",))
ONE = Degrees(tensor=2, dimensions=("tensor",))


def staged(instance: DataflowInstance, degrees: Degrees) -> DataflowInstance:
    """``instance`` with stages of kernels, at these degrees."""
    return instance.replace(task=instance.task.replace(stages="kernels", degrees=degrees))


def random_kernel(random: Random, choice: bool) -> dict[str, Any]:
    """A kernel of any kind; with one scheme unless there is a ``choice``."""
    moved: dict[str, Any] = {"fetch_bytes": random.choice((0, 0, 10**5))}
    if random.random() < 0.2:
        moved |= {"exchange": "all_to_all", "exchange_bytes": random.randint(1, 10**6)}
    if random.random() < 0.4:
        sizes = {"output_bytes": random.randint(1, 10**5), "weight_bytes": random.choice((0, 7 * 10**4))}
        found = {"flop": random.randint(1, 10**8), **sizes, **moved}
        return found | ({"schemes": ["M", "NONE"]} if choice else {"schemes": ["M"]})
    size = {**moved, "kind": "gemm", "M": random.choice((64, 300, 512)), "N": 64, "K": random.choice((32, 200))}
    return size | {"weights": True, "schemes": random.choice((["M", "K"], ["K", "N"])) if choice else ["M"]}


def random_stages(random: Random) -> DataflowInstance:
    """Two to four kernels (perhaps two layers of two) on two or three stages, or one; DRAM that is limited is that of
    some mapping, or a byte less."""
    degrees = random.choice((STAGED, STAGED, ROW, ONE))
    layers = random.choice((1, 1, 2))
    names = "ab" if layers == 2 else "abcd"[: random.choice((2, 3, 3, 4))]
    kernels = {name: random_kernel(random, degrees.tensor == 2 and random.random() < 0.5) for name in names}
    pairs = [u + v for u in names for v in names if u < v and random.random() < random.choice((0.4, 0.8))]
    partitions, overlap = random.choice((None, None, 1, 2)), random.random() < 0.7
    instance = made(
        kernels,
        " ".join(pairs),
        layers=layers,
        across_layers=layers == 2,
        carries=random.choice(("ba", "ba aa", "")) if layers == 2 else "",
        mode=random.choice(("dfmodel", "physical")),
        sizes=[2, 2] if degrees is STAGED else [3] if degrees is ROW else [2],
        topology=random.choice(("ring", "switch", "full")),
        latency_ns=random.choice((0.0, 50.0)),
        link_gbps=random.choice((0.2, 2.0, 25.0)),
        memory_gbps=random.choice((5.0, 20.0, 200.0)),
        sram_bytes=random.choice((160_000, 300_000, 10**6)),
        batch=random.choice((1, 6)),
        tile_tokens=random.choice((1, 16)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.3,
        fused=random.random() < 0.85,
        together=random.choice(([], [], [], ["ab"], ["a", "b"])),
        purpose=random.choice(("training", "prefill", "decode")),
        overlap=overlap,
    )
    instance = staged(instance, degrees)
    if overlap and random.random() < 0.2:
        instance = on_tiles(instance, random.choice((2, 5, 40)))
    return with_little_dram(instance, random) if random.random() < 0.5 else instance


def with_little_dram(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance`` with the DRAM that some mapping takes, a feasible one if a few tried are, or a byte less."""
    some = random.sample(pool := list(mappings(instance)), min(12, len(pool)))
    tried = [check(instance, mapping) for mapping in some]
    mapping = random.choice([one for one in tried if one.feasible] or tried)
    limit = max(1, round(mapping.figures["dram_bytes"]) - random.choice((0, 0, 1)))
    memory = instance.system.memory.replace(capacity_bytes=limit)
    return instance.replace(system=instance.system.replace(memory=memory))


def mappings(instance: DataflowInstance) -> Iterator[DataflowSolution]:
    """Every scheme, every numbering of partitions that sends nothing back, every stage of each partition."""
    (degrees,) = allowed_degrees(instance)
    n = len(instance.workload.kernels)
    layers = instance.workload.layers if instance.task.across_layers else 1
    index = {kernel.name: i for i, kernel in enumerate(instance.workload.kernels)}
    edges = [(k * n + index[u], k * n + index[v]) for k in range(layers) for u, v in instance.workload.edges]
    edges += [
        (k * n + index[u], (k + 1) * n + index[v]) for k in range(layers - 1) for u, v in instance.workload.carries
    ]
    schemes = [sorted(allowed(kernel, instance.mode)) for kernel in instance.workload.kernels] * layers
    for partitions in product(range(n * layers), repeat=n * layers):
        used = max(partitions) + 1
        if len(set(partitions)) < used or any(partitions[u] > partitions[v] for u, v in edges):
            continue
        for stages in combinations_with_replacement(range(degrees.pipeline), used):
            for chosen in product(*schemes):
                yield DataflowSolution(
                    instance=instance.name, degrees=degrees, schemes=chosen, partitions=partitions, stages=stages
                )


def best_of_all(instance: DataflowInstance) -> int | None:
    """The least objective of a feasible mapping; None: there is none."""
    found = [one.objective for one in (check(instance, mapping) for mapping in mappings(instance)) if one.feasible]
    return min((objective for objective in found if objective is not None), default=None)
