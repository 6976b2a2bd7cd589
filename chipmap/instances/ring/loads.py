"""The fast evaluation of a mapping of a ring instance: what it puts on each chip and link, and its objective.

The formulas are those of ``docs/families/ring.md`` ("Constraints", "Objective"). The checker states them a second time,
on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.problem import IntArray, RingProblem


@dataclass(frozen=True, eq=False)
class Loads:
    """What a mapping puts on each chip and link: arrays over the C chips (``load[c]``: the link from c to c + 1).

    ``received`` and ``sent`` are ticks of the storages that enter and leave a chip; ``boundary_bytes`` their bytes;
    ``relay_bytes`` those of the storages that pass through, ``peak_bytes`` the most that storages made and read on the
    chip only take at one step (both 0 in grade ``boundary``).
    """

    work: IntArray
    load: IntArray
    received: IntArray
    sent: IntArray
    weight_bytes: IntArray
    boundary_bytes: IntArray
    relay_bytes: IntArray
    peak_bytes: IntArray

    @property
    def memory_bytes(self) -> IntArray:
        """Weights and double-buffered boundary tensors; in grade ``full`` also relay buffers and live activations."""
        return self.weight_bytes + 2 * (self.boundary_bytes + self.relay_bytes) + self.peak_bytes


def loads(problem: RingProblem, chips: Sequence[int] | NDArray[np.int64]) -> Loads:
    """The loads of the mapping ``chips`` [n] (all operations; only computing ones count)."""
    count = problem.chips
    f = np.asarray(chips, dtype=np.int64)
    load, received, sent, boundary = (np.zeros(count, dtype=np.int64) for _ in range(4))
    producer, (storage, reader), bytes_, ticks = problem.storage_arrays
    # (storage, chip) for the chips other than the producer's that read it: each once, the farthest one last
    away = f[reader] != f[producer[storage]]
    t, c = np.divmod(np.unique(storage[away] * count + f[reader[away]]), count)
    np.add.at(received, c, ticks[t])
    np.add.at(boundary, c, bytes_[t])
    last = np.flatnonzero(np.diff(t, append=-1))
    t, far = t[last], c[last]
    p = f[producer[t]]
    np.add.at(sent, p, ticks[t])
    np.add.at(boundary, p, bytes_[t])
    onward = far > p
    np.add.at(load, p[onward], ticks[t[onward]])
    np.subtract.at(load, far[onward], ticks[t[onward]])
    work, weights = (np.zeros(count, dtype=np.int64) for _ in range(2))
    np.add.at(work, f, problem.ticks)
    np.add.at(weights, f, problem.weight_bytes)
    for constant in problem.shared:
        weights[np.unique(f[list(constant.readers)])] += constant.bytes
    return Loads(work, np.cumsum(load), received, sent, weights, boundary, *_relay_and_peak(problem, f))


def _relay_and_peak(problem: RingProblem, f: IntArray) -> tuple[IntArray, IntArray]:
    """Per chip, what grade ``full`` adds: bytes that pass through, and the peak of inner storages' bytes."""
    relay, peak = np.zeros(problem.chips, dtype=np.int64), np.zeros(problem.chips, dtype=np.int64)
    if problem.instance.memory_grade == "full":
        rank = {v: i for i, v in enumerate(problem.order)}
        alive = np.zeros((problem.chips, problem.n + 1), dtype=np.int64)
        for storage in problem.storages:
            p, on = int(f[storage.producer]), {int(f[v]) for v in storage.readers}
            for c in range(p + 1, max(on)):
                relay[c] += storage.bytes if c not in on else 0
            if on == {p}:
                alive[p, rank[storage.producer]] += storage.bytes
                alive[p, max(rank[v] for v in storage.readers) + 1] -= storage.bytes
        peak = np.cumsum(alive, axis=1).max(axis=1)
    return relay, peak


def charged(problem: RingProblem, on: Loads) -> IntArray:
    """[C]: what T1 is the maximum of, in ticks: work, and in modes ``sum`` and ``sum_forward`` the transfers paid."""
    if problem.cost_mode == "period":
        return on.work
    if problem.cost_mode == "sum":
        return on.work + on.received + on.sent
    return on.work + np.concatenate(([0], on.load[:-1])) + on.load


def terms(problem: RingProblem, chips: Sequence[int] | NDArray[np.int64]) -> tuple[int, int]:
    """(T1, T2) of the page in ticks; the objective is their maximum."""
    on = loads(problem, chips)
    return int(charged(problem, on).max()), int(on.load.max()) if problem.cost_mode == "period" else 0
