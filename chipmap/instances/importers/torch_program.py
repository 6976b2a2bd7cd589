"""Reader of programs exported by PyTorch (``torch.export``): the object, or the file that ``torch.export.save`` writes.

``torch.export.load`` unpickles parts of a file, which lets the file run code. A ``.pt2`` file is therefore not loaded:
it is a zip archive, and of it only the JSON of the graph is read (names, operators, shapes, types). No weight is read,
nothing is unpickled, and PyTorch need not be installed. A file holds the operators that were exported; a program
decomposed first (``program.run_decompositions()``) consists of core ATen operators, as published traces do.
:func:`import_exported` takes the object itself.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from chipmap.instances.importers import aten
from chipmap.instances.importers.common import ImportedGraph, decode
from chipmap.instances.importers.dimensions import Dimensions, check_used, dimension
from chipmap.instances.importers.program import Program, Step, Value, checked_shape, imported
from chipmap.records import InputError, Source

if TYPE_CHECKING:
    from torch.export import ExportedProgram

FORMAT = "torch"
#: Bytes of a graph's JSON beyond which a file is refused (BERT-large's has less than 10 MiB).
MAX_JSON = 64 * 2**20
_REMEDY = "Write the file with torch.export.save of PyTorch 2.5 or later."
#: Bits of an element by the number that the file gives a type.
_BITS = {1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 16, 7: 32, 8: 64, 9: 32, 10: 64, 11: 128, 12: 8, 13: 16}
_BITS |= {28: 16, 29: 8, 30: 8, 31: 8, 32: 8, 33: 8, 34: 32, 35: 64}
_STORED = frozenset({"parameter", "buffer", "tensor_constant"})


class _Argument(msgspec.Struct, frozen=True):
    name: str
    arg: dict[str, Any]


class _Node(msgspec.Struct, frozen=True):
    target: str
    inputs: list[_Argument]
    outputs: list[dict[str, Any]]
    name: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    dtype: int
    sizes: list[dict[str, Any]]


class _Graph(msgspec.Struct, frozen=True):
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    nodes: list[_Node]
    tensor_values: dict[str, _Meta]


class _Signature(msgspec.Struct, frozen=True):
    input_specs: list[dict[str, Any]]


class _Module(msgspec.Struct, frozen=True):
    graph: _Graph
    signature: _Signature


class _File(msgspec.Struct, frozen=True):
    graph_module: _Module
    torch_version: str = ""


def accepts(data: bytes) -> bool:
    """Whether the content looks like a zip archive."""
    return data[:4] == b"PK\x03\x04"


def read(source: Source, dimensions: Dimensions | None = None) -> ImportedGraph:
    """The graph of a ``.pt2`` file; :class:`InputError` says what is wrong and where."""
    given = dimensions or {}
    text, inner = _json_of(source)
    stem, where = PurePath(source.where).stem, f"{source.where}: {inner}"
    file = decode(text, _File, where, _REMEDY)
    graph = file.graph_module.graph
    check_used(given, _symbols(graph), where)
    program = Program(stem, f"torch.export {file.torch_version[:40]}".strip())
    for name, meta in graph.tensor_values.items():
        if meta.dtype not in _BITS:
            raise InputError(f"tensor {name!r} has the unknown type {meta.dtype}", where, _REMEDY)
        shape = [_size(size, given, name, where) for size in meta.sizes]
        program.values[name] = Value(name, checked_shape(shape, name, where), _BITS[meta.dtype])
    stored = {
        spec[kind]["arg"]["name"]
        for spec in file.graph_module.signature.input_specs
        for kind in _STORED & spec.keys()
        if isinstance(spec[kind], dict) and isinstance(spec[kind].get("arg"), dict) and _named(spec[kind]["arg"])
    }
    for argument in graph.inputs:
        for name in _tensors(argument, where):
            (program.parameters if name in stored else program.inputs).append(name)
    program.outputs += [name for argument in graph.outputs for name in _tensors(argument, where)]
    calls = _Calls(program, where)
    for i, node in enumerate(graph.nodes):
        here = f"{where}: nodes[{i}]"
        reads = [name for argument in node.inputs for name in _tensors(argument.arg, here)]
        makes = [name for argument in node.outputs for name in _tensors(argument, here)]
        plain = {a.name: value for a in node.inputs for value in a.arg.values() if isinstance(value, bool | int | str)}
        calls.add(node.name or (makes[0] if makes else f"node{i}"), node.target, reads, makes, plain)
    return imported(program, where, FORMAT)


def import_exported(
    program: ExportedProgram, name: str, dimensions: Dimensions | None = None, decompose: bool = True
) -> ImportedGraph:
    """The graph of an exported program, of core ATen operators unless ``decompose`` is false.

    ``dimensions`` gives symbolic dimensions a value (``{"s0": (8,)}``). Raises :class:`InputError` for control flow
    and for a dimension without a value.
    """
    given = dimensions or {}
    exported = program.run_decompositions() if decompose else program
    made = Program(name, "torch.export")
    kinds = {spec.arg.name: spec.kind.name.lower() for spec in exported.graph_signature.input_specs if spec.arg}
    calls = _Calls(made, name)
    nodes = list(exported.graph.nodes)
    known = {str(d) for node in nodes for v in _fake(node) for d in v.shape if not isinstance(d, int)}
    check_used(given, known | {atom for text in known for atom in _words(text)}, name)
    for node in nodes:
        values = _fake(node)
        several = isinstance(node.meta.get("val"), tuple | list)
        names = [f"{node.name}#{i}" for i in range(len(values))] if several else [node.name] * len(values)
        for own, value in zip(names, values, strict=True):
            shape = [d if isinstance(d, int) else dimension(str(d), given, own, name) for d in value.shape]
            made.values[own] = Value(own, checked_shape(shape, own, name), value.element_size() * 8)
        if node.op == "placeholder":
            (made.parameters if kinds.get(node.name) in _STORED else made.inputs).extend(names)
        elif node.op == "output":
            made.outputs += [own.name for own in node.all_input_nodes if own.name in made.values]
        elif node.op == "get_attr":
            _refuse_graphs(node.name, name) if not values else made.parameters.extend(names)
        else:
            calls.add(node.name, _target(node.target), _read_by(node, made), names, _plain(node))
    return imported(made, name, FORMAT)


class _Calls:
    """Calls of operators as steps of a program."""

    def __init__(self, program: Program, where: str) -> None:
        self.program, self.where = program, where
        self.changed: dict[str, str] = {}  # a tensor changed in place -> the result that replaces it

    def add(self, name: str, target: str, reads: list[str], makes: list[str], plain: dict[str, Any]) -> None:
        """Add a call of ``target`` that reads and makes these tensors; ``plain`` are its other arguments by name."""
        kind = aten.kind_of(target)
        reads = [self.changed.get(read, read) for read in reads]
        values = self.program.values
        for tensor in (*reads, *makes):
            if tensor not in values:
                raise InputError(f"{name!r} names the tensor {tensor!r}, which has no shape", self.where, _REMEDY)
        work = aten.work(kind, [values[read] for read in reads], [values[make] for make in makes], plain)
        if kind.endswith("_") and not kind.endswith("__") and reads and makes:
            self.changed[reads[0]] = makes[0]
        self.program.steps.append(
            Step(
                name=name,
                kind=kind,
                reads=tuple(reads),
                makes=tuple(makes),
                flop=work.flop,
                view=kind in aten.VIEWS,
                fixed=kind in aten.FIXED,
                moved=work.moved,
                known=work.known,
            )
        )


def _json_of(source: Source) -> tuple[bytes, str]:
    """The JSON of the graph in a .pt2 file, and its place in the archive; nothing else in it is read."""
    where = source.where
    try:
        with source.open() as file, zipfile.ZipFile(file) as archive:
            found = [entry for entry in archive.infolist() if _holds_graph(entry.filename)]
            if len(found) != 1:
                said = "no exported program" if not found else f"{len(found)} exported programs"
                raise InputError(f"this zip archive holds {said}", where, f"One is read. {_REMEDY}")
            with archive.open(found[0]) as member:
                text = member.read(MAX_JSON + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"the zip archive is broken: {error}", where, "Save or download it again.") from None
    if len(text) > MAX_JSON:
        raise InputError(f"its graph has more than {MAX_JSON // 2**20} MiB", where, "Export a smaller program.")
    return text, found[0].filename


def _holds_graph(path: str) -> bool:
    parts = path.split("/")
    return parts[-1] == "serialized_exported_program.json" or (parts[-2:-1] == ["models"] and path.endswith(".json"))


def _named(argument: Any) -> bool:
    return isinstance(argument, dict) and isinstance(argument.get("name"), str)


def _tensors(argument: Any, where: str) -> Iterator[str]:
    """The names of the tensors in an argument, in order."""
    if isinstance(argument, list):
        for item in argument:
            yield from _tensors(item, where)
    elif _named(argument) and "graph" not in argument:
        yield argument["name"]
    elif isinstance(argument, dict):
        if "as_graph" in argument:
            _refuse_graphs("a graph", where)
        for key, inner in argument.items():
            if "tensor" in key:
                yield from _tensors(inner, where)


def _refuse_graphs(name: str, where: str) -> None:
    what = f"control flow: {name!r} is a graph inside the graph"
    remedy = "Only straight programs are read: export the model with its branches and loops fixed."
    raise InputError(what, where, remedy)


def _size(size: dict[str, Any], given: Dimensions, tensor: str, where: str) -> int:
    value = size.get("as_int")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return dimension(_expression(size), given, tensor, where)


def _expression(size: dict[str, Any]) -> str:
    inner = size.get("as_expr")
    text = inner.get("expr_str") if isinstance(inner, dict) else None
    return text if isinstance(text, str) else json.dumps(size)[:80]


def _symbols(graph: _Graph) -> set[str]:
    texts = {_expression(size) for meta in graph.tensor_values.values() for size in meta.sizes if "as_int" not in size}
    return texts | {word for text in texts for word in _words(text)}


def _words(text: str) -> list[str]:
    return [word for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split() if word[0].isalpha()]


def _fake(node: Any) -> list[Any]:
    """What a node of the object's graph makes, as tensors without data."""
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return [each for each in values if hasattr(each, "element_size")]


def _target(target: Any) -> str:
    return str(target) if hasattr(target, "_schema") else f"{target.__module__}.{target.__name__}"


def _read_by(node: Any, made: Program) -> list[str]:
    """Names of the tensors that a node reads; a getitem reads one of its producer's results."""
    if getattr(node.target, "__name__", "") == "getitem" and f"{node.args[0].name}#{node.args[1]}" in made.values:
        return [f"{node.args[0].name}#{node.args[1]}"]
    reads = []
    for own in _nodes_in((node.args, node.kwargs)):
        several = [name for name in (f"{own.name}#{i}" for i in range(len(_fake(own)))) if name in made.values]
        reads += several or ([own.name] if own.name in made.values else [])
    return reads


def _nodes_in(argument: Any) -> Iterator[Any]:
    """The nodes in an argument, in order, each as often as it stands there."""
    if hasattr(argument, "all_input_nodes"):
        yield argument
    elif isinstance(argument, dict | list | tuple):
        for item in argument.values() if isinstance(argument, dict) else argument:
            yield from _nodes_in(item)


def _plain(node: Any) -> dict[str, Any]:
    """The arguments of a call that are plain values, by name."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    named = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return {key: value for key, value in named.items() if isinstance(value, bool | int | str)}
