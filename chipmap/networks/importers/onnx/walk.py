"""From the nodes of an ONNX model, in their order, to the steps of a program: shapes, known values, control flow.

Each node's results get their shapes, and their values where these are known beforehand (``folding.py``). So an
``If`` whose condition is known is replaced by the nodes of its branch, and a ``Loop`` or ``Scan`` whose number of
iterations is known by those of all iterations. Names of inner nodes start with those of the nodes around them:
``steps/3/add`` is node ``add`` in the fourth iteration of the loop ``steps``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from chipmap.networks.importers.onnx.arguments import arguments
from chipmap.networks.importers.onnx.control import control
from chipmap.networks.importers.onnx.folding import DTYPES, MAX_ELEMENTS, Array, folded
from chipmap.networks.importers.onnx.keys import node_keys
from chipmap.networks.importers.onnx.sequences import KINDS, PASSING, passed, sequence
from chipmap.networks.importers.onnx.shapes import STANDARD, inferred, shape_of, tensor_type
from chipmap.networks.importers.onnx.state import TOP, Place, ProgramState, data_of
from chipmap.networks.importers.operators import onnx as operators
from chipmap.networks.importers.program import Step, Value
from chipmap.records import InputError

if TYPE_CHECKING:
    import onnx

    from chipmap.networks.importers.onnx.shapes import Types

_FLOAT = 1
#: Operators that take a sequence of tensors.
TAKING = KINDS | PASSING | operators.CONTROL


class Walk(ProgramState):
    """Adds nodes to the program.

    A scope has the program's name for each name that the nodes of a graph can read: the graph's own tensors and those
    of the graphs around it.
    """

    def nodes(self, nodes: Iterable[onnx.NodeProto], scope: dict[str, str], place: Place = TOP) -> None:
        """Add nodes and put what they make into ``scope``; at the top, tensors keep their names."""
        nodes = list(nodes)
        keys = node_keys(nodes) if place == TOP else []
        for i, node in enumerate(nodes):
            self.node = keys[i] if keys else self.node
            for read in filter(None, node.input):
                if read not in scope:
                    what = f"{place.name(node)!r} reads {read!r}, which nothing before it makes"
                    raise InputError(what, self.where, "Check the model with onnx.checker.")
                if not (scope[read] in self.sequences and node.op_type in TAKING and node.domain in STANDARD):
                    self.readable(scope[read])
            graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
            if node.op_type in operators.WITH_FUNCTIONS:
                self._step(node, scope, place, _captured(graphs, scope))
            elif node.op_type in PASSING and passed(self, node, place, scope):
                continue
            elif graphs or node.op_type in operators.CONTROL or any(a.graphs for a in node.attribute):
                control(self, node, graphs, place, scope)
            elif place.path and node.op_type == "Constant" and node.output:
                once = Place(place.path, place.path)  # the same one in all iterations
                if f"{once.prefix}{node.output[0]}" not in self.makers:
                    self._step(node, scope, once)
                scope[node.output[0]] = f"{once.prefix}{node.output[0]}"
            else:
                self._step(node, scope, place)

    def _step(self, node: onnx.NodeProto, scope: dict[str, str], place: Place, captured: Sequence[str] = ()) -> None:
        """Add a node that is one step; its functions read what is ``captured``."""
        name, domain = place.name(node), "" if node.domain in STANDARD else node.domain
        reads = {local: scope[local] for local in node.input if local}
        known = {local: self.known[one] for local, one in reads.items() if one in self.known}
        types = {local: self.types[one] for local, one in reads.items() if one in self.types}
        plain = arguments(node, self.versions.get(domain, 1), known)
        if not domain and node.op_type in KINDS:
            sequence(self, node, place, scope, plain)
            return
        made, reason = inferred(node, self.versions, types, known, plain)
        values = None if domain else self._folded(node, plain, known, types)
        makes = []
        for i, local in enumerate(node.output):
            if not local:
                continue
            fresh = scope[local] = f"{place.prefix}{local}"
            kind = self._kind(fresh, made.get(local), None if values is None else values[i], reason)
            self._typed(fresh, kind, f"made by {node.op_type} {name!r}")
            if values is not None and values[i].shape == shape_of(kind):
                self.known[fresh] = values[i]
            elif reason:
                self.reasons[fresh] = reason
            makes.append(fresh)
        self.append(
            self._counted(node, name, [*(reads.get(local, "") for local in node.input), *captured], makes, plain)
        )

    def _kind(self, name: str, kind: onnx.TypeProto | None, value: Array | None, reason: str) -> onnx.TypeProto | None:
        """The type of a result: what the user says of its shape, the inference, its value, the file, in this order."""
        declared = self.declared.get(name)
        if name in self.given:
            sources = (one.tensor_type.elem_type for one in (kind, declared) if one is not None)
            return tensor_type(next(filter(None, sources), _FLOAT), self.given[name])
        if shape_of(kind) is not None:
            return kind
        if value is not None:
            number = next((number for number, dtype in DTYPES.items() if value.dtype == dtype), 0)
            if number:
                return tensor_type(number, value.shape)
        return declared if declared is not None and not reason else kind

    def _folded(
        self, node: onnx.NodeProto, plain: dict[str, Any], known: Mapping[str, Array], types: Types
    ) -> tuple[Array, ...] | None:
        """The values of what a node of the standard makes, where they are known beforehand."""
        values: tuple[Array, ...] | None = None
        with suppress(TypeError, ValueError, ArithmeticError):  # arguments of other types than the specification's
            values = _worked_out(node, plain, known, types)
        return values if values is None or len(values) >= len(node.output) else None

    def _counted(
        self, node: onnx.NodeProto, name: str, reads: list[str], makes: list[str], plain: dict[str, Any]
    ) -> Step:
        """The step of a node whose tensors have these names in the program (empty: an operand that is left out)."""
        values = self.program.values
        kind = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
        read = [values[one] if one else None for one in reads]
        made = [values[one] for one in makes if one in values]
        _check_reshape(kind, name, read, made, self.where)
        work = operators.work(kind, read, made, plain)
        return Step(
            name=name,
            kind=kind or "unnamed",
            reads=tuple(filter(None, reads)),
            makes=tuple(makes),
            flop=work.flop,
            view=kind in operators.VIEWS,
            fixed=kind in operators.FIXED,
            parameter=kind in operators.STORED,
            moved=work.moved,
            arguments=plain,
            known=work.known,
        )


def _check_reshape(kind: str, name: str, read: Sequence[Value | None], made: Sequence[Value], where: str) -> None:
    """:class:`InputError` for a ``Reshape`` that loses elements: sizes were fixed that the inputs no longer have."""
    if kind == "Reshape" and made and read[0] is not None and read[0].elements != made[0].elements:
        what = f"Reshape {name!r} makes {list(made[0].shape)} of {list(read[0].shape)}: the model fixes other sizes"
        remedy = "Give the inputs the sizes that it was exported for (`--dim`), or export it for variable sizes."
        raise InputError(what, where, remedy)


def _worked_out(
    node: onnx.NodeProto, plain: dict[str, Any], known: Mapping[str, Array], types: Types
) -> tuple[Array, ...] | None:
    kind, read = node.op_type, list(node.input)
    if kind == "Constant":
        held = next((a for a in node.attribute if a.name.startswith("value")), None)
        value = None if held is None else data_of(held.t) if held.HasField("t") else _listed(plain.get(held.name))
        return None if value is None else (value,)
    if kind in ("Shape", "Size") and read:
        shape = shape_of(types.get(read[0]))
        if shape is None:
            return None
        sizes = shape[slice(plain.get("start", 0), plain.get("end"))]
        return (np.asarray(sizes if kind == "Shape" else prod(shape), np.int64),)
    if kind == "ConstantOfShape" and read and read[0] in known:
        fill = next((data_of(a.t) for a in node.attribute if a.name == "value"), np.zeros(1, np.float32))
        wanted = tuple(known[read[0]].reshape(-1).tolist())
        if fill is None or fill.size != 1 or min(wanted, default=0) < 0 or prod(wanted) > MAX_ELEMENTS:
            return None
        return (np.full(wanted, fill.reshape(())),)
    if any(read) and all(name in known for name in read if name):
        return folded(kind, [known[name] if name else None for name in read], plain)
    return None


def _listed(value: Any) -> Array | None:
    """The value of a ``Constant`` given as a number or a list."""
    if isinstance(value, str) or value is None:
        return None
    numbers = np.asarray(value)
    return numbers.astype(np.float32) if numbers.dtype.kind == "f" else numbers


def _captured(graphs: Mapping[str, onnx.GraphProto], scope: Mapping[str, str]) -> list[str]:
    """What the functions of a node read of the graph around them."""
    captured: dict[str, None] = {}
    for graph in graphs.values():
        own = {one.name for one in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            captured |= {scope[one]: None for one in inner.input if one and one not in own and one in scope}
            own |= set(inner.output)
    return list(captured)
