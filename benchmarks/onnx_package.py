"""Every model that comes with the package onnx, read; what is refused is mended as its remedy says, and read again.

    python -m benchmarks.onnx_package [--write]

The package has 1,884 models of single operators (and of what these expand to), made by its own code, and 140 small
networks as files. All are read in one process. A remedy is followed by one function per sentence, as a user would, with
the shapes and values of the test data that the package has for its models. ``--write`` writes the table of results.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

OUT = Path(__file__).resolve().parent / "results" / "onnx-package.md"
#: Folders of networks in the package.
FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")
#: A refusal after so many remedies is final.
ROUNDS = 8
TEXT_ALONE = "nothing is left without text"
_STRING = onnx.TensorProto.STRING


@dataclass
class Case:
    """A model with the values of its inputs (where the package has them), and how it is asked to be read."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Any] = field(default_factory=dict)
    dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    branch: str | None = None

    def read(self) -> ImportedGraph:
        """The graph; :class:`InputError` if it is refused."""
        return import_graph(f"{self.name}.onnx", self.model.SerializeToString(), self.dims, branch=self.branch)


def cases() -> Iterator[Case]:
    """All models of the package: those of operators, then networks."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = collect_testcases(None)  # type: ignore[arg-type] # None: of all operators
    for one in nodes:
        if one.model is None:
            continue
        names = [info.name for info in one.model.graph.input]
        values = next(iter(one.data_sets or ()), ((), ()))[0]
        yield Case(f"node/{one.name}", one.model, dict(zip(names, values, strict=False)))
    yield from networks()


def networks() -> Iterator[Case]:
    """The networks of the package, which are files."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.onnx")):
            yield Case(str(file.relative_to(root)), onnx.load(file), dict(_stored_inputs(file)))


def _stored_inputs(file: Path) -> Iterator[tuple[str, Any]]:
    """The inputs in a network's first set of test data that are tensors."""
    for i, info in enumerate(onnx.load(file).graph.input):
        data = file.parent / "test_data_set_0" / f"input_{i}.pb"
        if data.exists() and info.type.HasField("tensor_type"):
            yield info.name, numpy_helper.to_array(onnx.TensorProto.FromString(data.read_bytes()))


def followed(case: Case, error: InputError) -> str:
    """Change ``case`` as the remedy says; what was done in words, "" where no function follows it."""
    for said, change in FOLLOWERS:
        found = re.search(said, f"{error.what} | {error.remedy}")
        if found:
            return change(case, found)
    return ""


def _computes(case: Case, found: re.Match[str]) -> str:
    """Let an operator add a new input to the first output, or compare it with one."""
    graph = case.model.graph
    if not graph.output:
        return ""
    name, kind = graph.output[0].name, graph.output[0].type
    while kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    if kind.HasField("sequence_type"):
        graph.initializer.append(numpy_helper.from_array(np.asarray(0), "first"))
        graph.node.append(helper.make_node("SequenceAt", [name, "first"], ["item"]))
        name, kind = "item", kind.sequence_type.elem_type
    number = kind.tensor_type.elem_type
    shape = [d.dim_value or 1 for d in kind.tensor_type.shape.dim]
    graph.input.append(helper.make_tensor_value_info("other", number, shape))
    single = number == onnx.TensorProto.FLOAT
    graph.node.append(helper.make_node("Add" if single else "Equal", [name, "other"], ["result"]))
    made = number if single else onnx.TensorProto.BOOL
    graph.output.append(helper.make_tensor_value_info("result", made, None))
    return "an operator that computes on an input added"


def _without_text(case: Case, found: re.Match[str]) -> str:
    """Leave out the operators that read or make text; numbers that they hand on become inputs."""
    graph = onnx.shape_inference.infer_shapes(case.model).graph
    infos = {one.name: one for one in (*graph.input, *graph.value_info, *graph.output)}
    text = {name for name, one in infos.items() if one.type.tensor_type.elem_type == _STRING}
    text |= {one.name for one in graph.initializer if one.data_type == _STRING}
    handles = [node for node in graph.node if text & {*node.input, *node.output}]
    numbers = [infos[one] for node in handles for one in node.output if one in infos and one not in text]
    kept = [node for node in case.model.graph.node if not text & {*node.input, *node.output}]
    inputs = [one for one in case.model.graph.input if one.name not in text]
    outputs = [one for one in case.model.graph.output if one.name not in text]
    for part, left in (
        (case.model.graph.node, kept),
        (case.model.graph.input, inputs),
        (case.model.graph.output, outputs),
    ):
        left = list(left)
        del part[:]
        part.extend(left)
    case.model.graph.input.extend(numbers)
    if not outputs:
        return TEXT_ALONE
    if not kept:  # the model was its one operator: one that computes takes the place of those that would follow
        case.model.graph.node.append(helper.make_node("Equal", [outputs[0].name, outputs[0].name], ["compared"]))
        case.model.graph.output.append(helper.make_tensor_value_info("compared", onnx.TensorProto.BOOL, None))
    return "text left out"


def _plain_inputs(case: Case, found: re.Match[str]) -> str:
    """Take tensors for an input that is a sequence or optional."""
    graph, name = case.model.graph, found["name"]
    info = next(one for one in graph.input if one.name == name)
    kind = info.type
    while kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    given = case.inputs.get(name)
    if not kind.HasField("sequence_type"):
        shape = getattr(given, "shape", None)
        info.CopyFrom(helper.make_tensor_value_info(name, kind.tensor_type.elem_type, shape or (5,)))
        return "a tensor in place of an optional input"
    element = kind.sequence_type.elem_type.tensor_type
    items = [item for item in (given if isinstance(given, list) else ()) if hasattr(item, "shape")]
    shapes = [tuple(item.shape) for item in items]
    graph.input.remove(info)
    names = [f"{name}_{i}" for i in range(len(shapes))]
    for one, shape in zip(names, shapes, strict=True):
        graph.input.append(helper.make_tensor_value_info(one, element.elem_type, shape))
    maker = helper.make_node("SequenceConstruct" if names else "SequenceEmpty", names, [name])
    graph.node.insert(0, maker)
    return "tensors in place of a sequence"


def _shape(case: Case, found: re.Match[str]) -> str:
    """Give a tensor its shape, as a run of the model in the package's own interpreter shows it.

    One inside a branch isn't seen there: its shape is saved with the sizes that it follows from.
    """
    if "/" in found["name"]:
        return _fixed_sizes(case, found)
    name = found["name"]
    for info in case.model.graph.input:
        for dim, size in zip(
            info.type.tensor_type.shape.dim, getattr(case.inputs.get(info.name), "shape", ()), strict=False
        ):
            if dim.dim_param == name:
                case.dims[name] = (size,)
                return "`--dim` with a dimension's size"
    case.dims[name] = _shape_in_run(case, found["name"]) or tuple(map(int, found["shape"].split("x")))
    return "`--dim` with a tensor's shape"


def _shape_in_run(case: Case, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor at the top of the model when it runs; None if it doesn't run or isn't there."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    try:
        (made,) = ReferenceEvaluator(model).run(None, case.inputs)
    except Exception:  # of any class: an operator that the interpreter lacks, a name that isn't there
        return None
    return tuple(made.shape) if hasattr(made, "shape") else None


def _value(case: Case, found: re.Match[str]) -> str:
    """Store a value for what decides a loop: the code of the remedy, after the input or node is removed."""
    model, name = case.model, found["name"]
    for makers in (model.graph.input, model.graph.node):
        for maker in list(makers):
            if name in (getattr(maker, "output", None) or [maker.name]):
                makers.remove(maker)
    exec(found["code"], {"model": model, "onnx": onnx})
    return "a value stored for what decides a loop"


def _branch(case: Case, found: re.Match[str]) -> str:
    case.branch = "heavier"
    return "`--branch heavier`"


def _fixed_sizes(case: Case, found: re.Match[str]) -> str:
    """Store the values of all inputs that are lists of whole numbers."""
    graph = case.model.graph
    for info in list(graph.input):
        value = case.inputs.get(info.name)
        if info.type.tensor_type.elem_type == onnx.TensorProto.INT64 and value is not None and value.ndim < 2:
            graph.input.remove(info)
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
    return "sizes stored"


def _later_opset(case: Case, found: re.Match[str]) -> str:
    from onnx import version_converter

    case.model = version_converter.convert_version(case.model, int(found["version"]))
    return "converted to a later opset"


#: What a refusal says -> the function that does it.
FOLLOWERS: tuple[tuple[str, Callable[[Case, re.Match[str]], str]], ...] = (
    (r"an input and operators that depend on it", _computes),
    (r"leave out what handles text", _without_text),
    (r"input '(?P<name>.*?)' is no tensor \| Export the model with plain tensors as its inputs", _plain_inputs),
    (r"Add --branch heavier", _branch),
    (r"Give '(?P<name>.*?)' a value in the model: .*? and `(?P<code>.*?)`", _value),
    (r"add --dim '?(?P<name>[^']*)=(?P<shape>[0-9x]+)'? to the command", _shape),
    (r"Export the model with fixed sizes|lengths and items are fixed", _fixed_sizes),
    (r"convert_version\(model, (?P<version>[0-9]+)\)", _later_opset),
)


@dataclass
class Outcome:
    """What became of a model: the remedies that were followed, and what it was refused for in the end ("" if read)."""

    name: str
    flop: int
    steps: list[str]
    refused: str = ""


def outcome(case: Case) -> Outcome:
    """Read ``case``, following remedies."""
    steps: list[str] = []
    for _ in range(ROUNDS):
        try:
            graph = case.read().graph
        except InputError as error:
            done = followed(case, error)
            steps.append(done or "none")
            if not done or done == TEXT_ALONE:
                return Outcome(case.name, 0, steps, f"{error.what} | {error.remedy}")
        else:
            return Outcome(case.name, sum(op.flop for op in graph.operations), steps)
    return Outcome(case.name, 0, steps, "refused again and again")


def flex_attention(case: Case) -> int:
    """FLOP of a model of FlexAttention by hand: 2 · b · h · q · k · (e + v), of its inputs' shapes."""
    (b, h, q, e), (_, _, k, _), (_, _, _, v) = (
        [d.dim_value for d in info.type.tensor_type.shape.dim] for info in case.model.graph.input[:3]
    )
    return 2 * b * h * q * k * (e + v)


def main() -> int:
    """Read all models; 1 if a remedy led nowhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {OUT.name}")
    args = parser.parse_args()
    began, load = time.process_time(), os.getloadavg()[0]
    made, attention = list[Outcome](), list[tuple[str, int, int]]()
    for case in cases():
        by_hand = flex_attention(case) if re.fullmatch(r"node/test_flexattention\w*", case.name) else None
        made.append(outcome(case))
        if by_hand is not None and len(case.model.graph.node) == 1:
            attention.append((case.name, made[-1].flop, by_hand))
    lines = table(made, attention, time.process_time() - began, load)
    print("\n".join(lines))
    if args.write:
        OUT.write_text("\n".join(lines) + "\n")
    return int(any(one.refused and one.steps[-1] != TEXT_ALONE for one in made) or any(a != b for _, a, b in attention))


def table(made: list[Outcome], attention: list[tuple[str, int, int]], seconds: float, load: float) -> list[str]:
    """The page of results."""
    count = Counter((one.name.partition("/")[0], bool(one.steps), bool(one.refused)) for one in made)
    text = Counter(one.name.partition("/")[0] for one in made if one.steps[-1:] == [TEXT_ALONE])
    lines = [
        "# The models of the package onnx",
        "",
        f"`python -m benchmarks.onnx_package --write`, onnx {onnx.__version__}: {len(made):,} models in one process, "
        f"{seconds:.0f} CPU s at a load of {load:.1f}. Most of it is the package's, which makes its models.",
        "",
        "| models | in all | read | refused, and read after the remedy | text alone | refused again |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for folder in ("node", *FOLDERS):
        read, mended = count[folder, False, False], count[folder, True, False]
        left = count[folder, True, True]
        row = (folder, f"{read + mended + left:,}", f"{read:,}", mended, text[folder], left - text[folder])
        lines.append(f"| {' | '.join(map(str, row))} |")
    lines += ["", "| remedies that were followed, in order | models | such as |", "|---|---:|---|"]
    ways: dict[str, list[str]] = defaultdict(list)
    for one in made:
        if one.steps:
            ways[", then ".join(dict.fromkeys(one.steps))].append(one.name)
    lines += [
        f"| {way} | {len(names)} | `{names[0]}` |" for way, names in sorted(ways.items(), key=lambda w: -len(w[1]))
    ]
    for one in made:
        if one.refused and one.steps[-1] != TEXT_ALONE:
            lines.append(f"\nRefused: `{one.name}`: {one.refused[:300]}")
    lines += [
        "",
        "FlexAttention, with and without functions of scores and probabilities, against 2 · b · h · q · k · (e + v):",
        "",
        "| model | FLOP | by hand |",
        "|---|---:|---:|",
        *(f"| `{name}` | {flop:,} | {by_hand:,} |" for name, flop, by_hand in attention),
    ]
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
