"""Latest starts of a schedule: what may be late by how much, told by starting each thing later."""

from __future__ import annotations

from random import Random

import numpy as np

from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.search.slack import fill, slack_for
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import Work, tables, workspace
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem


def longest(problem: PlacementProblem, device: list[int], work: Work, late: int, start: int) -> int:
    """The step if what is ``late`` in the log begins at ``start`` at the earliest, everything in the same order."""
    network, storages = problem.network, problem.storages
    count, devices = problem.operations, problem.devices
    there = dict[tuple[int, int], int]()
    free_device, free_channel, ends = [0] * devices, [0] * max(1, network.count), [0]
    reads = [[s for s, v in zip(storages.read, storages.readers, strict=True) if v == w] for w in range(count)]
    for code in work.log[: work.logged[0]].tolist():
        floor = start if code == late else 0
        if code < count:
            d = device[code]
            begin = max([floor, *(there[s, d] for s in reads[code])])
            time = int(problem.time[code, d])
            if time > 0:
                begin = max(begin, free_device[d])
                free_device[d] = begin + time + int(problem.gap[d])
            ends.append(begin + time)
            there |= {(s, d): begin + time for s in problem.made[code]}
            continue
        s, d = divmod(code - count, devices)
        home = device[storages.producer[s]]
        route = home * devices + d
        time = int(storages.time[s, network.kind[home, d]])
        used = network.channels[network.channel_at[route] : network.channel_at[route + 1]].tolist() if time > 0 else []
        begin = max([floor, there[s, home], *(free_channel[c] for c in used)])
        for c in used:
            free_channel[c] = begin + time + int(network.gap[home, d])
        there[s, d] = begin + time
    return max(ends)


def test_latest_starts_are_the_last_ones_that_keep_the_step() -> None:
    """Each operation and transfer of random schedules: from its latest start on the step stays, one ns later it is one
    ns longer."""
    random, tried = Random(5), 0
    for seed in range(24):
        links = ("pair", "bus", "host", "duplex")[seed % 4]
        gap = random.choice((0, 3))
        instance = random_instance(14, 3, 1, links, 0.2, gap_ns=gap, seed=seed, task={"memory": "none"})
        problem = placement_problem(instance)
        t, work, slack = tables(problem), workspace(problem), slack_for(problem)
        device = np.array([random.randrange(3) for _ in range(problem.operations)], dtype=np.int64)
        step = int(simulate(t, device, default_keys(problem), False, np.zeros(14, dtype=np.int64), NEVER, work))
        fill(t, device, work, step, slack)
        for code in work.log[: work.logged[0]].tolist():
            late = int(slack.late[code] if code < 14 else slack.sent[code - 14])
            assert longest(problem, device.tolist(), work, code, late) == step
            assert longest(problem, device.tolist(), work, code, late + 1) == step + 1
            tried += 1
    assert tried > 500, tried
