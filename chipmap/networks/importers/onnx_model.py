"""Reader of ONNX models (``.onnx``), which needs the extra ``onnx``.

The file is read without the data of its weights (``onnx/wire.py``), and data in other files need not be there. Shapes
follow from those of the inputs, operator by operator (``onnx/walk.py``); ``dimensions`` gives symbolic ones a value.
Functions of the model are inlined, and so is control flow that is settled beforehand (``onnx/control.py``), or whose
branch the user chooses.
Initializers are weights of the operators that read them, not operations. Operators outside the standard whose results
have shapes in the file count their bytes; ``notes`` lists them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.counting import Counting, branch_notes
from chipmap.networks.importers.dimensions import (
    Dimensions,
    check_used,
    dimension,
    from_shapes,
    no_value,
    symbols,
    value_of,
)
from chipmap.networks.importers.onnx.shapes import BITS, first_line, tensor_type
from chipmap.networks.importers.onnx.state import EXTERNAL, STRINGS
from chipmap.networks.importers.onnx.walk import Walk
from chipmap.networks.importers.onnx.wire import without_data
from chipmap.networks.importers.program import Program, checked_shape, imported
from chipmap.records import InputError, Source, counted

if TYPE_CHECKING:
    import onnx

FORMAT = "onnx"
_INSTALL = 'Install it: pip install "chipmap[onnx]"'


def accepts(data: bytes, where: str) -> bool:
    """Whether the content looks like a model: its first field is the version of the format, or its name says so."""
    return data[:1] == b"\x08" or str(where).endswith(".onnx")


def read(source: Source, dimensions: Dimensions | None = None, counting: Counting | None = None) -> ImportedGraph:
    """The graph of a model; :class:`InputError` says which tensor, node or dimension is wrong."""
    return read_typed(source, dimensions, counting)[0]


def read_typed(
    source: Source, dimensions: Dimensions | None = None, counting: Counting | None = None
) -> tuple[ImportedGraph, dict[str, onnx.TypeProto]]:
    """The graph of a model, and the types of its tensors by name."""
    given, where, counting = dimensions or {}, source.where, counting or Counting()
    model = parsed(source)
    graph = model.graph
    if graph.sparse_initializer:
        raise InputError("it holds sparse initializers", where, "Save the model with dense weights.")
    program = Program(PurePath(where).stem, f"ONNX {model.producer_name[:60]}".strip(), parameter_nodes=False)
    program.recomputes = "look-ups"
    versions = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import}
    inputs, declared, given = _types(graph, given, where)
    walk = Walk(program, versions, given, declared, where, counting)
    for tensor in graph.initializer:
        walk.stored(tensor, tensor.name)
    for name, kind in inputs.items():
        walk.input(name, kind)
    scope = {name: name for name in walk.makers}
    walk.nodes(graph.node, scope)
    check_used({name: size for name, size in given.items() if "/" in name}, {*walk.makers}, where)
    for info in graph.output:
        walk.output(scope.get(info.name, info.name))
    external = sum(tensor.data_location == EXTERNAL for tensor in graph.initializer)
    said = f"the data of {counted(external, 'initializer')} lies in other files: only their sizes are needed"
    notes = (*((said,) if external else ()), *branch_notes(walk.branches))
    return imported(program, where, FORMAT, notes, counting), walk.types


def _onnx(where: str) -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError:
        raise InputError("an ONNX model needs the package onnx, which is not installed", where, _INSTALL) from None
    return onnx


def parsed(source: Source) -> onnx.ModelProto:
    """The model in ``source`` without the data of its large tensors, its functions inlined."""
    where, remedy = source.where, "Save it again, or check it with onnx.checker."
    onnx = _onnx(where)
    try:
        model = onnx.ModelProto.FromString(without_data(source))
    except InputError:
        raise
    except Exception as error:  # protobuf's class of errors differs between its versions
        raise InputError(f"not an ONNX model: {first_line(error)}", where, remedy) from None
    if not model.graph.node:
        raise InputError("not an ONNX model, or one without operators", where, remedy)
    if any(isinstance(text, bytes) for text in _texts(model)):  # what protobuf makes of text that isn't UTF-8
        raise InputError("not an ONNX model: a name in it is not UTF-8 text", where, remedy)
    if model.functions:
        _check_functions(model, where)
        try:
            model = onnx.inliner.inline_local_functions(model)
        except Exception as error:
            raise InputError(f"its functions can't be inlined: {first_line(error)}", where, remedy) from None
    return model


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """All names in a model that are read here, those in graphs inside its graph as well."""
    yield model.producer_name
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    for function in model.functions:
        yield from (function.name, function.domain)
    for graph in graphs:  # grows
        for info in (*graph.value_info, *graph.output, *graph.input):
            yield from (info.name, *(d.dim_param for d in info.type.tensor_type.shape.dim))
        yield from (tensor.name for tensor in graph.initializer)
        for node in (*nodes, *graph.node):
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            for attribute in node.attribute:
                yield attribute.name
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs
        nodes = []


def _check_functions(model: onnx.ModelProto, where: str) -> None:
    """Refuse functions that call themselves, directly or not, and so many calls that inlining would explode."""
    calls: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for function in model.functions:
        calls[function.domain, function.name] = [(node.domain, node.op_type) for node in function.node]
    size: dict[tuple[str, str], int] = {}
    for _ in range(len(calls) + 1):  # each round settles the functions that call only settled ones
        for key, inner in calls.items():
            if key not in size and all(call not in calls or call in size for call in inner):
                size[key] = sum(size.get(call, 1) for call in inner)
    remedy = "Export the model without functions."
    if len(size) < len(calls):
        raise InputError("a function of the model calls itself", where, remedy)
    total = sum(size.get((node.domain, node.op_type), 1) for node in model.graph.node)
    if total > 10**6:
        raise InputError(f"its functions expand to {total:.0e} operators", where, remedy)


def _types(
    graph: onnx.GraphProto, given: Dimensions, where: str
) -> tuple[dict[str, onnx.TypeProto], dict[str, onnx.TypeProto], Dimensions]:
    """The types of the inputs, with known shapes; those of other tensors whose shapes the file states; what is
    ``given`` for tensors, without values of dimensions.

    A name that both a dimension and a tensor have means the dimension where one number is given.
    """
    stored = {tensor.name for tensor in graph.initializer}
    infos = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    made = {name for node in graph.node for name in node.output if name}
    sizes = {d.dim_param for info in infos.values() for d in info.type.tensor_type.shape.dim if d.dim_param}
    sizes |= {name for size in sizes for name in symbols(size)}
    inputs = [info for info in graph.input if info.name not in stored]
    unnamed = {f"{info.name}[{i}]" for info in inputs for i in range(len(info.type.tensor_type.shape.dim))}
    inside = {name for name in given if "/" in name}  # a tensor of a branch or loop: known when it is made
    check_used(given, sizes | unnamed | made | inside | {info.name for info in inputs}, where)
    shapes = {name: size for name, size in given.items() if name not in sizes or len(size) != 1}
    given = _settled([info for info in inputs if info.name in shapes], given, where)
    types = {}
    for info in inputs:
        if info.name in types:
            raise InputError(f"it has two inputs {info.name!r}", where, "Give each tensor a name of its own.")
        types[info.name] = _input_type(info, shapes, given, where)
    # shapes in the file may belong to others of the inputs than those that are given
    stale = any(info.name in shapes for info in inputs)
    told = {name: _declared(info.type, given) for name, info in infos.items()}
    return types, {} if stale else {name: kind for name, kind in told.items() if kind is not None}, shapes


def _declared(kind: onnx.TypeProto, given: Dimensions) -> onnx.TypeProto | None:
    """The type that the file states, its dimensions as they are given; None unless all of its shape is known."""
    if kind.tensor_type.HasField("shape"):
        sizes = [_stated(d, given) for d in kind.tensor_type.shape.dim]
        known = [size for size in sizes if size is not None]
        return tensor_type(kind.tensor_type.elem_type, tuple(known)) if len(known) == len(sizes) else None
    return None


def _stated(size: onnx.TensorShapeProto.Dimension, given: Dimensions) -> int | None:
    return size.dim_value if size.HasField("dim_value") else value_of(size.dim_param, given)


def _settled(inputs: list[onnx.ValueInfoProto], given: Dimensions, where: str) -> Dimensions:
    """``given`` with the dimensions that given shapes of inputs settle; a fixed size may be given anew."""
    shapes: dict[str, list[int | str]] = {}
    for info in inputs:
        if info.type.tensor_type.HasField("shape"):
            dims, shape = info.type.tensor_type.shape.dim, given[info.name]
            sizes = [*shape, *(0 for _ in dims)]  # of another rank, which is refused
            shapes[info.name] = [
                d.dim_param if d.dim_param.isidentifier() else size for d, size in zip(dims, sizes, strict=False)
            ]
    return from_shapes(given, shapes, where)


def _input_type(info: onnx.ValueInfoProto, shapes: Dimensions, given: Dimensions, where: str) -> onnx.TypeProto:
    """The type of an input: of one of the ``shapes``, or with the ``given`` dimensions."""
    name, kind = info.name, info.type.tensor_type
    if not info.type.HasField("tensor_type"):
        said = f"input {name!r} is no tensor"
        raise InputError(said, where, "Export the model with plain tensors as its inputs.")
    if kind.elem_type not in BITS:
        said = "holds strings" if kind.elem_type == 8 else f"has the unknown type {kind.elem_type}"
        raise InputError(f"tensor {name!r} {said}", where, STRINGS)
    if name in shapes:
        return tensor_type(kind.elem_type, checked_shape(shapes[name], name, where))
    if not kind.HasField("shape"):
        option = shlex.quote(f"{name}=1x3x224x224")
        remedy = f"Give it one: add --dim {option} to the command."
        raise InputError(f"input {name!r} has no shape", where, remedy)
    shape = [_size(d, f"{name}[{i}]", name, given, where) for i, d in enumerate(kind.shape.dim)]
    return tensor_type(kind.elem_type, checked_shape(shape, name, where))


def _size(size: onnx.TensorShapeProto.Dimension, own: str, name: str, given: Dimensions, where: str) -> int:
    """A dimension of the input ``name``; ``own`` is what an unnamed one is called (``x[0]``)."""
    if size.dim_param:
        return dimension(size.dim_param, given, name, where)
    if len(given.get(own, ())) == 1:
        return given[own][0]
    if size.dim_value > 0:
        return size.dim_value
    error = no_value(own, name, where)
    if size.HasField("dim_value") and size.dim_value == 0:
        what = f"the dimension {own!r} of tensor {name!r} is 0, as some exporters write an open one"
        raise InputError(what, where, f"{error.remedy} If the tensor is empty: --dim {shlex.quote(f'{own}=0')}.")
    raise error
