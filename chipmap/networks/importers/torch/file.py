"""A ``.pt2`` file of ``torch.export.save`` as a :class:`TorchProgram`: of the archive, the JSON of the graph is read.

The schema is torch's ``_export/serde/schema.py``. Fields that a graph to map doesn't need are skipped, most of all the
stack traces, which are the bulk of the text.
"""

from __future__ import annotations

import zipfile
import zlib
from math import inf, nan
from pathlib import PurePath
from typing import Any

import msgspec

from chipmap.networks.importers.common import decode
from chipmap.networks.importers.torch.graph import GETITEM, Call, Meta, Operator, Ref, TorchGraph, TorchProgram, slot
from chipmap.records import InputError, Source, counted

#: Bytes of a graph's JSON beyond which a file is refused (about 2 KB per node: 100,000 nodes).
MAX_JSON = 256 * 2**20
#: A short file can unpack to very much. PyTorch doesn't pack at all, and the JSON of networks packs to a thirtieth
#: (24 equal blocks) or less well. What unpacks to more than these bytes and 50 times the packed ones is refused.
FREE_JSON, MAX_RATIO = 4 * 2**20, 50
#: Objects and lists in a graph's JSON beyond which a file is refused: each takes up to 200 bytes (networks have about
#: 30 per node: 80,000 nodes).
MAX_VALUES = 2_500_000
#: Characters of the names of one node's results.
MAX_NAMES = 10**7
_PACKED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
REMEDY = "Write the file with torch.export.save of PyTorch 2.5 or later."
#: Bits of an element by the number that the file gives a type.
_BITS = {1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 16, 7: 32, 8: 64, 9: 32, 10: 64, 11: 128, 12: 8, 13: 16}
_BITS |= {28: 16, 29: 8, 30: 8, 31: 8, 32: 8, 33: 8, 34: 32, 35: 64}
#: Layouts of sparse tensors.
_SPARSE = frozenset(range(1, 6))


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str


class _Number(msgspec.Struct, frozen=True, gc=False):
    """A symbolic number by name, or a plain one."""

    as_name: str | None = None
    as_int: int | None = None
    as_bool: bool | None = None
    as_float: float | str | None = None


class _Hint(msgspec.Struct, frozen=True, gc=False):
    as_int: int | None = None


class _Expression(msgspec.Struct, frozen=True, gc=False):
    expr_str: str
    hint: _Hint | None = None


class _Size(msgspec.Struct, frozen=True, gc=False):
    as_int: int | None = None
    as_expr: _Expression | None = None


class _Meta(msgspec.Struct, frozen=True, gc=False):
    dtype: int
    sizes: list[_Size]
    strides: list[_Size] = []
    layout: int = 7
    requires_grad: bool = True


class _Optional(msgspec.Struct, frozen=True, gc=False):
    as_tensor: _Named | None = None


class _SubGraph(msgspec.Struct, frozen=True, gc=False):
    name: str
    graph: _Graph


class _Argument(msgspec.Struct, frozen=True, gc=False):
    """A union: at most one of these is there (none of them for a device, a data type and the like)."""

    as_tensor: _Named | None = None
    as_tensors: list[_Named] | None = None
    as_optional_tensor: _Optional | None = None
    as_optional_tensors: list[_Optional] | None = None
    as_nested_tensors: list[list[_Named]] | None = None
    as_int: int | None = None
    as_ints: list[int] | None = None
    as_int_lists: list[list[int]] | None = None
    as_float: float | str | None = None
    as_floats: list[float | str] | None = None
    as_bool: bool | None = None
    as_bools: list[bool] | None = None
    as_string: str | None = None
    as_sym_int: _Number | None = None
    as_sym_ints: list[_Number] | None = None
    as_sym_bool: _Number | None = None
    as_sym_bools: list[_Number] | None = None
    as_sym_float: _Number | None = None
    as_sym_floats: list[_Number] | None = None
    as_operator: str | None = None
    as_graph: _SubGraph | None = None
    as_string_to_argument: dict[str, _Argument] | None = None


class _Passed(msgspec.Struct, frozen=True, gc=False):
    name: str
    arg: _Argument


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    nn_module_stack: Any = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    target: str
    inputs: list[_Passed]
    outputs: list[_Argument]
    name: str | None = None
    is_hop_single_tensor_return: bool | None = None
    metadata: _Metadata = _Metadata()


class _Graph(msgspec.Struct, frozen=True, gc=False):
    inputs: list[_Argument]
    outputs: list[_Argument]
    nodes: list[_Node]
    tensor_values: dict[str, _Meta]
    sym_int_values: dict[str, _Size] = {}
    sym_bool_values: dict[str, Any] = {}
    sym_float_values: dict[str, Any] = {}
    is_single_tensor_return: bool = False


class _Held(msgspec.Struct, frozen=True, gc=False):
    arg: _Named
    parameter_name: str = ""
    buffer_name: str = ""


class _Spec(msgspec.Struct, frozen=True, gc=False):
    """What an input is: at most one of these (none of them for what the user passes)."""

    parameter: _Held | None = None
    buffer: _Held | None = None
    tensor_constant: _Held | None = None


class _Returned(msgspec.Struct, frozen=True, gc=False):
    """What an output is: one of these, where it takes the place of a buffer or an input; else it is the user's."""

    buffer_mutation: _Held | None = None
    user_input_mutation: _Held | None = None


class _Signature(msgspec.Struct, frozen=True, gc=False):
    input_specs: list[_Spec]
    output_specs: list[_Returned] = []


class _Module(msgspec.Struct, frozen=True, gc=False):
    graph: _Graph
    signature: _Signature


class _Range(msgspec.Struct, frozen=True, gc=False):
    min_val: int | None = None
    max_val: int | None = None


class _File(msgspec.Struct, frozen=True, gc=False):
    graph_module: _Module
    range_constraints: dict[str, _Range] = {}
    torch_version: str = ""


def accepts(data: bytes) -> bool:
    """Whether the content looks like a zip archive."""
    return data[:4] == b"PK\x03\x04"


def read_file(source: Source) -> tuple[TorchProgram, str]:
    """The program in a ``.pt2`` file, and what errors call its place; :class:`InputError` says what is wrong."""
    text, inner = _json_of(source)
    where = f"{source.where}: {inner}"
    file = decode(text, _File, where, REMEDY)
    graph, metas = _graph(file.graph_module.graph, where), file.graph_module.graph.tensor_values
    for spec in file.graph_module.signature.input_specs:
        for held in (spec.parameter, spec.buffer, spec.tensor_constant):
            if held:
                graph.stored.add(held.arg.name)
                if held is not spec.parameter:
                    graph.buffers.add(held.arg.name)
                elif held.arg.name in metas and not metas[held.arg.name].requires_grad:
                    graph.frozen.add(held.arg.name)
                own = held.parameter_name or held.buffer_name
                graph.scopes[held.arg.name] = own.rpartition(".")[0]
                if own:
                    graph.states[held.arg.name] = own
    for returned in file.graph_module.signature.output_specs:
        changed = (returned.buffer_mutation, returned.user_input_mutation)
        graph.changed.update(held.arg.name for held in changed if held)
    ranges = {name: (range.min_val, range.max_val) for name, range in file.range_constraints.items()}
    version = f"torch.export {file.torch_version[:40]}".strip()
    hints = _hints(file.graph_module.graph)
    return TorchProgram(PurePath(source.where).stem, version, graph, ranges, hints), where


def _json_of(source: Source) -> tuple[bytes, str]:
    """The JSON of the graph in a .pt2 file, and its place in the archive; nothing else in it is read."""
    where = source.where
    try:
        with source.open() as file, zipfile.ZipFile(file) as archive:
            found = [entry for entry in archive.infolist() if _holds_graph(entry.filename)]
            if len(found) != 1:
                said = "no exported program" if not found else f"{len(found)} exported programs"
                raise InputError(f"this zip archive holds {said}", where, f"One is read. {REMEDY}")
            (entry,) = found
            if entry.compress_type not in _PACKED:  # LZMA may ask for 4 GiB before its first byte
                raise InputError("its graph is packed in a way that isn't read", where, f"Unpack the archive. {REMEDY}")
            most = min(MAX_JSON, FREE_JSON + MAX_RATIO * entry.compress_size)
            with archive.open(entry) as member:
                text = member.read(most + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"the zip archive is broken: {error}", where, "Save or download it again.") from None
    if len(text) > most:
        packed = f" ({counted(entry.compress_size, 'byte')} packed)" if most < MAX_JSON else ""
        remedy = f"Export a smaller program{', and save it as PyTorch does, unpacked' if packed else ''}."
        raise InputError(f"its graph has more than {most // 2**20} MiB{packed}", where, remedy)
    values = text.count(b"{") + text.count(b"[")
    if values > MAX_VALUES:
        what = f"its graph has {values:,} objects and lists, more than {MAX_VALUES:,}"
        raise InputError(what, where, "Export a smaller program.")
    return text, entry.filename


def _holds_graph(path: str) -> bool:
    parts = path.split("/")
    return parts[-1] == "serialized_exported_program.json" or (parts[-2:-1] == ["models"] and path.endswith(".json"))


def _graph(record: _Graph, where: str) -> TorchGraph:
    made = TorchGraph(single=record.is_single_tensor_return)
    made.tensors = {name: _meta(name, meta, where) for name, meta in record.tensor_values.items()}
    made.numbers = dict.fromkeys((*record.sym_bool_values, *record.sym_float_values))
    made.numbers |= {name: _size(size, where) for name, size in record.sym_int_values.items()}
    made.inputs = [_value(argument, where) for argument in record.inputs]
    made.outputs = [_value(argument, where) for argument in record.outputs]
    for i, node in enumerate(record.nodes):
        _add_call(node, i, made, f"{where}: nodes[{i}]")
    return made


def _meta(name: str, meta: _Meta, where: str) -> Meta:
    if meta.dtype not in _BITS:
        raise InputError(f"tensor {name!r} has the unknown type {meta.dtype}", where, REMEDY)
    if meta.layout in _SPARSE:
        remedy = "Export the program with dense tensors."
        raise InputError(f"tensor {name!r} is sparse: its shape doesn't tell its bytes", where, remedy)
    shape, strides = (tuple(_size(one, where) for one in each) for each in (meta.sizes, meta.strides))
    return Meta(shape, _BITS[meta.dtype], str(meta.dtype), strides)


def _size(size: _Size, where: str) -> int | str:
    if size.as_int is not None:
        return size.as_int
    if size.as_expr is None:
        raise InputError("a size is neither a number nor an expression", where, REMEDY)
    return size.as_expr.expr_str


def _hints(record: _Graph) -> dict[str, int]:
    """The value in the export of each expression that has one."""
    sizes = [size for meta in record.tensor_values.values() for size in meta.sizes]
    known = [size.as_expr for size in (*sizes, *record.sym_int_values.values()) if size.as_expr]
    return {e.expr_str: e.hint.as_int for e in known if e.hint and e.hint.as_int is not None}


def _add_call(node: _Node, i: int, made: TorchGraph, where: str) -> None:
    """Add a node, and the getitem nodes that ``torch.export.load`` gives one with several results."""
    results = [result for argument in node.outputs for result in _results(argument)]
    lone = len(node.outputs) == 1 and node.outputs[0].as_tensors is None
    single = lone and node.is_hop_single_tensor_return is not False
    arguments = tuple((passed.name, _value(passed.arg, where)) for passed in node.inputs)
    scope = module_of(node.metadata.nn_module_stack)
    made.classes |= classes_of(node.metadata.nn_module_stack)
    if single and results and results[0] is not None:
        name = results[0].name
        made.calls.append(Call(name, node.target, arguments, (name,)))
        made.scopes[name] = scope
        return
    name = node.name or next((result.name for result in results if result), f"node{i}")
    if len(name) * len(results) > MAX_NAMES:
        what = f"it has {counted(len(results), 'result')} and a name of {counted(len(name), 'character')}"
        raise InputError(what, where, "Give it a shorter name: those of its results begin with it.")
    slots = tuple(slot(name, k) for k in range(len(results)))
    made.calls.append(Call(name, node.target, arguments, slots, single=False))
    made.scopes[name] = scope
    for k, (result, inner) in enumerate(zip(results, slots, strict=True)):
        if result is None:
            continue
        if result.name in made.tensors:
            made.tensors[inner] = made.tensors[result.name]
        if result.name in made.numbers:
            made.numbers[inner] = made.numbers[result.name]
        made.calls.append(Call(result.name, GETITEM, (("a", Ref(inner)), ("b", k)), (result.name,)))
        made.scopes[result.name] = scope


def module_of(stack: Any) -> str:
    """The innermost module of the stack that a node's metadata write (``key,path,class;key,path,class``), else ""."""
    parts = stack.rpartition(";")[2].split(",") if isinstance(stack, str) else []
    return parts[1] if len(parts) > 2 else ""


def classes_of(stack: Any) -> dict[str, str]:
    """The class of each module of such a stack, by its path; without the class's own module."""
    parts = [one.split(",") for one in stack.split(";")] if isinstance(stack, str) else []
    return {part[1]: part[-1].rpartition(".")[2] for part in parts if len(part) > 2 and part[1]}


def _results(argument: _Argument) -> list[Ref | None]:
    """What an output of a node names; None for a result that is no tensor and no symbolic number."""
    value = _value(argument, "")
    return [item if isinstance(item, Ref) else None for item in (value if isinstance(value, list) else [value])]


def _value(argument: _Argument, where: str) -> Any:
    """An argument as :class:`Call` has them; None for what a mapping doesn't need (devices, data types)."""
    if argument.as_graph is not None:
        return _graph(argument.as_graph.graph, f"{where}: {argument.as_graph.name[:60]}")
    if argument.as_operator is not None:
        return Operator(argument.as_operator)
    if argument.as_string_to_argument is not None:
        return [_value(inner, where) for inner in argument.as_string_to_argument.values()]
    if argument.as_nested_tensors is not None:
        return [[Ref(named.name) for named in inner] for inner in argument.as_nested_tensors]
    for tensors in (argument.as_tensors, argument.as_optional_tensors):
        if tensors is not None:
            return [_tensor(item) for item in tensors]
    for tensor in (argument.as_tensor, argument.as_optional_tensor):
        if tensor is not None:
            return _tensor(tensor)
    for numbers in (argument.as_sym_ints, argument.as_sym_bools, argument.as_sym_floats):
        if numbers is not None:
            return [_number(item) for item in numbers]
    for number in (argument.as_sym_int, argument.as_sym_bool, argument.as_sym_float):
        if number is not None:
            return _number(number)
    if argument.as_floats is not None:
        return [_float(item) for item in argument.as_floats]
    plain = (argument.as_bool, argument.as_int, _float(argument.as_float), argument.as_string)
    lists = (argument.as_ints, argument.as_bools, argument.as_int_lists)
    return next((value for value in (*plain, *lists) if value is not None), None)


def _float(value: float | str | None) -> float | None:
    """A number; the file writes infinite ones and NaN as texts."""
    return {"Infinity": inf, "-Infinity": -inf}.get(value, nan) if isinstance(value, str) else value


def _tensor(item: _Named | _Optional) -> Ref | None:
    named = item.as_tensor if isinstance(item, _Optional) else item
    return None if named is None else Ref(named.name)


def _number(number: _Number) -> Any:
    if number.as_name is not None:
        return Ref(number.as_name)
    plain = (number.as_bool, number.as_int, _float(number.as_float))
    return next((value for value in plain if value is not None), None)
