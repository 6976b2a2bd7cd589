"""Plans that don't fit: what is wrong is named, with a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipmap.inputs.plain import instance_of
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.ring import RingInstance
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.plans.plan import PlanData
from chipmap.plans.reading import read_plan, solution_in
from chipmap.records import InputError
from tests.placement.random_instances import made

CHAIN = "ring/tiny-chain"


def blocks(objective: str = "throughput") -> PlacementInstance:
    """embed, three blocks of two operations with a residual sum each, head; modules are known."""
    names = ["embed"] + [f"b{k}/{part}" for k in range(3) for part in ("attn", "mlp", "sum")] + ["head"]
    scopes = ["embed"] + [f"blocks.{k}{part}" for k in range(3) for part in (".attn", ".mlp", "")] + ["head"]
    edges = [(0, 1)] + [(3 * k + a, 3 * k + b) for k in range(3) for a, b in ((1, 2), (1, 3), (2, 3), (3, 4))]
    instance = made([(4, 1, 2)] * 11, edges)
    renamed = [one.replace(name=name) for one, name in zip(instance.graph.operations, names, strict=True)]
    task: dict[str, Any] = {"objective": objective, "memory": "static"}
    return instance.replace(graph=instance.graph.replace(operations=renamed), scopes=scopes, task=task)


def ring(names: list[str]) -> RingInstance:
    """A chain of operations of these names on two chips."""
    operations = [Operation(name=name, kind="x", flop=4000) for name in names]
    tensors = [Tensor(producer=v, readers=(v + 1,), bytes=8) for v in range(len(names) - 1)]
    graph = OperationGraph.checked("chain", operations, tensors)
    return RingInstance.make(name="chain", graph=graph, package={"chips": 2})


def refusal(instance: Any, data: Any, where: str = "plan.json", name: str = "") -> InputError:
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(InputError) as found:
        read_plan(text.encode(), where, instance, name)
    assert found.value.remedy
    return found.value


@pytest.mark.parametrize(
    ("data", "said", "remedy"),
    [
        ({"embed": 0, "blocks": 0, "haed": 1}, "no module or operation is called 'haed'", "Did you mean head?"),
        ({"": 0, "blocks.3": 1}, "no module or operation is called 'blocks.3'", "blocks."),
        ({"": 0, "blocks.3": 1, "blocks.4": 1}, "(nor 1 other of its keys)", "of this network"),
        ({"": 0, "blocks.0": 9}, "9 is no device", "Give 0 to"),
        ('{"embed": 0, "embed": 1, "": 0}', "puts 'embed' on 0 and on 1", "Name it once."),
        ('{"embed": 0, "blocks": [1]}', "is no device map", "Give"),
        ("[1]", "is no device map", "Give"),
    ],
)
def test_what_a_device_map_says_wrongly(data: Any, said: str, remedy: str) -> None:
    error = refusal(blocks(), data, name="device-map")
    assert said in error.what and remedy in error.remedy


def test_modules_of_which_nothing_is_left_may_be_named() -> None:
    """A dropout that the graph hasn't; a device as torch names it."""
    _, plan = read_plan(b'{"": "cuda:0", "dropout": 1, "blocks.0.drop": 1}', "map.json", blocks())
    assert set(plan.solution.devices.values()) == {"d0"}


@pytest.mark.parametrize(
    ("data", "said", "remedy"),
    [
        ("name,chip\na,0\nz,1\n", "no operation is called 'z'", "There are: a, b, c."),
        ("name,chip\na,0\nb,2\n", "puts 'b' on chip 2", "Chips run from 0 to 1 here."),
        ("name,chip\na,0\na,1\n", "operation 'a' is on chip 0 already", "Name it once."),
        ("name,chip\na,x\n", "'x' is no chip", "Give the chip's number"),
        ("name,chip\na\n", "has 1 cells", "Give a table with the columns name and chip."),
    ],
)
def test_what_a_table_says_wrongly(data: str, said: str, remedy: str) -> None:
    error = refusal(ring(["a", "b", "c"]), data, "plan.csv")
    assert said in error.what and remedy in error.remedy


def test_a_map_of_chips_says_wrong_chips_and_operations() -> None:
    instance = ring(["layers.0.a", "layers.0.b", "layers.1.a"])
    _, plan = read_plan(b'{"layers.0": 0, "layers.1": 1}', "map.json", instance)
    assert plan.solution.chips == (0, 0, 1)
    assert "2 is no chip" in refusal(instance, {"layers": 2}).what
    assert "'layers.2'" in refusal(instance, {"layers": 0, "layers.2": 1}).what


def test_what_is_in_no_format_is_said() -> None:
    error = refusal(instance_of(CHAIN), "\x00\x01 no plan")
    assert "is in no format of plans" in error.what and "device-map, csv" in error.remedy
    assert "no format of plans of family 'ring' is called 'csf'" in refusal(instance_of(CHAIN), "", name="csf").what
    error = refusal(instance_of(CHAIN), "{}", name="chrome-trace")
    assert "isn't read, only written" in error.what and "csv" in error.remedy


def test_partial_plans_are_no_solutions() -> None:
    instance = ring(["a", "b", "c"])
    with pytest.raises(InputError, match="'c' is on no chip: the plan says 2 of 3") as found:
        solution_in(b"name,chip\na,0\nb,0\n", "plan.csv", instance)
    assert "chipmap adopt" in found.value.remedy


def test_the_plan_of_another_instance_is_refused(tmp_path: Path) -> None:
    """By the file beside it; other costs of the same network are told from another network."""
    instance, plan, beside = ring(["a", "b"]), tmp_path / "plan.csv", tmp_path / "plan.plan.json"
    data = b"name,chip\na,0\nb,1\n"
    plan.write_bytes(data)
    told = PlanData(instance="x", instance_hash="0" * 64)
    for same, said in ((instance.graph.content_hash, "other costs or chips of this network"), ("", "another instance")):
        beside.write_bytes(told.replace(graph=same).to_json(indent=1))
        with pytest.raises(InputError, match=f"was made for {said}: x, whose hash begins with 000000000000"):
            read_plan(data, str(plan), instance)
    beside.write_bytes(told.replace(instance_hash=instance.content_hash).to_json(indent=1))
    assert read_plan(data, str(plan), instance)[1].solution.chips == (0, 1)


def test_what_a_file_says_of_its_run_is_found_wherever_it_stands() -> None:
    told = PlanData(format="x", instance="ring/a", objective=1.5, unit="us")
    inner = json.dumps({"a": [1], "b": json.loads(told.line)}, indent=2)
    for text in (told.line, f"# made by chipmap\n# {told.line}\nflags\n", inner):
        assert PlanData.within(text.encode()) == told
    assert PlanData.within(b'{"schema": "plan/1", "objective": "many"}') is None
    assert PlanData.within(b'{"schema": "plan/1"') is None and PlanData.within(b"\xff\x00") is None


def test_mappings_that_a_map_cannot_say_are_refused() -> None:
    """A residual sum apart from its operands; a module split in two whose sum reads both; a plan by blocks suits."""
    from chipmap.instances.placement import PlacementSolution
    from chipmap.plans.device_map.format import suits

    instance = blocks()
    names = [one.name for one in instance.graph.operations]
    whole = dict.fromkeys(names[:4], "d0") | dict.fromkeys(names[4:], "d1")
    assert suits(instance, PlacementSolution(devices=whole)) is None
    apart = {**whole, "b0/mlp": "d1", "b0/sum": "d1"}  # attn on d0, mlp and sum on d1: the sum would run on d0
    assert "'b0/sum' is on 'd1', and module 'blocks.0'" in str(suits(instance, PlacementSolution(devices=apart)))
    mixed = {**apart, "b0/sum": "d0"}
    said = str(suits(instance, PlacementSolution(devices=mixed)))
    assert "module 'blocks.0' is split, and its 'b0/sum' reads what is made on d0 and d1" in said
    assert "--cut" in said


def test_plans_of_thousands_of_operations_are_decoded() -> None:
    """As plain Python too, where events are numbered beyond what NumPy's short numbers hold."""
    count = 2_500
    instance = made([(1, 1, 1)] * count, [(v, v + 1) for v in range(count - 1)])
    _, plan = read_plan(b'{"": 0}', "map.json", instance)
    assert plan.solution.start[f"v{count - 1}"] == count - 1
