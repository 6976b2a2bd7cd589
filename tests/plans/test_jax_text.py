"""Format ``jax`` without JAX: the text that is written, what is read back of it, and what is refused."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import Any

import pytest

import chipmap
from benchmarks.exchanges.cases import CHIPS, LAYERS, schemes, tensor_parallel
from benchmarks.exchanges.charged import one_group
from benchmarks.exchanges.free import h100_layer
from chipmap.family import family_of, resolve
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.sharding import schemes as choices
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.instances.dataflow.workloads.moe import moe_network
from chipmap.plans.emission import emit, unsuited
from chipmap.plans.jax.format import FILE, program
from chipmap.plans.jax.specs import in_json
from chipmap.plans.plan import EmitOptions
from chipmap.plans.reading import read_plan, recognised
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.validation.dataflow.present import places

CASES = [
    pytest.param(layers, trained, pins, id=f"{layers.name}-{'both' if trained else 'forward'}-{pins}")
    for layers in LAYERS
    for trained in ((False, True) if layers.trained else (False,))
    for pins in layers.pins
    if trained or pins != "TP, FFN0_b by tokens"
]


def mapped(workload: Any, own: dict[str, Any], keep: str = "none") -> tuple[DataflowInstance, DataflowSolution]:
    """A layer on eight chips that don't fuse, under these schemes, which its kernels may have.

    Their SRAM holds the parameters of any kernel.
    """
    able = [
        one.replace(schemes=[*dict.fromkeys((*choices(one, "physical"), own[one.name]))]) for one in workload.kernels
    ]
    instance, degrees = one_group(workload.replace(kernels=able), CHIPS)
    system = instance.system
    instance = instance.replace(system=system.replace(chip=system.chip.replace(sram_bytes=2**32)))
    kernels = instance.workload.kernels
    late, index = [one.phase == "backward" for one in kernels], {one.name: i for i, one in enumerate(kernels)}
    order = places(late, [(index[u], index[v]) for u, v in workload.edges])
    solution = DataflowSolution.make(
        degrees=degrees, schemes=[own[one.name] for one in kernels], partitions=order, keep=keep, micro_batch=1
    )
    return instance, solution


def llama(keep: str = "step", pins: str = "TP + SP") -> tuple[DataflowInstance, DataflowSolution]:
    workload = LAYERS[0].cut(True)
    return mapped(workload, dict(schemes(workload, pins)), keep)


def written(instance: Any, solution: Any) -> str:
    form = family_of(instance).plan_format("jax")
    assert unsuited(form, instance, solution) is None
    made: dict[str, str] = resolve(form.emit)(instance, solution, EmitOptions())
    return made[FILE]


def assert_same(instance: Any, solution: Any, again: Any) -> None:
    check = resolve(family_of(instance).check)
    before, after = check(instance, solution), check(instance, again)
    assert (after.feasible, after.objective, after.terms) == (before.feasible, before.objective, before.terms)


@pytest.mark.parametrize(("layers", "trained", "pins"), CASES)
def test_a_program_comes_back_with_the_same_certificate(layers: Any, trained: bool, pins: str) -> None:
    """Every layer and scheme of the judge, at cut and at full widths."""
    for workload in (layers.cut(trained), layers.full(trained)):
        instance, solution = mapped(workload, dict(schemes(workload, pins)))
        text = written(instance, solution)
        compile(text, FILE, "exec")
        found = recognised(text.encode(), FILE, instance)
        assert found is not None and found.name == "jax"
        _, plan = read_plan(text.encode(), FILE, instance)
        assert plan.pinned is None and plan.solution.schemes == solution.schemes
        assert_same(instance, solution, plan.solution)


@pytest.mark.parametrize("keep", ["none", "phase", "step"])
def test_each_exchange_is_written_once(keep: str) -> None:
    """The scopes of the text are the plan's exchanges, in its order."""
    instance, solution = llama(keep)
    text, (of, _) = written(instance, solution), program(instance, solution)
    scopes = [one for one in re.findall(r'named_scope\("(.*)"\)', text) if "statistics" not in one]
    assert scopes == [f"{one.payer}|{one.term}|{one.tensor}" for one, _ in of.moves()]
    assert len(scopes) == {"none": 18, "phase": 10, "step": 8}[keep]
    assert ("again" in text.partition("def on_a_chip")[0]) == (keep != "step")


def test_the_text_is_alone_and_readable() -> None:
    """It imports nothing of ours; each kernel has a function that says what it is; lines are short."""
    instance, solution = llama()
    text = written(instance, solution)
    tree = ast.parse(text)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"argparse", "os", "jax", "jax.numpy", "numpy"}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert all(ast.get_docstring(node) for node in functions.values())
    made = {kernel.name for kernel in instance.workload.kernels} - {"Add_Prev"}
    assert {f"run_{name}" for name in made} <= functions.keys()
    assert max(len(line) for line in text.splitlines() if not line.startswith("# {")) <= 120
    assert len(text.splitlines()) < 800


@cache
def solved(fused: bool) -> tuple[DataflowInstance, Result]:
    """A layer of Llama3-8B on eight H100 with free schemes, forward and backward."""
    instance = h100_layer()
    if fused:
        chip = instance.system.chip.replace(fused=True)
        system = instance.system.replace(chip=chip)
        instance = instance.replace(system=system, task=instance.task.replace(fused=True, partitions=12))
    return instance, chipmap.solve(instance, time_limit=4)


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_solved_comes_back_with_its_certificate(fused: bool) -> None:
    """On chips that fuse, functions are in the order of partitions."""
    instance, result = solved(fused)
    solution = DataflowSolution.make(**(result.solution or {}))
    files = emit(result, instance, solution, "jax")
    assert list(files) == [FILE]
    data = files[FILE]
    _, plan = read_plan(data, FILE, instance)
    assert_same(instance, solution, plan.solution)
    listed = [int(one) for one in re.findall(r"# partition (\d+)", data.decode())]
    names = [kernel.name for kernel in instance.workload.kernels]
    own = {part for name, part in zip(names, solution.partitions, strict=True) if name != "Add_Prev"}
    assert listed == (sorted(own) if fused else [])


def test_specs_alone_leave_the_rest_to_be_solved() -> None:
    """Those of a proved optimum of the forward phase: the best mapping that keeps to them is as good."""
    instance = h100_layer()
    instance = instance.replace(workload=llama_network(step="forward", split_tokens=True))
    result = chipmap.solve(instance, time_limit=60)
    text = written(instance, DataflowSolution.make(**(result.solution or {})))
    body = text.partition("SPECS = ")[2].partition("\n}")[0] + "\n}"
    for data in (f"from jax.sharding import PartitionSpec as P\n\nSPECS = {body}\n", _as_json(body)):
        _, plan = read_plan(data.encode(), "specs", instance)
        assert plan.solution is None and plan.pinned is not None
        assert "layouts of 8 tensors" in plan.covered
        found = chipmap.solve(plan.pinned, time_limit=60)
        assert result.status == found.status == "optimal" and found.objective == result.objective


def _as_json(body: str) -> str:
    table = re.findall(r'"(.*)": (P\(.*\))', body)
    return json.dumps(dict(table))


def test_specs_say_which_schemes_are_left() -> None:
    """Rows, columns, whole; two axes are rows and columns; a mesh says how many chips share a layer."""
    instance, _ = llama()
    specs = {"Q": ["x", None], "W:Proj": [None, "x"], "FFN1": [None, None, "x"], "V": None}
    _, plan = read_plan(json.dumps({"mesh": {"x": 8}, "specs": specs}).encode(), "specs.json", instance)
    left = {one.name: one.schemes for one in plan.pinned.workload.kernels if one.name in ("Q", "Proj", "FFN1", "V")}
    assert left["Q"] == ("OUTER",) and set(left["Proj"]) == {"K", "K_RS", "K_N"} == set(left["FFN1"])
    assert left["V"] == ("N",)
    assert in_json(b'{"Q": "PartitionSpec(\'x\',)", "V": "P()"}') is not None
    assert in_json(b'{"Q": "M"}') is None and in_json(b"{}") is None and in_json(b"[1]") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"Qq": ["x"]}', "no kernel with parameters is called 'Qq'"),
        ('{"SiLU": ["x"]}', "'SiLU' has no parameters"),
        ('{"Q": ["x", "y"]}', "splits rows and columns of 'Q'"),
        ('{"Q": ["x", null, null, null]}', "has 4 axes"),
        ('{"Q": [null, "x"]}', "splits columns of 'Q', whose schemes are"),
        ('{"specs": {"Q": ["x"]}, "mesh": {"x": 3}}', "its mesh has 3 chips"),
        ('{"Add_Prev": [null, null, "x"]}', "says nothing of any parameter"),
        ("import jax  # PartitionSpec\n", "has no table of PartitionSpecs"),
        ("SPECS = {  # PartitionSpec\n", "is no Python"),
    ],
)
def test_bad_specs_are_refused(text: str, words: str) -> None:
    instance, _ = llama()
    with pytest.raises(InputError, match=re.escape(words)):
        read_plan(text.encode(), "specs", instance, "jax")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r'\n        "FFN1_b": .*', "", "says nothing of kernel 'FFN1_b'"),
        (r'        "FFN1_b": ', '        "FFN1_bb": ', "no kernel is called 'FFN1_bb'"),
        (r"\"jax/1\"", '"jax/2"', "of schema 'jax/2'"),
        (r'"keep"', '"kept"', "its MAPPING isn't one"),
        (r"\(\"OUTER\"", "(OUTER", "its MAPPING isn't one"),
        (r"\(\"OUTER\"", '("OUTR"', "OUTR"),
    ],
)
def test_a_spoilt_mapping_is_refused(old: str, new: str, words: str) -> None:
    instance, solution = llama()
    text, count = re.subn(old, new, written(instance, solution), count=1)
    assert count == 1
    with pytest.raises(InputError, match=re.escape(words)):
        read_plan(text.encode(), FILE, instance, "jax")


def test_a_program_of_another_instance_is_refused() -> None:
    """By the hash that it carries; of the same network with other chips it is said so."""
    instance, result = solved(False)
    data = emit(result, instance, DataflowSolution.make(**(result.solution or {})), "jax")[FILE]
    with pytest.raises(InputError, match="was made for another instance"):
        read_plan(data, FILE, llama()[0])
    dearer = instance.replace(task=instance.task.replace(utilisation=0.5))
    with pytest.raises(InputError, match="other costs or chips of this network"):
        read_plan(data, FILE, dearer)


def _refused(instance: Any, solution: Any) -> str:
    why = unsuited(family_of(instance).plan_format("jax"), instance, solution)
    assert why is not None
    return why


def test_what_a_program_cant_say_is_refused_with_a_remedy() -> None:
    instance, solution = llama()
    task = instance.task
    assert "--set task.recompute=false" in _refused(instance, solution.replace(recompute="full"))
    assert "--set task.stages=layers" in _refused(instance.replace(task=task.replace(stages="kernels")), solution)
    assert "--set task.across_layers=false" in _refused(
        instance.replace(task=task.replace(across_layers=True)), solution
    )
    assert "mode=physical" in _refused(instance.replace(mode="dfmodel"), solution)
    two = solution.degrees.replace(data=2)
    assert "share out weights" in _refused(instance, solution.replace(degrees=two, shard="weights"))
    assert "share experts" in _refused(instance, solution.replace(degrees=two.replace(expert=2)))
    odd = solution.replace(degrees=Degrees(tensor=5, dimensions=("tensor",)))
    assert "aren't 5 equal parts" in _refused(instance, odd) or "heads on 5 chips" in _refused(instance, odd)


def rotated(kv_heads: int) -> tuple[DataflowInstance, DataflowSolution]:
    """Keys by rows on eight chips, each with a part of a head."""
    sizes = {"hidden": 128, "heads": 16, "kv_heads": kv_heads, "ffn": 64, "layers": 1, "tokens": 16}
    workload = llama_network(model="", step="forward", rotary=True, **sizes)  # type: ignore[arg-type]
    own = {one.name: tensor_parallel(one) for one in workload.kernels} | {"K": "M", "Rotary_K": "M"}
    return mapped(workload, own)


def test_what_a_chip_cant_turn_or_send_alone_is_refused() -> None:
    """A pair of rows of a rotation on two chips, and tokens that experts don't share evenly."""
    assert "rows of 'Rotary_K' are turned in pairs, and 8 chips part some" in _refused(*rotated(1))
    assert unsuited(family_of(rotated(2)[0]).plan_format("jax"), *rotated(2)) is None
    sizes = {"hidden": 128, "heads": 16, "kv_heads": 8, "inner": 64, "layers": 1, "tokens": 20}
    workload = moe_network(model="mixtral-8x7b", step="forward", **sizes)  # type: ignore[arg-type]
    unequal = mapped(workload, {one.name: "NONE" for one in workload.kernels})
    assert "20 tokens aren't shared out evenly among 8 experts" in _refused(*unequal)
    workload = moe_network(model="mixtral-8x7b", step="forward", **sizes | {"tokens": 32})  # type: ignore[arg-type]
    by_tokens = {one.name: "N" if one.name in ("Dispatch", "Combine") else "NONE" for one in workload.kernels}
    alone = mapped(workload, dict.fromkeys(by_tokens, "NONE"))
    assert unsuited(family_of(alone[0]).plan_format("jax"), *alone) is None
    assert "4 tokens on a chip aren't shared out evenly" in _refused(*mapped(workload, by_tokens))


def attending(tokens: int, heads: int = 16, kv_heads: int = 8) -> tuple[DataflowInstance, DataflowSolution]:
    """A layer by heads, of eight rows each where there are 16."""
    sizes = {"hidden": 128, "heads": heads, "kv_heads": kv_heads, "ffn": 64, "layers": 1, "tokens": tokens}
    workload = llama_network(model="", step="forward", backward=True, **sizes)  # type: ignore[arg-type]
    return mapped(workload, {one.name: tensor_parallel(one) for one in workload.kernels}, "step")


def test_what_attention_multiplies_doesnt_depend_on_the_number_of_tokens() -> None:
    """With as many tokens as rows of a head, sizes don't tell a matrix from its transpose."""
    calls = [
        [line for line in written(*attending(tokens)).splitlines() if "product(" in line or "outer(" in line]
        for tokens in (16, 8)
    ]
    assert calls[0] == calls[1] and len(calls[0]) > 6


def test_kernels_whose_meaning_isnt_known_are_named() -> None:
    """Other names, other sizes, reads that a derivative lacks (GPT's published backward kernels), caches."""
    instance, solution = llama()
    kernels, edges = instance.workload.kernels, instance.workload.edges

    def changed(**fields: Any) -> str:
        return _refused(instance.replace(workload=instance.workload.replace(**fields)), solution)

    renamed = [one.replace(name="Mystery") if one.name == "SiLU" else one for one in kernels]
    new = [tuple("Mystery" if end == "SiLU" else end for end in edge) for edge in edges]
    assert "what 'Mystery' computes isn't known" in changed(kernels=renamed, edges=new)
    wider = [one.replace(M=one.M + 8) if one.name == "Norm2" else one for one in kernels]
    assert "'Norm2' isn't as large as what it reads" in changed(kernels=wider)
    assert "'SiLU_b2' needs 'Gate', which it doesn't read" in changed(
        edges=[edge for edge in edges if edge != ("Gate", "SiLU_b2")]
    )
    cached = [one.replace(fetch_bytes=8) if one.name == "MHA1" else one for one in kernels]
    assert "'MHA1' fetches from DRAM" in changed(kernels=cached)
    unknown = {"kind": "opaque", "flop": 1, "output_bytes": 1, "weight_bytes": 0}
    opaque = [one.replace(**unknown) if one.name == "SiLU" else one for one in kernels]
    assert "it is opaque" in changed(kernels=opaque)
