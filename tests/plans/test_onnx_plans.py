"""Format ``onnx``: models of stages that give what the whole model gives, and annotations that come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read as shipped
from chipmap.instances.multimodel.from_graph import from_graphs as layers_of
from chipmap.instances.multimodel.instance import MultiSolution, Piece
from chipmap.instances.placement.from_graph import from_graph as placement_of
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.from_graph import from_graph as ring_of
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.transforms import clone, relay
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.emission import unsuited
from chipmap.plans.onnx import format as form
from chipmap.plans.onnx import writing
from chipmap.plans.plan import EmitOptions, PlanData
from chipmap.plans.reading import read_plan, recognised, solution_in
from chipmap.records import InputError, SolverUnavailableError

onnx: Any = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import reference  # noqa: E402

from tests.plans import onnx_networks as networks  # noqa: E402

NAME = "onnx"
TOKENS = {"tokens": np.arange(networks.TOKENS) * 3 % 32}
GIVEN: dict[str, dict[str, Any]] = {
    "decoder": TOKENS,
    "controlled": {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)},
}


def saved(folder: Path, name: str, model: Any = None) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(model or getattr(networks, name)(), path)
    return path


def ring(path: Path, chips: int, **dimensions: tuple[int, ...]) -> RingInstance:
    """The model's instance on a ring without C2 and C3."""
    found = ring_of(import_graph(str(path), None, dimensions), "small")
    return found.replace(package=found.package.replace(chips=chips), constraints=("C1",))


def computing(instance: RingInstance) -> list[int]:
    return [v for v, computes in enumerate(ring_problem(instance).computing) if computes]


def cut(instance: RingInstance, *ends: int) -> Any:
    """The mapping whose chips end after so many computing operations."""
    return lift(instance, {v: sum(i >= end for end in ends) for i, v in enumerate(computing(instance))})


def emitted(instance: Any, solution: Any, path: Path, folder: Path) -> dict[str, Any]:
    """The files, written to ``folder``; their plan."""
    folder.mkdir(exist_ok=True)
    for file, data in form.emit(instance, solution, EmitOptions(str(path))).items():
        (folder / file).write_bytes(data.encode() if isinstance(data, str) else data)
    plan: dict[str, Any] = json.loads((folder / form.PLAN).read_text())
    return plan


def run(folder: Path, plan: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the models of the stages give, one after the other."""
    values = dict(given)
    for stage in plan["stages"]:
        onnx.checker.check_model(str(folder / stage["file"]), full_check=True)
        session = reference.ReferenceEvaluator(str(folder / stage["file"]))
        assert set(session.input_names) == {*stage["inputs"], *(one["name"] for one in stage["receives"])}
        read = {name: values[name] for name in session.input_names}
        values |= zip(session.output_names, session.run(None, read), strict=True)
    return {name: values[name] for name in plan["outputs"]}


def same(ours: dict[str, Any], path: Path, given: dict[str, Any]) -> None:
    whole = reference.ReferenceEvaluator(str(path))
    for name, expected in zip(whole.output_names, whole.run(None, given), strict=True):
        np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["decoder", "controlled"])
def test_every_cut_gives_what_the_model_gives_and_comes_back(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, name)
    instance, tried = ring(path, 3), 0
    count = len(computing(instance))
    for ends in [(i, i + 2) for i in range(1, count)]:
        solution = cut(instance, *ends)
        if (why := form.suits(instance, solution)) is not None:
            assert name == "controlled" and "runs whole" in why
            continue
        plan, tried = emitted(instance, solution, path, tmp_path / "out"), tried + 1
        same(run(tmp_path / "out", plan, GIVEN[name]), path, GIVEN[name])
        check = resolve(family_of(instance).check)
        data = (tmp_path / "out" / form.FILE).read_bytes()
        onnx.checker.check_model(str(tmp_path / "out" / form.FILE), full_check=True)
        found = recognised(data, form.FILE, instance)
        assert found is not None and found.name == NAME
        assert check(instance, solution_in(data, form.FILE, instance)) == check(instance, solution)
        whole = reference.ReferenceEvaluator(str(tmp_path / "out" / form.FILE))
        same(dict(zip(whole.output_names, whole.run(None, GIVEN[name]), strict=True)), path, GIVEN[name])
    assert tried >= (8 if name == "decoder" else 2)


def test_boundaries_carry_what_the_instance_counts(tmp_path: Path) -> None:
    """Of the decoder cut behind its scores: these, the projection (for its last part) and the embedding; the table of
    turns is made again, and the shape of a tensor isn't sent."""
    path = saved(tmp_path, "decoder")
    instance = ring(path, 2)
    names = [instance.graph.operations[v].name for v in computing(instance)]
    plan = emitted(instance, cut(instance, names.index("shares")), path, tmp_path / "out")
    received = {one["name"]: one["bytes"] for one in plan["stages"][1]["receives"]}
    assert received == {"x1": 8 * 16 * 4, "qkv": 8 * 48 * 4, "scores": 8 * 8 * 4}
    assert plan["boundary_bytes"] == [sum(received.values())]
    assert "turns" in plan["stages"][0]["nodes"] and "turns" in plan["stages"][1]["nodes"]
    model = onnx.load(tmp_path / "out" / plan["stages"][1]["file"], load_external_data=False)
    beside = [one for one in model.graph.initializer if one.name == "table"]
    assert beside[0].data_location == onnx.TensorProto.EXTERNAL and not beside[0].raw_data
    assert (tmp_path / "out" / "1-chip1.data").stat().st_size == 32 * 16 * 4


def test_operations_name_their_nodes(tmp_path: Path) -> None:
    """Only where they are called otherwise, so that other instances keep their hashes."""
    graph = import_graph(str(saved(tmp_path, "decoder"))).graph
    told = {one.name: one.node for one in graph.operations if one.node}
    assert sorted(told.values()) == ["qkv", "scores"] and all(name.startswith("same") for name in told)
    inner = {one.name: one.node for one in import_graph(str(saved(tmp_path, "controlled"))).graph.operations}
    assert inner["loop/2/tanh"] == "loop" and inner["branch/inside"] == "branch" and inner["relu"] == ""


def test_copies_are_nodes(tmp_path: Path) -> None:
    path = saved(tmp_path, "decoder")
    instance = clone(ring(path, 3), ["residual", "exp", "x1"]).instance
    check = resolve(family_of(instance).check)
    for ends in ((3, 8), (7, 9), (10, 12)):
        solution = cut(instance, *ends)
        plan = emitted(instance, solution, path, tmp_path / "out")
        same(run(tmp_path / "out", plan, TOKENS), path, TOKENS)
        data = (tmp_path / "out" / form.FILE).read_bytes()
        assert check(instance, solution_in(data, form.FILE, instance)) == check(instance, solution)
        whole = reference.ReferenceEvaluator(str(tmp_path / "out" / form.FILE))
        same(dict(zip(whole.output_names, whole.run(None, TOKENS), strict=True)), path, TOKENS)
    relayed = relay(ring(path, 2), ["x1"]).instance
    assert "hands a tensor on" in str(form.suits(relayed, None))


def test_sizes_that_are_open_in_the_file(tmp_path: Path) -> None:
    """The instance has a size, the files are for every one that the model takes."""
    path = saved(tmp_path, "decoder", networks.decoder("rows"))
    instance = ring(path, 2, rows=(8,))
    for end in range(1, len(computing(instance))):
        plan = emitted(instance, cut(instance, end), path, tmp_path / "out")
        same(run(tmp_path / "out", plan, TOKENS), path, TOKENS)


def test_devices_of_a_placement_come_back_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path, "decoder")
    instance = placement_of(import_graph(str(path)), "small")
    instance = instance.replace(task=instance.task.replace(objective="throughput", memory="none"))
    one, two = (device.name for device in instance.system.devices)
    names = [o.name for o in instance.graph.operations if o.role == "compute"]
    placed = {name: two if i < 5 else one for i, name in enumerate(names)}
    solution = PlacementSolution(instance="small", devices=placed)
    plan = emitted(instance, solution, path, tmp_path / "out")
    assert [stage["place"] for stage in plan["stages"]] == [two, one]
    same(run(tmp_path / "out", plan, TOKENS), path, TOKENS)
    data = (tmp_path / "out" / form.FILE).read_bytes()
    assert read_plan(data, form.FILE, instance)[1].solution.devices == placed
    model = onnx.load_from_string(data)
    model.configuration[0].device[:] = [two, one]  # another order of the same devices
    turned = read_plan(model.SerializeToString(), form.FILE, instance)[1].solution.devices
    assert turned == {name: one if d == two else two for name, d in placed.items()}
    model.configuration[0].device[:] = [two, f"{one}x"]
    with pytest.raises(InputError, match="has a device"):
        read_plan(model.SerializeToString(), form.FILE, instance)
    back = PlacementSolution(instance="small", devices={**placed, names[-1]: two})
    assert "read from each other" in str(unsuited(family_of(instance).plan_format(NAME), instance, back))


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> tuple[RingInstance, bytes]:
    folder = tmp_path_factory.mktemp("annotated")
    path = saved(folder, "decoder")
    instance = ring(path, 2)
    emitted(instance, cut(instance, 5), path, folder / "out")
    return instance, (folder / "out" / form.FILE).read_bytes()


def _named(model: Any, name: str) -> Any:
    return next(node for node in model.graph.node if node.name == name)


def _unknown_configuration(model: Any) -> None:
    _named(model, "mix").device_configurations[0].configuration_id = "chipmop"


def _several_configurations(model: Any) -> None:
    model.configuration.add(name="other", num_devices=2)
    _named(model, "mix").device_configurations.add(configuration_id="other", pipeline_stage=1)


def _split(model: Any) -> None:
    dim = _named(model, "mix").device_configurations[0].sharding_spec[0].sharded_dim.add(axis=0)
    dim.simple_sharding.add(num_shards=2)


def _in_groups(model: Any) -> None:
    spec = _named(model, "mix").device_configurations[0].sharding_spec[0]
    spec.device[:] = [-1]
    spec.index_to_device_group_map.add(key=-1, value=[0, 1])


def _no_devices(model: Any) -> None:
    for node in model.graph.node:
        node.ClearField("device_configurations")


def _two_devices(model: Any) -> None:
    _named(model, "mix").device_configurations[0].sharding_spec[0].device.append(0)


def _unknown_device(model: Any) -> None:
    _named(model, "mix").device_configurations[0].sharding_spec[0].device[0] = 7


def _other_name(model: Any) -> None:
    _named(model, "mix").name = "mixx"


def _other_operator(model: Any) -> None:
    _named(model, "exp").op_type = "Sqrt"


def _more_nodes(model: Any) -> None:
    node = model.graph.node.add(op_type="Abs", input=["y"], output=["z"], name="mixed_up")
    node.device_configurations.add(configuration_id="chipmap", pipeline_stage=0)


BAD: list[tuple[Callable[[Any], None], str, str]] = [
    (_no_devices, "no node of the model", "emit"),
    (_two_devices, "'mix' is on devices 0 and 1", "one"),
    (_unknown_device, "'mix' is on device 7", "There are 2"),
    (_unknown_configuration, "'chipmop' that isn't there", "Did you mean chipmap"),
    (_several_configurations, "several configurations", "Leave one"),
    (_split, "'mix' is split: 'mixed' in 2 parts", "whole"),
    (_in_groups, "'mix' is on devices 0 and 1", "one"),
    (_other_name, "no node 'mix'", "Did you mean mixx"),
    (_other_operator, "'exp' is a Sqrt, and a Exp", "this network"),
    (_more_nodes, "no operation leads to node 'mixed_up'", "this network"),
]


@pytest.mark.parametrize(("change", "said", "remedy"), BAD)
def test_what_is_wrong_is_named(
    change: Callable[[Any], None], said: str, remedy: str, annotated: tuple[RingInstance, bytes]
) -> None:
    instance, data = annotated
    model = onnx.load_from_string(data)
    change(model)
    with pytest.raises(InputError, match=said) as caught:
        read_plan(model.SerializeToString(), form.FILE, instance)
    assert remedy in str(caught.value)


def test_stages_alone_are_chips_and_missing_ones_are_open(annotated: tuple[RingInstance, bytes]) -> None:
    instance, data = annotated
    model, whole = onnx.load_from_string(data), solution_in(data, form.FILE, instance)
    for node in model.graph.node:
        for said in node.device_configurations:
            said.ClearField("sharding_spec")
    assert solution_in(model.SerializeToString(), form.FILE, instance) == whole
    _named(model, "mix").ClearField("device_configurations")
    with pytest.raises(InputError, match="'mix' is on no chip") as caught:
        solution_in(model.SerializeToString(), form.FILE, instance)
    assert "chipmap adopt" in str(caught.value)
    plan = read_plan(model.SerializeToString(), form.FILE, instance)[1]
    assert len(plan.pinned.pins) == len(computing(instance)) - 1


def test_plans_of_others_are_refused(tmp_path: Path, annotated: tuple[RingInstance, bytes]) -> None:
    instance, data = annotated
    model = onnx.load_from_string(data)
    told = PlanData(instance="other", instance_hash="0" * 64)
    next(one for one in model.metadata_props if one.key == writing.METADATA).value = told.line
    with pytest.raises(InputError, match="was made for another instance: other"):
        read_plan(model.SerializeToString(), form.FILE, instance)
    other = networks.decoder()
    other.graph.initializer[0].CopyFrom(networks.weight("table", 40, 16))
    with pytest.raises(InputError, match="has weights of"):
        form.emit(instance, cut(instance, 3), EmitOptions(str(saved(tmp_path, "other", other))))
    path = saved(tmp_path, "controlled")
    with pytest.raises(InputError, match="isn't the model of 'small': it has no node"):
        form.emit(instance, cut(instance, 3), EmitOptions(str(path)))
    assert "isn't converted from an ONNX model" in str(form.suits(shipped("ring/tiny-skip"), None))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, annotated: tuple[RingInstance, bytes]) -> None:
    monkeypatch.setattr("chipmap.plans.emission.find_spec", lambda name: None)
    with pytest.raises(SolverUnavailableError, match=r"onnx needs onnx.*\n.*chipmap\[onnx\]"):
        read_plan(annotated[1], form.FILE, annotated[0])


def test_data_in_other_files(tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(networks.decoder(), path, save_as_external_data=True, location="weights", size_threshold=1000)
    instance = ring(path, 2)
    plan = emitted(instance, cut(instance, 4), path, tmp_path / "out")
    same(run(tmp_path / "out", plan, TOKENS), path, TOKENS)
    (tmp_path / "weights").unlink()
    with pytest.raises(InputError, match="its data can't be read") as caught:
        form.emit(instance, cut(instance, 4), EmitOptions(str(path)))
    assert "Put the files with its weights beside it" in str(caught.value)


def test_schedules_of_one_model_come_back(tmp_path: Path) -> None:
    """Every cut of the layers in two windows, the first of which has two chiplets."""
    path = saved(tmp_path, "decoder")
    instance = layers_of([(import_graph(str(path)), "decoder")])
    model, (one, other) = instance.models[0], [chiplet.name for chiplet in instance.module.chiplets[:2]]
    last = len(model.layers) - 1
    for cut in range(1, last):
        pieces = [(0, cut - 1, other), (cut, last - 1, one)], [(last, last, other)]
        windows = [[Piece(model=model.name, first=a, last=b, chiplet=c) for a, b, c in each] for each in pieces]
        solution = MultiSolution.make(instance=instance.name, windows=windows)
        assert (
            resolve(family_of(instance).check)(instance, solution).feasible and form.suits(instance, solution) is None
        )
        files = form.emit(instance, solution, EmitOptions(str(path)))
        (tmp_path / "out").mkdir(exist_ok=True)
        for file, content in files.items():
            (tmp_path / "out" / file).write_bytes(content.encode() if isinstance(content, str) else content)
        onnx.checker.check_model(str(tmp_path / "out" / form.FILE), full_check=True)
        data = (tmp_path / "out" / form.FILE).read_bytes()
        found = recognised(data, form.FILE, instance)
        assert found is not None and found.name == NAME
        assert solution_in(data, form.FILE, instance) == solution
    nodes = {one.name: one for one in onnx.load(tmp_path / "out" / form.FILE, load_external_data=False).graph.node}
    assert not nodes["turns"].device_configurations
    assert nodes["words"].device_configurations[0].pipeline_stage == 1
    with pytest.raises(InputError, match="isn't the model of 'decoder'"):
        form.emit(instance, solution, EmitOptions(str(saved(tmp_path, "controlled"))))
    two = instance.replace(models=[model, model.replace(name="again")])
    assert "it schedules 2 models" in str(form.suits(two, None))
    with pytest.raises(InputError, match="holds one network"):
        form.adopt(two, data, form.FILE)
