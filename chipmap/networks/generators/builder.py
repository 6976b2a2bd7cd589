"""The builder that all network generators share: values with shapes, and the operators that make them.

A generator writes its network as a program of core ATen operators, as an export of an eager implementation shows it.
What an operator costs and is for a mapping (FLOP, bytes moved, weights, tables that several operators share, roles) is
said once, for networks that are generated and networks that are read: in
:mod:`chipmap.networks.importers.operators.aten` and :mod:`chipmap.networks.importers.program`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.operators import aten
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.steps import Program, Shape, Step, Value

#: Bytes of an element that isn't a number of the network: token ids and positions, truth values.
INDEX_BYTES = 8
BOOL_BYTES = 1

__all__ = ["BOOL_BYTES", "INDEX_BYTES", "Network", "Shape", "Value"]


class Network:
    """A network under construction; :meth:`graph` ends it.

    Operations are called after the scopes they stand in and their kind (``layer.3.attention.query.addmm``), repeated
    names are numbered. Inputs are named first. ``word_bytes`` are those of a number, where a method isn't told others.
    """

    def __init__(self, name: str, word_bytes: int, source: str = "") -> None:
        self.word_bytes = word_bytes
        self._program = Program(name, source)
        self._scopes: list[str] = []
        self._names: dict[str, int] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of the operations made inside start with ``name``."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def input(self, name: str, shape: Shape, word_bytes: int | None = None) -> Value:
        """A tensor from the host."""
        value = self._value(self._named(name), shape, word_bytes)
        self._program.inputs.append(value.name)
        return value

    def parameter(self, name: str, *shape: int, word_bytes: int | None = None) -> Value:
        """A trained parameter or a buffer of the network."""
        full = self._named(name)
        value = self._value(full, shape, word_bytes)
        self._program.steps.append(Step(full, "parameter", (), (value.name,), parameter=True))
        return value

    def op(
        self,
        kind: str,
        *reads: Value,
        shape: Shape,
        word_bytes: int | None = None,
        unread: tuple[tuple[Shape, int], ...] = (),
        **arguments: Any,
    ) -> Value:
        """The ATen operator ``kind`` on values, in the order of its arguments; it makes one of ``shape``.

        ``unread`` gives (shape, bytes per element) of further outputs that nothing reads, such as the statistics of
        a layer norm. ``arguments`` are the operator's other arguments by name.
        """
        full = self._named(kind)
        made = [self._value(full, shape, word_bytes)]
        made += [self._value(f"{full}:{i}", *each) for i, each in enumerate(unread, 1)]
        work = aten.work(kind, reads, made, arguments)
        self._program.steps.append(
            Step(
                full,
                kind,
                reads=tuple(read.name for read in reads),
                makes=tuple(value.name for value in made),
                flop=work.flop,
                moved=work.moved,
                view=kind in aten.VIEWS,
                fixed=kind in aten.FIXED,
                arguments=arguments,
                known=work.known,
            )
        )
        return made[0]

    def view(self, kind: str, read: Value, shape: Shape, **arguments: Any) -> Value:
        """``read`` in another shape: an operator that renames its bytes."""
        return self.op(kind, read, shape=shape, word_bytes=read.bits // 8, **arguments)

    def permute(self, read: Value, *dims: int) -> Value:
        """``read`` with its dimensions in the order ``dims``."""
        return self.view("permute", read, tuple(read.shape[dim] for dim in dims), dims=list(dims))

    def product(self, kind: str, a: Value, b: Value, bias: Value | None = None) -> Value:
        """The matrix product a [..., m, k] · b [..., k, n] (+ bias [n])."""
        reads = (a, b) if bias is None else (bias, a, b)
        return self.op(kind, *reads, shape=(*a.shape[:-1], b.shape[-1]))

    def convolution(
        self, *reads: Value, shape: Shape, stride: int = 1, groups: int = 1, transposed: bool = False
    ) -> Value:
        """A convolution of an input with its kernel (+ bias), the same ``stride`` along all axes behind channels."""
        strides = [stride] * (len(shape) - 2)
        return self.op("convolution", *reads, shape=shape, stride=strides, groups=groups, transposed=transposed)

    def elementwise(self, kind: str, *reads: Value, **arguments: Any) -> Value:
        """An operator on the elements of its operands, in the shape of the largest."""
        return self.op(kind, *reads, shape=max(reads, key=lambda read: read.elements).shape, **arguments)

    def graph(self, *outputs: Value) -> OperationGraph:
        """The graph whose outputs are ``outputs``."""
        self._program.outputs = list(dict.fromkeys(value.name for value in outputs))
        return imported(self._program, self._program.name, "network").graph

    def _named(self, name: str) -> str:
        """``name`` after its scopes, numbered if it has been used there."""
        full = ".".join([*self._scopes, name])
        used = self._names[full] = self._names.get(full, -1) + 1
        return f"{full}_{used}" if used else full

    def _value(self, name: str, shape: Shape, word_bytes: int | None) -> Value:
        value = Value(name, shape, 8 * (self.word_bytes if word_bytes is None else word_bytes))
        self._program.values[name] = value
        return value
