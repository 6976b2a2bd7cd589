"""Pieces of other placements that a search takes over, against the page's words and the decoder."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.placement import relinking
from chipmap.methods.placement.chain_state import ChainState, Placed
from tests.placement.random_instances import tiny_instance


def random_devices(problem: PlacementProblem, random: Random) -> IntArray:
    """A device for each group that all of its operations may run on."""
    found = np.zeros(problem.operations, dtype=np.int64)
    for group in np.unique(problem.group):
        members = np.flatnonzero(problem.group == group)
        fine = np.flatnonzero(problem.allowed[members].all(axis=0)).tolist()
        found[members] = random.choice(fine or [0])
    return found


def connected(problem: PlacementProblem, one: IntArray, other: IntArray) -> list[set[int]]:
    """The pieces by the page: operations with the same two devices, joined by groups and by what they read."""
    storages = problem.storages
    pairs = [(s, v) for s in range(len(storages)) for v in storages.read_by(s)]
    links = [{int(storages.producer[s]), v} for s, v in pairs]
    links = [link for link in links if len({(int(one[v]), int(other[v])) for v in link}) == 1]
    links += [set(np.flatnonzero(problem.group == group).tolist()) for group in np.unique(problem.group)]
    made = [{v} for v in range(problem.operations)]
    for link in links:
        met = [piece for piece in made if piece & link]
        made = [piece for piece in made if not piece & link] + [set[int]().union(*met)]
    return made


def cases(count: int, seed: int) -> list[tuple[ChainState, list[Placed]]]:
    """States of random instances, each with three placements that have all routes."""
    random, found = Random(seed), list[tuple[ChainState, list[Placed]]]()
    while len(found) < count:
        problem = placement_problem(tiny_instance(random))
        if not problem.timed or problem.devices == 1 or not problem.operations:
            continue
        state = ChainState(problem)
        devices = [random_devices(problem, random) for _ in range(3)]
        placed = [one for one in (state.placed(each, state.key, state.work) for each in devices) if one is not None]
        if len(placed) == 3:
            found.append((state, placed))
    return found


def test_pieces_are_connected_and_move_alike() -> None:
    """200 random pairs of placements against a union by sets."""
    whole = 0
    for state, placed in cases(200, 1):
        one, other = placed[0][2], placed[1][2]
        piece = relinking.pieces(state.problem, one, other)
        expected = connected(state.problem, one, other)
        assert {v: min(some) for some in expected for v in some} == dict(enumerate(piece.tolist()))
        whole += any(len(some) > 1 and one[min(some)] != other[min(some)] for some in expected)
    assert whole > 20


def test_relinking_takes_over_what_makes_the_step_no_longer() -> None:
    """300 random instances: never worse, devices that one of the placements has, and the keys of the best. What isn't
    taken over of a single other placement makes the step longer, if nothing is."""
    better = kept = 0
    for state, placed in cases(300, 2):
        best, problem = min(placed, key=lambda one: one[:2]), state.problem
        for others in (placed, *([one] for one in placed)):
            over, step, devices, key = relinking.relinked(state, best, others, Deadline())
            better += (over, step) < best[:2]
            again = state.placed(devices, key, state.work)
            assert (over, step) <= best[:2] and again is not None and again[:2] == (over, step)
            assert (key == best[3]).all() and (devices == devices[problem.group]).all()
            assert (np.stack([best[2], *(one[2] for one in others)]) == devices).any(axis=0).all()
            assert not problem.apart or (devices == best[2]).all()
            if len(others) > 1 or problem.apart or (devices != best[2]).any():
                continue
            kept += 1
            for some in connected(problem, devices, others[0][2]):
                tried = devices.copy()
                tried[sorted(some)] = others[0][2][sorted(some)]
                found = state.placed(tried, key, state.work)
                assert (tried == devices).all() or found is None or found[:2] > (over, step)
    assert better > 50 and kept > 50


def test_relinking_ends_with_its_time_and_its_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time it gives the best back; it simulates so many operations at most."""
    for state, placed in cases(20, 3):
        best = min(placed, key=lambda one: one[:2])
        assert relinking.relinked(state, best, placed, Deadline.after(0.0)) is best and state.simulated == 0
        with monkeypatch.context() as patch:
            patch.setattr(relinking, "SIMULATED", 2 * state.problem.operations)
            relinking.relinked(state, best, placed, Deadline())
        assert state.simulated <= 2
