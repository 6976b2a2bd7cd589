"""The builder that all network generators share: values with shapes, operators, and how FLOP and bytes are counted.

**FLOP.** A matrix product or a convolution counts 2 per multiply-add (a bias is free). Any other operator counts the
larger of the elements that it makes and the elements of its largest operand, parameters included: the convention of
published traces, exact for element-wise operators and an upper bound for a look-up in a table. Views count nothing.

**Weights.** Parameters stand in the graph as constants, so that a mapping covers the nodes of a compiler's graph, but
their tensors have no bytes: a parameter's bytes are the ``weight_bytes`` of the first operator that reads it. Later
readers (tied embeddings) add none, unless they ask for a copy of their own.

**Roles.** An operator that depends on no input is a constant, whatever it is (attention masks, positions).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from chipmap.instances.graph import Operation, OperationGraph, Role, Tensor

#: Bytes of an element that isn't a number of the network: token ids and positions, truth values.
INDEX_BYTES = 8
BOOL_BYTES = 1

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """What an operator made: ``tensor`` of the graph, its shape and bytes per element.

    ``parameter`` is the tensor of the parameter that the value renames (None for all other values); such a value has
    no bytes of its own. ``dynamic`` says whether it depends on an input.
    """

    tensor: int
    shape: Shape
    word_bytes: int
    dynamic: bool
    parameter: int | None = None

    @property
    def elements(self) -> int:
        """Product of the shape."""
        return prod(self.shape)


class Network:
    """A network under construction; :meth:`graph` ends it.

    Operations are called after the scopes they stand in and their kind (``layer.3.attention.query.addmm``), repeated
    names are numbered.
    """

    def __init__(self, name: str, word_bytes: int, source: str = "") -> None:
        self.name, self.word_bytes, self.source = name, word_bytes, source
        self._operations: list[Operation] = []
        self._makes: list[tuple[int, int]] = []  # (producer, bytes) of each tensor
        self._readers: list[list[int]] = []
        self._scopes: list[str] = []
        self._names: dict[str, int] = {}
        self._charged: set[int] = set()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of the operations made inside start with ``name``."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def input(self, name: str, shape: Shape, word_bytes: int | None = None) -> Value:
        """A tensor from the host."""
        return self._value(self._add(name, "input", "input"), shape, word_bytes, dynamic=True)

    def parameter(self, name: str, *shape: int, word_bytes: int | None = None) -> Value:
        """A trained parameter or a buffer of the network (``word_bytes`` if its elements aren't of the usual size)."""
        v = self._add(name, "parameter", "constant")
        return self._value(v, shape, word_bytes, parameter=len(self._makes))

    def op(
        self,
        kind: str,
        *reads: Value,
        shape: Shape,
        flop: int | None = None,
        word_bytes: int | None = None,
        unread: tuple[tuple[int, int], ...] = (),
        copy: bool = False,
    ) -> Value:
        """An operator of ``kind`` that reads values and makes one of ``shape``.

        ``flop`` is for matrix products and convolutions only (module docstring). ``unread`` gives (elements, bytes per
        element) of further outputs that nothing reads, such as the statistics of a layer norm. ``copy`` counts the
        bytes of parameters that another operator holds already.
        """
        made = prod(shape) + sum(elements for elements, _ in unread)
        if flop is None:
            flop = max(made, *(read.elements for read in reads)) if reads else made
        dynamic = any(read.dynamic for read in reads)
        weights = sum(self._charge(read, copy) for read in reads)
        v = self._add(kind, kind, "compute" if dynamic else "constant", flop, weights, reads)
        value = self._value(v, shape, word_bytes, dynamic)
        for elements, size in unread:
            self._tensor(v, elements * size)
        return value

    def view(self, kind: str, read: Value, shape: Shape) -> Value:
        """``read`` in another shape: a view, or a constant when ``read`` is one."""
        v = self._add(kind, kind, "view" if read.dynamic else "constant", reads=(read,))
        return self._value(v, shape, read.word_bytes, read.dynamic, read.parameter)

    def product(self, kind: str, a: Value, b: Value, bias: Value | None = None, copy: bool = False) -> Value:
        """The matrix product a [..., m, k] · b [..., k, n] (+ bias [n]): 2 · m · k · n FLOP per matrix."""
        shape = (*a.shape[:-1], b.shape[-1])
        reads = (a, b) if bias is None else (bias, a, b)
        return self.op(kind, *reads, shape=shape, flop=2 * prod(shape) * a.shape[-1], copy=copy)

    def elementwise(self, kind: str, *reads: Value) -> Value:
        """An operator on the elements of its operands, in the shape of the largest."""
        return self.op(kind, *reads, shape=max(reads, key=lambda read: read.elements).shape)

    def graph(self, *outputs: Value) -> OperationGraph:
        """The graph whose outputs are ``outputs``."""
        marked = {value.tensor for value in outputs}
        tensors = (
            Tensor(producer=v, readers=tuple(sorted(set(readers))), bytes=size, output=t in marked)
            for t, ((v, size), readers) in enumerate(zip(self._makes, self._readers, strict=True))
        )
        return OperationGraph.checked(self.name, self._operations, tensors, self.source)

    def _add(
        self, name: str, kind: str, role: Role, flop: int = 0, weight_bytes: int = 0, reads: tuple[Value, ...] = ()
    ) -> int:
        full = ".".join([*self._scopes, name])
        used = self._names[full] = self._names.get(full, -1) + 1
        full = f"{full}_{used}" if used else full
        v = len(self._operations)
        self._operations.append(Operation(name=full, kind=kind, role=role, flop=flop, weight_bytes=weight_bytes))
        for read in reads:
            self._readers[read.tensor].append(v)
        return v

    def _value(
        self, producer: int, shape: Shape, word_bytes: int | None, dynamic: bool = False, parameter: int | None = None
    ) -> Value:
        word = self.word_bytes if word_bytes is None else word_bytes
        tensor = self._tensor(producer, prod(shape) * word if parameter is None else 0)
        return Value(tensor, shape, word, dynamic, parameter)

    def _tensor(self, producer: int, size: int) -> int:
        self._makes.append((producer, size))
        self._readers.append([])
        return len(self._makes) - 1

    def _charge(self, read: Value, copy: bool) -> int:
        if read.parameter is None or (read.parameter in self._charged and not copy):
            return 0
        self._charged.add(read.parameter)
        return read.elements * read.word_bytes
