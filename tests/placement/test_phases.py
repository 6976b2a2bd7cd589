"""Phases of equal work, partitions that are even in each of them, and which style each partition has."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds.simple import heads_and_tails
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.partition import Style, partition
from chipmap.heuristics.placement.starts.phases import middle, path_windows, phases
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.styles import AGAIN, LATE, STYLES, Styles
from chipmap.methods.placement.subsets import within
from tests.placement.random_instances import made, random_instance

STEP = training_step("rnnlm", {"layers": 2, "steps": 4, "hidden": 64, "batch": 8, "vocabulary": 100}, devices=2)


def in_phases(problem: PlacementProblem, count: int, uneven: float) -> Style:
    """A style by the windows of a problem's operations."""
    return Style(phases(problem, middle(heads_and_tails(problem, Deadline())), count), uneven)


def test_phases_by_hand() -> None:
    """Operations of 2, 1, 1, 4 and 2 ns by rising moments 0, 0, 3, 4, 9: phases of 5 ns begin at 0 and at the last."""
    problem = placement_problem(made([(2, 0, 1), (1, 0, 1), (1, 0, 1), (4, 0, 1), (2, 0, 0)], []))
    found = phases(problem, np.array([4, 0, 3, 0, 9]), 2)
    assert found.phase.tolist() == [1, 0, 1, 0, 1]
    assert found.share.tolist() == [int(1.03 * 5 / 2)] * 2
    assert phases(problem, problem.order, 1).share.tolist() == [int(1.03 * 10 / 2)]


def test_phases_have_about_the_same_work_and_follow_each_other() -> None:
    problem = placement_problem(STEP)
    when = middle(heads_and_tails(problem, Deadline()))
    work = problem.time.min(axis=1)
    for count in (2, 5, 16):
        phase = phases(problem, when, count).phase
        of_each = np.bincount(phase, work, count)
        assert np.abs(np.cumsum(of_each) - work.sum() / count * np.arange(1, count + 1)).max() <= work.max()
        assert (np.diff(phase[np.argsort(when, kind="stable")]) >= 0).all()


def test_windows_of_large_graphs_are_longest_paths() -> None:
    """Against all paths of random small instances, each followed operation by operation."""
    for seed in range(30):
        problem = placement_problem(random_instance(operations=9, devices=2, edges=0.4, seed=seed))
        time = np.where(problem.allowed, problem.time, 10**12).min(axis=1).tolist()
        before: list[list[int]] = [[] for _ in time]
        for source, reader in zip(problem.storages.sources.tolist(), problem.storages.readers.tolist(), strict=True):
            before[reader].append(source)
        after = [[v for v, some in enumerate(before) if u in some] for u in range(len(time))]

        def longest(v: int, on: list[list[int]], time: list[int] = time) -> int:
            return max((time[u] + longest(u, on) for u in on[v]), default=0)

        windows = path_windows(problem)
        assert windows.head.tolist() == [longest(v, before) for v in range(len(time))]
        assert windows.tail.tolist() == [longest(v, after) for v in range(len(time))]
        assert windows.time.tolist() == time


def weight(problem: PlacementProblem, style: Style, devices: tuple[int, ...]) -> float:
    """Transfers in ns, each storage once to each other device that reads it, and what work above shares weighs."""
    weighs, storages, send = 0.0, problem.storages, problem.storages.time.mean(axis=1)
    for s, u in enumerate(storages.producer.tolist()):
        weighs += send[s] * len({devices[r] for r in storages.read_by(s)} - {devices[u]})
    work: Counter[tuple[int, int]] = Counter()
    for v, (b, d) in enumerate(zip(style.phases.phase.tolist(), devices, strict=True)):
        work[b, d] += int(problem.time[v, d])
    return weighs + style.uneven * sum(max(0, ns - int(style.phases.share[b])) for (b, _), ns in work.items())


def test_a_partition_is_as_good_as_the_best_of_all() -> None:
    """Of tiny instances, by all placements; the search rounds the means of transfers down."""
    for seed in range(12):
        problem = placement_problem(random_instance(operations=6, devices=2, edges=0.4, seed=seed))
        style = in_phases(problem, 1 + seed % 3, 2.0)
        fine = [p for p in product(range(2), repeat=problem.operations) if problem.allowed[range(len(p)), p].all()]
        begin = np.array(fine[0])
        found = [partition(problem, units(problem), begin, draw, style=style) for draw in range(3)]
        best = min(weight(problem, style, tuple(one.tolist())) for one in found)
        assert best <= min(weight(problem, style, p) for p in fine) + len(problem.storages) + 1e-6


def test_a_partition_is_even_in_each_phase() -> None:
    """Four operations that nothing precedes, then four that read them, all of 10 ns: two of each four on a device."""
    rows = [(10, 0, 0)] * 4 + [(10, 0, 0)] * 4
    problem = placement_problem(made(rows, [(v, 4 + v) for v in range(4)]))
    found = partition(problem, units(problem), np.zeros(8, dtype=np.int64), 1, style=in_phases(problem, 2, 4.0))
    assert sorted(found[:4].tolist()) == [0, 0, 1, 1] == sorted(found[4:].tolist())


def test_each_style_has_a_turn_then_the_best_two_take_turns() -> None:
    """On all devices and on fewer ones each by themselves."""
    problem = placement_problem(STEP)
    state = ChainState(problem)
    styles, (left, _) = Styles(state, Deadline()), within(problem, [0])
    device = np.zeros(problem.operations, dtype=np.int64)
    for one in (problem, left):
        drawn = [styles.next(one) for _ in STYLES]
        assert [(len(draw.style.phases.share), draw.style.uneven) for draw in drawn] == list(STYLES)
        assert len({draw.kind for draw in drawn}) == len(STYLES)
        for k, draw in enumerate(drawn):
            state.turned_starts[draw.kind] = (int(k == 1), (7 * k + 3) % 11, device, device)
        # steps 3, 10, 6, 2, 9, 5, 1, 8
        assert [drawn.index(styles.next(one)) for _ in range(4)] == [6, 3, 6, 3]
        state.turned_starts[drawn[6].kind] = (1, 0, device, device)
        assert {drawn.index(styles.next(one)) for _ in range(2)} == {0, 3}


def test_partitions_go_on_from_the_best_placement_in_phases_of_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each style had a turn: every second one, and the next one as well after a better one."""
    monkeypatch.setattr("chipmap.methods.placement.styles.LARGE", 1)
    problem = placement_problem(STEP)
    state = ChainState(problem)
    styles = Styles(state, Deadline())
    for devices in (np.zeros(problem.operations, dtype=np.int64), human.split(problem, "time", human.layers(problem))):
        state.evaluate_and_keep(devices)
    new = [styles.next(problem) for _ in STYLES]
    assert all(draw.begin is None for draw in new)
    for k, draw in enumerate(new):
        state.turned_starts[draw.kind] = (0, 10**12 + k, state.none, state.key)
    assert state.best is not None
    over, step, device, key = state.best
    drawn = [styles.next(problem) for _ in range(4)]
    assert [draw.kind for draw in drawn[1::2]] == [new[0].kind, new[1].kind]
    assert [len(drawn[k].style.phases.share) for k in (0, 2)] == list(AGAIN[:2])
    assert [drawn[k].style.late for k in (0, 2)] == list(LATE[:2])
    found, row = state.decoded(), np.arange(problem.operations)
    starts = np.array([found.start[one] for one in problem.names])
    when = 2 * starts + problem.time[row, device]
    for draw in (drawn[0], drawn[2]):
        assert draw.begin is not None and (draw.begin == device).all()
        phase = draw.style.phases.phase
        assert (np.diff(phase[np.argsort(when, kind="stable")]) >= 0).all() and phase.max() > 0
    assert styles.next(problem).begin is not None
    state.best = (over, step - 1, device, key)
    assert styles.next(problem).begin is not None
    assert styles.next(problem).begin is None


def test_a_partition_that_goes_on_keeps_a_good_placement() -> None:
    """With no temperature left but the last, an optimum of what is made smaller stays, by all placements."""
    for seed in range(8):
        problem = placement_problem(random_instance(operations=6, devices=2, edges=0.4, seed=seed))
        style = in_phases(problem, 1 + seed % 3, 2.0)._replace(late=0.999)
        fine = [p for p in product(range(2), repeat=problem.operations) if problem.allowed[range(len(p)), p].all()]
        best = min(fine, key=lambda p: weight(problem, style, p))
        found = partition(problem, units(problem), np.array(best), seed, style=style, most=2_000)
        least = weight(problem, style, best)
        assert weight(problem, style, tuple(found.tolist())) <= least + len(problem.storages) + 0.1 * max(1.0, least)
