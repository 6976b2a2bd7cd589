"""Plain arguments of an ONNX node by name: its attributes, and small constant operands that stand for arguments.

Attributes that a node leaves out have the defaults of the operator's specification. Later versions of the standard
moved many attributes to operands (the ``axes`` of ``ReduceMean``, the ``starts`` of ``Slice``); both stand here under
the specification's name. Tensors and graphs are no plain arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chipmap.networks.importers.onnx.shapes import schema_of

if TYPE_CHECKING:
    import numpy as np
    import onnx

#: Longer lists stand for data.
MAX_ENTRIES = 64


def arguments(node: onnx.NodeProto, version: int, constants: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """The arguments of ``node`` by name: numbers, texts, and lists of numbers.

    ``version`` is that of the node's operator set in the model; ``constants`` has the values of small tensors that are
    known beforehand.
    """
    defaults, operands = _specification(node.op_type, node.domain, version)
    found = {**defaults, **attributes(node)}
    for i, name in enumerate(node.input):
        if 0 < i < len(operands) and name in constants:
            value = constants[name]
            if value.ndim < 2 and value.size <= MAX_ENTRIES and value.dtype.kind in "iuf":
                found[operands[i]] = value.tolist()
    return found


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes that stand at ``node``: numbers, texts, and lists of numbers."""
    plain = ((attribute.name, _plain(attribute)) for attribute in node.attribute)
    return {name: value for name, value in plain if value is not None}


def whole(plain: Mapping[str, Any], name: str, default: int) -> int:
    """The argument ``name`` if it is a whole number, else ``default``."""
    value = plain.get(name, default)
    return value if isinstance(value, int) else default


def _plain(attribute: onnx.AttributeProto) -> Any:
    """The value of an attribute; None for tensors, graphs and long lists."""
    kind = attribute.type
    if kind == 1:  # AttributeProto.FLOAT, then INT, STRING, FLOATS, INTS
        return attribute.f
    if kind == 2:
        return attribute.i
    if kind == 3:
        return attribute.s.decode(errors="replace")
    several = attribute.floats if kind == 6 else attribute.ints if kind == 7 else None
    return None if several is None or len(several) > MAX_ENTRIES else list(several)


@lru_cache(4096)
def _specification(kind: str, domain: str, version: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Defaults of the attributes of an operator and the names of its operands; neither of an unknown one."""
    schema = schema_of(kind, "" if domain == "ai.onnx" else domain, version)
    if schema is None:
        return {}, ()
    defaults = ((name, _plain(attribute.default_value)) for name, attribute in schema.attributes.items())
    return {name: value for name, value in defaults if value is not None}, tuple(i.name for i in schema.inputs)
