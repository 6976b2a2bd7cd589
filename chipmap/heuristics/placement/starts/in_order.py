"""A schedule at once: operations one after the other in an order, each as early as its device allows.

It isn't the decoder's schedule, which is shorter as a rule, but it needs no compiled code: it is there while that is
still being loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from chipmap.instances.placement.problem import IntArray, PlacementProblem


class Times(NamedTuple):
    """A schedule on given devices: the ``start`` [N] of each operation, ``moves`` (storage, device, start), and when
    the last operation ends, ns."""

    start: list[int]
    moves: list[tuple[int, int, int]]
    step: int


def times_in_order(problem: PlacementProblem, device: IntArray, order: Iterable[int]) -> Times | None:
    """The schedule on these devices [N] in a topological ``order``; None where a transfer has no route.

    An operation starts when its inputs are there and its device is free. A transfer starts when its producer has ended
    and all its channels are free.
    """
    storages, network, count = problem.storages, problem.network, problem.devices
    at, readers, sends = storages.reader_at.tolist(), storages.readers.tolist(), storages.time.tolist()
    kinds, rests = network.kind.tolist(), network.gap.tolist()
    low, channels = network.channel_at.tolist(), network.channels.tolist()
    homes, gap = device.tolist(), problem.gap.tolist()
    busy, made = busy_on(problem, device), problem.made
    ready, start, moves, step = [0] * len(homes), [0] * len(homes), list[tuple[int, int, int]](), 0
    free, held = [0] * count, [0] * max(1, network.count)
    for v in order:
        home, begin = homes[v], ready[v]
        if busy[v]:
            begin = max(begin, free[home])
            free[home] = begin + busy[v] + gap[home]
        start[v], end = begin, begin + busy[v]
        step = max(step, end)
        for s in made[v]:
            arrival = {home: end}
            for w in readers[at[s] : at[s + 1]]:
                d = homes[w]
                if d not in arrival:
                    kind, route = kinds[home][d], home * count + d
                    if kind < 0:
                        return None
                    mine = channels[low[route] : low[route + 1]]
                    leaves = max([end, *(held[c] for c in mine)])
                    arrival[d] = leaves + sends[s][kind]
                    for c in mine:
                        held[c] = arrival[d] + rests[home][d]
                    moves.append((s, d, leaves))
                ready[w] = max(ready[w], arrival[d])
    return Times(start, moves, step)


def times_alone(problem: PlacementProblem, device: IntArray, order: Iterable[int]) -> Times | None:
    """The schedule on these devices [N] in which one thing happens at a time, in a topological ``order``: what an
    operation lacks is sent right before it, then it runs. None where a transfer has no route.

    It is long, but holds little at a time: copies come as late as they can.
    """
    storages, network, count = problem.storages, problem.network, problem.devices
    kinds, rests, homes, gap = network.kind.tolist(), network.gap.tolist(), device.tolist(), problem.gap.tolist()
    producer, sends, busy = storages.producer.tolist(), storages.time.tolist(), busy_on(problem, device)
    low, channels = network.channel_at.tolist(), network.channels.tolist()
    start, moves, now = [0] * len(homes), list[tuple[int, int, int]](), 0
    free, held, there = [0] * count, [0] * max(1, network.count), set[tuple[int, int]]()
    for v in order:
        home = homes[v]
        for s in problem.producers[v]:
            source = homes[producer[s]]
            if source == home or (s, home) in there:
                continue
            kind, route = kinds[source][home], source * count + home
            if kind < 0:
                return None
            mine = channels[low[route] : low[route + 1]]
            leaves = max([now, *(held[c] for c in mine)])
            now = leaves + sends[s][kind]
            for c in mine:
                held[c] = now + rests[source][home]
            there.add((s, home))
            moves.append((s, home, leaves))
        if busy[v]:
            now = max(now, free[home])
        start[v] = now
        now += busy[v]
        free[home] = now + gap[home] if busy[v] else free[home]
    return Times(start, moves, now)


def busy_on(problem: PlacementProblem, device: IntArray) -> list[int]:
    """The time of each operation on its device [N], ns."""
    found: list[int] = np.take_along_axis(problem.time, device[:, None], axis=1)[:, 0].tolist()
    return found
