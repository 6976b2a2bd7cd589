"""The operation graph that the graph families share: operations, and tensors with their readers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import msgspec

from chipmap.records import InputError, Record, kept

Role = Literal["compute", "view", "constant", "input"]


#: The index ranges of a loop nest (:class:`Loops`).
Range = Literal["outer", "rows", "inner", "columns"]


class Loops(Record, frozen=True, kw_only=True):
    """The loop nest of an operation: what those need who split it or count its cycles.

    A product makes (outer · rows) × columns numbers, each a sum over ``inner``: ``rows`` are output features or
    channels, ``columns`` tokens or places (of the whole batch), ``outer`` heads, groups or experts that don't mix. Its
    FLOP are 2 · outer · rows · inner · columns. An operation that sums nothing up has ``inner`` 0.

    ``weights``: the outer · rows · inner operand is a parameter. ``splits`` names the ranges whose parts can be
    computed apart: a part of ``outer``, ``columns`` or ``rows`` from the same part of the activations (``rows`` of a
    product from whole ones); parts of ``inner`` are sums that must be added up. What ``splits`` doesn't name mixes: a
    normalisation over features names no ``rows``.
    ``window``, ``stride`` and ``places`` (of the result) are those of a convolution, one number per dimension in space;
    its ``inner`` is channels per group times the product of ``window``. A ``transposed`` one has that product in its
    ``rows`` instead, and the places of its operand as ``columns``: what it makes for a place of the result is summed.
    ``whole_bytes`` of its parameters and constants are needed whole by each part: they don't reach along what is split.
    ``heads``: where ``outer`` counts them for each of several samples, those of one (0: all of ``outer``).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("heads",)

    outer: int = 1
    rows: int = 1
    inner: int = 0
    columns: int = 1
    weights: bool = False
    splits: tuple[Range, ...] = ()
    window: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    transposed: bool = False
    whole_bytes: int = 0
    heads: int = 0


class Operation(Record, frozen=True, kw_only=True):
    """One node of a network.

    ``kind`` is the operator's type (``convolution``; efficiencies are given per kind). ``role`` says what it is for a
    mapping: ``compute`` does work and is placed; ``view`` only renames the bytes of its inputs; ``constant`` is known
    before the network runs (weights, and whatever depends on nothing else); ``input`` comes from the host.

    ``weight_bytes`` are parameters that no other operation reads. A parameter with several readers is a constant whose
    tensor has its bytes. ``moved_bytes`` are those that it reads and writes, where these aren't its operands, results
    and weights: a look-up moves rows of its table, not the table. ``loops``: its loop nest, where that is known.
    ``node``: the node of the model's file that it comes from, where that is called otherwise (a loop, say).
    ``frozen_bytes``: those of ``weight_bytes`` that no optimiser changes: buffers, and parameters without a gradient.
    ``layers``: how many layers stand on each other in it (recurrent layers).
    ``detached``: no gradient passes through it: autograd is off where it stands, or it is ``detach`` itself.
    ``kept_bytes``: what it makes for its gradient alone, where its kind doesn't say how much.
    ``operands``: for each operand, in its own order, the place of its tensor among those that the operation reads, in
    the order of the graph's tensors (-1: it has no tensor); only where the gradient depends on it, else empty.
    ``order``: how it goes through memory: numbers of a row that it mixes, how far apart they lie, and bytes of operands
    that it reads in another order than they lie in (``importers/operators/order.py``); empty: all in order.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "moved_bytes",
        "loops",
        "node",
        "frozen_bytes",
        "layers",
        "detached",
        "kept_bytes",
        "operands",
        "order",
    )

    name: str
    kind: str
    role: Role = "compute"
    flop: int = 0
    weight_bytes: int = 0
    moved_bytes: int | None = None
    loops: Loops | None = None
    node: str = ""
    frozen_bytes: int = 0
    layers: int = 1
    detached: bool = False
    kept_bytes: int = 0
    operands: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def looks_up(self, stored: int, written: int) -> bool:
        """Whether it fetches rows of the ``stored`` bytes of a table that it reads, as it writes ``written`` bytes.

        A look-up has a FLOP for each number that it makes.
        """
        return self.moved_bytes is not None and stored > 0 and self.flop <= written


class Tensor(Record, frozen=True, kw_only=True):
    """What one operation writes and others read: ``producer`` and ``readers`` are positions in ``operations``.

    A tensor with several readers is one tensor (multicast). ``output`` marks what the network returns.
    """

    producer: int
    readers: tuple[int, ...] = ()
    bytes: int = 0
    output: bool = False


class OperationGraph(Record, frozen=True, kw_only=True):
    """A directed acyclic graph of operations. Edges are (producer, reader) of each tensor.

    If no tensor is marked ``output``, every operation counts as needed; else those without a path to an output are
    dead.
    """

    name: str
    operations: tuple[Operation, ...]
    tensors: tuple[Tensor, ...] = ()
    source: str = ""

    @classmethod
    def checked(
        cls,
        name: str,
        operations: Iterable[Operation],
        tensors: Iterable[Tensor],
        source: str = "",
        where: str = "graph",
    ) -> Self:
        """The graph of these parts, if :meth:`check` accepts it."""
        graph = cls(name=name, operations=tuple(operations), tensors=tuple(tensors), source=source)
        graph.check(where)
        return graph

    def check(self, where: str = "graph") -> None:
        """Raise :class:`InputError` for a bad index, a negative size, a name used twice, a cycle or a wrong role.

        A graph that has passed isn't looked at again: records don't change.
        """
        kept(self, "_sound", lambda graph: graph._look_through(where))

    def _look_through(self, where: str) -> None:
        count = len(self.operations)
        if not count:
            raise InputError("the graph has no operations", f"{where}.operations", "Give at least one operation.")
        seen: dict[str, int] = {}
        for i, operation in enumerate(self.operations):
            here = f"{where}.operations[{i}]"
            if operation.name in seen:
                what = f"the name {operation.name!r} is used twice (also by operations[{seen[operation.name]}])"
                raise InputError(what, here, "Names identify operations in mappings: make them unique.")
            seen[operation.name] = i
            for field in ("flop", "weight_bytes", "moved_bytes", "frozen_bytes", "kept_bytes"):
                if (getattr(operation, field) or 0) < 0:
                    raise InputError(f"{field} is {getattr(operation, field)}", here, "Sizes are 0 or more.")
            if operation.order and not (len(operation.order) == 3 and min(operation.order) >= 0):
                what = f"order is {list(operation.order)}"
                raise InputError(what, here, "It is empty, or three numbers of 0 or more: a row, how far apart, bytes.")
            if any(place < -1 for place in operation.operands):
                what = f"operands is {list(operation.operands)}"
                raise InputError(what, here, "They are places of tensors from 0 on; -1 is what the operation stores.")
            if operation.layers < 1:
                raise InputError(f"layers is {operation.layers}", here, "An operation has one layer or more.")
            if operation.frozen_bytes > operation.weight_bytes:
                what = f"frozen_bytes is {operation.frozen_bytes}, more than its weight_bytes"
                raise InputError(what, here, "They are a part of these.")
        for i, tensor in enumerate(self.tensors):
            here = f"{where}.tensors[{i}]"
            if tensor.bytes < 0:
                raise InputError(f"bytes is {tensor.bytes}", here, "Sizes are 0 or more.")
            for end in (tensor.producer, *tensor.readers):
                if not 0 <= end < count:
                    remedy = f"Positions run from 0 to {count - 1} here."
                    raise InputError(f"operation {end} does not exist", here, remedy)
        self._check_roles(self.topological_order(where), where)

    def _check_roles(self, order: tuple[int, ...], where: str) -> None:
        """An input reads nothing and a constant only constants (or views of them): both precede the network's run."""
        reads = self.reads()
        fixed = [False] * len(order)
        for v in order:
            operation = self.operations[v]
            moving = [u for u in reads[v] if operation.role == "input" or not fixed[u]]
            fixed[v] = operation.role == "constant" or (operation.role == "view" and not moving)
            if moving and operation.role in ("input", "constant"):
                what = f"{operation.name!r} has role {operation.role!r} but reads {self.operations[moving[0]].name!r}"
                remedy = "Inputs read nothing and constants only constants: give it role compute or view."
                raise InputError(what, f"{where}.operations[{v}]", remedy)

    def without_loops(self) -> Self:
        """The graph for a family that asks for no shapes: its instances don't change with what is known of these."""
        operations = (msgspec.structs.replace(operation, loops=None, order=()) for operation in self.operations)
        found = msgspec.structs.replace(self, operations=tuple(operations))
        found.__dict__.update({key: self.__dict__[key] for key in ("_order", "_sound") if key in self.__dict__})
        return found

    def without_operands(self) -> Self:
        """Without loops and the places of operands: for a family that makes no training steps, and for times."""
        plain = self.without_loops()
        found = plain.replace(operations=tuple(one.replace(operands=()) for one in plain.operations))
        found.__dict__.update({key: self.__dict__[key] for key in ("_order", "_sound") if key in self.__dict__})
        return found

    def reads(self) -> list[list[int]]:
        """For each operation the producers of the tensors that it reads."""
        pairs = ((reader, tensor.producer) for tensor in self.tensors for reader in tensor.readers)
        return neighbours(len(self.operations), pairs)

    def needed(self) -> list[bool]:
        """Whether each operation has a path to an output; all have where no tensor is marked as one."""
        if not any(tensor.output for tensor in self.tensors):
            return [True] * len(self.operations)
        found, reads = [False] * len(self.operations), self.reads()
        left = [tensor.producer for tensor in self.tensors if tensor.output]
        while left:
            v = left.pop()
            if not found[v]:
                found[v] = True
                left += reads[v]
        return found

    def constants_read(self) -> list[tuple[int, ...]]:
        """For each computing operation the tensors of constants that it reads, directly or through views."""
        made: list[list[int]] = [[] for _ in self.operations]
        for t, tensor in enumerate(self.tensors):
            made[tensor.producer].append(t)
        read: list[dict[int, None]] = [{} for _ in self.operations]
        for v in self.topological_order():
            role = self.operations[v].role
            for t in made[v]:
                behind = {t: None} if role == "constant" else read[v] if role == "view" else {}
                for reader in self.tensors[t].readers:
                    read[reader] |= behind
        return [tuple(read[v]) if o.role == "compute" else () for v, o in enumerate(self.operations)]

    def computing_readers(self, operations: Iterable[int]) -> dict[int, list[int]]:
        """For each of these the operations that compute with what it makes, directly or through views and constants, in
        topological order; one that computes itself is its own only one.
        """
        at = {v: i for i, v in enumerate(self.topological_order())}
        made: list[list[int]] = [[] for _ in self.operations]
        for tensor in self.tensors:
            made[tensor.producer] += tensor.readers
        found: dict[int, list[int]] = {}
        for start in operations:
            seen, left, computing = {start}, [start], list[int]()
            while left:
                v = left.pop()
                if self.operations[v].role == "compute":
                    computing.append(v)
                    continue
                fresh = [reader for reader in dict.fromkeys(made[v]) if reader not in seen]
                seen.update(fresh)
                left += fresh
            found[start] = sorted(computing, key=at.__getitem__)
        return found

    def stored_bytes(self, read: Sequence[Sequence[int]]) -> int:
        """Bytes of the parameters and constants that computing operations read, each once; ``read`` is
        :meth:`constants_read`.
        """
        shared = {t for tensors in read for t in tensors}
        return sum(o.weight_bytes for o in self.operations) + sum(self.tensors[t].bytes for t in shared)

    def written_bytes(self) -> list[int]:
        """For each operation the bytes of all tensors that it makes."""
        written = [0] * len(self.operations)
        for tensor in self.tensors:
            written[tensor.producer] += tensor.bytes
        return written

    def topological_order(self, where: str = "graph") -> tuple[int, ...]:
        """Positions such that producers come before readers, the lowest position first (Kahn's algorithm).

        Raises :class:`InputError` that names the operations of one cycle. It is computed once.
        """
        return kept(self, "_order", lambda graph: graph._ordered(where))

    def _ordered(self, where: str) -> tuple[int, ...]:
        count = len(self.operations)
        readers = neighbours(count, ((one.producer, reader) for one in self.tensors for reader in set(one.readers)))
        order = topological(readers)
        if len(order) < count:
            cycle = _cycle(readers, set(range(count)) - set(order))
            names = " -> ".join(self.operations[v].name for v in cycle)
            raise InputError(f"the graph has a cycle: {names}", where, "Remove one of these dependencies.")
        return tuple(order)


def neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """For each of ``count`` positions u the v of its ``pairs`` (u, v), in their order."""
    found: list[list[int]] = [[] for _ in range(count)]
    for u, v in pairs:
        found[u].append(v)
    return found


def topological(after: Sequence[Sequence[int]], key: Callable[[int], Any] | None = None) -> list[int]:
    """Positions in an order in which each comes before those in its ``after`` (Kahn's algorithm).

    Of several that may come next it is the one with the least ``key``, or the lowest. A key is asked when a position
    may come, the lowest of several last. Positions on a cycle, or behind one, are left out.
    """
    waiting = [0] * len(after)
    for readers in after:
        for w in readers:
            waiting[w] += 1
    rank = key or (lambda v: v)
    ready = [(rank(v), v) for v in range(len(after) - 1, -1, -1) if not waiting[v]]
    heapq.heapify(ready)
    order = list[int]()
    while ready:
        *_, v = heapq.heappop(ready)
        order.append(v)
        for w in reversed(after[v]):
            waiting[w] -= 1
            if not waiting[w]:
                heapq.heappush(ready, (rank(w), w))
    return order


def _cycle(readers: list[list[int]], left: set[int]) -> list[int]:
    """One cycle among the operations that Kahn's algorithm left over (every one has a producer among them)."""
    producer = {w: v for v in sorted(left) for w in readers[v] if w in left}
    path: list[int] = []
    v = min(left)
    while v not in path:
        path.append(v)
        v = producer[v]
    loop = path[path.index(v) :][::-1]
    return [*loop, loop[0]]
