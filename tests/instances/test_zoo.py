"""Current networks as PyTorch exports them: what the readers say of them, beside what PyTorch itself says.

``benchmarks/zoo`` made the files and ``zoo/expected.json``. Neither PyTorch nor ``transformers`` is needed here.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import chipmap
from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read
from chipmap.networks.graph import Operation, OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph

ZOO = Path(__file__).parent / "zoo"
EXPECTED: dict[str, dict[str, Any]] = json.loads((ZOO / "expected.json").read_text(encoding="utf-8"))
FILES = sorted(EXPECTED)
TORCH = [name for name in FILES if name.endswith(".pt2")]
ONNX = [name for name in FILES if name.endswith(".onnx")]
NETWORKS = ["bert", "convnext", "gpt2", "llama", "mamba", "mixtral", "qwen2"]
NETWORKS += ["resnet", "swin", "t5", "unet", "vit", "whisper"]
#: What PyTorch's counter counts, as operators of ONNX.
PRODUCTS = {"MatMul", "Gemm", "Conv", "Einsum", "Attention"}


@cache
def imported(name: str) -> ImportedGraph:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    return import_graph(str(ZOO / name))


def by_name(graph: OperationGraph) -> dict[str, Operation]:
    return {operation.name: operation for operation in graph.operations}


def nodes_of(name: str) -> set[str]:
    """All nodes of the exported graph, and of the graphs inside its wrappers."""
    return {*EXPECTED[name]["results"], *EXPECTED[name]["constant_nodes"]}


def stored_bytes(graph: OperationGraph) -> int:
    """Bytes of parameters that the graph holds: weights of operations and the tensors of shared parameters."""
    shared = sum(tensor.bytes for tensor in graph.tensors if graph.operations[tensor.producer].kind == "parameter")
    return shared + sum(operation.weight_bytes for operation in graph.operations)


def test_the_zoo_is_whole() -> None:
    forms = ("decomposed.pt2", "onnx.onnx", "plain.pt2")
    assert [f"{network}-{form}" for network in NETWORKS for form in forms] == FILES


@pytest.mark.parametrize("name", TORCH)
def test_each_node_has_the_flop_that_torch_counts(name: str) -> None:
    own = by_name(imported(name).graph)
    counted = EXPECTED[name]["flop_by_node"]
    assert sum(counted.values()) == EXPECTED[name]["flop"] > 0
    computed = {node: flop for node, flop in counted.items() if own[node].role == "compute"}
    assert {node: own[node].flop for node in computed} == computed
    # products of constants alone are done beforehand
    assert sum(computed.values()) >= 0.99 * EXPECTED[name]["flop"]


@pytest.mark.parametrize("name", ONNX)
def test_products_have_the_flop_that_torch_counts(name: str) -> None:
    flop = sum(operation.flop for operation in imported(name).graph.operations if operation.kind in PRODUCTS)
    assert flop == pytest.approx(EXPECTED[name]["flop"], rel=0.01)


@pytest.mark.parametrize("name", TORCH)
def test_every_node_is_an_operation(name: str) -> None:
    assert nodes_of(name) <= by_name(imported(name).graph).keys()


@pytest.mark.parametrize("name", TORCH)
def test_every_tensor_has_the_bytes_that_torch_gives_it(name: str) -> None:
    graph = imported(name).graph
    made: Counter[str] = Counter()
    for tensor in graph.tensors:
        made[graph.operations[tensor.producer].name] += tensor.bytes
    own = by_name(graph)
    results = {node: size for node, size in EXPECTED[name]["results"].items() if own[node].role != "constant"}
    assert {node: made[node] for node in results} == results


@pytest.mark.parametrize("name", TORCH)
def test_what_each_run_computes_is_no_constant(name: str) -> None:
    """Nor is what is made of a parameter, but for operators that read a tensor's shape alone. The rest is known."""
    own = by_name(imported(name).graph)
    shapes = {"full_like", "empty_like", "ones_like", "zeros_like", "new_ones", "new_zeros", "new_full"}
    assert {own[node].kind for node in EXPECTED[name]["results"] if own[node].role == "constant"} <= shapes
    assert {own[node].role for node in EXPECTED[name]["constant_nodes"]} <= {"constant", "view"}


@pytest.mark.parametrize("name", TORCH)
def test_parameters_have_the_bytes_of_the_module(name: str) -> None:
    expected, found = EXPECTED[name], imported(name)
    most = sum(expected["parameters"].values())
    places = sum(
        size for own, size in expected["parameters"].items() if own.endswith("_ids")
    )  # of which a part is read
    assert most - places <= stored_bytes(found.graph) <= most
    assert not [one for one in expected["folded"] if one.endswith((".weight", ".bias"))]  # tables of positions too
    assert found.totals is not None
    assert found.totals.bytes + found.totals.buffers[1] == expected["module_bytes"]


@pytest.mark.parametrize("name", ONNX)
def test_initializers_have_the_bytes_of_the_file(name: str) -> None:
    """Up to the whole numbers in initializers (shapes, axes) and single numbers, which each reader holds."""
    large = sum(size for size in EXPECTED[name]["parameters"].values() if size >= 64)
    small = sum(size for size in EXPECTED[name]["parameters"].values() if size < 64)
    readers = len(imported(name).graph.operations)
    assert large <= stored_bytes(imported(name).graph) <= large + small + 8 * readers


@pytest.mark.parametrize("name", ["llama-plain.pt2", "convnext-decomposed.pt2", "resnet-onnx.onnx"])
def test_a_network_is_mapped_node_by_node(name: str) -> None:
    """Each ends with a certificate; every node of the exported graph has a row in the mapping."""
    imported(name)  # skips without the library
    instance: Any = read(ZOO / name, ["package.chips=3"], family="ring")
    result = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=300))
    assert result.status == "optimal" and result.certificate is not None and result.certificate.feasible
    family = family_of(instance)
    solution = resolve(family.solution).from_json(json.dumps(result.solution).encode(), "the solution")
    files = resolve(family.files)(instance, solution)
    rows = {row["name"] for row in csv.DictReader(io.StringIO(files["mapping.csv"].decode()))}
    assert (nodes_of(name) if name in TORCH else by_name(imported(name).graph).keys()) <= rows
