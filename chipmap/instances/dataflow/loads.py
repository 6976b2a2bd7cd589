"""What each partition of a mapping asks of a chip: compute, picoseconds of DRAM and of the network, bytes of SRAM."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from chipmap.instances.dataflow.batch import layers_per_stage, runs
from chipmap.instances.dataflow.batch_time import caching
from chipmap.instances.dataflow.exchanged import Exchanged, exchanged
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem, levels, wires
from chipmap.instances.dataflow.tiles import Shares, sharing


class Times(NamedTuple):
    """Picoseconds of one partition, each time that it runs: compute; DRAM of weights, of what is fetched, and of
    tensors; network of collectives and exchanges, and of changes of layout."""

    compute: int
    weights: int
    fetched: int
    tensors: int
    collectives: int
    changes: int

    @property
    def memory(self) -> int:
        """Picoseconds of DRAM."""
        return self.weights + self.fetched + self.tensors

    @property
    def network(self) -> int:
        """Picoseconds of the network."""
        return self.collectives + self.changes


def times(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, Times]:
    """What each partition of a valid ``solution`` takes, by its number; T1 to T3 are the sums over all runs."""
    inside: dict[int, list[int]] = {p: [] for p in sorted(set(solution.partitions))}
    for i, p in enumerate(solution.partitions):
        inside[p].append(i)
    moved, sent, options = _memory(problem, solution), _network(problem, solution), chosen_options(problem, solution)
    return {p: Times(_compute(problem, options, own), *moved[p], *sent[p]) for p, own in inside.items()}


def often(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, int]:
    """How often each partition runs per micro-batch."""
    each = runs(problem.instance)
    return {p: each[i % problem.n] for i, p in enumerate(solution.partitions)}


def chosen_options(problem: DataflowProblem, solution: DataflowSolution) -> list[Option]:
    """The option of each kernel, of all layers where partitions reach across."""
    pairs = [(problem.options[i % problem.n], scheme) for i, scheme in enumerate(solution.schemes)]
    return [next(option for option in choice if option.scheme == scheme) for choice, scheme in pairs]


def listed_shares(problem: DataflowProblem, options: list[Option], inside: list[int]) -> list[Shares]:
    """The (tiles, picoseconds) of the options of the kernels ``inside`` a partition, where kernels share tiles."""
    places = [problem.options[i % problem.n].index(options[i]) for i in inside]
    return [problem.shares[i % problem.n][place] for i, place in zip(inside, places, strict=True)]


def _compute(problem: DataflowProblem, options: list[Option], inside: list[int]) -> int:
    """Picoseconds of compute of the kernels ``inside`` a partition; where they share tiles, on as many as suit each."""
    if not problem.shares:
        return sum(options[i].compute for i in inside)
    best = sharing(listed_shares(problem, options, inside), problem.instance.system.chip.tiles)
    assert best is not None, "more kernels than tiles"
    return best.ticks


def _memory(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, tuple[int, int, int]]:
    """Picoseconds of DRAM of each partition: weights, what is fetched, tensors."""
    where, options = solution.partitions, chosen_options(problem, solution)
    weights, fetched, tensors = (dict.fromkeys(where, 0) for _ in range(3))
    physical = problem.instance.mode == "physical"
    seen: set[tuple[int, int]] = set()
    apart = _exchanged(problem, solution).kept
    elsewhere = {(one.maker, v) for one in apart for v in one.users}
    for one in apart:
        for v in (one.payer, *one.users):
            tensors[where[v]] += one.copy.dram
    for u, v in wires(problem, len(where) // problem.n):
        for p in (where[u], where[v]) if where[u] != where[v] else ():
            if (p == where[u] or (u, v) not in elsewhere) and (not physical or (u, p) not in seen):
                tensors[p] += options[u].dram
                seen.add((u, p))
    stay, layered = _resident(problem, solution), problem.instance.task.stages == "layers"
    cached = layered and len(stay) == len(weights) and _caches_fit(problem, options)
    for p, option in zip(where, options, strict=True):
        weights[p] += 0 if p in stay else option.spared
        fetched[p] += 0 if cached else option.fetch
    return {p: (weights[p], fetched[p], tensors[p]) for p in weights}


def _resident(problem: DataflowProblem, solution: DataflowSolution) -> frozenset[int]:
    """The partitions whose weights stay in SRAM: those beside which their chip runs no other."""
    alone = layers_per_stage(problem.instance, problem.degrees) == 1 and problem.instance.mode == "physical"
    if not alone or problem.instance.system.chip.streams or problem.instance.task.uneven:
        return frozenset()
    used = sorted(set(solution.partitions))
    stage = dict(zip(used, (solution.stages[p] for p in used), strict=True)) if solution.stages else {}
    company = Counter(stage.get(p, 0) for p in used)
    return frozenset(p for p in used if company[stage.get(p, 0)] == 1)


def _caches_fit(problem: DataflowProblem, options: list[Option]) -> bool:
    """Whether one partition of all kernels has room for its KV cache beside weights and buffers."""
    if not caching(problem):
        return False
    tensors = wires(problem, len(options) // problem.n)
    level = levels(len(options), np.array(tensors, dtype=np.int64).reshape(-1, 2)).tolist()
    buffers = sum(options[u].buffer * (level[v] - level[u] + 1) for u, v in tensors)
    return buffers + sum(option.weights + option.cache for option in options) <= problem.sram


def _network(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, tuple[int, int]]:
    """Picoseconds of the network of each partition: collectives and exchanges, changes of layout."""
    where, options = solution.partitions, chosen_options(problem, solution)
    collectives, changes = dict.fromkeys(where, 0), dict.fromkeys(where, 0)
    paid = _exchanged(problem, solution)
    for p, option, sums, changed in zip(where, options, paid.sums, paid.changes, strict=True):
        collectives[p] += option.collective + sums
        changes[p] += changed
    return {p: (collectives[p], changes[p]) for p in collectives}


def _exchanged(problem: DataflowProblem, solution: DataflowSolution) -> Exchanged:
    options = chosen_options(problem, solution)
    number = [problem.options[i % problem.n].index(option) for i, option in enumerate(options)]
    return exchanged(problem, number, solution.partitions)


def sram_bytes(problem: DataflowProblem, solution: DataflowSolution) -> dict[int, tuple[int, int]]:
    """Bytes of SRAM of each partition: weights, and buffers of the tensors that it touches (C2)."""
    where, options = solution.partitions, chosen_options(problem, solution)
    tensors = wires(problem, len(where) // problem.n)
    level = levels(len(options), np.array(tensors, dtype=np.int64).reshape(-1, 2)).tolist()
    weights, buffers = dict.fromkeys(where, 0), dict.fromkeys(where, 0)
    for p, option in zip(where, options, strict=True):
        weights[p] += option.weights
    seen: set[tuple[int, int]] = set()
    apart = _exchanged(problem, solution).kept
    elsewhere = {(one.maker, v) for one in apart for v in one.users}
    for one in apart:
        for v in (one.payer, *one.users):
            buffers[where[v]] += 2 * one.copy.buffer
    for u, v in tensors:
        if where[u] == where[v]:
            buffers[where[u]] += options[u].buffer * (level[v] - level[u] + 1)
            continue
        for p in (where[u], where[v]):
            if (p == where[u] or (u, v) not in elsewhere) and (
                problem.instance.mode == "dfmodel" or (u, p) not in seen
            ):
                buffers[p] += 2 * options[u].buffer
                seen.add((u, p))
    return {p: (weights[p], buffers[p]) for p in weights}
