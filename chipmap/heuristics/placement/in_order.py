"""A schedule at once: operations one after the other by falling upward rank, each as early as its device allows.

It isn't the decoder's schedule, which is shorter as a rule, but it needs no compiled code: it is there while that is
still being loaded.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.placement.keys import topological, upward_rank
from chipmap.instances.placement.instance import PlacementSolution, Transfer
from chipmap.instances.placement.problem import IntArray, PlacementProblem


def in_order(problem: PlacementProblem, device: IntArray) -> PlacementSolution | None:
    """The schedule on these devices [N]; None where a transfer has no route.

    An operation starts when its inputs are there and its device is free. A transfer starts when its producer has ended
    and all its channels are free.
    """
    storages, network, count = problem.storages, problem.network, problem.devices
    at, readers, sends = storages.reader_at.tolist(), storages.readers.tolist(), storages.time.tolist()
    kinds, rests = network.kind.tolist(), network.gap.tolist()
    low, channels = network.channel_at.tolist(), network.channels.tolist()
    homes, gap = device.tolist(), problem.gap.tolist()
    busy: list[int] = np.take_along_axis(problem.time, device[:, None], axis=1)[:, 0].tolist()
    made: list[list[int]] = [[] for _ in homes]
    for s, u in enumerate(storages.producer.tolist()):
        made[u].append(s)
    ready, start, moves = [0] * len(homes), [0] * len(homes), list[tuple[int, int, int]]()
    free, held = [0] * count, [0] * max(1, network.count)
    for v in np.lexsort((topological(problem), -upward_rank(problem))).tolist():
        home, begin = homes[v], ready[v]
        if busy[v]:
            begin = max(begin, free[home])
            free[home] = begin + busy[v] + gap[home]
        start[v], end = begin, begin + busy[v]
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
    tensors, names = storages.tensor.tolist(), problem.device_names
    return PlacementSolution(
        instance=problem.instance.name,
        devices=problem.names_of(device),
        start=dict(zip(problem.names, start, strict=True)),
        transfers=tuple(Transfer(tensor=tensors[s], to=names[d], start=leaves) for s, d, leaves in moves),
    )
