"""A schedule as arrays, and what must follow each operation while devices and order stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: A storage and the device that it is sent to.
Sending = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Schedule:
    """``device`` [N] and ``start`` [N] in ns of operations; ``sent``: the starts of the transfers that there are."""

    problem: PlacementProblem
    device: IntArray
    start: IntArray
    sent: dict[Sending, int]

    @classmethod
    def of(cls, problem: PlacementProblem, solution: PlacementSolution) -> Schedule:
        """A valid solution's."""
        storage = {t: s for s, t in enumerate(problem.storages.tensor.tolist())}
        target = {name: d for d, name in enumerate(problem.device_names)}
        sent = {(storage[m.tensor], target[m.to]): m.start for m in solution.transfers}
        start = np.array([solution.start[name] for name in problem.names], dtype=np.int64)
        return cls(problem, problem.devices_of(solution), start, sent)

    @cached_property
    def time(self) -> IntArray:
        """p of each operation where it is [N]."""
        found: IntArray = self.problem.time[np.arange(self.problem.operations), self.device]
        return found

    @cached_property
    def rank(self) -> IntArray:
        """The position of each operation in the problem's order, which is topological [N]."""
        found: IntArray = np.argsort(self.problem.order)
        return found

    @cached_property
    def order(self) -> IntArray:
        """The operations by start; at the same time producers before readers [N]."""
        found: IntArray = np.lexsort((self.rank, self.start))
        return found

    @cached_property
    def step(self) -> int:
        """T1."""
        return int((self.start + self.time).max(initial=0))

    @cached_property
    def tail(self) -> IntArray:
        """The longest chain behind each operation, from its end on [N]: readers, transfers, and what comes next on its
        device and on their channels in the order of this schedule, with rests. No less may follow it in that order.

        An operation is *critical* where start + p + tail is T1.
        """
        return np.array(_tails(self), dtype=np.int64)

    @cached_property
    def critical(self) -> IntArray:
        """p of critical operations, 0 of the others [N]."""
        found: IntArray = np.where(self.start + self.time + self.tail >= self.step, self.time, 0)
        return found


def _tails(schedule: Schedule) -> list[int]:
    """The tails, from the last start to the first; a transfer comes behind its producer and before its readers."""
    problem, device, time = schedule.problem, schedule.device.tolist(), schedule.time.tolist()
    storages, network, rank = problem.storages, problem.network, schedule.rank.tolist()
    producer, made = storages.producer.tolist(), problem.made
    kind, rest, gap = network.kind.tolist(), network.gap.tolist(), problem.gap.tolist()
    nodes = [(at, rank[v], -1, v) for v, at in enumerate(schedule.start.tolist())]
    nodes += [(at, rank[producer[s]], s, d) for (s, d), at in schedule.sent.items()]
    tail, behind = [0] * len(time), dict[Sending, int]()
    on_device, on_channel = [0] * problem.devices, [0] * network.count
    for _, _, s, place in sorted(nodes, reverse=True):
        if s < 0:
            v, d = place, device[place]
            least = on_device[d] + gap[d] if time[v] and on_device[d] else 0
            for own in made[v]:
                for w in storages.read_by(own):
                    least = max(least, time[w] + tail[w] if device[w] == d else behind[own, device[w]])
            tail[v] = least
            if time[v]:
                on_device[d] = time[v] + least
            continue
        home = device[producer[s]]
        took, pause = int(storages.time[s, kind[home][place]]), rest[home][place]
        least = max((time[w] + tail[w] for w in storages.read_by(s) if device[w] == place), default=0)
        channels = network.held(home, place)
        if took + pause:
            least = max([least, *(on_channel[c] + pause for c in channels if on_channel[c])])
        behind[s, place] = took + least
        for c in channels if took + pause else ():
            on_channel[c] = took + least
    return tail
