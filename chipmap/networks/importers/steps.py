"""The records that the readers of ONNX and PyTorch fill: a program of operators, and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

from chipmap.networks.graph import Loops

Shape = tuple[int, ...]
#: Loops that become more operators are taken for mistakes (or for loops that a condition ends, which isn't known).
MAX_UNROLLED = 20_000


@dataclass(frozen=True)
class Value:
    """A tensor of the program; ``bits`` per element.

    ``strides``: how many elements lie from one to the next along each dimension; None where that isn't known.
    """

    name: str
    shape: Shape
    bits: int
    strides: Shape | None = None

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
    numbers, texts and lists of whole numbers. ``loops``: its loop nest, where it is known. ``known``: whether a formula
    gave its FLOP. ``node``: the node of the model's graph that it comes from (empty: it is that node itself).
    ``detached``: no gradient passes through it.
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
    known: bool = True
    node: str = ""
    detached: bool = False


@dataclass
class Program:
    """A program: its values by name, inputs, parameters and outputs (names of values), and its operators in order.

    ``parameter_nodes``: parameters are nodes of the program and become operations (constants), whoever reads them.
    ``scopes``: the module of a step or a parameter (``blocks.0.attn``), where the file says it, and ``states``: the
    module's own name of a parameter or buffer (``blocks.0.attn.bias``), ``classes`` the class of a module. ``complex``:
    the values that are complex numbers. ``buffers``: the parameters that no optimiser changes, where the file tells
    them apart; ``frozen``: those that it could change, but that ask for no gradient. ``recomputes``:
    what of that which depends on parameters alone isn't known beforehand (:mod:`.recomputed`).
    """

    name: str
    source: str
    values: dict[str, Value] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameter_nodes: bool = True
    scopes: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    complex: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)
    recomputes: Literal["nothing", "look-ups", "all"] = "nothing"


def words(text: str) -> frozenset[str]:
    """The words of a text: tables of operators."""
    return frozenset(text.split())
