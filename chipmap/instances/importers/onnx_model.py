"""Reader of ONNX models (``.onnx``), which needs the extra ``onnx``.

Shapes come from the file and from ONNX's own shape inference; ``dimensions`` gives symbolic ones a value. Functions
of the model are inlined. Only shapes and types of initializers count, so that data in other files need not be there.
Initializers are weights of the operators that read them, not operations. Operators outside the standard whose results
have shapes in the file count their bytes; ``notes`` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from chipmap.instances.importers import onnx_operators as operators
from chipmap.instances.importers.common import ImportedGraph
from chipmap.instances.importers.dimensions import Dimensions, check_used, dimension
from chipmap.instances.importers.onnx_arguments import arguments
from chipmap.instances.importers.program import Program, Step, Value, checked_shape, imported
from chipmap.records import InputError, Source

if TYPE_CHECKING:
    import numpy as np
    import onnx

FORMAT = "onnx"
#: Initializers up to this many bytes keep their data: shapes, axes and the like, which shape inference reads.
KEPT_BYTES = 4096
#: Bits of an element by the number that ONNX gives a type (strings, 8, have no size).
_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2}
_STANDARD = ("", "ai.onnx")
_EXTERNAL = 1  # TensorProto.EXTERNAL
_FLOAT = 1
_INSTALL = 'Install it: pip install "chipmap[onnx]"'


def accepts(data: bytes, where: str) -> bool:
    """Whether the content looks like a model: its first field is the version of the format, or its name says so."""
    return data[:1] == b"\x08" or str(where).endswith(".onnx")


def read(source: Source, dimensions: Dimensions | None = None) -> ImportedGraph:
    """The graph of a model; :class:`InputError` says which tensor, node or dimension is wrong."""
    given, where = dimensions or {}, source.where
    model = _parsed(source.content(), where)
    _refuse_control_flow(model.graph.node, where)
    stored = {t.name: _tensor(t.name, t.dims, t.data_type, where) for t in model.graph.initializer}
    if model.graph.sparse_initializer:
        raise InputError("it holds sparse initializers", where, "Save the model with dense weights.")
    external = sum(tensor.data_location == _EXTERNAL for tensor in model.graph.initializer)
    _give_shapes(model.graph, stored, given, where)
    _hide_data(model)
    graph = _inferred(model, where).graph
    said = f"the data of {external} initializers lies in other files: only their sizes are needed"
    program = _program(graph, PurePath(where).stem, model.producer_name, stored, _versions(model), where)
    return imported(program, where, FORMAT, (said,) if external else ())


def _onnx(where: str) -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError:
        raise InputError("an ONNX model needs the package onnx, which is not installed", where, _INSTALL) from None
    return onnx


def _parsed(data: bytes, where: str) -> onnx.ModelProto:
    onnx = _onnx(where)
    remedy = "Save it again, or check it with onnx.checker."
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:  # protobuf's class of errors differs between its versions
        raise InputError(f"not an ONNX model: {_first_line(error)}", where, remedy) from None
    if not model.graph.node:
        raise InputError("not an ONNX model, or one without operators", where, remedy)
    if any(isinstance(text, bytes) for text in _texts(model)):  # what protobuf makes of text that isn't UTF-8
        raise InputError("not an ONNX model: a name in it is not UTF-8 text", where, remedy)
    if model.functions:
        _check_functions(model, where)
        try:
            model = onnx.inliner.inline_local_functions(model)
        except Exception as error:
            raise InputError(f"its functions can't be inlined: {_first_line(error)}", where, remedy) from None
    return model


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """All names in a model that are read here."""
    graph = model.graph
    yield model.producer_name
    for function in model.functions:
        yield from (function.name, function.domain)
    for nodes in (graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)
    for info in (*graph.value_info, *graph.output, *graph.input):
        yield from (info.name, *(d.dim_param for d in info.type.tensor_type.shape.dim))
    yield from (tensor.name for tensor in graph.initializer)


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


def _refuse_control_flow(nodes: Iterable[onnx.NodeProto], where: str) -> None:
    for node in nodes:
        graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if node.op_type in operators.CONTROL or graphs:
            what = f"control flow: node {_name(node)!r} is a {node.op_type}, with a graph inside the graph"
            remedy = "Only straight programs are read: export the model with its loops unrolled and its branches fixed."
            raise InputError(what, where, remedy)


def _tensor(name: str, shape: Iterable[int], kind: int, where: str) -> Value:
    """A tensor whose elements are of the type with ONNX's number ``kind``."""
    sizes = checked_shape(shape, name, where)
    if kind not in _BITS:
        said = "holds strings" if kind == 8 else f"has the unknown type {kind}"
        raise InputError(f"tensor {name!r} {said}", where, "Tensors of numbers are read: leave out what handles text.")
    return Value(name, sizes, _BITS[kind])


def _give_shapes(graph: onnx.GraphProto, stored: dict[str, Value], given: Dimensions, where: str) -> None:
    """Put the given dimensions and shapes into the graph; all inputs have known shapes afterwards."""
    infos = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    made = {name for node in graph.node for name in node.output if name}
    symbols = {d.dim_param for info in infos.values() for d in info.type.tensor_type.shape.dim if d.dim_param}
    inputs = [info for info in graph.input if info.name not in stored]
    unnamed = {f"{info.name}[{i}]" for info in inputs for i in range(len(info.type.tensor_type.shape.dim))}
    check_used(given, symbols | unnamed | made | {info.name for info in inputs}, where)
    if any(info.name in given for info in inputs):
        del graph.value_info[:]  # shapes that may have belonged to others
        infos = {info.name: info for info in (*graph.output, *graph.input)}
    for info in inputs:
        if not info.type.HasField("tensor_type"):
            said = f"input {info.name!r} is no tensor"
            raise InputError(said, where, "Export the model with plain tensors as its inputs.")
        _tensor(info.name, (), info.type.tensor_type.elem_type, where)  # its type is checked before its shape
        if not info.type.tensor_type.HasField("shape") and info.name not in given:
            what = f"input {info.name!r} has no shape"
            raise InputError(what, where, f"Give it one, such as `chipmap convert --dim '{info.name}=1x3x224x224'`.")
        _set_shape(info, _given_shape(info, given, where))
    for name in made & given.keys():
        info = infos.get(name) or graph.value_info.add(name=name)
        info.type.tensor_type.elem_type = info.type.tensor_type.elem_type or _FLOAT
        _set_shape(info, checked_shape(given[name], name, where))
    # what symbols say of other tensors is worked out anew from the inputs
    kept = [info for info in graph.value_info if _shape(info) is not None]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for info in graph.output:
        if _shape(info) is None and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _given_shape(info: onnx.ValueInfoProto, given: Dimensions, where: str) -> tuple[int, ...]:
    if info.name in given:
        return checked_shape(given[info.name], info.name, where)
    shape = []
    for i, d in enumerate(info.type.tensor_type.shape.dim):
        known = d.HasField("dim_value") and d.dim_value >= 0
        shape.append(d.dim_value if known else dimension(d.dim_param or f"{info.name}[{i}]", given, info.name, where))
    return checked_shape(shape, info.name, where)


def _set_shape(info: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    info.type.tensor_type.ClearField("shape")
    info.type.tensor_type.shape.SetInParent()
    for size in shape:
        info.type.tensor_type.shape.dim.add(dim_value=size)


def _shape(info: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The shape of a tensor; None unless all of it is known."""
    kind = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    known = all(d.HasField("dim_value") for d in kind.shape.dim)
    return tuple(d.dim_value for d in kind.shape.dim) if known else None


def _hide_data(model: onnx.ModelProto) -> None:
    """Large initializers, and those in other files, become inputs: shape inference copies the model."""
    graph = model.graph
    kept, inputs = [], {info.name for info in graph.input}
    for tensor in graph.initializer:
        if tensor.data_location != _EXTERNAL and tensor.ByteSize() <= KEPT_BYTES:
            kept.append(tensor)
        elif tensor.name not in inputs:
            info = graph.input.add(name=tensor.name)
            info.type.tensor_type.elem_type = tensor.data_type
            _set_shape(info, tuple(tensor.dims))
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _inferred(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    onnx = _onnx(where)
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except MemoryError:
        raise
    except Exception as error:  # of several classes, some of them from C++
        remedy = "Check the model with onnx.checker.check_model(model, full_check=True)."
        raise InputError(f"ONNX's shape inference fails: {_first_line(error)}", where, remedy) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _name(node: onnx.NodeProto) -> str:
    return node.name or next((name for name in node.output if name), node.op_type) or "node"


def _versions(model: onnx.ModelProto) -> dict[str, int]:
    """The version of each operator set that the model names."""
    return {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import}


def _constants(graph: onnx.GraphProto) -> dict[str, np.ndarray[Any, Any]]:
    """The small tensors of numbers that the graph holds."""
    from onnx import numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in _STANDARD and len(node.output) == 1:
            tensors.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    small = {name: t for name, t in tensors.items() if t.data_location != _EXTERNAL and t.ByteSize() <= KEPT_BYTES}
    found = {}
    for name, held in small.items():
        with suppress(Exception):  # data that doesn't fit the shape: numpy's errors, and onnx's own
            found[name] = numpy_helper.to_array(held)
    return found


def _program(
    graph: onnx.GraphProto, name: str, producer: str, stored: dict[str, Value], versions: dict[str, int], where: str
) -> Program:
    constants = _constants(graph)
    program = Program(name, f"ONNX {producer[:60]}".strip(), dict(stored), parameter_nodes=False)
    program.parameters += stored
    infos = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    wanted = {name for node in graph.node for name in node.input if name} | {info.name for info in graph.output}
    large = {info.name for info in graph.input} & stored.keys()
    for info in graph.input:
        if info.name not in large:
            program.inputs.append(info.name)
            program.values[info.name] = _value(info, info.name, "an input", where)
    for node in graph.node:
        for read in filter(None, node.input):
            if read not in program.values:
                what = f"{_name(node)!r} reads {read!r}, which nothing before it makes"
                raise InputError(what, where, "Check the model with onnx.checker.")
        maker = f"made by {node.op_type} {_name(node)!r}"
        for made in node.output:
            info = infos.get(made)
            known = info is not None and _shape(info) is not None and info.type.tensor_type.elem_type in _BITS
            if known or made in wanted:
                program.values[made] = _value(info, made, maker, where)
        plain = arguments(node, versions.get(_domain(node), 1), constants)
        program.steps.append(_step(node, program, plain))
    program.outputs += [info.name for info in graph.output]
    return program


def _value(info: onnx.ValueInfoProto | None, name: str, maker: str, where: str) -> Value:
    shape = None if info is None else _shape(info)
    if info is None or shape is None:
        what = f"the shape of tensor {name!r} ({maker}) is not known"
        remedy = f"Give it, such as `chipmap convert --dim '{name}=1x64'`, or save the model with its shape."
        raise InputError(what, where, remedy)
    return _tensor(name, shape, info.type.tensor_type.elem_type, where)


def _domain(node: onnx.NodeProto) -> str:
    return "" if node.domain in _STANDARD else node.domain


def _step(node: onnx.NodeProto, program: Program, plain: dict[str, Any]) -> Step:
    kind = node.op_type if not _domain(node) else f"{node.domain}.{node.op_type}"
    read = [program.values[name] if name else None for name in node.input]
    made = [program.values[name] for name in node.output if name in program.values]
    work = operators.work(kind, read, made, plain)
    return Step(
        name=_name(node),
        kind=kind or "unnamed",
        reads=tuple(name for name in node.input if name),
        makes=tuple(name for name in node.output if name),
        flop=work.flop,
        view=kind in operators.VIEWS,
        fixed=kind in operators.FIXED,
        parameter=kind in operators.STORED,
        moved=work.moved,
        arguments=plain,
        known=work.known,
    )
