"""Simulated hardware for ``ring``: seeded effects that the analytic cost lacks.

The cost of a mapping is the time of its slowest chip in ns. A chip's time is

    sum over its operations of time(v) · speed(kind of v) · jitter(v)
    + contention · (ticks of what it receives and sends)
    + (bytes of weights beyond the cache) / (bytes per ns of the memory behind it)

``speed`` is log-normal per kind, ``jitter`` per operation (a shape that suits the hardware more or less). Chips are
alike and pay for themselves, so that the true optimum can be found by a program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.engines.ideals import all_ideals, bits
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import TICKS_PER_NS, IntArray, RingProblem

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Simulator:
    """The simulated package: true operation times [n] in ticks, and the other effects."""

    problem: RingProblem
    ticks: Floats
    contention: float
    cache_bytes: float
    memory_bytes_per_ns: float

    def __call__(self, chips: IntArray) -> float:
        """The cost of a mapping [n] in ns."""
        return float(self.times(chips).max())

    def times(self, chips: IntArray) -> Floats:
        """[C]: each chip's time in ns."""
        on = loads(self.problem, chips)
        work = np.bincount(chips, self.ticks, self.problem.chips) + self.contention * (on.received + on.sent)
        spilled = np.maximum(0.0, on.weight_bytes - self.cache_bytes)
        found: Floats = work / TICKS_PER_NS + spilled / self.memory_bytes_per_ns
        return found


def simulator(problem: RingProblem, kinds: list[str], optimum: IntArray, seed: int) -> Simulator:
    """A package for ``problem``, its effects drawn by ``seed``.

    The cache holds 0.5 to 1.0 times what the fullest chip of the analytic ``optimum`` [n] holds of weights.
    """
    random = np.random.default_rng([seed, 18])
    names = sorted(set(kinds))
    speed = dict(zip(names, np.exp(random.normal(0.0, 0.5, len(names))), strict=True))
    jitter = np.exp(random.normal(0.0, 0.2, problem.n))
    ticks = problem.ticks * np.array([speed[kind] for kind in kinds]) * jitter
    fullest = float(loads(problem, optimum).weight_bytes.max())
    return Simulator(
        problem=problem,
        ticks=ticks,
        contention=float(random.uniform(0.2, 0.6)),
        cache_bytes=float(random.uniform(0.5, 1.0)) * fullest,
        memory_bytes_per_ns=float(random.uniform(50.0, 150.0)),
    )


def optimum(simulated: Simulator, ideals: int) -> tuple[float, IntArray]:
    """(least cost in ns, mapping [n]) of the mappings that obey ``path``, the sufficient part of C3.

    The program over pairs of ideals, with the simulator's own chip times: under ``path`` a chip receives all that its
    ideal's operations left open and sends all that is open after it.
    """
    problem = simulated.problem
    graph = flow_graph(problem)
    programs, family = Programs(problem, graph), all_ideals(graph.producers, ideals)
    inside = np.zeros((len(family), problem.n), dtype=bool)
    for i, mask in enumerate(family.masks):
        inside[i, [graph.operation[v] for v in bits(mask)]] = True
    work, weights = inside @ simulated.ticks, inside @ problem.weight_bytes.astype(np.float64)
    cut = np.zeros(len(family))
    for storage in problem.storages:
        cut += storage.ticks * (inside[:, storage.producer] & ~inside[:, list(storage.readers)].all(axis=1))
    shared = [(inside[:, list(constant.readers)].sum(axis=1), constant.bytes) for constant in problem.shared]
    best = np.full((len(family), programs.blocks + 1), np.inf)
    parent = np.full(best.shape, -1)
    best[0, 0] = 0.0
    for start, count, targets, _, _ in programs.pairs("path", family, None):
        ends = np.cumsum(count)
        for k in np.flatnonzero(count).tolist():
            i, j = start + k, targets[ends[k] - count[k] : ends[k]]
            held = weights[j] - weights[i] + sum((read[j] > read[i]) * size for read, size in shared)
            times = (work[j] - work[i] + simulated.contention * (cut[i] + cut[j])) / TICKS_PER_NS
            times += np.maximum(0.0, held - simulated.cache_bytes) / simulated.memory_bytes_per_ns
            value = np.maximum(best[i, :-1], times[:, None])
            better = value < best[j, 1:]
            best[j, 1:] = np.where(better, value, best[j, 1:])
            parent[j, 1:] = np.where(better, i, parent[j, 1:])
    blocks = int(np.argmin(best[-1]))
    chain = [len(family) - 1]
    for k in range(blocks, 0, -1):
        chain.append(int(parent[chain[-1], k]))
    return float(best[-1, blocks]), np.array(programs.mapping(family, chain[::-1]))
