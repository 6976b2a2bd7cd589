"""What comes out of a run: the critical chain, memory over time, tables, traces, device maps and pictures."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.instances.placement import PlacementInstance, PlacementSolution, Transfer
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import timeline
from chipmap.instances.trace_events import microseconds
from chipmap.records import InputError
from chipmap.report.placement.files import files
from chipmap.report.placement.plots import plot
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import Facts
from chipmap.validation.placement.memory import Placed, curve, held
from tests.placement.random_instances import made, tiny_instance

SMALL = {"steps": 4, "hidden": 64, "batch": 8, "vocabulary": 100}


def decoded(instance: PlacementInstance, random: Random) -> PlacementSolution:
    """The schedule of random devices."""
    problem = placement_problem(instance)
    device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
    work = workspace(problem)
    none = np.zeros(problem.operations, dtype=np.int64)
    assert simulate(tables(problem), device, default_keys(problem), False, none, NEVER, work) >= 0
    return schedule(problem, device, work)


def instances(count: int, seed: int) -> list[tuple[PlacementInstance, PlacementSolution]]:
    """Random tiny step-time instances with routes everywhere, and a schedule of each."""
    random, found = Random(seed), list[tuple[PlacementInstance, PlacementSolution]]()
    while len(found) < count:
        instance = tiny_instance(random)
        network = placement_problem(instance).network
        if placement_problem(instance).timed and (network.kind + np.eye(len(network.kind)) >= 0).all():
            found.append((instance, decoded(instance, random)))
    return found


def spans(data: bytes) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The complete events of a trace by track."""
    found = defaultdict(list)
    for event in json.loads(data)["traceEvents"]:
        if event["ph"] == "X":
            assert int(event["ts"] * 1000) == round(event["ts"] * 1000) == event["args"]["start_ns"]
            assert int(event["dur"] * 1000) == round(event["dur"] * 1000) == event["args"]["ns"]
            found[event["pid"], event["tid"]].append(event)
    return found


def test_microseconds_give_the_very_ns_rounded_or_cut_off() -> None:
    random = Random(1)
    for ns in [0, 1, 999, *(random.randrange(10 ** random.randint(1, 13)) for _ in range(20_000))]:
        assert int(microseconds(ns) * 1000) == round(microseconds(ns) * 1000) == ns


def test_the_chain_fills_the_step_and_says_what_was_waited_for() -> None:
    """On 300 random schedules the pieces go from 0 to T1 without overlap, and nothing that the decoder makes waits
    without a cause."""
    seen = set[tuple[str, str]]()
    for instance, solution in instances(300, 7):
        line = timeline(placement_problem(instance), solution)
        assert line.total == check(instance, solution).terms["T1"]
        at = 0
        for piece in line.chain:
            assert piece.start == at < piece.end
            assert piece.kind != "wait"
            at = piece.end
            seen.add((piece.kind, piece.behind))
            if piece.kind == "compute":
                assert (piece.start, piece.end) == (line.start[piece.operation], line.end[piece.operation])
        assert at == line.total
    assert seen >= {("compute", "input"), ("compute", "transfer"), ("compute", "device"), ("transfer", "channel")}
    assert ("rest", "") in seen


def test_the_hand_trace_of_a_bus() -> None:
    """a and b on device 0 are read on 1 and 2; the bus rests 25 µs behind the first transfer: T1 = 60 µs."""
    from chipmap.instances.placement import Links

    rows = [(10_000, 0, 76_000), (10_000, 0, 76_000), (5_000, 0, 0), (5_000, 0, 0)]
    links = Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000)
    instance = made(rows, [(0, 2), (1, 3)], devices=3, links=links)
    solution = PlacementSolution(
        devices={"v0": "d0", "v1": "d0", "v2": "d1", "v3": "d2"},
        start={"v0": 0, "v1": 10_000, "v2": 20_000, "v3": 55_000},
        transfers=(Transfer(tensor=0, to="d1", start=10_000), Transfer(tensor=1, to="d2", start=45_000)),
    )
    assert check(instance, solution).objective == 60_000
    chain = timeline(placement_problem(instance), solution).chain
    assert [(one.kind, one.time, one.behind) for one in chain] == [
        ("compute", 10_000, ""),
        ("transfer", 10_000, "input"),
        ("rest", 25_000, ""),
        ("transfer", 10_000, "channel"),
        ("compute", 5_000, "transfer"),
    ]


def test_a_wait_without_a_cause_is_one() -> None:
    instance = made([(10, 0, 0), (10, 0, 0)], [(0, 1)])
    solution = PlacementSolution(devices={"v0": "d0", "v1": "d0"}, start={"v0": 5, "v1": 20})
    chain = timeline(placement_problem(instance), solution).chain
    assert [(one.kind, one.time) for one in chain] == [("wait", 5), ("compute", 10), ("wait", 5), ("compute", 10)]


def test_memory_over_time_is_the_sum_of_what_is_held() -> None:
    """At each ns of 150 random schedules; peaks are the greatest of these, and the certificate says them."""
    limited = 0
    for instance, solution in instances(150, 8):
        placed = Placed(Facts(instance), solution)
        end = max(placed.end.values())
        figures = check(instance, solution).figures
        for name, there in held(placed).items():
            at = dict(curve(there))
            now, most = 0, 0
            for time in range(end + 1):
                now = at.get(time, now)
                exact = sum(h.bytes for h in there if h.start is None or h.start <= time < (h.end or 0))
                assert now == exact
                most = max(most, exact)
            assert placed.peaks[name].bytes == most
            if instance.task.memory != "none":
                limited += 1
                assert figures[f"peak_bytes {name}"] == most
    assert limited


def test_traces_nest_and_add_up() -> None:
    """Events of a track contain each other or are apart; those of the chain fill the step; each operation with a
    length is there once."""
    for instance, solution in [*instances(60, 9), (step := training_step("rnnlm", SMALL), decoded(step, Random(3)))]:
        t1, problem = check(instance, solution).terms["T1"], placement_problem(instance)
        found = spans(files(instance, solution)["trace.json"])
        whole, *pieces = found[1, 0]
        assert (whole["args"]["start_ns"], whole["args"]["ns"]) == (0, t1) == (0, sum(p["args"]["ns"] for p in pieces))
        for events in found.values():
            stack: list[int] = []
            for event in sorted(events, key=lambda e: (e["args"]["start_ns"], -e["args"]["ns"], e["cat"] != "scope")):
                begin, end = event["args"]["start_ns"], event["args"]["start_ns"] + event["args"]["ns"]
                while stack and stack[-1] <= begin:
                    stack.pop()
                assert not stack or end <= stack[-1]
                stack.append(end)
        shown = [e["name"] for (process, _), events in found.items() if process == 2 for e in events if
                 e["cat"] == "compute"]  # fmt: skip
        line = timeline(problem, solution)
        assert sorted(shown) == sorted(n for n, a, b in zip(problem.names, line.start, line.end, strict=True) if b > a)
        arrows = defaultdict(list)
        for event in json.loads(files(instance, solution)["trace.json"])["traceEvents"]:
            if event["ph"] in "sf":
                arrows[event["id"]].append(event)
        assert all([e["ph"] for e in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"] for pair in arrows.values())


def test_the_schedule_as_a_table_is_the_solution() -> None:
    for instance, solution in instances(40, 10):
        rows = list(csv.DictReader(io.StringIO(files(instance, solution)["schedule.csv"].decode())))
        starts = {row["name"]: int(row["start_ns"]) for row in rows if row["what"] == "operation"}
        assert starts == solution.start
        assert {row["name"]: row["place"] for row in rows if row["what"] == "operation"} == solution.devices
        assert len([row for row in rows if row["what"] == "transfer"]) == len(solution.transfers)
        assert (
            max(int(row["end_ns"]) for row in rows if row["what"] == "operation") == check(instance, solution).objective
        )


def read_map(found: dict[str, Any], parts: list[str]) -> Any:
    """The device of an operation by a device map: that of the longest key that its parts begin with."""
    keys = [".".join(parts[:k]) for k in range(len(parts) + 1)]
    return next(found[key] for key in reversed(keys) if key in found)


def test_device_maps_give_each_operation_its_device() -> None:
    instance = training_step("rnnlm", SMALL, devices=3)
    problem, random = placement_problem(instance), Random(2)
    for share in (0.0, 0.1, 0.7):
        of = {name: random.randrange(3) if random.random() < share else 1 for name in problem.names}
        solution = PlacementSolution(devices={name: f"gpu{d}" for name, d in of.items()})
        from chipmap.plans.device_map.placement import device_map

        found = json.loads(device_map(problem, solution))
        for v, name in enumerate(problem.names):
            if v not in problem.backward:
                assert read_map(found, name.replace("/", ".").split(".")) == of[name]
        assert share or found == {"": 1}


def test_device_maps_follow_the_modules_of_the_file() -> None:
    """Names say nothing here; scopes do. A host is ``cpu``."""
    from chipmap.instances.placement import Device, DeviceClass, Links, System
    from chipmap.plans.device_map.placement import device_map

    kinds = (DeviceClass(name="gpu"), DeviceClass(name="cpu"))
    machines = (Device(name="a", kind="cpu"), Device(name="b", kind="gpu"), Device(name="c", kind="gpu"))
    system = System(classes=kinds, devices=machines, links=Links())
    rest = {"system": system, "time_ns": {}, "scopes": ("blocks.0.attn", "blocks.0.mlp", "blocks.1", "head")}
    instance = made([(1, 0, 1)] * 4, [(0, 1), (1, 2), (2, 3)]).replace(**rest)
    instance.check()
    problem = placement_problem(instance)
    solution = PlacementSolution(devices={"v0": "b", "v1": "b", "v2": "c", "v3": "a"})
    assert json.loads(device_map(problem, solution)) == {"blocks.0": 0, "blocks.1": 1, "head": "cpu"}
    solution = PlacementSolution(devices={"v0": "b", "v1": "c", "v2": "c", "v3": "a"})
    found = json.loads(device_map(problem, solution))
    assert found == {"blocks.0.attn": 0, "blocks.0.mlp": 1, "blocks.1": 1, "head": "cpu"}


def test_loads_are_those_of_the_checker() -> None:
    random, seen = Random(6), set[bool]()
    while len(seen) < 2 or random.random() > 0.01:
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        if problem.timed:
            continue
        choice = {v: random.choice(np.flatnonzero(problem.allowed[v]).tolist()) for v in range(problem.operations)}
        devices = {problem.names[v]: problem.device_names[d] for v, d in choice.items()}
        solution = PlacementSolution(devices=devices)
        found = loads(problem, solution)
        assert max(one.total for one in found) == check(instance, solution).terms["T2"]
        assert set(files(instance, solution)) == {"device_map.json", "schedule.csv"}
        seen.add(instance.task.overlap)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_of_all_kinds_are_written(tmp_path: Path, suffix: str) -> None:
    instance, solution = instances(1, 3)[0]
    plot(instance, solution, tmp_path / f"a.{suffix}")
    assert (tmp_path / f"a.{suffix}").stat().st_size > 5_000
    with pytest.raises(InputError, match="no such plot format"):
        plot(instance, solution, tmp_path / "a.txt")


def test_pictures_of_hundreds_of_operations_and_of_loads(tmp_path: Path) -> None:
    step = training_step("gnmt", SMALL, devices=8)
    plot(step, decoded(step, Random(1)), tmp_path / "large.png")
    tiny = made([(3, 1, 2), (2, 1, 2)], [(0, 1)], task={"objective": "throughput", "memory": "static"})
    plot(tiny, PlacementSolution(devices={"v0": "d0", "v1": "d1"}), tmp_path / "loads.png")
    assert {path.name for path in tmp_path.iterdir()} == {"large.png", "loads.png"}


def test_schedules_of_something_else_are_named(tmp_path: Path) -> None:
    instance, other = made([(1, 0, 1), (1, 0, 1)], [(0, 1)]), PlacementSolution(devices={"x": "d0"}, start={"x": 0})
    assert files(instance, other) == {}
    with pytest.raises(InputError, match="operation 'v0' has no device"):
        plot(instance, other, tmp_path / "a.png")
    late = PlacementSolution(devices={"v0": "d0", "v1": "d0"}, start={"v0": 0})
    with pytest.raises(InputError, match="operation 'v1' has no start"):
        plot(instance, late, tmp_path / "a.png")
    moved = PlacementSolution(
        devices={"v0": "d0", "v1": "d0"}, start={"v0": 0, "v1": 1}, transfers=(Transfer(tensor=9, to="d1", start=0),)
    )
    with pytest.raises(InputError, match="tensor 9"):
        plot(instance, moved, tmp_path / "a.png")
