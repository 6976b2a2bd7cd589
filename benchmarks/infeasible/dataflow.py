"""Pairs of family ``dataflow``: SRAM, DRAM, partitions and tiles one unit apart. All partitions of all kernels.

One chip, one layer, whole kernels, so that only partitions are chosen. Each kernel reads the one before it, and perhaps
earlier ones: then a tensor waits as many levels as its reader is behind its maker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

from benchmarks.infeasible.pairs import Labels, Pair, by_candidates
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import explicit

COMPLETE = ("auto", "mip", "cpsat")
OTHERS = ("bounds", "relaxation")
NAMES = "abcde"
#: Tokens of a sample and of a tile: a tensor's buffer is a quarter of its bytes.
TOKENS, TILE = 64, 16
Partitions = tuple[int, ...]


def edges_of(instance: DataflowInstance) -> list[tuple[int, int]]:
    """Edges by the kernels' numbers."""
    names = [kernel.name for kernel in instance.workload.kernels]
    return [(names.index(u), names.index(v)) for u, v in instance.workload.edges]


def sram(instance: DataflowInstance, at: Partitions) -> int:
    """The most bytes of SRAM that a partition takes: weights and buffers."""
    kernels, edges, physical = instance.workload.kernels, edges_of(instance), instance.mode == "physical"
    most = 0
    for p in set(at):
        held = sum(kernel.weight_bytes or 0 for v, kernel in enumerate(kernels) if at[v] == p)
        for u, kernel in enumerate(kernels):
            size, readers = (kernel.output_bytes or 0) * TILE // TOKENS, [v for a, v in edges if a == u]
            inside = [v for v in readers if at[u] == p == at[v]]
            out = [v for v in readers if at[u] == p != at[v]]
            into = [v for v in readers if at[v] == p != at[u]]
            held += sum(size * (v - u + 1) for v in inside)
            for border in (out, into):
                held += 2 * size * (min(1, len(border)) if physical else len(border))
        most = max(most, held)
    return most


def dram(instance: DataflowInstance, at: Partitions) -> int:
    """The most bytes of DRAM while a partition runs: tensors that wait, in mode ``physical`` weights as well."""
    kernels, edges, physical = instance.workload.kernels, edges_of(instance), instance.mode == "physical"
    rests = sum(kernel.weight_bytes or 0 for kernel in kernels) if physical else 0
    most = 0
    for p in set(at):
        waiting = [(u, v) for u, v in edges if at[u] <= p <= at[v] and at[u] != at[v]]
        makers = sorted({u for u, _ in waiting}) if physical else [u for u, _ in waiting]
        most = max(most, sum(kernels[u].output_bytes or 0 for u in makers))
    return rests + most


def broken(instance: DataflowInstance, at: Partitions) -> Labels:
    """The labels of C1 to C7 that partitions break."""
    kernels, task, found = instance.workload.kernels, instance.task, set[str]()
    names = [kernel.name for kernel in kernels]
    if any(at[u] > at[v] for u, v in edges_of(instance)):
        found.add("C1")
    if sram(instance, at) > instance.system.chip.sram_bytes:
        found.add("C2")
    phases = {p: {kernel.phase for v, kernel in enumerate(kernels) if at[v] == p} for p in set(at)}
    if any(len(of) > 1 for of in phases.values()):
        found.add("C3")
    for phase in {kernel.phase for kernel in kernels}:
        used = len({at[v] for v, kernel in enumerate(kernels) if kernel.phase == phase})
        wanted = task.partitions
        if wanted is not None and (used != wanted if task.exactly else used > wanted):
            found.add("C4")
    groups = [{at[names.index(name)] for name in group} for group in task.together]
    if any(len(of) > 1 for of in groups) or len(set().union(*groups)) < sum(len(of) for of in groups):
        found.add("C5")
    capacity = instance.system.memory.capacity_bytes
    if capacity is not None and dram(instance, at) > capacity:
        found.add("C6")
    if task.utilisation is None and max(at.count(p) for p in set(at)) > instance.system.chip.tiles:
        found.add("C7")
    return frozenset(found)


def mappings(instance: DataflowInstance) -> Iterator[Partitions]:
    """All partitions of all kernels, without gaps in their numbers."""
    count = len(instance.workload.kernels)
    return (at for at in product(range(count), repeat=count) if set(at) == set(range(max(at) + 1)))


def drawn(random: Random) -> DataflowInstance:
    """Two to five kernels; perhaps a backward phase, pins, a number of partitions."""
    count = random.randint(2, 4)
    backward = random.randint(1, count - 1) if random.random() < 0.25 else count
    kernels = {
        NAMES[v]: {
            "flop": 10_000 * random.randint(1, 9),
            "weight_bytes": 100 * random.randint(0, 20),
            "output_bytes": 4 * random.randint(0, 500),
            "phase": "forward" if v < backward else "backward",
            "schemes": ["NONE"],
        }
        for v in range(count)
    }
    skips = [(u, v) for v in range(count) for u in range(v - 1) if random.random() < 0.35]
    edges = [*((v, v + 1) for v in range(count - 1)), *skips]
    together = [list(group) for group in random.choice(((), (), ("ab",), ("b",), ("ac",)))]
    if count == 2:
        together = [group for group in together if "c" not in group]
    partitions = random.choice((None, None, 1, 2, 3))
    given: dict[str, Any] = {
        "together": together,
        "partitions": partitions,
        "exactly": partitions is not None and random.random() < 0.3,
        "mode": random.choice(("physical", "dfmodel")) if backward == count else "dfmodel",
    }
    return explicit(
        kernels=kernels,
        edges=[[NAMES[u], NAMES[v]] for u, v in edges],
        sizes=[1],
        memory_gbps=100.0,
        sram_bytes=10**6,
        batch=2,
        micro_batch=1,
        tokens=TOKENS,
        tile_tokens=TILE,
        purpose="prefill",
        name="pair",
        **given,
    )


def changed(instance: DataflowInstance, what: str, value: int) -> DataflowInstance:
    """The instance with another SRAM, DRAM, number of partitions or of tiles."""
    system, task = instance.system, instance.task
    if what == "SRAM":
        return instance.replace(system=system.replace(chip=system.chip.replace(sram_bytes=value)))
    if what == "DRAM":
        return instance.replace(system=system.replace(memory=system.memory.replace(capacity_bytes=value)))
    if what == "tiles":
        chip = system.chip.replace(tiles=value)
        return instance.replace(system=system.replace(chip=chip), task=task.replace(utilisation=None, overlap=True))
    return instance.replace(task=task.replace(partitions=value, exactly=False))


def pair(random: Random) -> Pair | None:
    """A pair from a random instance; None where it gives none."""
    instance = drawn(random)
    what = random.choice(("SRAM", "SRAM", "DRAM", "partitions", "partitions", "tiles", "tiles"))
    if what == "partitions":
        instance = changed(instance, "SRAM", random.randint(1_000, 8_000))
    low, high = 0, {"SRAM": 20_000, "DRAM": 40_000, "partitions": 5, "tiles": 5}[what]
    if not _valid(changed(instance, what, high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _valid(changed(instance, what, middle)) else (middle, high)
    if low == 0:
        return None
    tight, near = changed(instance, what, low), changed(instance, what, high)
    labels = frozenset(("C1", "C2", "C3", "C4", "C5", "C6", "C7"))
    return Pair(what, tight, near, labels, by_candidates(broken(tight, at) for at in mappings(tight)))


def _valid(instance: DataflowInstance) -> bool:
    return any(not broken(instance, at) for at in mappings(instance))
