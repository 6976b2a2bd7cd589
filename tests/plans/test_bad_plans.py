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
from tests.dataflow.random_instances import HEAVY, LIGHT
from tests.dataflow.random_instances import made as tiny_kernels
from tests.placement.random_instances import made
from tests.plans.samples import mappings

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


KERNELS = "name,scheme,partition,dimensions\na,M,0,tensor\nb,M,0,tensor\nc,M,1,tensor\n"


@pytest.mark.parametrize(
    ("data", "said", "remedy"),
    [
        ("name,partition\naa,0\n", "no kernel is called 'aa'", "Did you mean a?"),
        ("name,partition\na,first\n", "'first' is no partition", "Give the partition's number"),
        ("name,partition\na,0\na,1\n", "kernel 'a' has partition 0 already", "Name it once."),
        ("name,scheme\na,MM\n", "'MM' is no scheme", "There are: OUTER, M"),
        ("name,layer,partition\na,5,0\n", "there is no layer 5", "has 1"),
        (KERNELS.replace("tensor", "tensor data"), "names the parallelism of 2 dimensions, the network has 1", "Say"),
        (KERNELS.replace("tensor", "tensr"), "'tensr' is no parallelism", "Say tensor"),
        ("name,partition,shard\na,0,none\nb,0,weights\n", "says shard 'none' and 'weights'", "the same for all"),
    ],
)
def test_what_a_table_of_kernels_says_wrongly(data: str, said: str, remedy: str) -> None:
    error = refusal(tiny_kernels({"a": LIGHT, "b": HEAVY, "c": LIGHT}, "ab bc"), data, "plan.csv")
    assert said in error.what and remedy in error.remedy


def test_a_table_of_some_kernels_pins_them() -> None:
    """Schemes, degrees and partitions as pins count them; the checker says that stages are missing."""
    instance = tiny_kernels({"a": LIGHT, "b": HEAVY, "c": LIGHT}, "ab bc")
    _, plan = read_plan(KERNELS.replace("b,M", "b,").encode(), "plan.csv", instance, "csv")
    assert plan.solution is None and plan.left == "kernel 'b' has no scheme" and plan.places == {"a": 0, "b": 0, "c": 1}
    task = plan.pinned.task
    assert [(pin.kernel, pin.partition) for pin in task.pins] == [("a", 0), ("b", 0), ("c", 1)]
    assert task.schemes == {"a": "M", "c": "M"} and task.degrees.dimensions == ("tensor",)
    staged = tiny_kernels({"a": LIGHT, "b": HEAVY, "c": LIGHT}, "ab bc", stages="kernels")
    assert "has no column stage" in refusal(staged, KERNELS.replace("tensor", "pipeline"), "plan.csv").what
    assert "stages share out kernels" in refusal(staged, "name,partition,stage\na,0,0\n", "plan.csv").what


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        (("m0", "mm0"), "no model is called 'mm0'", "Did you mean m0?"),
        (("c0", "d0"), "no chiplet is called", "There are: c0"),
        (("l0", "k0"), "no layer is called 'k0'", "Give its position as"),
        (("\n0,", "\n77,"), "there is no window 77", "They run from 0 to"),
    ],
)
def test_what_a_table_of_segments_says_wrongly(change: tuple[str, str], said: str, remedy: str) -> None:
    instance, solution, _ = next(iter(mappings("multimodel")))
    lines = table_of(instance, solution)
    assert read_plan(lines.encode(), "schedule.csv", instance)[1].solution.windows == solution.windows
    error = refusal(instance, lines.replace(*change), "schedule.csv")
    assert said in error.what and remedy in error.remedy


def test_layers_in_no_segment_or_on_two_chiplets() -> None:
    instance, solution, _ = next(iter(mappings("multimodel")))
    head, first, *rest = table_of(instance, solution).splitlines()
    assert "is in no segment" in refusal(instance, "\n".join([head, *rest]), "schedule.csv").what
    twice = refusal(instance, "\n".join([head, first, first, *rest]), "schedule.csv")
    assert "is on" in twice.what and "Name it once." in twice.remedy


def table_of(instance: Any, solution: Any) -> str:
    """A schedule with layers by name."""
    names = {model.name: [layer.name for layer in model.layers] for model in instance.models}
    lines = ["window,model,first_layer,last_layer,chiplet"]
    for window, pieces in enumerate(solution.windows):
        for one in pieces:
            ends = names[one.model][one.first], names[one.model][one.last]
            lines.append(f"{window},{one.model},{ends[0]},{ends[1]},{one.chiplet}")
    return "\n".join(lines) + "\n"
