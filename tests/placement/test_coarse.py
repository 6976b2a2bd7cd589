"""Clusters of operations: what they weigh, what they keep together, and partitions that move them first."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from chipmap import SolveOptions, solve
from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import heads_and_tails
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.starts import coarse, partition
from chipmap.heuristics.placement.starts.items import Items, nets
from chipmap.heuristics.placement.starts.phases import middle, phases
from chipmap.instances.placement import Forbidden
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement import chain, siblings
from chipmap.methods.placement.chain_state import PATIENCE, ChainState
from chipmap.run import Run
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import made, random_instance

STEP = training_step("rnnlm", {"layers": 2, "steps": 12, "hidden": 64, "batch": 8, "vocabulary": 100}, devices=2)


def items_of(problem: PlacementProblem, count: int) -> Items:
    """All operations in so many phases."""
    parts = phases(problem, middle(heads_and_tails(problem, Deadline())), count)
    return Items(nets(problem), units(problem), common_devices(problem), problem.time, parts)


def weighs(items: Items, device: IntArray) -> tuple[int, list[int]]:
    """Transfers in ns, each net once to each device beyond the first that touches it, and the bytes on each device."""
    there = [set[int]() for _ in items.nets.cost]
    held = [0] * items.time.shape[1]
    for v, d in enumerate(device.tolist()):
        held[d] += int(items.nets.weights[v])
        for net in items.nets.touched[items.nets.at[v] : items.nets.at[v + 1]].tolist():
            there[net].add(d)
    for net, devices in enumerate(there):
        for d in devices:
            held[d] += int(items.nets.bytes[net])
    return sum(int(items.nets.cost[net]) * (len(devices) - 1) for net, devices in enumerate(there) if devices), held


def test_clusters_weigh_what_their_operations_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transfers and bytes of random placements of clusters are those of the operations; times and phases add up."""
    monkeypatch.setattr(coarse, "SHARE", 1 / 64)
    problem, random = placement_problem(STEP), np.random.default_rng(3)
    items = items_of(problem, 4)
    found = coarse.clusters(problem, items)
    count = len(found.first)
    assert 8 < count < problem.operations / 2
    assert (found.of[found.first] == np.arange(count)).all()
    assert (found.items.time.sum(axis=0) == problem.time.sum(axis=0)).all()
    for _ in range(5):
        device = random.integers(0, problem.devices, count)
        assert weighs(found.items, device) == weighs(items, device[found.of])


def test_a_cluster_is_small_and_in_one_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for groups of C1, which stay whole."""
    monkeypatch.setattr(coarse, "SHARE", 1 / 64)
    problem = placement_problem(STEP)
    items = items_of(problem, 4)
    found, work = coarse.clusters(problem, items), problem.time.min(axis=1)
    most = {int(one): int(work[problem.group == one].sum()) for one in np.unique(problem.group)}
    assert (found.of[problem.group] == found.of).all()
    for c in range(len(found.first)):
        mine = np.flatnonzero(found.of == c)
        groups = set(problem.group[mine].tolist())
        assert work[mine].sum() <= work.sum() / 64 or len(groups) == 1 or max(most[g] for g in groups) > work.sum() / 64
        if len(groups) == len(mine):
            assert len(set(items.phases.phase[mine].tolist())) == 1


def test_clusters_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of four operations of 1 ns with tensors of 9, 1 and 8 bytes, at most half of the work each: the ends of
    the large tensors are together, and only the small tensor is still sent. What is within counts as weights."""
    monkeypatch.setattr(coarse, "SHARE", 1 / 2)
    problem = placement_problem(made([(1, 0, 9), (1, 0, 1), (1, 0, 8), (1, 0, 0)], [(0, 1), (1, 2), (2, 3)]))
    found = coarse.clusters(problem, items_of(problem, 1))
    assert found.of.tolist() == [0, 0, 1, 1] and found.first.tolist() == [0, 2]
    left = found.items.nets
    assert [left.touched[a:b].tolist() for a, b in pairwise(left.at.tolist())] == [[0], [0]]
    assert left.bytes.tolist() == nets(problem).bytes[[1]].tolist()
    assert found.items.time[:, 0].tolist() == [2, 2]
    assert found.items.allowed.all() and found.items.phases.phase.tolist() == [0, 0]


def test_partitions_stay_on_allowed_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours in large tensors that may run on different devices are in clusters of their own."""
    monkeypatch.setattr(partition, "LARGE_GRAPH", 1)
    monkeypatch.setattr(coarse, "SHARE", 1 / 2)
    joined = 0
    for seed in range(8):
        random, names = np.random.default_rng(seed), [f"d{d}" for d in range(3)]
        edges = [(a, b) for b in range(10) for a in range(b) if random.random() < 0.3]
        rows = [(int(random.integers(1, 9)), 0, int(random.integers(1, 50))) for _ in range(10)]
        kept = random.integers(0, 4, 10).tolist()  # the only device left out, or none
        forbidden = tuple(Forbidden(operation=f"v{v}", devices=(names[d],)) for v, d in enumerate(kept) if d < 3)
        problem = placement_problem(made(rows, edges, devices=3, forbidden=forbidden))
        allowed, every = problem.allowed, np.arange(10)
        found = coarse.clusters(problem, items_of(problem, 1))
        assert (allowed == allowed[found.first][found.of]).all()
        joined += len(found.first) < 10
        begin = allowed.argmax(axis=1).astype(np.int64)
        assert allowed[every, partition.partition(problem, units(problem), begin, seed, most=2_000)].all()
    assert joined > 4, joined


def test_a_partition_is_as_good_as_all_placements_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tiny instances, by all of these placements: single operations then only make it better."""
    monkeypatch.setattr(partition, "LARGE_GRAPH", 1)
    monkeypatch.setattr(coarse, "SHARE", 1 / 3)
    for seed in range(8):
        problem = placement_problem(random_instance(operations=6, devices=2, edges=0.4, seed=seed))
        items = items_of(problem, 1 + seed % 3)
        whole = coarse.clusters(problem, items)
        every = [np.array(p) for p in product(range(2), repeat=len(whole.first))]
        fine = [p[whole.of] for p in every if whole.items.allowed[np.arange(len(p)), p].all()]

        def weight(device: IntArray, items: Items = items) -> float:
            work = np.zeros((len(items.phases.share), 2), dtype=np.int64)
            np.add.at(work, (items.phases.phase, device), items.time[np.arange(len(device)), device])
            return weighs(items, device)[0] + 2.0 * np.maximum(0, work - items.phases.share[:, None]).sum()

        style = partition.Style(items.phases, 2.0)
        begin, made_ = fine[0], units(problem)
        found = [partition.partition(problem, made_, begin, draw, style=style) for draw in range(8)]
        assert all(problem.allowed[np.arange(problem.operations), one].all() for one in found)
        assert min(map(weight, found)) <= min(map(weight, fine)) + len(problem.storages) + 1


def test_what_is_better_is_told_but_for_a_while_after_a_check() -> None:
    state = ChainState(placement_problem(STEP))
    run = Run(STEP, SolveOptions(threads=1), check)
    turn, one = Turn(run, run.deadline), next(iter(state.singles()))[1]
    assert state.tell_better(turn, "partition", None) is None and run.best is None
    state.evaluate_and_keep(one)
    assert state.best is not None
    told = state.tell_better(turn, "partition", None)
    assert told == state.best[:2] and run.best is not None and run.best.objective == told[1]
    assert state.cost > 0 and PATIENCE > 1
    state.best, state.wait = (0, told[1] - 1, *state.best[2:]), float("inf")
    assert state.tell_better(turn, "partition", told) == told
    assert state.tell_better(turn, "partition", told, wait=False) == (0, told[1] - 1)


def test_partitions_of_a_large_graph_come_before_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, by the styles for large graphs; not where the user gives a start."""
    calls = list[str]()
    monkeypatch.setattr(siblings, "LARGE", 100)
    monkeypatch.setattr(siblings, "siblings", lambda state, turn: calls.append("siblings"))
    monkeypatch.setattr(chain, "best_of_partitions", lambda state, turn, *most: calls.append(f"partitions {most}"))
    monkeypatch.setattr("chipmap.methods.placement.rounds.MOVES", 2_000)
    solve(STEP, "placement/auto", SolveOptions(threads=1), isolate=False)
    assert calls == [f"partitions ({chain.BEFORE_SIBLINGS},)", "siblings"]
    solve(STEP, "placement/auto", SolveOptions(threads=1, warm_start="heft-units"), isolate=False)
    assert calls[2:] == ["partitions ()"]
