"""The tensors and steps of a program while it is made of an ONNX model: shapes, and values known beforehand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from chipmap.networks.importers.counting import Counting
from chipmap.networks.importers.onnx.folding import DTYPES, MAX_ELEMENTS, Array
from chipmap.networks.importers.onnx.shapes import BITS, WHOLE, shape_of, tensor_type
from chipmap.networks.importers.onnx.wire import KEPT_BYTES
from chipmap.networks.importers.program import Program, Shape, Step, Value, checked_shape
from chipmap.records import InputError, shortened

if TYPE_CHECKING:
    import onnx

    from chipmap.networks.importers.onnx.shapes import Types

EXTERNAL = 1  # TensorProto.EXTERNAL
#: Characters of the name of an operator with graphs in it, with which all names in these begin.
LONGEST = 2_000
STRINGS = "Tensors of numbers are read: leave out what handles text, and make what it hands on an input."


@dataclass(frozen=True)
class Place:
    """Where nodes stand: ``prefix`` starts the names of the operators and tensors that they become, ``path`` those of
    what is the same in all iterations of the loops around them. Both are empty at the top.
    """

    prefix: str = ""
    path: str = ""

    def name(self, node: onnx.NodeProto) -> str:
        """The name of a node: its own, or that of its first result, or its operator's."""
        own = node.name or next((name for name in node.output if name), node.op_type) or "node"
        return f"{self.prefix}{own}"

    def inside(self, node: onnx.NodeProto, iteration: int | None = None) -> Place:
        """The place of the nodes of a graph inside ``node``."""
        count = "" if iteration is None else f"{iteration}/"
        own = self.name(node)
        if len(own) > LONGEST:
            what = f"the name of an operator with graphs in it has more than {LONGEST:,} characters"
            raise InputError(what, shortened(own, 80), "Give it a shorter one: the names in its graphs begin with it.")
        return Place(f"{own}/{count}", f"{self.path}{own[len(self.prefix) :]}/")


#: Where nodes of the model itself stand.
TOP = Place()


class ProgramState:
    """What is known of a program so far. ``types`` and ``known`` are by the program's names of tensors.

    ``given`` are shapes that the user gave, ``declared`` types that the file states: of results whose shapes nothing
    else tells. ``counting`` says which branches are read where the inputs decide.
    """

    def __init__(
        self,
        program: Program,
        versions: dict[str, int],
        given: Mapping[str, Shape],
        declared: Types,
        where: str,
        counting: Counting,
    ) -> None:
        self.program, self.versions, self.where, self.counting = program, versions, where, counting
        self.given, self.declared = given, declared
        self.types: Types = {}
        self.known: dict[str, Array] = {}
        self.sequences: dict[str, list[str]] = {}  # a sequence -> the tensors in it
        self.makers: dict[str, str] = {}  # tensor -> what makes it, in words
        self.reasons: dict[str, str] = {}  # tensor -> why its shape isn't known
        self.branches: list[str] = []  # those that were read where the inputs decide, in words
        self.weights: dict[tuple[str, bool], tuple[int, int]] = {}  # path of a branch, which -> FLOP, bytes
        self.node = ""  # the node of the model itself that steps come from

    def nodes(self, nodes: Iterable[onnx.NodeProto], scope: dict[str, str], place: Place = TOP) -> None:
        """Add nodes and put what they make into ``scope``; at the top, tensors keep their names."""
        raise NotImplementedError

    def trial(self) -> Self:
        """A copy without steps, which knows the same tensors; what is added to it leaves this one as it is."""
        made = copy(self)
        made.program = replace(self.program, values={**self.program.values}, parameters=[], steps=[])
        made.types, made.known, made.sequences = {**self.types}, {**self.known}, {**self.sequences}
        made.makers, made.reasons, made.branches = {**self.makers}, {**self.reasons}, []
        return made

    def stored(self, tensor: onnx.TensorProto, name: str) -> None:
        """Add an initializer."""
        self._typed(name, tensor_type(tensor.data_type, tuple(tensor.dims)), f"initializer {name!r}")
        self.readable(name)
        self.program.parameters.append(name)
        if tensor.data_type in WHOLE:
            self.program.buffers.add(name)
        value = data_of(tensor)
        if value is not None:
            self.known[name] = value

    def input(self, name: str, kind: onnx.TypeProto) -> None:
        """Add an input, whose shape is known."""
        self._typed(name, kind, "an input")
        self.readable(name)
        self.program.inputs.append(name)

    def output(self, name: str) -> None:
        """Mark an output, or each tensor of a sequence that is one."""
        if name in self.sequences:
            self.program.outputs += self.sequences[name]
            return
        if name in self.makers:
            self.readable(name)
        self.program.outputs.append(name)

    def constant(self, name: str, value: Array) -> str:
        """Add a number that is known beforehand; its name."""
        number = next(number for number, dtype in DTYPES.items() if value.dtype == dtype)
        self.add(Step(name, "Constant", (), (name,), parameter=True), tensor_type(number, ()), ())
        self.known[name] = value
        return name

    def add(self, step: Step, kind: onnx.TypeProto, shape: Shape) -> None:
        """Add a step whose result has elements of the type ``kind`` and this shape."""
        self.typed(step.makes[0], kind, shape, step.name)
        self.append(step)

    def view(self, name: str, kind: str, source: str, made: str) -> None:
        """Add a step that gives the tensor ``source`` another name."""
        shape = self.shape(source)
        self.add(Step(name, kind, (source,), (made,), view=True), self.types[source], shape)

    def typed(self, name: str, kind: onnx.TypeProto, shape: Shape, maker: str) -> None:
        """Note that the operator ``maker`` makes a tensor with elements of the type ``kind`` and this shape."""
        self._typed(name, tensor_type(kind.tensor_type.elem_type, shape), f"made by {maker!r}")

    def shape(self, name: str) -> Shape:
        """The shape of a tensor that can be read; :class:`InputError` for one that can't."""
        self.readable(name)
        return self.program.values[name].shape

    def readable(self, name: str) -> None:
        """:class:`InputError` for a tensor whose bytes aren't known."""
        if name in self.program.values:
            return
        if name in self.sequences:
            what = f"{name!r} ({self.makers[name]}) is a sequence of tensors, and an operator reads it whole"
            raise InputError(what, self.where, "Export the model with plain tensors.")
        kind = self.types.get(name)
        number = kind.tensor_type.elem_type if kind is not None and kind.HasField("tensor_type") else 0
        if number not in BITS and (number or shape_of(kind) is not None):
            said = "holds strings" if number == 8 else f"has the unknown type {number}"
            raise InputError(f"tensor {name!r} {said}", self.where, STRINGS)
        reason = f": {self.reasons[name]}" if name in self.reasons else ""
        what = f"the shape of tensor {name!r} ({self.makers[name]}) is not known{reason}"
        given = shlex.quote(f"{name}={_example(kind)}")
        remedy = f"Give it one: add --dim {given} to the command, or save the model with its shape."
        if re.search(r"/\d+/", name):  # of a step of a loop
            remedy += (
                " Each step of a loop may need some: PyTorch's own export (.pt2) has an EmbeddingBag as one operator."
            )
        if reason:
            remedy = "Give the inputs shapes that fit each other (`--dim`), or check the model with onnx.checker."
        raise InputError(what, self.where, remedy)

    def _typed(self, name: str, kind: onnx.TypeProto | None, maker: str) -> None:
        """Note the type of a tensor, and its size if that is known."""
        self.makers[name] = maker
        if kind is None:
            return
        self.types[name] = kind
        shape = shape_of(kind)
        if shape is not None:
            checked_shape(shape, name, self.where)
            bits = BITS.get(kind.tensor_type.elem_type)
            if bits is not None:
                self.program.values[name] = Value(name, shape, bits)

    def append(self, step: Step) -> None:
        """Add a step whose results have types."""
        self.program.steps.append(replace(step, node=self.node))


def _example(kind: onnx.TypeProto | None) -> str:
    """A shape as `--dim` takes it, of the rank and with the sizes that are known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.shape.dim:
        return "1x64"
    return "x".join(str(d.dim_value) if d.HasField("dim_value") else "8" for d in kind.tensor_type.shape.dim)


def data_of(tensor: onnx.TensorProto) -> Array | None:
    """The numbers of a small tensor whose data is there."""
    from onnx import numpy_helper

    if tensor.data_location == EXTERNAL or tensor.ByteSize() > KEPT_BYTES or tensor.data_type not in DTYPES:
        return None
    with suppress(Exception):  # data that doesn't fit the shape: numpy's errors, and onnx's own
        value = numpy_helper.to_array(tensor)
        return value if value.size <= MAX_ELEMENTS else None
    return None
