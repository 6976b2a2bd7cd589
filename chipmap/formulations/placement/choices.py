"""What the models of family ``placement`` have in common: choices, what may be sent where, and the way to solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from chipmap.formulations.placement.narrowing import renumbered
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.offload import fetch_times
from chipmap.instances.placement.problem import PlacementProblem


@dataclass(frozen=True)
class PlacementChoices:
    """``cuts``, which follow from the rest and speed up proofs, of step time: ``load`` states T1 >= Σ p of each device,
    ``path`` that a reader starts behind its producer wherever both are.

    ``upper``: only placements whose objective is at most so many ticks.
    """

    cuts: tuple[Literal["load", "path"], ...] = ("load", "path")
    upper: int | None = None


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decision variables of a model, and placements as their values.

    ``x[v, d]``: operation v is on device d. With step time ``start[v]`` and ``sent[s, d]``, the start of the transfer
    of storage s to device d; both in units of ``scale`` ns. ``earliest``: where the start of a transfer that there is
    not is put. ``leaders``: the k-th of these operations is on one of the first k devices. ``fetch[v, d]``: operation v
    is on device d and fetches its weights.
    """

    problem: PlacementProblem
    x: Mapping[tuple[int, int], Any]
    start: Mapping[int, Any]
    sent: Mapping[tuple[int, int], Any]
    scale: int = 1
    earliest: Mapping[tuple[int, int], int] = field(default_factory=dict)
    leaders: Sequence[int] = ()
    fetch: Mapping[tuple[int, int], Any] = field(default_factory=dict)

    def encode(self, solution: PlacementSolution) -> list[tuple[Any, float]] | None:
        """(variable, value) of a placement; None if the model excludes it."""
        problem = self.problem
        before = problem.devices_of(solution).tolist()
        devices = renumbered(before, list(self.leaders), problem.devices) if self.leaders else before
        number = dict(zip(before, devices, strict=True))
        if any((v, d) not in self.x for v, d in enumerate(devices)):
            return None
        # what shares a device may share its variables: each once
        unique = {id(variable): (variable, float(devices[v] == d)) for (v, d), variable in self.x.items()}
        pairs, fetched = list(unique.values()), set(solution.fetched)
        pairs += [(one, float(devices[v] == d and problem.names[v] in fetched)) for (v, d), one in self.fetch.items()]
        if problem.timed:
            storages = {t: s for s, t in enumerate(problem.storages.tensor.tolist())}
            moves = {
                (storages[m.tensor], number[problem.device_names.index(m.to)]): m.start for m in solution.transfers
            }
            pairs += [(self.start[v], solution.start[problem.names[v]] / self.scale) for v in range(len(devices))]
            pairs += [
                (variable, moves.get(key, self.earliest.get(key, 0)) / self.scale)
                for key, variable in self.sent.items()
            ]
        return pairs

    def decode(self, value: Callable[[Any], float]) -> PlacementSolution:
        """The placement that the variables' values stand for.

        Starts are rounded: they obey differences of whole numbers, which rounding keeps.
        """
        problem, devices = self.problem, dict[int, int]()
        best: dict[int, float] = {}
        for (v, d), variable in self.x.items():
            if v not in best or value(variable) > best[v]:
                best[v], devices[v] = value(variable), d
        placed = np.array([devices[v] for v in range(problem.operations)], dtype=np.int64)
        fetched = tuple(problem.names[v] for (v, d), one in self.fetch.items() if devices[v] == d and value(one) > 0.5)
        if not problem.timed:
            return problem.solution(placed).replace(fetched=fetched)
        moves = []
        for s in range(len(problem.storages)):
            home = devices[int(problem.storages.producer[s])]
            for d in sorted({devices[w] for w in problem.storages.read_by(s)} - {home}):
                if (s, d) in self.sent:
                    moves.append((s, d, max(0, round(value(self.sent[s, d]) * self.scale))))
        starts = [max(0, round(value(self.start[v]) * self.scale)) for v in range(problem.operations)]
        return problem.solution(placed, starts, moves).replace(fetched=fetched)


def placings(problem: PlacementProblem) -> Iterator[tuple[int, int]]:
    """All (v, d) that are allowed."""
    for v in range(problem.operations):
        for d in range(problem.devices):
            if problem.allowed[v, d]:
                yield v, d


def fetchings(problem: PlacementProblem) -> Iterator[tuple[int, int, int]]:
    """(v, d, ⌈q/ρ⌉) of all operations that may fetch their weights, on all devices that they may run on."""
    times = fetch_times(problem)
    for v, d in placings(problem):
        if times[v]:
            yield v, d, int(times[v])


def sendings(problem: PlacementProblem) -> Iterator[tuple[int, int]]:
    """All (s, d) such that storage s may be read on device d and made elsewhere."""
    for s in range(len(problem.storages)):
        u, readers = int(problem.storages.producer[s]), problem.storages.read_by(s)
        for d in range(problem.devices):
            elsewhere = any(problem.allowed[u, a] for a in range(problem.devices) if a != d)
            if elsewhere and any(problem.allowed[w, d] for w in readers):
                yield s, d


def routes(problem: PlacementProblem, s: int, d: int) -> Iterator[int]:
    """The devices from which storage s may come to device d, whether a route joins them or not."""
    u = int(problem.storages.producer[s])
    for a in range(problem.devices):
        if a != d and problem.allowed[u, a]:
            yield a


def send_time(problem: PlacementProblem, s: int, a: int, d: int) -> int | None:
    """c of storage s from device a to d; None without a route."""
    kind = int(problem.network.kind[a, d])
    return None if kind < 0 else int(problem.storages.time[s, kind])


def load_time(problem: PlacementProblem, s: int) -> int:
    """c of storage s in objective throughput: the same over all routes."""
    return int(problem.storages.time[s, 0])


def horizon(problem: PlacementProblem, upper: int | None) -> int:
    """The most that T1 may be: by the limit, by ``upper``, and for schedules that leave no chance out."""
    limits = [problem.horizon + int(fetch_times(problem).sum()), problem.instance.task.limit_ns, upper]
    return min(limit for limit in limits if limit is not None)


def most_load(problem: PlacementProblem, upper: int | None) -> int:
    """The most that T2 may be."""
    most = int(problem.time.max(axis=1, initial=0).sum())
    most += int(fetch_times(problem).sum()) + 2 * sum(load_time(problem, s) for s in range(len(problem.storages)))
    return most if upper is None else min(most, upper)


def edges(problem: PlacementProblem) -> Iterator[tuple[int, int, int]]:
    """All (storage, producer, reader)."""
    for s, u in enumerate(problem.storages.producer.tolist()):
        for w in problem.storages.read_by(s):
            yield s, u, w


def waits(problem: PlacementProblem) -> dict[int, list[int]]:
    """The storages that a forward operation makes and backward ones read, with these readers: each micro-batch under
    way holds them. Micro-batches share constants, such as weights."""
    found, backward = dict[int, list[int]](), problem.backward
    for s, u, w in edges(problem):
        if u not in backward and w in backward and not problem.storages.resident[s]:
            found.setdefault(s, []).append(w)
    return found
