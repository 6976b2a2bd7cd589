"""Plans of layers: strings of Megatron-LM and vLLM and lists of torchtitan, out and in, by their published grammar."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.family import family_of, resolve
from chipmap.inputs.reading import generate, read
from chipmap.instances.grain import cut
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.instance import Task
from chipmap.instances.placement.presets import preset
from chipmap.networks import generators
from chipmap.networks.graph import OperationGraph
from chipmap.plans.emission import emit, unsuited
from chipmap.plans.layers import megatron, vllm
from chipmap.plans.layers.graphs import layers
from chipmap.plans.layers.plan import LayerPlan
from chipmap.plans.layers.strings import read_layout, read_options, write_layout
from chipmap.plans.reading import read_plan
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.solve import check, solve
from tests.lanes import of_all
from tests.plans import grammars

#: The example of Megatron-LM's guide, and that of its help text.
GUIDE, HELP = "Et*3|(tt|)*29,m|L", "E|(t|)*3,m|m||L"
#: The example of torchtitan's configuration.
TITAN = [["tok_embeddings", "layers.0"], ["layers.1", "layers.2"], ["layers.3", "layers.4"]]


def test_the_guides_examples_are_what_the_guide_says() -> None:
    """16 ranks of two parts: three layers beside the embedding, then two, one of prediction, and the loss."""
    stages = read_layout(GUIDE, "x")
    ranks = [(stages[rank], stages[rank + 16]) for rank in range(16)]
    assert ranks[0] == ("Ettt", "tt") and ranks[14:] == [("tt", "m"), ("tt", "L")]
    assert all(each == ("tt", "tt") for each in ranks[1:14])
    assert read_layout(HELP, "x") == ("E", "t", "t", "t", "m", "m", "", "L")
    assert read_layout("E||t|L", "x") == ("E", "", "t", "L")


@pytest.mark.parametrize("seed", range(of_all(300, few=60)))
def test_layouts_are_read_and_written_by_the_published_grammar(seed: int) -> None:
    """A random layout means the same to the grammar stated again, and so does what is written of it."""
    rng = Random(seed)
    text = grammars.random_layout(rng)
    expected = ["".join(stage) for stage in grammars.layout(text)]
    if "t" in "".join(expected).partition("m")[2]:
        return
    assert list(read_layout(text, "x")) == expected
    written = write_layout(expected)
    assert ["".join(stage) for stage in grammars.layout(written)] == expected
    assert list(read_layout(written, "x")) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the embedding 0 times"),
        ("tt|L", "the embedding 0 times"),
        ("EE|tL", "the embedding 2 times"),
        ("tE|L", "begins with t"),
        ("EtmtL", "behind one of multi-token prediction"),
        ("ExL", "no part of a layout"),
        ("E((t|)*2)*2L", "no part of a layout"),
        ("E(t|*2L", "no part of a layout"),
        ("Et*99999999L", "no part of a layout|more than"),
        ("E(t*999999)*9L", "more than"),
        ("E(t*99999|)*99999L", "more than"),
    ],
)
def test_what_is_no_layout_is_refused(text: str, said: str) -> None:
    """Wrong symbols, brackets in brackets, too many, and ends that aren't embedding and loss."""
    with pytest.raises(InputError, match=said):
        read_layout(text, "x")


@pytest.mark.parametrize(("layers", "stages"), [(layers, stages) for layers in (7, 8, 61) for stages in (1, 2, 4, 5)])
def test_stages_without_a_variable_are_vllms(layers: int, stages: int) -> None:
    """What is left over goes to the stages before the last one."""
    assert list(vllm.default(layers, stages)) == grammars.vllm_layers(None, layers, stages)
    found = vllm.read(f"vllm serve m -pp {stages}", "x", layers)
    assert [chunk.count("t") for chunk in found.chunks] == grammars.vllm_layers(None, layers, stages)


def _chain(*modules: str, flop: int = 10**6) -> OperationGraph:
    names = [f"{module}.a" for module in modules]
    edges = list(pairwise(names))
    return generators.explicit(flop=dict.fromkeys(names, flop), edges=edges, tensor_bytes=1000)


def _on_devices(graph: OperationGraph, devices: int) -> PlacementInstance:
    task = Task(objective="throughput", memory="none")
    return PlacementInstance(name="net", graph=graph, system=preset("p100-nvlink", devices), task=task)


def test_the_guides_example_is_adopted_and_judged(tmp_path: Path) -> None:
    """61 layers, one of prediction and the loss on 16 ranks with two parts each: what the guide's table says."""
    graph = _chain("embed", *(f"layers.{i}" for i in range(61)), "mtp", "head")
    instance = _on_devices(graph, 16)
    text = f"--num-layers 61 --pipeline-model-parallel-size 16 --pipeline-model-parallel-layout '{GUIDE}'"
    form, plan = read_plan(text.encode(), "plan.sh", instance)
    assert form.name == "megatron" and plan.solution is not None
    assert check(instance, plan.solution).feasible
    devices = plan.solution.devices
    assert [devices[f"{name}.a"] for name in ("embed", "layers.2", "layers.3", "mtp", "head")] == [
        *("gpu0", "gpu0", "gpu1", "gpu14", "gpu15")
    ]
    assert devices["layers.34.a"] == "gpu0" and devices["layers.60.a"] == "gpu13"
    with pytest.raises(InputError, match="go round a ring of chips once"):
        read_plan(text.encode(), "plan.sh", _ring(graph, 16))


def test_torchtitans_example_is_adopted_and_judged() -> None:
    """Five layers and the embedding on three chips; as JSON, as TOML, and by its field alone."""
    graph = _chain("tok_embeddings", *(f"layers.{i}" for i in range(5)))
    instance = _ring(graph, 3)
    for text in (json.dumps(TITAN), f"[parallelism]\nmodule_fqns_per_model_part = {json.dumps(TITAN)}\n"):
        form, plan = read_plan(text.encode(), "plan", instance)
        assert form.name == "torchtitan" and plan.solution.chips == (0, 0, 1, 1, 2, 2)
        assert check(instance, plan.solution).feasible


def _ring(graph: OperationGraph, chips: int) -> Any:
    from chipmap.instances.ring.instance import Package, RingInstance

    return RingInstance(name="net", graph=graph, package=Package(chips=chips, sram_bytes=2**34))


def _files(instance: Any, result: Result, name: str, folder: Path) -> Path:
    solution = resolve(family_of(instance).solution).make(**result.solution or {})
    files = emit(result, instance, solution, name)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder / next(iter(files))


def _returned(instance: Any, result: Result, file: Path) -> None:
    """The plan in a file comes back with the same certificate, or completed at an equal objective."""
    _, plan = read_plan(file.read_bytes(), str(file), instance)
    if plan.pinned is None:
        certificate = check(instance, plan.solution)
        assert result.certificate is not None
        assert certificate.feasible and certificate.objective == result.objective
        assert certificate.terms == result.certificate.terms
        return
    completed = solve(plan.pinned, time_limit=60, isolate=False)
    assert completed.solution is not None
    solution = resolve(family_of(instance).solution).make(**completed.solution)
    solution = solution if plan.finish is None else plan.finish(solution)
    assert check(instance, solution).objective == result.objective


NETWORKS: dict[str, tuple[OperationGraph, int]] = {
    "bert": (generators.bert_encoder(layers=4, hidden=64, heads=2, sequence=16, vocabulary=100), 4),
    "gpt2": (generators.gpt2(layers=5, hidden=64, heads=2, sequence=16, vocabulary=64), 5),
    "mixer": (generators.mixer(layers=3, hidden=64), 3),
}


@pytest.mark.parametrize("family", ["ring", "placement"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("stages", [2, 3])
def test_plans_of_graphs_go_out_and_come_back(network: str, stages: int, family: str, tmp_path: Path) -> None:
    """By the published grammars the files say the stages of the certificate; read, they have the same certificate."""
    graph, count = NETWORKS[network]
    free = _ring(graph, stages) if family == "ring" else _on_devices(graph, stages)
    if family == "placement":
        free = free.replace(task=free.task.replace(contiguous=True))
    instance = cut(free, ["blocks"]).instance
    result = solve(instance, time_limit=60, isolate=False)
    assert result.solution is not None
    solution = resolve(family_of(instance).solution).make(**result.solution)
    computing = [v for v, one in enumerate(graph.operations) if one.role == "compute"]
    names = [one.name for one in graph.operations]
    chips = solution.chips if family == "ring" else [solution.devices.get(name) for name in names]
    place = {names[v]: chips[v] for v in computing}
    number = {name: held[0] for name in place if (held := re.findall(r"\.(\d+)\.", name))}
    blocks = [next(place[name] for name, one in number.items() if one == str(i)) for i in range(count)]
    found = 0
    for name in ("megatron", "vllm", "torchtitan"):
        form = family_of(instance).plan_format(name)
        if (why := unsuited(form, instance, solution)) is not None:
            assert "chipmap solve" in why or "of no module" in why or "no module" in why
            continue
        found += 1
        file = _files(instance, result, name, tmp_path)
        counts = _stages_said(name, file, count)
        assert [count for count in counts if count] == [blocks.count(one) for one in dict.fromkeys(blocks)]
        _returned(instance, result, file)
    assert found or len(set(place.values())) == 1


def _stages_said(name: str, file: Path, layers: int) -> list[int]:
    """The layers of each stage, by the grammar of the runtime."""
    if name == "megatron":
        asked = grammars.megatron().parse_args(grammars.sourced(file))
        return [chunk.count("t") for chunk in grammars.megatron_stages(asked)]
    if name == "vllm":
        words, partition = grammars.served(file, "some/model")
        asked = grammars.vllm().parse_args(words[1:])
        assert words[0] == "serve" and asked.model == "some/model"
        return grammars.vllm_layers(partition, layers, asked.pipeline_parallel_size)
    job = tomllib.loads(file.read_text())["parallelism"]
    parts: list[list[str]] = job["module_fqns_per_model_part"]
    assert len(parts) == job["pipeline_parallel_degree"]
    return [sum(one.split(".")[-1].isdecimal() for one in part) for part in parts]


DEGREES = ["llama3-8b-decode-sn40l-16", "llama3-8b-prefill-sn40l-16", "llama3-70b-decode-sn40l-16"]
DEGREES += ["table6-free-8x1", "table6-dfmodel-4x2", "gpt3-1t-sn30-1024", "gpt3-175b-12-layers-8x5", "moe-3-experts"]


@pytest.mark.parametrize("name", DEGREES)
def test_plans_of_degrees_go_out_and_come_back(name: str, tmp_path: Path) -> None:
    """Degrees, micro-batch and stages by the published grammars; what is open is solved to the same objective."""
    instance: Any = read(f"dataflow/{name}")
    result = solve(instance, time_limit=60, isolate=False)
    assert result.solution is not None and result.status == "optimal"
    solution = resolve(family_of(instance).solution).make(**result.solution)
    form = family_of(instance).plan_format("megatron" if instance.task.purpose == "training" else "vllm")
    why = unsuited(form, instance, solution)
    if name == "gpt3-175b-12-layers-8x5":  # stages share out kernels
        assert why is not None and "task.stages=layers" in why
        return
    assert why is None
    file, degrees = _files(instance, result, form.name, tmp_path), solution.degrees
    if form.name == "megatron":
        asked = grammars.megatron().parse_args(grammars.sourced(file))
        assert (asked.tensor_model_parallel_size, asked.pipeline_model_parallel_size) == (
            degrees.tensor,
            degrees.pipeline,
        )
        assert (asked.micro_batch_size, asked.global_batch_size) == (instance.task.micro_batch, instance.task.batch)
        each = instance.workload.layers // degrees.pipeline
        assert [chunk.count("t") for chunk in grammars.megatron_stages(asked)] == [each] * degrees.pipeline
    else:
        words, partition = grammars.served(file, "m")
        said = grammars.vllm().parse_args(words[1:])
        assert (said.tensor_parallel_size, said.data_parallel_size) == (degrees.tensor, degrees.data)
        assert grammars.vllm_layers(partition, instance.workload.layers, said.pipeline_parallel_size)
    _returned(instance, result, file)


def _training(**task: Any) -> Any:
    """A small GPT on eight chips in two dimensions, mode ``physical``."""
    parameters: dict[str, Any] = {"hidden": 256, "heads": 4, "tokens": 64, "layers": 4, "backward": True, "batch": 8}
    instance: Any = generate("dataflow-gpt", **parameters, sizes=[2, 2, 2], mode="physical")
    return instance.replace(
        task=instance.task.replace(**{"micro_batch": None, "recompute": None, "shard": None, **task})
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--use-distributed-optimizer", {"shard": "optimizer", "recompute": "none"}),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", {"recompute": "full"}),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", {"shard": "weights"}),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", {"shard": "gradients"}),
        ("--micro-batch-size 2", {"micro_batch": 2}),
    ],
)
def test_how_a_batch_is_run_is_said_and_read(options: str, expected: dict[str, Any]) -> None:
    """Options of sharing out, recomputation and micro-batch are pins of the task, and the mapping has them."""
    instance = _training()
    degrees = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
    _, plan = read_plan(f"{degrees} {options}".encode(), "x.sh", instance)
    task = plan.pinned.task
    assert (task.degrees.tensor, task.degrees.pipeline, task.degrees.data) == (2, 2, 2)
    result = solve(plan.pinned, time_limit=60, isolate=False)
    assert result.solution is not None and plan.finish is not None
    solution = plan.finish(resolve(family_of(instance).solution).make(**result.solution))
    certificate = check(instance, solution)
    assert certificate.feasible and certificate.objective == result.objective
    for field, value in expected.items():
        assert getattr(solution, field) == value
    words = megatron.emit(instance, solution, _options())["megatron.sh"]
    again = megatron.read(str(words), "x", instance.workload.layers)
    for field, value in expected.items():
        assert getattr(again, field) == value


def _options() -> Any:
    from chipmap.plans.plan import EmitOptions

    return EmitOptions()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tttL'", "equally many"),
        ("--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Ett|ttL'", "share out evenly"),
        ("--pipeline-model-parallel-size 2 --num-layers 6", "has 6 layers, the instance 4"),
        ("--tensor-model-parallel-size 16", "can't be here"),
        ("--tensor-model-parallel-size 2 --context-parallel-size 2", "by rows .2. and by tokens"),
        ("--tensor-model-parallel-size two", "from 1 on"),
        ("--tensor-model-parallel-size 2 --global-batch-size 9", "has a batch of 9"),
        ("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", "schedule 1f1b has one"),
        ("--tensor-model-parallel-size 2 --recompute-granularity block", "'block'"),
        ("--tensor-model-parallel-size 2 'open", "no command line"),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Ett|ttmL'", "multi-token"),
    ],
)
def test_what_an_instance_of_degrees_cannot_state_is_refused(text: str, said: str) -> None:
    """Uneven stages, other layers, degrees that the network doesn't hold, and what isn't a command line."""
    with pytest.raises(InputError, match=said):
        read_plan(text.encode(), "x.sh", _training(), "megatron")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("megatron", "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tL'", "has 2 layers, the"),
        ("megatron", "--pipeline-model-parallel-size 4", "4 layers in 4 stages|has 4 stages, the package 3 chips"),
        ("megatron", "--tensor-model-parallel-size 2", "shares layers among chips"),
        ("vllm", "VLLM_PP_LAYER_PARTITION=1,2 vllm serve m", "has 3 layers, the network 4"),
        ("vllm", "VLLM_PP_LAYER_PARTITION=1,3 vllm serve m -pp 3", "has 2 numbers for 3 stages"),
        ("vllm", "VLLM_PP_LAYER_PARTITION=0,4 vllm serve m", "without layers"),
        ("vllm", "VLLM_PP_LAYER_PARTITION=a,4 vllm serve m", "is 'a,4'"),
        ("torchtitan", '[["embed", "layers.0"], ["layer.1"]]', "no module is called 'layer.1'"),
        ("torchtitan", '[["embed", "layers.0"], ["layers.1"]]', "says nothing of"),
        ("torchtitan", '[["embed", "layers.0", "layers.0"], ["embed"]]', "already"),
        ("torchtitan", '[["layers.1", "head"], ["embed", "layers.0", "layers.2", "layers.3"]]', "behind part"),
        ("torchtitan", '[["embed", 3]]', "no list of lists"),
        ("torchtitan", "{[", "neither TOML nor JSON"),
    ],
)
def test_what_is_no_plan_of_the_network_is_refused(name: str, text: str, said: str) -> None:
    """Missing layers, unknown modules (with near names), modules in two parts, stages that the package hasn't."""
    graph = _chain("embed", *(f"layers.{i}" for i in range(4)), "head")
    with pytest.raises(InputError, match=said):
        read_plan(text.encode(), "x", _ring(graph, 3), name)


def test_a_plan_that_cuts_a_layer_is_refused_with_the_command_that_solves() -> None:
    """A layer on two chips, and a head that is on another chip than the norm before it."""
    graph = generators.gpt2(layers=2, hidden=64, heads=2, sequence=16, vocabulary=64)
    instance = _ring(graph, 2)
    chips = [int(one.name.startswith(("layer.1.feedforward", "final", "head"))) for one in graph.operations]
    solution = resolve(family_of(instance).solution).make(chips=chips)
    form = family_of(instance).plan_format("vllm")
    assert "chipmap solve INSTANCE --cut blocks" in str(unsuited(form, instance, solution))
    assert "layer.1 runs on 0, 1" in str(unsuited(form, instance, solution))
    chips = [int(one.name.startswith("head")) for one in graph.operations]
    why = str(unsuited(form, instance, resolve(family_of(instance).solution).make(chips=chips)))
    assert "together=" in why and "head.mm" in why


def test_options_are_read_as_a_shell_reads_them() -> None:
    """Arrays, continued lines, comments and variables."""
    text = "A=(\n --x 1 # --y 2\n --z 'Et|(t|)*2L' \\\n --flag)\nexport VAR=3,4 B=$C cmd --v=5"
    found = read_options(text, "x")
    assert found == {
        "--x": ["1"],
        "--z": ["Et|(t|)*2L"],
        "--flag": ["export"],
        "VAR": ["3,4"],
        "B": ["$C"],
        "--v": ["5"],
    }


def test_a_plan_is_told_in_words() -> None:
    """Equal stages are told once."""
    assert LayerPlan(stages=2, chunks=("Ett", "ttL")).text == "2 stages of 2 layers, tensor 1"
    assert LayerPlan(stages=2, chunks=("Et", "ttL"), context=4).text == "2 stages of 1, 2 layers, tensor 1, context 4"


def test_what_each_stage_makes_again_is_in_each_list_and_pinned_nowhere() -> None:
    """A mask that all layers read is free of pins, and its module stands in each list of torchtitan's."""
    names = ["embed.a", "mask.a", "mask.b", *(f"layers.{i}.a" for i in range(4)), "head.a"]
    edges = [("embed.a", "layers.0.a"), ("mask.a", "mask.b"), ("layers.3.a", "head.a")]
    edges += [("mask.b", f"layers.{i}.a") for i in range(4)] + [
        (f"layers.{i}.a", f"layers.{i + 1}.a") for i in range(3)
    ]
    flop = {name: 10**6 if name[0] in "lh" else 1000 for name in names}
    instance = _ring(generators.explicit(flop=flop, edges=edges, tensor_bytes=100, weight_bytes={"embed.a": 9000}), 3)
    parts = layers(instance)
    assert sorted(instance.graph.operations[v].name for v in parts.again) == ["mask.a", "mask.b"]
    text = json.dumps([["embed", "mask", "layers.0", "layers.1"], ["mask", "layers.2", "layers.3"], ["mask", "head"]])
    _, plan = read_plan(text.encode(), "x", instance)
    assert plan.pinned is not None and not any("mask" in pin.operation for pin in plan.pinned.pins)
    result = solve(plan.pinned, isolate=False)
    assert result.solution is not None
    solution = resolve(family_of(instance).solution).make(**result.solution)
    file = emit(result, instance, solution, "torchtitan")["torchtitan.toml"]
    said = tomllib.loads(file.decode())["parallelism"]["module_fqns_per_model_part"]
    assert [set(part) for part in said] == [set(part) for part in json.loads(text)]
