"""Plans of devices for the step time: decoded by the page's rules, certified, and the rule is said."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap import check as judged
from chipmap.family import get_family
from chipmap.heuristics.placement.simulation.rules import decoded
from chipmap.inputs.solutions import read_solution
from chipmap.instances.placement import PlacementInstance, PlacementSolution, Route, System
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.splits import named_in_table
from chipmap.records import InputError
from chipmap.report.placement.files import files
from chipmap.validation.placement.checker import check
from tests.cli.conftest import Command
from tests.cli.conftest import chipmap as chipmap
from tests.placement.random_instances import LINKS, made, tiny_instance

FAMILY = get_family("placement")
RULES = {"minus the upward rank", "topological positions", "ready times"}


def chain() -> PlacementInstance:
    """4 ns, a transfer, 5 ns, a transfer, 3 ns."""
    return made([(4, 1, 3), (5, 2, 2), (3, 1, 0)], [(0, 1), (1, 2)])


def plan_of(folder: Path, name: str, data: Any) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def all_forms(of: dict[str, str]) -> dict[str, Any]:
    """A plan as everything that says who is where."""
    rows = [f"{name},{device}" for name, device in of.items()]
    return {
        "map.json": {name: int(device[1:]) for name, device in of.items()},
        "names.json": of,
        "whole.json": {"devices": of},
        "mapping.csv": "\n".join(["operation,device", *rows]),
        "other.csv": "\n".join(["name;place", *(row.replace(",", ";") for row in rows)]) + "\n",
    }


def test_a_plan_in_each_form_is_the_same_schedule(tmp_path: Path) -> None:
    instance = chain()
    of = {"v0": "d0", "v1": "d1", "v2": "d1"}
    sent = -(-3 // 1) if LINKS.bytes_per_ns is None else LINKS.latency_ns + 3 / LINKS.bytes_per_ns
    for name, data in all_forms(of).items():
        solution = read_solution(plan_of(tmp_path, name, data), FAMILY, instance)
        assert isinstance(solution, PlacementSolution) and solution.devices == of and solution.keys in RULES
        certificate = check(instance, solution)
        assert certificate.feasible and certificate.objective == 4 + int(np.ceil(sent)) + 5 + 3
        assert solution.keys in certificate.headline


def test_the_schedule_that_a_run_writes_is_a_plan_as_well(tmp_path: Path) -> None:
    instance = chain()
    solution = read_solution(plan_of(tmp_path, "a.json", {"v0": 0, "v1": 1, "v2": 0}), FAMILY, instance)
    assert isinstance(solution, PlacementSolution)
    written = files(instance, solution)
    for name in ("schedule.csv", "device_map.json"):
        again = read_solution(plan_of(tmp_path, name, written[name].decode()), FAMILY, instance)
        assert again == solution


def test_plans_are_valid_whenever_their_devices_are() -> None:
    """Random tiny instances: what the decoder makes of allowed devices breaks nothing but what devices alone decide."""
    random, seen = Random(7), 0
    while seen < 60:
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        network = problem.network
        if not problem.timed or (network.kind + np.eye(len(network.kind)) < 0).any():
            continue
        seen += 1
        devices = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        solution = decoded(problem, devices)
        labels = {one.label for one in check(instance, solution).violations}
        assert labels <= {"C0", "C1", "C6"}, labels
        late = instance.task.limit_ns is not None
        assert late or "C0" not in labels


def test_the_shortest_schedule_that_fits_is_taken() -> None:
    """Two branches on one device, the long one behind the position of the short one: the upward rank goes first there;
    of two alike the first rule counts."""
    instance = made([(1, 0, 1), (9, 0, 1), (9, 0, 1)], [(1, 2)])
    problem = placement_problem(instance)
    solution = decoded(problem, np.array([0, 0, 1]))
    assert solution.keys == "minus the upward rank" and solution.start["v1"] == 0
    alike = decoded(problem, np.array([0, 0, 0]))
    assert alike.keys == "minus the upward rank"


def test_commands_take_plans(tmp_path: Path, chipmap: Command) -> None:
    instance = chain()
    path = tmp_path / "chain.json"
    path.write_bytes(instance.to_json())
    of = {"v0": "d1", "v1": "d0", "v2": "d1"}
    objectives = set()
    for name, data in all_forms(of).items():
        plan = plan_of(tmp_path, name, data)
        done = chipmap("check", path, plan, "--format", "json")
        assert done.code == 0 and done.json["feasible"] and "its starts are the decoder's, by" in done.json["headline"]
        objectives.add(done.json["objective"])
        assert "its starts are the decoder's" in chipmap("check", path, plan).out
    assert len(objectives) == 1
    done = chipmap("solve", path, "--method", "placement/one-device", "--warm-start", plan)
    assert done.code == 0 and f"the warm start {plan.name} is a plan of devices" in done.err


def test_python_takes_plans_as_mappings() -> None:
    instance = chain()
    for given in ({"v0": 0, "v1": 1, "v2": 1}, {"v0": "d0", "v1": "d1", "v2": "d1"}):
        certificate = judged(instance, given)
        assert certificate.feasible and "a plan of devices" in certificate.headline


def test_a_table_may_number_devices_and_have_spaces() -> None:
    problem = placement_problem(chain())
    found = named_in_table(b"name, place\nv0, 0\n v1 ,1 \nv2, d1\n", "plan.csv", problem)
    assert found == {"v0": "d0", "v1": "d1", "v2": "d1"}
    with pytest.raises(InputError, match=r"2 is no device\n +Give 0 to 1"):
        named_in_table(b"name,place\nv0,2\n", "plan.csv", problem)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", {"v0": 0, "v1": 0}, "'v2' is on no device"),
        ("a.json", {"v0": 0, "v1": 7, "v2": 0}, "7 is no device"),
        ("mapping.csv", "operation,device\nv0,d0\nv1,d0\n", "'v2' is on no device"),
        ("mapping.csv", "operation,device\nv9,d0\n", "no operation is called 'v9'"),
        ("mapping.csv", "operation,device\nv0\n", "has 1 cells"),
        ("mapping.csv", "operation,device\nv0,d0\nv0,d1\n", "is on 'd0' already"),
        ("mapping.csv", "operation,device\nv0,mars\nv1,d0\nv2,d0\n", "'mars' is no device"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, name: str, data: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_solution(plan_of(tmp_path, name, data), FAMILY, chain())


def test_a_plan_without_a_route_is_named(tmp_path: Path) -> None:
    instance = chain()
    routes = (Route(source="d0", target="d1", bytes_per_ns=1.0),)
    system = instance.system
    one_way = instance.replace(system=System(classes=system.classes, devices=system.devices, links=None, routes=routes))
    assert read_solution(plan_of(tmp_path, "a.json", {"v0": 0, "v1": 1, "v2": 1}), FAMILY, one_way)
    with pytest.raises(InputError, match="no route leads there"):
        read_solution(plan_of(tmp_path, "b.json", {"v0": 1, "v1": 0, "v2": 0}), FAMILY, one_way)
