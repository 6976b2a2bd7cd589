"""Weights that live on the host (``task.fetch_bytes_per_ns``): by hand, by brute force from the page, by all models."""

from __future__ import annotations

import csv
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap import SolveOptions, explain, solve
from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.family import get_family
from chipmap.formulations.placement import cpsat, mip
from chipmap.heuristics.placement.keeping import knapsack
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.offload import plain
from chipmap.plans.emission import listed
from chipmap.records import InputError
from chipmap.report.placement.files import files
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import candidates
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.page import Judge, Page
from tests.placement.random_instances import CHAIN, made


def tiny(random: Random) -> PlacementInstance:
    """Two to four operations on one or two devices whose memories bind, some without time or without weights."""
    timed, operations = random.random() < 0.6, random.randint(2, 4)
    task: dict[str, Any] = {"memory": random.choice(("live", "live", "static"))}
    if not timed:
        operations = random.randint(2, 4)
        task = {"objective": "throughput", "memory": "static", "contiguous": random.random() < 0.4}
        task["overlap"] = random.random() < 0.3
    instance = random_instance(
        operations=operations,
        devices=1 if timed and operations == 4 else random.choice((1, 2, 2)),
        classes=random.choice((1, 1, 2)),
        links=random.choice(("pair", "duplex")),
        edges=random.choice((0.3, 0.7)),
        together=random.choice((0, 0, 2)),
        seed=random.randrange(10**6),
        task=task | {"fetch_bytes_per_ns": random.choice((0.7, 2.0, 7.6, 50.0))},
    )
    graph = instance.graph
    listed = [one.replace(weight_bytes=random.choice((0, *range(2, 24)))) for one in graph.operations]
    weights, others = sum(one.weight_bytes for one in listed), sum(one.bytes for one in graph.tensors)
    most = max(one.weight_bytes for one in listed)
    machines = [
        one.replace(memory_bytes=int(most + random.uniform(0.3, 1.0) * others + random.uniform(0.0, 0.5) * weights))
        for one in instance.system.devices
    ]
    times = {
        kind: tuple(0.0 if random.random() < 0.15 else time for time in some) for kind, some in instance.time_ns.items()
    }
    return instance.replace(
        graph=graph.replace(operations=tuple(listed)),
        system=instance.system.replace(devices=tuple(machines)),
        time_ns=times,
    )


def test_brute_force_checker_models_and_auto_agree() -> None:
    random, seen, fetch = Random(7), set[tuple[bool, bool]](), 0
    for _ in range(of_all(160, few=6)):
        instance = tiny(random)
        instance.check()
        page, best, without = Page(instance), None, None
        for one in candidates(instance):
            verdict, theirs = Judge(page, one).verdict(), check(instance, one)
            assert {violation.label for violation in theirs.violations} == verdict.broken
            assert theirs.objective == verdict.objective
            if not verdict.broken:
                assert verdict.objective is not None
                best = min(verdict.objective, verdict.objective if best is None else best)
                if one.fetched:
                    other = check(*plain(instance, one))
                    assert (other.objective, other.feasible) == (verdict.objective, True)
                else:
                    without = min(verdict.objective, verdict.objective if without is None else without)
        seen.add((best is None, without is None))
        fetch += best != without
        for build, solver in ((mip.build, "highs"), (cpsat.build, "cpsat")):
            outcome = solve_model(build(instance), SolveRequest(time_limit=60.0, threads=1), solver)
            assert outcome.termination.reason == ("infeasible" if best is None else "optimal")
            assert best is None or outcome.objective == pytest.approx(best, rel=1e-6)
        for method in ("auto",):
            found = solve(instance, method, SolveOptions(threads=1, deterministic=True))
            assert (found.objective, found.status) == (best, "infeasible" if best is None else "optimal")
    assert fetch and {(False, False), (False, True)} <= seen


def test_fetched_weights_by_hand() -> None:
    """Three operations in a row with 10 bytes of weights each; the first one fetches its own, at 2 bytes per ns."""
    rows = [(4, 10, 1), (4, 10, 1), (4, 10, 1)]
    task = {"memory": "live", "fetch_bytes_per_ns": 2.0}
    instance = made(rows, CHAIN, 1, memory=32, task=task)
    devices = dict.fromkeys(("v0", "v1", "v2"), "d0")
    all_there = PlacementSolution(devices=devices, start={"v0": 0, "v1": 4, "v2": 8})
    fetching = all_there.replace(start={"v0": 0, "v1": 9, "v2": 13}, fetched=("v0",))
    assert (check(instance, all_there).objective, check(instance, all_there).feasible) == (12, True)
    certificate = check(instance, fetching)
    # v0 holds 10 fetched bytes while it runs, then only its output
    assert (certificate.objective, certificate.figures["peak_bytes d0"]) == (17, 31.0)
    static = instance.replace(task=instance.task.replace(memory="static"))
    assert check(static, fetching).figures["peak_bytes d0"] == 33.0
    assert [one.label for one in check(instance, fetching.replace(fetched=("v0", "v0"))).violations] == ["C0"]
    off = instance.replace(task=instance.task.replace(fetch_bytes_per_ns=None))
    assert [one.label for one in check(off, fetching).violations] == ["C0"]


def test_what_is_refused() -> None:
    for change, said in (({"memory": "none"}, "saves memory"), ({"weights": "variable"}, "holds alone")):
        with pytest.raises(InputError, match=said) as met:
            made([(1, 1, 1)], [], 1, memory=9, task={"fetch_bytes_per_ns": 1.0} | change)
        assert met.value.where == "task.fetch_bytes_per_ns"


def test_a_run_says_what_is_fetched() -> None:
    """Files, the explanation and the Chrome trace count the time of fetching; other plans refuse."""
    rows = [(4, 10, 1), (4, 10, 1), (4, 10, 1)]
    instance = made(rows, CHAIN, 1, memory=31, task={"memory": "live", "fetch_bytes_per_ns": 2.0})
    result = solve(instance, "auto", SolveOptions(threads=1, deterministic=True))
    solution = PlacementSolution.make(**(result.solution or {}))
    assert len(solution.fetched) == 1 and result.objective == 17
    made_files = files(instance, solution)
    assert "device_map.json" not in made_files
    ends = {row["name"]: int(row["end_ns"]) for row in csv.DictReader(made_files["schedule.csv"].decode().splitlines())}
    assert max(ends.values()) == 17
    refused = {form.name: why for form, why in listed(get_family("placement"), instance, solution)}
    assert refused.pop("chrome-trace") is None
    assert all("fetch their weights" in (why or "") for why in refused.values())
    told = explain(instance, solution, options=SolveOptions(threads=1, time_limit=3.0))
    (said,) = (one for one in told.statements if one.topic == "fetched")
    assert said.figures == {"operations": 1, "bytes": 10, "ns": 5}


def test_other_methods_fetch_what_their_start_fetches() -> None:
    rows = [(4, 10, 1), (4, 10, 1), (4, 10, 1)]
    instance = made(rows, CHAIN, 1, memory=31, task={"memory": "live", "fetch_bytes_per_ns": 2.0})
    options = SolveOptions(threads=1, deterministic=True)
    found = solve(instance, "heft", options)
    assert found.objective is None and found.status == "unknown"
    assert any("fetches nothing" in note.text for note in found.notes)


def test_a_knapsack_keeps_what_saves_most() -> None:
    """Beside all choices: exact where no byte is rounded."""
    random = Random(3)
    for _ in range(40):
        sizes = np.array([random.randint(1, 9) for _ in range(random.randint(1, 7))])
        values, room = np.array([random.randint(1, 9) for _ in sizes]), random.randint(0, 30)
        picks = [list(pick) for n in range(len(sizes) + 1) for pick in combinations(range(len(sizes)), n)]
        best = max(int(values[pick].sum()) for pick in picks if sizes[pick].sum() <= room)
        kept = knapsack(sizes, values, room)
        assert sizes[kept].sum() <= room and values[kept].sum() == best


def test_a_knapsack_stops_where_the_work_around_it_must_end() -> None:
    """It looks between two items: 10,000 of them take a second."""
    sizes, values, looks = np.full(50, 5, dtype=np.int64), np.arange(50, dtype=np.int64), list[int]()

    def ended() -> StopReason | None:
        looks.append(1)
        return "interrupted" if len(looks) > 10 else None

    with Deadline(ended=ended).heeded(), pytest.raises(Stop, match="interrupted"):
        knapsack(sizes, values, 100)
    assert len(looks) == 11
