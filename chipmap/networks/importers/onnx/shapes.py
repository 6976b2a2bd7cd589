"""Shapes of what an ONNX node makes: by the specification's own inference, or by the table of fused operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chipmap.networks.importers.operators import onnx_fused as fused
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.steps import Shape, Value

if TYPE_CHECKING:
    import onnx

    from chipmap.networks.importers.onnx.folding import Array

STANDARD = ("", "ai.onnx")
#: Bits of an element by the number that ONNX gives a type (strings, 8, have no size).
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2}
#: Types of whole numbers and truth values, which no optimiser changes.
WHOLE = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13, 21, 22, 25, 26})

Types = dict[str, "onnx.TypeProto"]


def tensor_type(kind: int, shape: Shape | None) -> onnx.TypeProto:
    """The type of a tensor with elements of ONNX's number ``kind``; no shape is set for None."""
    import onnx

    made = onnx.TypeProto()
    made.tensor_type.elem_type = kind
    if shape is not None:
        made.tensor_type.shape.SetInParent()
        for size in shape:
            made.tensor_type.shape.dim.add().dim_value = size
    return made


def shape_of(kind: onnx.TypeProto | None) -> Shape | None:
    """The shape of a type; None for what is no tensor, or unless all of the shape is known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def value_of(name: str, kind: onnx.TypeProto | None) -> Value | None:
    """The tensor of that type, where its size is known."""
    shape = shape_of(kind)
    if kind is None or shape is None or kind.tensor_type.elem_type not in BITS:
        return None
    return Value(name, shape, BITS[kind.tensor_type.elem_type])


def inferred(
    node: onnx.NodeProto, versions: Mapping[str, int], types: Types, known: Mapping[str, Array], plain: dict[str, Any]
) -> tuple[Types, str]:
    """The types of what ``node`` makes, as far as they can be told, and why they can't.

    ``versions`` are the model's operator sets, ``types`` and ``known`` hold the types of the operands, and the values
    of those that are known beforehand, by the node's own names; ``plain`` are its arguments.
    """
    domain = "" if node.domain in STANDARD else node.domain
    by_table = fused.PLAIN.get(node.op_type) if domain in fused.DOMAINS else None
    if by_table:  # as the standard's operator, with its first operands
        import onnx

        kind, operands = by_table
        attributes = [one for one in node.attribute if not one.name.startswith("activation")]
        node = onnx.NodeProto(op_type=kind, input=node.input[:operands], output=node.output[:1], attribute=attributes)
        domain = ""
    schema = schema_of(node.op_type, domain, versions.get(domain, _LATEST))
    if schema is not None and schema.has_type_and_shape_inference_function:
        return _by_specification(node, schema, versions, types, known)
    read = [value_of(name, types.get(name)) if name else None for name in node.input]
    shapes = fused.shapes(Call(node.op_type, read, (), plain)) if domain in (*fused.DOMAINS, "") else None
    if shapes is None:
        return {}, ""
    operand = fused.type_operand(node.op_type)
    source = types.get(node.input[operand]) if operand < len(node.input) else None
    kind_number = 1 if source is None else source.tensor_type.elem_type
    pairs = zip((name for name in node.output), shapes, strict=False)
    return {name: tensor_type(kind_number, shape) for name, shape in pairs if name}, ""


def _by_specification(
    node: onnx.NodeProto, schema: Any, versions: Mapping[str, int], types: Types, known: Mapping[str, Array]
) -> tuple[Types, str]:
    from onnx import OperatorSetIdProto, numpy_helper
    from onnx.shape_inference import infer_node_outputs

    used = set(filter(None, node.input))
    if any(name not in types for name in used):
        return {}, ""
    opsets = [OperatorSetIdProto(domain=domain, version=version) for domain, version in versions.items()]
    try:
        data = {name: numpy_helper.from_array(known[name]) for name in used if name in known}
        made = infer_node_outputs(
            schema, node, {name: types[name] for name in used}, data, opset_imports=opsets or None
        )
    except MemoryError:
        raise
    except Exception as error:  # of several classes, some of them from C++
        return {}, first_line(error)
    return {name: kind for name, kind in made.items() if name}, ""


def first_line(error: Exception) -> str:
    """The first line of what an error says, or its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


#: A version beyond all: ONNX then takes the latest that it knows.
_LATEST = 10**6


@lru_cache(4096)
def schema_of(kind: str, domain: str, version: int) -> Any:
    """ONNX's specification of an operator; None of one that it doesn't know."""
    import onnx.defs

    try:
        return onnx.defs.get_schema(kind, version, domain)
    except Exception:  # a class of ONNX's own, from C++: there is no such operator
        return None
