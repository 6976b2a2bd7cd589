"""Starts, memory and annealing against the checker, on training steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from benchmarks.determinism import compared
from chipmap import solve
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.search.annealing import anneal, annealing_state, seed_with
from chipmap.heuristics.placement.search.slack import slack_for
from chipmap.heuristics.placement.search.units import FITTING, SHARES, STEPS, units
from chipmap.heuristics.placement.siblings.roles import roles
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace, workspaces
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.list_scheduling import room
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain import start
from chipmap.methods.placement.chain_state import ChainState
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT
from tests.placement.random_instances import tiny_instance

SMALL = {"steps": 4, "hidden": 64, "batch": 8, "vocabulary": 100}


def test_bytes_beyond_memory_are_those_of_the_checker() -> None:
    """300 random instances and placements: the sum of the violations of C6, for memory over time and static."""
    random, compared = Random(4), set[tuple[str, bool]]()
    for _ in range(300):
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        if not problem.timed:
            continue
        device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        work, flat = workspace(problem), tables(problem)
        none = np.zeros(problem.operations, dtype=np.int64)
        simulate(flat, device, default_keys(problem), False, none, NEVER, work)
        violations = check(instance, schedule(problem, device, work)).violations
        expected = sum(one.amount for one in violations if one.label == "C6")
        assert excess(flat, bytes_of(problem), device, work) == expected
        compared.add((instance.task.memory, expected > 0))
    assert {("live", True), ("live", False), ("static", True), ("static", False)} <= compared


def test_units_keep_groups_together_and_below_their_share() -> None:
    problem = placement_problem(training_step("gnmt", SMALL, devices=4))
    made = units(problem)
    work = problem.time.min(axis=1)
    for level, share in enumerate(SHARES):
        assert all(len(set(made.unit[level][members].tolist())) == 1 for members in problem.groups)
        for unit in np.unique(made.unit[level]):
            members = made.members[level][made.at[level, unit] : made.at[level, unit + 1]]
            assert (made.unit[level][members] == unit).all()
            groups = {int(problem.group[v]) for v in members}
            assert len(groups) == 1 or work[members].sum() <= share * work.sum()


def test_runs_are_of_one_role_and_of_successive_steps() -> None:
    """Further levels where much repeats: groups stay whole, members stand in an order of the graph, and a run has at
    most so many steps; what repeats nothing is alone."""
    problem = placement_problem(training_step("rnnlm", {"layers": 2, "steps": 24}, devices=2))
    repeated = roles(problem)
    assert repeated is not None and repeated.near >= FITTING
    made = units(problem, repeated)
    place, several = np.empty(problem.operations, dtype=np.int64), 0
    place[problem.order] = np.arange(problem.operations)
    assert len(made.at) == len(SHARES) + len(STEPS) and (made.unit[: len(SHARES)] == units(problem).unit).all()
    for level, steps in enumerate(STEPS, len(SHARES)):
        assert sorted(made.members[level].tolist()) == list(range(problem.operations))
        assert all(len(set(made.unit[level][members].tolist())) == 1 for members in problem.groups)
        for unit in np.unique(made.unit[level]):
            members = made.members[level][made.at[level, unit] : made.at[level, unit + 1]]
            assert (made.unit[level][members] == unit).all() and (np.diff(place[members]) > 0).all()
            leaders = np.unique(problem.group[members])
            assert len(set(repeated.role[leaders].tolist())) == 1
            assert len(leaders) == 1 or (repeated.part[leaders] >= 0).all()
            assert np.ptp(repeated.step[leaders]) < steps
            several += len(leaders) > 1
    assert several > 100


def test_nothing_but_groups_and_tensors_makes_units_where_little_repeats() -> None:
    problem = placement_problem(training_step("rnnlm", {"layers": 2, "steps": 24}, devices=2))
    repeated = roles(problem)
    assert repeated is not None
    assert len(units(problem, repeated._replace(near=FITTING / 2)).at) == len(SHARES)


@pytest.mark.parametrize(("network", "devices"), [("gnmt", 4), ("rnnlm", 2)])
def test_annealing_keeps_what_it_says_and_is_reproducible(network: str, devices: int) -> None:
    """The best value is that of its devices and keys by the checker, and the same seed gives the same."""
    instance = training_step(network, SMALL, devices=devices)
    problem = placement_problem(instance)
    flat, work, key = tables(problem), workspace(problem), default_keys(problem)
    none, found = np.zeros(problem.operations, dtype=np.int64), list[tuple[int, list[int]]]()
    device = starts.heft(problem, flat)
    first = int(simulate(flat, device, key, False, none, NEVER, work))
    for _ in range(2):
        now = annealing_state(device, key, first, 0)
        seed_with(3)
        temperature = (first * 1e-2, first * 1e-4)
        anneal(
            flat,
            bytes_of(problem),
            units(problem),
            problem.allowed,
            none,
            now,
            workspaces(problem, 5),
            slack_for(problem),
            temperature,
            2_000,
        )
        found.append((int(now.value[2]), now.best_device.tolist()))
        step = simulate(flat, now.best_device, now.best_key, False, none, NEVER, work)
        certificate = check(instance, schedule(problem, now.best_device, work))
        assert certificate.feasible and certificate.objective == step == now.value[2] < first
    assert found[0] == found[1]


PROCESS = """
import sys
from chipmap import SolveOptions, solve
from chipmap.instances.placement.generators import random_instance
instance = random_instance(operations=40, devices=3, links="bus", edges=0.06, gap_ns=2, memory=0.5, seed=4)
found = solve(instance, "placement/search", SolveOptions(deterministic=True, threads=int(sys.argv[1])))
print(found.objective, found.bound, found.solution)
"""


def test_deterministic_search_is_the_same_in_every_process() -> None:
    """Whatever the hash seed and the number of threads."""
    found = set()
    for seed, threads in (("0", "1"), ("77", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "NUMBA_NUM_THREADS": threads}
        command = [sys.executable, "-c", PROCESS, threads]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1 and "v39" in found.pop()


def test_deterministic_archives_are_equal(tmp_path: Path) -> None:
    """A training step, annealed by number of simulations: two commands with other hash
    seeds, in other folders, leave the same files but for seconds."""
    file = tmp_path / "step.json"
    file.write_bytes(training_step("rnnlm", SMALL | {"steps": 1}, devices=3).to_json())
    assert compared(str(file), "placement/auto", 600.0).startswith("equal (")


def test_two_lanes_find_what_the_checker_accepts() -> None:
    """With a time limit and two threads, up to the first find of an annealing; bounds of one lane hold for it."""

    def listener(event: TraceEvent, run: Run) -> None:
        run.interrupted |= event.source == "annealing"

    instance = training_step("gnmt", SMALL, devices=4)
    found = solve(instance, time_limit=600.0, threads=2, isolate=False, listener=listener)
    assert found.objective is not None and found.bound is not None and found.objective >= found.bound
    assert [note.data["simulated"] > 0 for note in found.notes if note.kind == "search"] == [True]


@pytest.mark.parametrize("start", [starts.heft, etf])
def test_starts_respect_memory_where_they_can(start: object) -> None:
    """With 1.3 times the bytes that all need, weights and outputs fit on each of four devices."""
    free = placement_problem(training_step("gnmt", SMALL, devices=4))
    total = int(free.weights.sum() + free.storages.bytes.sum())
    limit = 13 * total // 40
    problem = placement_problem(training_step("gnmt", SMALL, devices=4, memory_bytes=limit, task={"memory": "static"}))
    device: IntArray = start(problem, tables(problem))  # type: ignore[operator]
    need, _ = room(problem, problem.group)
    assert max(np.bincount(device, need[problem.group] * (problem.group == np.arange(len(device))))) <= limit


def test_the_search_begins_with_a_warm_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The incumbent is among the starts: without others it is the best, and nothing worse takes its place."""
    instance = training_step("gnmt", SMALL, devices=2)
    problem = placement_problem(instance)
    device = np.take(np.arange(problem.operations) % 2, problem.group).astype(np.int64)
    work = workspace(problem)
    none = np.zeros(problem.operations, dtype=np.int64)
    simulate(tables(problem), device, default_keys(problem), False, none, NEVER, work)
    run = Run(instance, SolveOptions(), check)
    assert run.solution(schedule(problem, device, work), "given").feasible
    alone, all_starts = ChainState(problem), ChainState(problem)
    monkeypatch.setattr(alone, "starts", lambda deadline: iter(()))
    start(alone, Turn(run, run.deadline))
    assert alone.best is not None and alone.best[2].tolist() == device.tolist()
    start(all_starts, Turn(run, run.deadline))
    assert all_starts.best is not None and all_starts.best[:2] <= alone.best[:2]
