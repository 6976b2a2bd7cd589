"""The decoder against the checker, brute force and schedules worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice, product
from random import Random
from typing import get_args

import numpy as np
import pytest

from chipmap.heuristics.placement.keys import default_keys, topological
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.simulation.checkpoints import first_change
from chipmap.heuristics.placement.simulation.simulator import ABORTED, NEVER, NO_ROUTE, schedule, simulate, take, trial
from chipmap.heuristics.placement.simulation.tables import tables, workspace, workspaces
from chipmap.instances.placement import Links, PlacementInstance, System
from chipmap.instances.placement.generators import random_instance, training_step
from chipmap.instances.placement.presets import preset
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.instances.placement.system import LinkKind
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT
from tests.lanes import of_all
from tests.placement.random_instances import made, tiny_instance

HAND = """
from tests.placement.test_simulator import hand_traces
print(hand_traces())
"""


def traced(instance: PlacementInstance, device: list[int]) -> tuple[int, list[int]]:
    """(T, starts of the transfers) by the default keys; the checker says the same T."""
    problem = placement_problem(instance)
    work, devices = workspace(problem), np.array(device, dtype=np.int64)
    step = simulate(tables(problem), devices, default_keys(problem), False, np.zeros(4, np.int64), NEVER, work)
    solution = schedule(problem, devices, work)
    certificate = check(instance, solution)
    assert certificate.feasible and certificate.objective == step
    return step, sorted(transfer.start for transfer in solution.transfers)


def hand_traces() -> list[tuple[int, list[int]]]:
    """a and b on device 0, their readers c and d on devices 1 and 2: ``pair``; ``bus`` with a gap; a gap of devices."""
    rows = [(10_000, 0, 76_000), (10_000, 0, 76_000), (5_000, 0, 0), (5_000, 0, 0)]
    found = []
    for links in (Links(bytes_per_ns=7.6), Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000)):
        found.append(traced(made(rows, [(0, 2), (1, 3)], 3, links), [0, 0, 1, 2]))
    rested = made(rows, [(0, 2), (1, 3)], 3, Links(bytes_per_ns=7.6))
    kinds = [{"name": "gpu", "gap_ns": 5_700}]
    system = System.make(classes=kinds, devices=rested.system.devices, links=rested.system.links)
    found.append(traced(rested.replace(system=system), [0, 0, 1, 2]))
    return found


def test_hand_traces() -> None:
    """Worked out by hand: the bus rests for 25,000 ns, the device for 5,700."""
    assert hand_traces() == [(35_000, [10_000, 20_000]), (60_000, [10_000, 45_000]), (40_700, [10_000, 25_700])]


@pytest.mark.parametrize("seed", ["0", "1", "77"])
def test_hand_traces_in_another_process(seed: str) -> None:
    """Hash seeds and thread counts change nothing."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "NUMBA_NUM_THREADS": str(1 + int(seed) % 2)}
    done = subprocess.run(
        [sys.executable, "-c", HAND], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(hand_traces())


def test_rules_of_placeto() -> None:
    """The preset: the device rests for 5.7 µs, its one outgoing channel for 25 µs."""
    rows = [(10_000, 0, 76_000), (10_000, 0, 76_000), (5_000, 0, 0), (5_000, 0, 0)]
    instance = made(rows, [(0, 2), (1, 3)], 3, system=preset("placeto", 3, None))
    assert traced(instance, [0, 0, 1, 2]) == (60_000, [10_000, 45_000])
    # c until 25,000, then the rest of its device
    assert traced(instance, [0, 1, 2, 2]) == (35_700, [10_000, 10_000])


def by_the_page(
    problem: PlacementProblem, device: list[int], key: list[int] | None
) -> tuple[int, list[int], dict[tuple[int, int], int]]:
    """The rules of the page in plain Python: (T, starts, start of each transfer by storage and device).

    ``key`` None: ready times.
    """
    storages, network, devices = problem.storages, problem.network, problem.devices
    producer, times = storages.producer.tolist(), problem.time.tolist()
    missing = [len(one) for one in problem.producers]
    ready = {v: 0 for v, count in enumerate(missing) if count == 0}
    start, sent = [-1] * problem.operations, dict[tuple[int, int], int]()
    ends, waiting = list[tuple[int, int, int, int]](), set[tuple[int, int, int]]()
    idle, open_from, now = [0] * devices, [0] * network.count, 0
    while True:
        arrived = []
        for _, what, one, d in sorted(end for end in ends if end[0] == now):
            if what == 1:
                arrived.append((one, d))
                continue
            for s in (s for s, u in enumerate(producer) if u == one):
                arrived.append((s, d))
                rank = now if key is None else key[one]
                waiting |= {(rank, s, to) for to in {device[v] for v in storages.read_by(s)} - {d}}
        ends = [end for end in ends if end[0] != now]
        for s, d in arrived:
            for v in storages.read_by(s):
                if device[v] == d:
                    missing[v] -= 1
                    if missing[v] == 0:
                        ready[v] = now
        for rank, s, d in sorted(waiting):
            route = device[producer[s]] * devices + d
            held = network.channels[network.channel_at[route] : network.channel_at[route + 1]].tolist()
            if all(open_from[c] <= now for c in held):
                waiting.remove((rank, s, d))
                sent[s, d] = now
                end = now + int(storages.time[s, network.kind.flat[route]])
                ends.append((end, 1, s, d))
                for c in held:
                    open_from[c] = end + int(network.gap.flat[route])
        for d in range(devices):
            mine = sorted((ready[v] if key is None else key[v], v) for v in ready if device[v] == d)
            if mine and idle[d] <= now:
                v = mine[0][1]
                del ready[v]
                start[v] = now
                ends.append((now + times[v][d], 0, v, d))
                if times[v][d] > 0:
                    idle[d] = now + times[v][d] + int(problem.gap[d])
        if not ends and not ready and not waiting:
            return max(start[v] + times[v][device[v]] for v in range(len(start))), start, sent
        if not any(end[0] == now for end in ends):
            now = min(x for x in [*(end[0] for end in ends), *idle, *open_from] if x > now)


@pytest.mark.parametrize("links", get_args(LinkKind))
def test_simulator_follows_the_page(links: str) -> None:
    """Up to 14 operations on up to 4 devices: all starts are those of the plain rules, also with very large keys."""
    random, waited = Random(len(links)), 0
    for seed in range(60):
        instance = random_instance(
            random.randint(6, 14),
            random.randint(2, 4),
            links=links,
            edges=random.choice((0.15, 0.3)),
            weights=random.choice((0, 2)),
            gap_ns=random.choice((0, 3)),
            seed=seed,
            task={"memory": "none", "weights": "variable"},
        )
        problem = placement_problem(instance)
        flat, work, none = tables(problem), workspace(problem), np.zeros(problem.operations, dtype=np.int64)
        device = [random.randrange(problem.devices) for _ in range(problem.operations)]
        own = [random.randint(-3, 3) * 2**55 for _ in device]
        for key in (default_keys(problem).tolist(), own, None):
            keys = none if key is None else np.array(key, dtype=np.int64)
            found = simulate(flat, np.array(device, dtype=np.int64), keys, key is None, none, NEVER, work)
            step, start, sent = by_the_page(problem, device, key)
            made, tensors = schedule(problem, np.array(device, dtype=np.int64), work), problem.storages.tensor.tolist()
            at = [(tensors.index(one.tensor), problem.device_names.index(one.to)) for one in made.transfers]
            moved = {place: one.start for place, one in zip(at, made.transfers, strict=True)}
            assert (found, work.start[: len(device)].tolist(), moved) == (step, start, sent)
            waited += sum(work.behind[s * problem.devices + d] >= 0 for s, d in at)
    assert waited > 0 or links == "none"


def test_every_decoded_schedule_is_valid() -> None:
    """300 random instances, all devices, three kinds of keys and random ones: the checker's T is the simulator's.

    None is better than the best schedule of all; some are as good, and in a few cases none is.
    """
    random, compared, met, missed = Random(5), 0, 0, 0
    for _ in range(300):
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        if not problem.timed:
            continue
        optimum, _ = brute_force(instance, check)
        work, flat, best = workspace(problem), tables(problem), None
        tail = np.zeros(problem.operations, dtype=np.int64)
        own = np.array([random.randint(0, 3) for _ in range(problem.operations)], dtype=np.int64)
        for chosen in islice(product(*(np.flatnonzero(row) for row in problem.allowed)), 40):
            device = np.array(chosen, dtype=np.int64)
            for key, fifo in ((own, True), (own, False), (topological(problem), False), (default_keys(problem), False)):
                step = simulate(flat, device, key, fifo, tail, NEVER, work)
                assert step != NO_ROUTE
                certificate = check(instance, schedule(problem, device, work))
                assert {one.label for one in certificate.violations} <= {"C0", "C1", "C6"}
                if certificate.terms:
                    assert certificate.terms["T1"] == step
                    compared += 1
                if certificate.feasible:
                    assert optimum is not None and step >= optimum
                    best = step if best is None else min(best, step)
                if step > 0:
                    assert simulate(flat, device, key, fifo, tail, step, work) == ABORTED
                assert simulate(flat, device, key, fifo, tail, step + 1, work) == step
        met += best is not None and best == optimum
        missed += best is not None and best != optimum
    assert compared > 5_000 and met > 100 and missed > 0, (compared, met, missed)


@pytest.mark.parametrize("links", get_args(LinkKind))
def test_what_goes_on_from_a_kept_moment_is_the_whole_simulation(links: str) -> None:
    """Walks of 40 moves of operations and keys on graphs: T, starts and transfers are those from the beginning on.

    Some moves begin at later moments, some at the beginning; those that are given up leave what was kept.
    """
    random, begun = Random(len(links)), set[int]()
    for seed in range(of_all(12, few=8)):
        instance = random_instance(
            random.randint(20, 60),
            random.randint(2, 4),
            links=links,
            edges=0.1,
            weights=random.choice((0, 2)),
            gap_ns=random.choice((0, 3)),
            seed=seed,
            task={"memory": "none", "weights": "variable"},
        )
        problem = placement_problem(instance)
        flat, (work, other), whole = tables(problem), workspaces(problem, 7), workspace(problem)
        none = np.zeros(problem.operations, dtype=np.int64)
        device = np.array([random.randrange(problem.devices) for _ in none], dtype=np.int64)
        key = default_keys(problem)
        now = simulate(flat, device, key, False, none, NEVER, work)
        for _ in range(40):
            to, count = random.randrange(problem.devices), random.choice((0, 1, 1, 3))
            moved = np.array(random.sample(np.flatnonzero(device != to).tolist(), count), dtype=np.int64)
            keyed = random.randrange(problem.operations) if count == 0 or random.random() < 0.3 else -1
            before = device.copy(), key.copy()
            row = first_change(flat, device, key, work, moved, (count, to), keyed)
            device[moved] = to
            if keyed >= 0:
                key[keyed] = random.choice(key.tolist()) + random.choice((-1, 0, 1))
            step, begun = simulate(flat, device, key, False, none, NEVER, whole), begun | {row}
            change = row, count
            assert trial(flat, device, key, none, step, (work, other), moved, change) == ABORTED
            assert trial(flat, device, key, none, NEVER, (work, other), moved, change) == step
            if random.random() < 0.5:
                device, key = before
                continue
            take(flat, device, (work, other), moved, change)
            work, other, now = other, work, step
            assert schedule(problem, device, work) == schedule(problem, device, whole)
            assert all((getattr(work, one) == getattr(whole, one)).all() for one in ("ready", "before"))
        assert trial(flat, device, key, none, NEVER, (work, other), none, (-1, 0)) == now
    assert begun >= {-1, *range(6)}


@pytest.mark.parametrize("network", ["rnnlm", "gnmt"])
def test_moves_of_units_go_on_from_kept_moments_even_with_their_weights(network: str) -> None:
    """A walk of 600 moves of units of all levels: the schedule is that of the whole simulation.

    Weights that go with all their readers don't make a simulation start from the beginning.
    """
    small = {"steps": 4, "hidden": 64, "batch": 8, "vocabulary": 100}
    problem = placement_problem(training_step(network, small, devices=3))
    flat, (work, other), whole = tables(problem), workspaces(problem, 12), workspace(problem)
    made, random, with_weights, key = units(problem), Random(1), 0, default_keys(problem)
    none = np.zeros(problem.operations, dtype=np.int64)
    device = np.array([random.randrange(3) for _ in none], dtype=np.int64)[made.unit[4]]
    simulate(flat, device, key, False, none, NEVER, work)
    back: tuple[IntArray, int] | None = None
    for _ in range(of_all(600, few=200)):
        level, v, to = random.randrange(len(made.at)), random.randrange(problem.operations), random.randrange(3)
        members = made.members[level][made.at[level, made.unit[level, v]] : made.at[level, made.unit[level, v] + 1]]
        moved = members[device[members] != to]
        if back is not None and random.random() < 0.3:
            moved, to = back
        before, back = device.copy(), None
        if len({*device[moved].tolist()}) == 1:
            back = moved, int(device[moved[0]])
        row = first_change(flat, device, key, work, moved, (len(moved), to), -1)
        device[moved] = to
        step = simulate(flat, device, key, False, none, NEVER, whole)
        change = row, len(moved)
        assert trial(flat, device, key, none, NEVER, (work, other), moved, change) == step
        with_weights += row >= 0 and bool((flat.reads[moved] == 0).any())
        if random.random() < 0.3:
            device, back = before, None
            continue
        take(flat, device, (work, other), moved, change)
        work, other = other, work
        assert schedule(problem, device, work) == schedule(problem, device, whole)
    assert with_weights > 0
