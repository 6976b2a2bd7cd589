"""All mappings of a tiny instance by C0 and C1, and the best of them.

Partitions are numbered from 0 without gaps: of their numbers only the order means anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, islice, product
from math import prod
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from tests.dataflow.page import amounts, exchanges
from tests.dataflow.page.cost import in_domain, judged


def all_degrees(instance: DataflowInstance) -> Iterator[Degrees]:
    """Every parallelism for every dimension; C0 says which are any."""
    sizes, uses = [one.size for one in instance.system.network], ("tensor", "pipeline", "data", "expert")
    for each in product(uses, repeat=len(sizes)):
        held = {use: prod(s for s, u in zip(sizes, each, strict=True) if u == use) for use in uses}
        held["data"] *= held["expert"]
        yield Degrees.make(**held, dimensions=each)


def plans(instance: DataflowInstance) -> Iterator[dict[str, Any]]:
    """Micro-batch, chunks, recomputation, what is shared out and how long layouts are kept; C0 says which are any."""
    task = instance.task
    each = range(1, task.batch + 1) if task.micro_batch is None else [task.micro_batch]
    chunks: list[int | None] = [None]
    if task.schedule == "interleaved":
        chunks = [*range(1, instance.workload.layers + 1)] if task.chunks is None else [task.chunks]
    again = ["none", "selective", "full"] if task.recompute is None else [None]
    shard = ["none", "optimizer", "gradients", "weights"] if task.shard is None else [None]
    keep = ["none", "phase", "step"] if task.keep is None else [None]
    for b, v, r, s, k in product(each, chunks, again, shard, keep):
        yield {"micro_batch": b, "chunks": v, "recompute": r, "shard": s, "keep": k}


def numberings(instance: DataflowInstance) -> list[tuple[int, ...]]:
    """Every way to number partitions from 0 without gaps in which no tensor of a layer goes back."""
    kernels = instance.workload.kernels
    layers = instance.workload.layers if instance.task.across_layers else 1
    at = {kernel.name: i for i, kernel in enumerate(kernels)}
    edges = [
        (k * len(kernels) + at[u], k * len(kernels) + at[v]) for k in range(layers) for u, v in instance.workload.edges
    ]
    count, found = layers * len(kernels), list[tuple[int, ...]]()
    partial: list[tuple[int, ...]] = [()]
    while partial:
        some = partial.pop()
        if len(some) == count:
            if set(some) == set(range(max(some) + 1)):
                found.append(some)
            continue
        for p in range(count):
            more = (*some, p)
            if all(more[u] <= more[v] for u, v in edges if max(u, v) < len(more)):
                partial.append(more)
    return sorted(found)


def by_place(instance: DataflowInstance) -> tuple[int, ...]:
    """A partition for each kernel of a layer, in the order of places."""
    kernels = instance.workload.kernels
    at = {kernel.name: i for i, kernel in enumerate(kernels)}
    edges = [(at[u], at[v]) for u, v in instance.workload.edges]
    listed = exchanges.list_of_places([one.phase == "backward" for one in kernels], edges)
    return tuple(listed.index(i) for i in range(len(kernels)))


def mappings(instance: DataflowInstance) -> Iterator[DataflowSolution]:
    """Every mapping in the domain, but for those that break C1 within a layer."""
    kernels, task = instance.workload.kernels, instance.task
    layers = instance.workload.layers if task.across_layers else 1
    schemes = [
        [task.schemes[one.name]] if one.name in task.schemes else sorted(amounts.allowed(one, instance.mode))
        for one in kernels
    ] * layers
    numbered = numberings(instance)
    for degrees, plan in product(list(all_degrees(instance)), list(plans(instance))):
        first, kept = True, (plan["keep"] or task.keep or "none") != "none"
        if kept and task.keep is None and degrees.tensor == degrees.expert == 1:
            continue  # nobody pays for any layout
        for chosen, numbers in product(product(*schemes), [by_place(instance)] if kept else numbered):
            stages: Iterator[tuple[int, ...]] = iter([()])
            if task.stages == "kernels":
                stages = combinations_with_replacement(range(degrees.pipeline), max(numbers) + 1)
            for each in stages:
                made = DataflowSolution.make(
                    instance=instance.name, degrees=degrees, schemes=chosen, partitions=numbers, stages=each, **plan
                )
                if first and not in_domain(instance, made):
                    break  # whatever the rest is: degrees and plan are none
                first = False
                yield made
            if first:
                break


def best(instance: DataflowInstance, most: int) -> tuple[int | None, int] | None:
    """(the optimum, None if nothing fits; how many mappings there are); None where they are more than ``most``."""
    some = [*islice(mappings(instance), most + 1)]
    if len(some) > most:
        return None
    verdicts = [judged(instance, one) for one in some]
    values = [one.objective for one in verdicts if not one.broken and one.objective is not None]
    return min(values, default=None), len(some)
