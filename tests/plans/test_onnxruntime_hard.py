"""Parts of small ONNX models with what is hard to cut, in ONNX Runtime, beside the whole model: every cut in two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chipmap.networks.importers.reading import import_graph
from chipmap.plans.onnx import format as form
from chipmap.plans.plan import EmitOptions

onnx: Any = pytest.importorskip("onnx", reason="needs the extra judges")
runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra judges")
from onnx import helper  # noqa: E402

from chipmap.instances.ring.from_graph import from_graph  # noqa: E402
from tests.plans.onnx_networks import info, stored, weight  # noqa: E402
from tests.plans.test_onnx_plans import computing, cut  # noqa: E402


class Case(NamedTuple):
    """Nodes, inputs, outputs and initializers; the shape of ``x`` that the plan is made for and one that it runs with,
    and which branch it reads."""

    nodes: list[Any]
    inputs: list[Any]
    outputs: list[Any]
    inits: list[Any]
    planned: tuple[int, ...] = (4, 4)
    run: tuple[int, ...] = (4, 4)
    branch: str | None = None
    opset: tuple[int, int] = (18, 9)  # and version of the format


def _branching(branch: str) -> Case:
    """A branch that the input decides; the two read other tensors from around them, and names inside are the same."""
    node = helper.make_node
    then = helper.make_graph(
        [node("MatMul", ["b", "v"], ["t"], "in"), node("Add", ["t", "x"], ["out"], "out")],
        "then",
        [],
        [info("out", 4, 4)],
    )
    other = helper.make_graph(
        [node("Sub", ["a", "b"], ["t"], "in"), node("Neg", ["t"], ["out"], "out")], "else", [], [info("out", 4, 4)]
    )
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "product"),
        node("Relu", ["a"], ["b"], "relu"),
        node("ReduceSum", ["a"], ["s"], "sum", keepdims=0),
        node("Greater", ["s", "zero"], ["yes"], "more"),
        node("If", ["yes"], ["o"], "branch", then_branch=then, else_branch=other),
        node("Exp", ["o"], ["p"], "exp"),
        node("Add", ["p", "b"], ["y"], "last"),
    ]
    inits = [weight("w", 4, 4), weight("v", 4, 4), stored("zero", np.float32(0))]
    return Case(nodes, [info("x", 4, 4)], [info("y", 4, 4), info("o", 4, 4)], inits, branch=branch)


def _open_batch() -> Case:
    """Shapes that are taken from tensors: planned for three samples, run with five."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Gather", ["size", "first"], ["count"], axis=0),
        node("MatMul", ["x", "w"], ["a"]),
        node("Concat", ["count", "rest"], ["flat"], axis=0),
        node("Reshape", ["a", "flat"], ["r"]),
        node("Relu", ["r"], ["b"]),
        node("Reshape", ["b", "size"], ["c"]),
        node("Add", ["c", "x"], ["d"]),
        node("MatMul", ["d", "w"], ["y"]),
    ]
    inits = [weight("w", 4, 4), stored("first", np.array([0])), stored("rest", np.array([-1]))]
    return Case(nodes, [info("x", "batch", 4, 4)], [info("y", "batch", 4, 4)], inits, (3, 4, 4), (5, 4, 4))


def _given_out(opset: tuple[int, int], *more: Any) -> Case:
    """A weight that is read twice and returned, an input that is returned, views of what others read."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Transpose", ["b"], ["t"], perm=[1, 0]),
        node("MatMul", ["t", "w"], ["c"]),
        node("Add", ["c", "x"], ["y"]),
    ]
    outputs = [info(name, 4, 4) for name in ("y", "a", "t", "w", "x")]
    return Case(nodes, [info("x", 4, 4), *more], outputs, [weight("w", 4, 4)], opset=opset)


CASES = {
    "then": _branching("true"),
    "else": _branching("false"),
    "open batch": _open_batch(),
    "given out": _given_out((22, 10)),
    "weights among the inputs": _given_out((8, 3), info("w", 4, 4)),
}


def values(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """What a model gives."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    read = {one.name: given[one.name] for one in session.get_inputs()}
    return dict(zip((one.name for one in session.get_outputs()), session.run(None, read), strict=True))


@pytest.mark.parametrize("name", list(CASES))
def test_every_cut_in_two_gives_what_the_whole_model_gives(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "whole.onnx"
    graph = helper.make_graph(case.nodes, "network", case.inputs, case.outputs, case.inits)
    opsets = [helper.make_opsetid("", case.opset[0])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=case.opset[1]), path)
    read = import_graph(str(path), None, {"x": case.planned}, branch=case.branch)
    instance, tried = from_graph(read, "whole"), 0
    instance = instance.replace(package=instance.package.replace(chips=2), constraints=("C1",))
    draws = np.random.default_rng(3)
    inputs = [{"x": sign * np.abs(draws.normal(size=case.run)).astype(np.float32)} for sign in (1, -1)]
    for end in range(1, len(computing(instance))):
        solution = cut(instance, end)
        if form.suits(instance, solution) is not None:  # through a branch, which runs whole
            continue
        for file, data in form.emit(instance, solution, EmitOptions(str(path))).items():
            (tmp_path / file).write_bytes(data.encode() if isinstance(data, str) else data)
        plan = json.loads((tmp_path / form.PLAN).read_text())
        for given in inputs:
            wanted, found = values(path, given), dict(given)
            for stage in plan["stages"]:
                found |= values(tmp_path / stage["file"], found)
            for one, value in wanted.items():
                np.testing.assert_allclose(found[one], value, rtol=1e-4, atol=1e-5)
        tried += 1
    assert tried >= 3
