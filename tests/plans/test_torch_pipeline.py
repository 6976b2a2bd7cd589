"""Format ``torch-pipeline``: stages of an exported program that run as the unsplit program does."""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pipelines import crossing
from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read as shipped
from chipmap.instances.placement.from_graph import from_graph as placement_of
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.from_graph import from_graph as ring_of
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.transforms import clone, relay
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.emission import unsuited
from chipmap.plans.plan import EmitOptions
from chipmap.plans.reading import read_plan, recognised
from chipmap.plans.stages import stages_of
from chipmap.plans.torch_pipeline import format as form
from chipmap.plans.torch_pipeline.modules import module_lists, split_points
from chipmap.plans.torch_pipeline.nodes import node_of
from chipmap.records import InputError
from tests.instances.programs import TORCH, pt2

NAME = "torch-pipeline"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program, made without PyTorch: linear -> relu -> split -> mix -> add."""
    path = tmp_path_factory.mktemp("model") / "small.pt2"
    path.write_bytes(pt2(TORCH))
    return path


def ring(path: Path, chips: int) -> RingInstance:
    """The program's instance on a ring."""
    found = ring_of(import_graph(str(path)), "small")
    return found.replace(package=found.package.replace(chips=chips))


def test_a_ring_comes_back(model: Path) -> None:
    """Every mapping on three chips, those that skip one too, is written and adopted again as it was."""
    instance, count = ring(model, 3).replace(constraints=("C1",)), 0
    computing = [v for v, computes in enumerate(ring_problem(instance).computing) if computes]
    for chips in product(range(3), repeat=len(computing)):
        solution = lift(instance, dict(zip(computing, chips, strict=True)))
        if not resolve(family_of(instance).check)(instance, solution).feasible:
            continue
        count += 1
        text = form.emit(instance, solution, EmitOptions(str(model)))[form.FILE]
        assert isinstance(text, str)
        found = recognised(text.encode(), form.FILE, instance)
        assert found is not None and found.name == NAME
        assert read_plan(text.encode(), form.FILE, instance)[1].solution == solution
        told = json.loads(text)["stages"]
        assert [stage["place"] for stage in told] == sorted(set(chips))
        assert sum(len(stage["operations"]) for stage in told) == len(computing)
    assert count >= 10


def test_devices_stand_in_the_order_of_what_they_read(model: Path) -> None:
    """A placement whose second device computes first is a pipeline that begins with it; there and back is none."""
    instance = placement_of(import_graph(str(model)), "small")
    instance = instance.replace(task=instance.task.replace(objective="throughput", memory="none"))
    one, two = (device.name for device in instance.system.devices)
    placed = {"linear": two, "relu": two, "mix": one, "add": one}
    solution = PlacementSolution(instance="small", devices=placed)
    assert [stage.place for stage in stages_of(instance, solution)] == [two, one]
    text = form.emit(instance, solution, EmitOptions(str(model)))[form.FILE]
    assert isinstance(text, str)
    assert read_plan(text.encode(), form.FILE, instance)[1].solution.devices == placed
    back = PlacementSolution(instance="small", devices={**placed, "add": two})
    why = unsuited(family_of(instance).plan_format(NAME), instance, back)
    assert why is not None and f"{one}, {two} read from each other" in why


def test_copies_lead_back_to_their_node(model: Path) -> None:
    """A copy of an operation is its node in another stage, a relay is no node."""
    instance = ring(model, 2)
    copied = clone(instance, ["relu"]).instance
    assert {node_of(one.name) for one in copied.graph.operations} == {one.name for one in instance.graph.operations}
    relayed = relay(instance, ["relu"]).instance
    assert {node_of(one.name) for one in relayed.graph.operations} - {""} == {
        one.name for one in instance.graph.operations
    }
    for changed in (copied, relayed):
        computing = [v for v, computes in enumerate(ring_problem(changed).computing) if computes]
        text = form.emit(changed, lift(changed, dict.fromkeys(computing, 0)), EmitOptions(str(model)))[form.FILE]
        assert json.loads(text)["stages"][0]["place"] == 0


@pytest.mark.parametrize(
    ("node", "change", "said"),
    [
        (1, {"name": "gelu", "outputs": [{"as_tensor": {"name": "gelu"}}]}, "has no operator 'relu'"),
        (1, {"target": "torch.ops.aten.gelu.default"}, "has no operator 'relu'"),
    ],
)
def test_another_program_is_refused(model: Path, tmp_path: Path, node: int, change: dict[str, Any], said: str) -> None:
    other = copy.deepcopy(TORCH)
    graph = other["graph_module"]["graph"]
    graph["nodes"][node] |= change
    if "name" in change:
        graph["nodes"][2]["inputs"][0]["arg"] = {"as_tensor": {"name": change["name"]}}
        graph["tensor_values"][change["name"]] = graph["tensor_values"]["relu"]
    path = tmp_path / "other.pt2"
    path.write_bytes(pt2(other))
    instance = ring(model, 2)
    solution = lift(instance, {v: 0 for v, computes in enumerate(ring_problem(instance).computing) if computes})
    with pytest.raises(InputError, match=said):
        form.emit(instance, solution, EmitOptions(str(path)))


def test_other_instances_have_no_pipeline() -> None:
    why = form.suits(shipped("ring/tiny-skip"), None)
    assert why is not None and "torch.export" in why


_MODULES = {"e": "embed", "a": "layers.0", "b": "layers.0.mlp", "c": "layers.1", "d": "layers.1.mlp", "h": "head"}


@pytest.mark.parametrize(
    ("stages", "points", "lists"),
    [
        (["eab", "cdh"], {"layers.1": "BEGINNING"}, [["embed", "layers.0"], ["layers.1", "head"]]),
        (["eabcd", "h"], {"head": "BEGINNING"}, [["embed", "layers"], ["head"]]),
        (["ea", "b", "cdh"], {"layers.0.mlp": "BEGINNING", "layers.1": "BEGINNING"}, "'layers.0' is cut"),
        (["eb", "acdh"], "stages aren't stretches of the trace: 'b' of stage 0", "'layers.0' is cut"),
        (["eabc", "abdh"], "an operator runs in several stages", "is cut"),
    ],
)
def test_plans_in_terms_of_modules(stages: list[str], points: Any, lists: Any) -> None:
    for found, expected in ((split_points(stages, _MODULES), points), (module_lists(stages, _MODULES), lists)):
        assert expected in found if isinstance(expected, str) else found == expected


def test_a_stage_that_begins_inside_a_module_has_no_split_point() -> None:
    modules = {"a": "layers.0", "b": "layers.0", "c": ""}
    assert split_points(["a", "bc"], modules) == "stage 1 begins inside module 'layers.0', at 'b'"
    assert split_points(["ab", "c"], modules) == "stage 1 begins between modules, at 'c'"
    assert module_lists(["ab", "c"], modules) == "the network is cut, and computes 'c' itself"


def programs() -> dict[str, Any]:
    """Networks with what is hard to cut: views, changes in place, constants, tuples, results without dimensions."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from torch import nn

    class Decoder(nn.Module):
        """Joint projections, a rotary table under no_grad, a tied head, transposed results of attention."""

        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = nn.Embedding(32, 16), nn.LayerNorm(16)
            self.joint, self.wide, self.narrow = nn.Linear(16, 48), nn.Linear(16, 64), nn.Linear(32, 16)

        def forward(self, tokens: Any, mask: Any) -> Any:
            x = self.table(tokens)
            with torch.no_grad():
                turn = torch.cos(torch.arange(x.shape[1])[:, None] * torch.ones_like(x)[0] * 0.1)
            query, key, value = self.joint(self.norm(x * turn)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
            allowed = mask[:, None, None, :] > 0
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
            x = x + mixed.transpose(1, 2).reshape(x.shape) * turn
            up, gate = self.wide(self.norm(x)).chunk(2, dim=-1)
            x = x + self.narrow(up * nn.functional.silu(gate))
            return nn.functional.linear(x, self.table.weight)

    class Images(nn.Module):
        """Changes in place, several results of one operator, a result without dimensions, an early output."""

        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
            self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

        def forward(self, image: Any) -> Any:
            x = self.relu(self.norm(self.one(image)))
            y = self.norm(self.two(x))
            y += x
            best, where = self.relu(y).flatten(2).max(2)
            best /= best.sum()
            return {"score": self.head(best), "where": where, "early": x, "sum": y.sum()}

    torch.manual_seed(0)
    tokens, mask = torch.randint(0, 32, (2, 8)), torch.ones((2, 8), dtype=torch.int64)
    mask[:, 6:] = 0
    return {"decoder": (Decoder(), (tokens, mask)), "images": (Images(), (torch.randn(2, 3, 6, 6),))}


def test_every_cut_gives_what_the_network_gives(tmp_path: Path) -> None:
    """Each place in the order of the operations, two and three stages, one after the other in this process. What is
    sent for operators is what the instance counts."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from chipmap.plans.torch_pipeline.script.cutting import Program, split

    for name, (network, example) in programs().items():
        exported = torch.export.export(network.eval(), example)
        torch.export.save(exported, tmp_path / f"{name}.pt2")
        graph = import_graph(str(tmp_path / f"{name}.pt2")).graph
        order = [one.name for one in graph.operations if one.role == "compute"]
        program = Program(exported)
        expected = torch.utils._pytree.tree_leaves(exported.module()(*example))
        given = dict(zip((name for name, _ in program.given), example, strict=True))
        cuts = [(i,) for i in range(1, len(order))] + [(i, i + 3) for i in range(1, len(order) - 3, 2)]
        for cut in cuts:
            named = [order[a:b] for a, b in zip((0, *cut), (*cut, len(order)), strict=True)]
            passed, arriving, stages = tuple[Any, ...](), list[Any](), split(program, named)
            instance = ring(tmp_path / f"{name}.pt2", len(named))
            sent = sum(value.nbytes for stage in stages for _, value in stage.receives)
            at = {one: s for s, names in enumerate(named) for one in names}
            places = {v: at[one.name] for v, one in enumerate(graph.operations) if one.name in at}
            counted = crossing(instance, lift(instance, places))
            assert sent - sum(stage.handed for stage in stages) == counted, (name, cut)
            for stage in stages:
                assert [(one.shape, one.dtype) for one in passed] == [(one.shape, one.dtype) for one in arriving]
                with torch.no_grad():
                    made = stage.module(*passed, **{key: given[key] for key in stage.inputs})
                arriving = [value for _, value in stage.gives]
                passed = tuple(one.clone(memory_format=torch.contiguous_format) for one in made)
            for ours, theirs in zip(passed, expected, strict=True):
                assert torch.equal(ours.reshape(theirs.shape), theirs), (name, cut)


def test_the_script_runs_as_it_stands(tmp_path: Path) -> None:
    """Two processes over gloo, without chipmap on the path; a program that isn't the plan's is refused."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    network, example = programs()["decoder"]
    path = tmp_path / "decoder.pt2"
    torch.export.save(torch.export.export(network.eval(), example), path)
    instance = ring(path, 2)
    computing = [v for v, computes in enumerate(ring_problem(instance).computing) if computes]
    chips = {v: int(i >= len(computing) // 2) for i, v in enumerate(computing)}
    for file, text in form.emit(instance, lift(instance, chips), EmitOptions(str(path))).items():
        (tmp_path / file).write_text(str(text))
    command = [sys.executable, "run.py", "--timeout", "200"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["stages"] == 2 and said["equal"] and said["largest_difference"] <= 1e-5
    from chipmap.plans.torch_pipeline.script import run
    from chipmap.plans.torch_pipeline.script.cutting import PlanError

    plan, args = json.loads((tmp_path / form.FILE).read_text()), argparse.Namespace(model=None)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(PlanError, match="SHA-256"):
        run.loaded(plan, args)
