"""Control flow of ONNX models: branches and loops that are settled beforehand become straight programs.

An ``If`` whose condition is known is its branch. A ``Loop`` whose number of iterations and condition are known is its
body, once per iteration, and so is a ``Scan``, whose number of iterations is the length of what it scans. What depends
on the inputs of the model is refused: no one program stands for it. Of an ``If`` the user may choose the branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chipmap.networks.importers.onnx.arguments import attributes, whole
from chipmap.networks.importers.onnx.folding import Array
from chipmap.networks.importers.onnx.shapes import shape_of
from chipmap.networks.importers.onnx.state import Place, ProgramState
from chipmap.networks.importers.program import Step
from chipmap.networks.importers.steps import MAX_UNROLLED
from chipmap.records import InputError, counted

if TYPE_CHECKING:
    import onnx

Graphs = Mapping[str, "onnx.GraphProto"]


def control(state: ProgramState, node: onnx.NodeProto, graphs: Graphs, place: Place, scope: dict[str, str]) -> None:
    """Add a node with graphs inside; :class:`InputError` if what happens depends on the model's inputs."""
    if node.op_type == "If" and {"then_branch", "else_branch"} <= graphs.keys() and any(node.input):
        _branch(state, node, graphs, place, scope)
    elif node.op_type == "Loop" and "body" in graphs and len(node.input) > 1 and graphs["body"].output:
        _loop(state, node, graphs["body"], place, scope)
    elif node.op_type == "Scan" and "body" in graphs:
        _scan(state, node, graphs["body"], place, scope)
    elif node.op_type == "SequenceMap" and "body" in graphs and node.input and scope[node.input[0]] in state.sequences:
        _map(state, node, graphs["body"], place, scope)
    else:
        what = f"control flow: node {place.name(node)!r} is a {node.op_type}, with a graph inside the graph"
        remedy = "Only straight programs are read: export the model with its loops unrolled and its branches fixed."
        raise InputError(what, state.where, remedy)


def _branch(state: ProgramState, node: onnx.NodeProto, graphs: Graphs, place: Place, scope: dict[str, str]) -> None:
    name, condition = place.name(node), _scalar(state, scope.get(node.input[0], ""))
    inside = place.inside(node)
    branches = graphs["else_branch"], graphs["then_branch"]
    if condition is None:
        condition = state.counting.chosen(
            lambda value: _weight(state, branches[value], scope, inside, value), state.branches, name
        )
    if condition is None:
        raise _unknown(state, node, name, scope.get(node.input[0], ""), "BOOL", "True")
    branch = branches[bool(condition)]
    inner = _stored(state, branch, scope, inside)
    state.nodes(branch.node, inner, inside)
    _results(state, node, place, [_made(state, inner, output.name, name) for output in branch.output], scope)


def _weight(
    state: ProgramState, branch: onnx.GraphProto, scope: dict[str, str], inside: Place, which: bool
) -> tuple[int, int]:
    """FLOP and bytes of a branch, which is read on trial; those of a branch inside a loop are asked once."""
    key = inside.path, which
    if key not in state.weights:
        trial = state.trial()
        trial.nodes(branch.node, _stored(trial, branch, scope, inside), inside)
        state.weights[key] = state.counting.weight(trial.program, state.where)
    return state.weights[key]


def _loop(
    state: ProgramState, node: onnx.NodeProto, body: onnx.GraphProto, place: Place, scope: dict[str, str]
) -> None:
    name = place.name(node)
    trips, going = (scope[one] if one else "" for one in node.input[:2])
    count = _scalar(state, trips) if trips else MAX_UNROLLED
    if count is None:
        raise _unknown(state, node, name, trips, "INT64", "8")
    condition = going or state.constant(f"{name}/condition", np.asarray(True))
    carried = [scope.get(one, "") for one in node.input[2:]]
    outer = _stored(state, body, scope, place.inside(node))
    gathered: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    for i in range(int(count)):
        still = _scalar(state, condition)
        if still is None:
            raise _unknown(state, node, name, condition, "BOOL", "True")
        if not still:
            break
        inside = _iteration(state, node, place, i)
        iteration = state.constant(f"{inside.prefix}iteration", np.asarray(i, np.int64))
        inner = _with_inputs(state, outer, body, [iteration, condition, *carried], name)
        state.nodes(body.node, inner, inside)
        condition, *made = [_made(state, inner, output.name, name) for output in body.output]
        carried, scanned = made[: len(carried)], made[len(carried) :]
        for row, one in zip(gathered, scanned, strict=True):
            row.append(one)
    rows = [_stacked(state, node, f"{name}/stack{j}", row) for j, row in enumerate(gathered)]
    _results(state, node, place, [*carried, *rows], scope)


def _scan(
    state: ProgramState, node: onnx.NodeProto, body: onnx.GraphProto, place: Place, scope: dict[str, str]
) -> None:
    name, plain = place.name(node), attributes(node)
    if state.versions.get("", 9) < 9:
        what = f"control flow: node {name!r} is a Scan of opset 8, whose batch comes first"
        remedy = "Write the model of a batch of one anew by `onnx.version_converter.convert_version(model, 11)`."
        raise InputError(what, state.where, remedy)
    scans = whole(plain, "num_scan_inputs", 0)
    states = len(node.input) - scans
    if min(scans, states + 1) < 1:
        what = f"the Scan {name!r} has {counted(scans, 'input')} to scan of {len(node.input)} in all"
        raise InputError(what, state.where, "Check the model with onnx.checker.")
    carried, sources = ([scope.get(one, "") for one in part] for part in (node.input[:states], node.input[states:]))
    shapes = [shape_of(state.types.get(source)) or () for source in sources]
    axes = _axes(plain, "scan_input_axes", [len(shape) for shape in shapes])
    counts = {shape[axis] if 0 <= axis < len(shape) else -1 for shape, axis in zip(shapes, axes, strict=True)}
    if len(counts) > 1 or min(counts) < 0:
        what = f"what the Scan {name!r} reads differs in length: {sorted(counts)}"
        raise InputError(what, state.where, "Check the model with onnx.checker.")
    outer = _stored(state, body, scope, place.inside(node))
    gathered: list[list[str]] = [[] for _ in body.output[states:]]
    for i in range(counts.pop()):
        inside = _iteration(state, node, place, i)
        parts = [
            _part(state, node, f"{inside.prefix}part{j}", source, axis)
            for j, (source, axis) in enumerate(zip(sources, axes, strict=True))
        ]
        inner = _with_inputs(state, outer, body, [*carried, *parts], name)
        state.nodes(body.node, inner, inside)
        made = [_made(state, inner, output.name, name) for output in body.output]
        carried = made[:states]
        for row, one in zip(gathered, made[states:], strict=True):
            row.append(one)
    ranks = [len(state.shape(row[0])) + 1 if row else 1 for row in gathered]
    out = _axes(plain, "scan_output_axes", ranks)
    rows = [_stacked(state, node, f"{name}/stack{j}", row, out[j]) for j, row in enumerate(gathered)]
    _results(state, node, place, [*carried, *rows], scope)


def _map(state: ProgramState, node: onnx.NodeProto, body: onnx.GraphProto, place: Place, scope: dict[str, str]) -> None:
    """Add the body once per item of a sequence; other sequences give an item each time, tensors are the same."""
    name, read = place.name(node), [scope[one] for one in node.input]
    outer = _stored(state, body, scope, place.inside(node))
    fresh = [f"{place.prefix}{one}" for one in node.output]
    for one, local in zip(fresh, node.output, strict=True):
        state.sequences[one], scope[local] = [], one
        state.makers[one] = f"made by {node.op_type} {name!r}"
    count = len(state.sequences[read[0]])
    if any(len(state.sequences.get(one, ())) not in (0, count) for one in read):
        raise InputError(
            f"the sequences that {name!r} reads differ in length", state.where, "Check the model with onnx.checker."
        )
    for i in range(count):
        inside = _iteration(state, node, place, i)
        items = [state.sequences[one][i] if one in state.sequences else one for one in read]
        inner = _with_inputs(state, outer, body, items, name)
        state.nodes(body.node, inner, inside)
        for one, output in zip(fresh, body.output, strict=False):
            state.sequences[one].append(_made(state, inner, output.name, name))


def _axes(plain: Mapping[str, Any], name: str, ranks: list[int]) -> list[int]:
    """The axis of each tensor that a Scan takes apart or puts together: the first unless the node says another.

    Which end it begins at changes neither shapes nor costs.
    """
    said = plain.get(name)
    axes = [0] * len(ranks)
    if isinstance(said, list) and len(said) == len(ranks) and all(isinstance(axis, int) for axis in said):
        axes = said
    return [axis + rank if axis < 0 else axis for axis, rank in zip(axes, ranks, strict=True)]


def _iteration(state: ProgramState, node: onnx.NodeProto, place: Place, i: int) -> Place:
    """The place of the nodes of an iteration; :class:`InputError` if there are too many."""
    if i and len(state.program.steps) > MAX_UNROLLED:
        what = f"with the loop {place.name(node)!r} unrolled it has more than {MAX_UNROLLED:,} operators"
        raise InputError(what, state.where, "Export the model with as many iterations as are to be mapped.")
    return place.inside(node, i)


def _scalar(state: ProgramState, name: str) -> bool | int | None:
    value: Array | None = state.known.get(name)
    return None if value is None or value.size != 1 or value.dtype.kind not in "biu" else int(value.reshape(()))


def _unknown(state: ProgramState, node: onnx.NodeProto, name: str, tensor: str, kind: str, value: str) -> InputError:
    """Says of what the branch or loop depends, and how a model gets a value for it."""
    what = f"control flow: what the {node.op_type} {name!r} does depends on {tensor!r}, which the inputs decide"
    remedy = (
        f"Give {tensor!r} a value in the model: remove the input or node that makes it, and `model.graph.initializer."
        f"append(onnx.helper.make_tensor({tensor!r}, onnx.TensorProto.{kind}, [], [{value}]))`. Or export the model "
        "with its loops unrolled and its branches fixed."
    )
    if node.op_type == "If":
        remedy = f"Add --branch heavier (or true, false) to the command. Or: {remedy[0].lower()}{remedy[1:]}"
    return InputError(what, state.where, remedy)


def _stored(state: ProgramState, graph: onnx.GraphProto, scope: dict[str, str], place: Place) -> dict[str, str]:
    """The scope inside a graph, with its initializers, which are the same ones in all iterations."""
    inner = dict(scope)
    for tensor in graph.initializer:
        name = inner[tensor.name] = f"{place.path}{tensor.name}"
        if name not in state.makers:
            state.stored(tensor, name)
    return inner


def _with_inputs(
    state: ProgramState, outer: dict[str, str], body: onnx.GraphProto, given: list[str], name: str
) -> dict[str, str]:
    if len(body.input) != len(given) or not all(given):
        what = f"the body of {name!r} takes {counted(len(body.input), 'tensor')} and gets {sum(map(bool, given))}"
        raise InputError(what, state.where, "Check the model with onnx.checker.")
    return outer | {info.name: one for info, one in zip(body.input, given, strict=True)}


def _made(state: ProgramState, inner: dict[str, str], output: str, name: str) -> str:
    if output not in inner:
        what = f"nothing in the body of {name!r} makes its output {output!r}"
        raise InputError(what, state.where, "Check the model with onnx.checker.")
    return inner[output]


def _part(state: ProgramState, node: onnx.NodeProto, name: str, source: str, axis: int) -> str:
    """What one iteration of a Scan gets of a tensor."""
    shape = state.shape(source)
    rest = (*shape[:axis], *shape[axis + 1 :])
    state.add(Step(name, node.op_type, (source,), (name,), view=True), state.types[source], rest)
    return name


def _stacked(state: ProgramState, node: onnx.NodeProto, name: str, parts: list[str], axis: int = 0) -> str:
    """The tensor of what all iterations made."""
    if not parts:
        return ""
    for part in parts:
        state.readable(part)
    shape = state.shape(parts[0])
    shape = (*shape[:axis], len(parts), *shape[axis:])
    elements = sum(state.program.values[part].elements for part in parts)
    state.add(Step(name, node.op_type, tuple(parts), (name,), flop=elements), state.types[parts[0]], shape)
    return name


def _results(state: ProgramState, node: onnx.NodeProto, place: Place, made: list[str], scope: dict[str, str]) -> None:
    """Views of what was made, under the names that the node gives its results, and with its own name."""
    name = place.name(node)
    if len(made) < len(node.output):
        what = f"{name!r} has {counted(len(node.output), 'result')}, its graph {len(made)}"
        raise InputError(what, state.where, "Check the model with onnx.checker.")
    for i, (result, source) in enumerate(zip(node.output, made, strict=False)):
        if not result:
            continue
        if not source:  # what all of no iterations made
            scope[result] = f"{place.prefix}{result}"
            state.makers[scope[result]] = f"made by {name!r} in no iteration"
            continue
        if source in state.sequences:
            scope[result] = source
            continue
        fresh = scope[result] = f"{place.prefix}{result}"
        state.view(f"{name}:{result}" if i else name, node.op_type, source, fresh)
        if source in state.known:
            state.known[fresh] = state.known[source]
