"""From the operators of a compiler's program to an operation graph; what the readers of ONNX and PyTorch share.

**FLOP** follow one convention (``docs/instances.md``): 2 per multiply-add for products, convolutions and recurrent
cells; for every other operator the larger of the elements that it makes and the elements of its largest operand.

**Weights.** The bytes of a parameter are the ``weight_bytes`` of the first computing operator that reads it, directly
or through views; no tensor of the graph carries them. What else depends on no input is a constant with bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from chipmap.instances.graph import Loops, Operation, OperationGraph, Role, Tensor
from chipmap.instances.importers.common import MAX_BYTES, ImportedGraph, unique_names
from chipmap.records import InputError

#: More floating-point operations in one operator are taken for a mistake.
MAX_FLOP = 10**18
#: Larger dimensions, and more of them, are taken for mistakes as well (they keep the products of dimensions short).
MAX_DIMENSION, MAX_RANK = 2**40, 64

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor of the program; ``bits`` per element."""

    name: str
    shape: Shape
    bits: int

    @property
    def elements(self) -> int:
        """Product of the shape."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the tensor, rounded up."""
        return -(-self.elements * self.bits // 8)


@dataclass(frozen=True)
class Step:
    """An operator: what it reads and makes (names of values), its FLOP, and what it is for a mapping.

    ``view``: its results are the bytes of its first operand. ``fixed``: its results are known beforehand whatever it
    reads (the shape of a tensor). ``parameter``: its results are data stored in the program. ``moved`` are the bytes
    that it reads and writes where these aren't its operands and results. ``arguments`` are its other arguments by name:
    numbers, texts and lists of whole numbers. ``loops``: its loop nest, where it is known.
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    flop: int = 0
    view: bool = False
    fixed: bool = False
    parameter: bool = False
    moved: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    loops: Loops | None = None


@dataclass
class Program:
    """A program: its values by name, inputs, parameters and outputs (names of values), and its operators in order.

    ``parameter_nodes``: parameters are nodes of the program and become operations (constants). ``uncounted``: how many
    operators of which kind have FLOP that aren't known.
    """

    name: str
    source: str
    values: dict[str, Value] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameter_nodes: bool = True
    uncounted: Counter[str] = field(default_factory=Counter)


def words(text: str) -> frozenset[str]:
    """The words of a text: tables of operators."""
    return frozenset(text.split())


def larger(made: Sequence[Value], read: Sequence[Value]) -> int:
    """FLOP of an operator that is no product: max(elements made, elements of each operand)."""
    return max([sum(value.elements for value in made), *(value.elements for value in read)])


def product(made: Value, inner: int) -> int:
    """FLOP of matrix products: 2 · elements made · length of the sum."""
    return 2 * made.elements * inner


def convolution(made: Value, kernel: Value) -> int:
    """FLOP of a convolution with kernel [out, in / groups, …]: 2 · elements made · kernel elements per output."""
    return 2 * made.elements * prod(kernel.shape[1:])


def transposed_convolution(read: Value, kernel: Value) -> int:
    """FLOP of a transposed convolution with kernel [in, out / groups, …]: 2 · elements read · elements made by each."""
    return 2 * read.elements * prod(kernel.shape[1:])


def recurrent(read: Value, features: int, matrices: Iterable[Value]) -> int:
    """FLOP of an RNN, LSTM or GRU: each matrix is applied once per step and sample (``read`` ends in ``features``)."""
    steps = read.elements // max(1, features)
    return 2 * steps * sum(matrix.elements for matrix in matrices)


def einsum(equation: str, operands: Sequence[Value]) -> int | None:
    """FLOP of a sum of products: 2 · product of all index ranges (1 · for one operand); None if it can't be told."""
    ranges: dict[str, int] = {}
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != len(operands):
        return None
    for term, operand in zip(terms, operands, strict=True):
        head, dots, tail = term.partition("...")
        rank = len(operand.shape)
        if len(head) + len(tail) > rank or (not dots and len(head) != rank):
            return None
        spread = rank - len(head) - len(tail)
        # the dots stand for the last dimensions before the tail, counted from the right (they broadcast)
        names = [*head, *(f".{spread - i}" for i in range(spread)), *tail]
        for name, extent in zip(names, operand.shape, strict=True):
            ranges[name] = max(extent, ranges.get(name, 0))
    return (2 if len(operands) > 1 else 1) * prod(ranges.values())


def checked_shape(shape: Iterable[int], name: str, where: str) -> Shape:
    """The shape; :class:`InputError` for one that no tensor has."""
    sizes = tuple(shape)
    if len(sizes) > MAX_RANK or not all(0 <= size <= MAX_DIMENSION for size in sizes):
        said = str(list(sizes[:8]))[:100]
        remedy = f"Dimensions run from 0 to {MAX_DIMENSION}, {MAX_RANK} at most."
        raise InputError(f"tensor {name!r} has the shape {said}", where, remedy)
    return sizes


def imported(program: Program, where: str, reader: str, notes: tuple[str, ...] = ()) -> ImportedGraph:
    """The graph of ``program``, with a note that lists operators whose FLOP aren't known.

    Raises :class:`InputError` that names the operator or tensor that is wrong.
    """
    building = _Building(program, where)
    for name in program.inputs:
        building.add(Step(name, "input", (), (name,)), "input", 0)
    for name in program.parameters:
        if program.parameter_nodes:
            building.add(Step(name, "parameter", (), (name,), parameter=True), "constant", 0)
        else:
            building.makers[name], building.readers[name], building.origin[name] = -1, [], name
    for step in program.steps:
        building.step(step)
    uncounted = program.uncounted
    if uncounted:
        listed = ", ".join(f"{kind[:60]} ({count})" for kind, count in sorted(uncounted.items())[:30])
        said = f"FLOP of {uncounted.total()} operators are not known, one per element was counted: {listed}"
        notes = (*notes, said)
    return ImportedGraph(building.finish(), None, reader, notes)


class _Building:
    def __init__(self, program: Program, where: str) -> None:
        self.program, self.where = program, where
        self.operations: list[tuple[Step, Role, int, int]] = []  # step, role, FLOP, bytes of weights
        self.names: list[str] = []
        self.makers: dict[str, int] = {}  # value -> operation (-1: a parameter without one)
        self.readers: dict[str, list[int]] = {}
        self.dynamic: set[str] = set()
        self.origin: dict[str, str] = {}  # value -> the parameter that it renames
        self.charged: set[str] = set()

    def step(self, step: Step) -> None:
        """Add an operator of the program in the role that what it reads gives it."""
        for name in step.reads:
            if name not in self.makers:
                remedy = "Operators must stand in an order in which each reads what those before it make."
                raise InputError(f"{step.name!r} reads {name!r}, which nothing before it makes", self.where, remedy)
        moving = not step.fixed and any(name in self.dynamic for name in step.reads)
        role: Role = "constant"
        if moving:
            role = "view" if step.view and step.reads[0] in self.dynamic else "compute"
        weights = self._charge(step.reads) if role == "compute" else 0
        self.add(step, role, weights)

    def add(self, step: Step, role: Role, weights: int) -> None:
        """Add an operation with ``weights`` bytes of its own; :class:`InputError` for sizes that can't be meant."""
        v = len(self.operations)
        flop = step.flop if role == "compute" else 0
        for what, count, most in (("FLOP", flop, MAX_FLOP), ("bytes of weights", weights, MAX_BYTES)):
            if count > most:
                raise InputError(f"{step.name!r} has {count:.0e} {what}", self.where, f"At most {most:.0e} are taken.")
        self.operations.append((step, role, flop, weights))
        self.names.append(step.name)
        for name in dict.fromkeys(step.reads):
            if not step.fixed or name not in self.dynamic:
                self.readers[name].append(v)
        for name in step.makes:
            if name in self.makers:
                raise InputError(f"tensor {name!r} is made twice", self.where, "Give each tensor a name of its own.")
            self.makers[name] = v
            self.readers[name] = []
            if role in ("input", "view", "compute"):
                self.dynamic.add(name)
            elif step.parameter:
                self.origin[name] = name
            elif step.view and step.reads and step.reads[0] in self.origin:
                self.origin[name] = self.origin[step.reads[0]]

    def _charge(self, reads: tuple[str, ...]) -> int:
        total = 0
        for name in reads:
            origin = self.origin.get(name)
            if origin is not None and origin not in self.charged:
                self.charged.add(origin)
                total += self.program.values[origin].bytes
        return total

    def finish(self) -> OperationGraph:
        """The graph of all that was added, checked."""
        program = self.program
        if not any(role == "compute" for _, role, _, _ in self.operations):
            what = "nothing in it computes on an input"
            raise InputError(what, self.where, "A graph to map needs an input and operators that depend on it.")
        outputs = set(program.outputs)
        for name in program.outputs:
            if name not in self.makers:
                raise InputError(f"nothing makes the output {name!r}", self.where, "Remove it, or give the operator.")
        tensors = []
        for name, v in self.makers.items():
            value = program.values.get(name)
            if value is None or v < 0:  # neither read nor an output; or without an operation
                continue
            size = 0 if name in self.origin else value.bytes
            if size > MAX_BYTES:
                what = f"tensor {name!r} has {size:.0e} bytes"
                raise InputError(what, self.where, f"At most {MAX_BYTES:.0e} are taken.")
            readers = tuple(self.readers[name])
            tensors.append(Tensor(producer=v, readers=readers, bytes=size, output=name in outputs))
        names = unique_names(self.names, range(len(self.names)))
        operations = [
            Operation(
                name=name,
                kind=step.kind,
                role=role,
                flop=flop,
                weight_bytes=weights,
                moved_bytes=step.moved if role == "compute" else None,
                loops=step.loops if role == "compute" else None,
            )
            for name, (step, role, flop, weights) in zip(names, self.operations, strict=True)
        ]
        return OperationGraph.checked(program.name, operations, tensors, program.source, self.where)
