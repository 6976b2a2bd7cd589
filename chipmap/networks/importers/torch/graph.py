"""A graph of torch.export, read from a file or from the object: calls of operators, and what is known of their tensors.

Both readers make this form, and :mod:`torch_steps` turns it into a program, so that file and object agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: What a call that returns several results is asked for one of them with.
GETITEM = "_operator.getitem"


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor, or a symbolic number (a size, say), that an argument names."""

    name: str


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator as an argument: wrappers such as ``out_dtype`` call it."""

    target: str


@dataclass(frozen=True, slots=True)
class Meta:
    """Shape, bits per element and element type of a tensor; a size is a number, or an expression of symbols.

    ``strides``: elements from one to the next along each dimension, written likewise; empty where that isn't known.
    """

    shape: tuple[int | str, ...]
    bits: int
    type: str
    strides: tuple[int | str, ...] = ()

    @property
    def complex(self) -> bool:
        """Whether the elements are complex numbers; a file names their types by number, an object by name."""
        return self.type in ("9", "10", "11") or self.type.startswith("torch.complex")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of ``target``.

    ``arguments`` are pairs (name in the operator's schema, value). A value is a plain one, a :class:`Ref`, an
    :class:`Operator`, a :class:`TorchGraph`, or a list of values. ``makes`` are the results in order: the call's own
    name, or ``name#0``, ``name#1`` … where it returns several (``single`` is false), which getitem calls then read.
    """

    name: str
    target: str
    arguments: tuple[tuple[str, Any], ...]
    makes: tuple[str, ...]
    single: bool = True


@dataclass
class TorchGraph:
    """The graph; ``tensors`` and ``numbers`` say what is known of what its refs name.

    ``inputs`` and ``outputs`` are refs, or plain values. ``numbers`` are the expressions of symbolic numbers (None: not
    known). ``stored``: names of the inputs that are parameters, buffers and constants; ``buffers``: those that no
    optimiser changes; ``frozen``: parameters that ask for no gradient. ``changed``: outputs that take
    the place of a buffer or an input, which the program changed in place before it was decomposed. ``single``: it
    returns its one output itself, not a tuple of it. ``scopes``: the module that a call is part of, and that a stored
    input belongs to (``blocks.0.attn``), where it is known. ``states``: what the module calls a stored input
    (``blocks.0.attn.bias``). ``classes``: the class of each module that a call is part of, where it is known.
    """

    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    tensors: dict[str, Meta] = field(default_factory=dict)
    numbers: dict[str, int | str | None] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)
    scopes: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    single: bool = False


def slot(call: str, i: int) -> str:
    """The name of a call's result ``i``."""
    return f"{call}#{i}"


def leaves(value: Any) -> Iterator[Any]:
    """What is in nested lists, in order."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def refs(value: Any) -> Iterator[Ref]:
    """The refs in an argument, in order."""
    return (one for one in leaves(value) if isinstance(one, Ref))


def operands(value: Any) -> Iterator[Any]:
    """The refs and numbers in an argument, in order: what can stand for an input of a graph."""
    return (one for one in leaves(value) if isinstance(one, Ref | int | float) and not isinstance(one, bool))


def expressions(graph: TorchGraph) -> set[str]:
    """The sizes in a graph, and in those inside it, that are expressions."""
    found = {size for meta in graph.tensors.values() for size in meta.shape if isinstance(size, str)}
    for call in graph.calls:
        for inner in inner_graphs(call.arguments):
            found |= expressions(inner)
    return found


def inner_graphs(arguments: tuple[tuple[str, Any], ...]) -> list[TorchGraph]:
    """The graphs among a call's arguments."""
    return [one for _, value in arguments for one in leaves(value) if isinstance(one, TorchGraph)]


Ranges = Mapping[str, tuple[int | None, int | None]]


@dataclass
class TorchProgram:
    """A graph with what holds for all of it.

    ``ranges``: the smallest and largest value of each symbol; ``hints``: the value that it had in the export.
    """

    name: str
    source: str
    graph: TorchGraph
    ranges: Ranges = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
