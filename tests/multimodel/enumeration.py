"""Every schedule of a tiny instance at once, as arrays: the latency and energy of each one that is valid.

Brute force by the checker takes whole schedules one by one. Here each model's parts (its ranges in all windows, from
``validation.multimodel.candidates``) are judged alone, by the checker's own functions, and all combinations of the
models' parts are then put together by numpy, with what the models share: chiplets (C2), windows (C0, T1), limits (C4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chipmap.instances.multimodel import MultiInstance
from chipmap.validation.multimodel import checker
from chipmap.validation.multimodel.candidates import Part, _parts

#: Combinations of parts put together at once.
CHUNK = 2_000_000


@dataclass(frozen=True)
class Parts:
    """The valid parts of one model: latency and chiplets (bits) by part and window [N, W], energy by part [N]."""

    latency: np.ndarray
    mask: np.ndarray
    energy: np.ndarray


@dataclass(frozen=True)
class Schedules:
    """Latency (ns) and energy (pJ) of every valid schedule of ``instance``, in any order."""

    instance: MultiInstance
    time: np.ndarray
    energy: np.ndarray

    def least(self, objective: str, watts: float = 1.0) -> int | None:
        """The optimum in ticks for any objective; None without a schedule."""
        if not len(self.time):
            return None
        if objective == "edp":
            return -(-self.least_product // checker.edp_tick(self.instance))
        millis = round(watts * 10**6)
        return int(
            {
                "latency": self.time,
                "energy": self.energy,
                "weighted": -(-millis * self.time // 1000) + self.energy,
            }[objective].min()
        )

    @property
    def least_product(self) -> int:
        """The least T1 · T2 in ns · pJ, exactly: of those that are the least in floating point."""
        about = self.time * self.energy.astype(float)
        near = np.flatnonzero(about <= about.min() * (1 + 1e-12))
        return min(t * e for t, e in zip(self.time[near].tolist(), self.energy[near].tolist(), strict=True))

    @property
    def optimum(self) -> int | None:
        """The optimum of the instance's own objective."""
        return self.least(self.instance.task.objective, self.instance.task.watts)


def combinations(instance: MultiInstance) -> int:
    """How many combinations of parts there are, the invalid ones as well."""
    total = 1
    for model in instance.models:
        total *= len(_parts(instance, model))
    return total


def schedules(instance: MultiInstance) -> Schedules:
    """All valid schedules."""
    parts = [_judged(instance, m) for m in range(len(instance.models))]
    first, rest = parts[0], parts[1:]
    times, energies = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    others = int(np.prod([len(one.energy) for one in rest], dtype=np.int64))
    step = max(1, CHUNK // max(1, others))
    for begin in range(0, len(first.energy), step):
        chosen = slice(begin, begin + step)
        together = _some(first, chosen)
        own = [together]
        for other in rest:
            together, own = _joined(together, own, other)
        time, energy = _ends(instance, together, own)
        times.append(time)
        energies.append(energy)
    return Schedules(instance, np.concatenate(times), np.concatenate(energies))


def _judged(instance: MultiInstance, m: int) -> Parts:
    """The parts of model m that obey C3 and C5, with the checker's times and energies."""
    model = instance.models[m]
    at = {chiplet.name: c for c, chiplet in enumerate(instance.module.chiplets)}
    known: dict[Any, tuple[int, int, int] | None] = {(): (0, 0, 0)}
    listed: list[Part] = _parts(instance, model)
    rows = []
    for part in listed:
        for pieces in part:
            if pieces not in known:
                segments = [checker.Segment(p.first, p.last, instance.module.chiplets[at[p.chiplet]]) for p in pieces]
                alone: checker.Windows = [{m: segments}]
                broken = [*checker.c3_path(instance, alone), *checker.c5_memory(instance, alone)]
                mask = sum(1 << at[p.chiplet] for p in pieces)
                latency = checker.latency(instance, model, segments)
                known[pieces] = None if broken else (latency, checker.t2_energy(instance, alone, {}), mask)
        row = [known[pieces] for pieces in part]
        if None not in row:
            rows.append(row)
    table = np.array(rows, dtype=np.int64).reshape(len(rows), instance.task.windows, 3)
    return Parts(table[:, :, 0], table[:, :, 2], table[:, :, 1].sum(axis=1))


def _joined(one: Parts, own: list[Parts], other: Parts) -> tuple[Parts, list[Parts]]:
    """All pairs whose chiplets are different in every window; ``own`` are the parts of each model in them."""
    i, j = np.nonzero(~(one.mask[:, None, :] & other.mask[None, :, :]).any(axis=2))
    latency = np.maximum(one.latency[i], other.latency[j])
    joined = Parts(latency, one.mask[i] | other.mask[j], one.energy[i] + other.energy[j])
    return joined, [*(_some(part, i) for part in own), _some(other, j)]


def _some(parts: Parts, which: Any) -> Parts:
    return Parts(parts.latency[which], parts.mask[which], parts.energy[which])


def _ends(instance: MultiInstance, all_models: Parts, own: list[Parts]) -> tuple[np.ndarray, np.ndarray]:
    """(T1, T2) of those without an empty window before a used one, and within limits and deadlines."""
    used, task = all_models.mask > 0, instance.task
    valid = ~(~used[:, :-1] & used[:, 1:]).any(axis=1)
    time, energy = all_models.latency.sum(axis=1), all_models.energy
    if task.latency_limit_ns is not None:
        valid &= time <= task.latency_limit_ns
    if task.energy_limit_pj is not None:
        valid &= energy <= task.energy_limit_pj
    for model, parts in zip(instance.models, own, strict=True):
        if model.deadline_ns is not None and len(energy):
            at = np.arange(len(energy))
            last = used.shape[1] - 1 - np.argmax(parts.mask[:, ::-1] > 0, axis=1)
            before = np.cumsum(all_models.latency, axis=1) - all_models.latency
            valid &= before[at, last] + parts.latency[at, last] <= model.deadline_ns
    return time[valid], energy[valid]
