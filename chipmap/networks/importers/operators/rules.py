"""What operators cost: the rules that the tables of both frameworks name.

y is the operator's (first) result, x its first operand, |y| the number of elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from chipmap.networks.importers.operators import flop, moves, numerics, sums
from chipmap.networks.importers.operators.calls import Call, Count

#: What a formula raises for a call that it does not fit; files can hold any arguments.
_UNFIT = (LookupError, TypeError, ValueError, ArithmeticError)


@dataclass(frozen=True)
class Rule:
    """How operators count: FLOP, what the page says of them, bytes moved where those are special, and the source."""

    flop: Count
    says: str
    moved: Count | None = None
    moves: str = ""
    source: str = ""


@dataclass(frozen=True)
class Work:
    """What an operator costs: FLOP, and bytes moved where these aren't its operands and results.

    ``known``: whether a rule said so.
    """

    flop: int
    moved: int | None = None
    known: bool = True


def work(call: Call, rule: Rule | None) -> Work:
    """What ``call`` costs by ``rule``; the larger of elements made and read where there is none or it doesn't fit."""
    if rule is not None:
        with suppress(*_UNFIT):
            return Work(rule.flop(call), _moved(call, rule))
    return Work(flop.larger(call), known=rule is ELEMENTS)


def _moved(call: Call, rule: Rule) -> int | None:
    """Bytes moved by ``rule``; None (operands and results) where it has no word on them, or they can't be told."""
    with suppress(*_UNFIT):
        return rule.moved(call) if rule.moved else None
    return None


def tabled(rows: Iterable[tuple[str, Rule]]) -> dict[str, Rule]:
    """A table of rules by kind, from the names of operators (separated by spaces) and the rule of each row."""
    found: dict[str, Rule] = {}
    for names, rule in rows:
        for name in names.split():
            assert name not in found, name
            found[name] = rule
    return found


#: Sources: PyTorch's own counter; a book on linear algebra; the usual count of Fourier transforms.
COUNTER = "`torch.utils.flop_counter`"
GOLUB = "Golub, Van Loan: Matrix Computations"
FFTW = "benchFFT of FFTW"
#: What most operators count.
ELEMENTS = Rule(flop.larger, "the larger of |y| and the elements of each operand")
PRODUCT = Rule(flop.product(), "2 · |y| · k, k the last dimension of the first operand", source=COUNTER)
BIASED_PRODUCT = Rule(flop.product(1), "2 · |y| · k, k the last dimension of the second operand", source=COUNTER)
GROUPED = Rule(
    flop.grouped_product,
    "2 · |y| · k, k the last dimension of the first operand, however the rows fall on the groups",
    flop.grouped_moved,
    "operands and results, of the stack at most one matrix per row",
)
CONTRACTION = Rule(flop.contraction, "2 · the product of all ranges")
CONVOLUTION = Rule(flop.convolution(), "2 · |y| · kernel elements per output channel", source=COUNTER)
TRANSPOSED = Rule(flop.transposed_convolution, "2 · |x| · kernel elements per input channel", source=COUNTER)
ATTENTION = Rule(flop.attention(), "2 · t · (|Q| + |y|) for t keys; a causal mask halves nothing", source=COUNTER)
RECURRENT = Rule(flop.recurrent, "2 · steps · samples · elements of the matrices of weights")
_EINSUM = "2 · the product of all index ranges (1 · with one operand), pair by pair with more than two"
EINSUM = Rule(sums.einsum_call(front=False), _EINSUM)
ONNX_EINSUM = Rule(sums.einsum_call(front=True), _EINSUM)
LOOK_UP = Rule(moves.made, "|y|", moves.found_moved, "indices + 2 · bytes of y")
BAG = Rule(moves.bag_flop, "indices · columns", moves.bag_moved, "indices + a row per index + y")
UPDATE = Rule(
    moves.rows_written(), "elements written", moves.rows_moved(), "indices + 2 · bytes written (3 · where it adds)"
)
OVERWRITE = Rule(moves.made, "|y|", moves.overwritten_moved, "what is copied + y")
TRIANGULAR = Rule(numerics.solved(1, 0), "n² per column of y", source=GOLUB)
CHOLESKY = Rule(numerics.cubic(1, 3), "n³ / 3 per matrix [n, n]", source=GOLUB)
LU = Rule(numerics.cubic(2, 3), "2 n³ / 3 per matrix [n, n]", source=GOLUB)
INVERSE = Rule(numerics.cubic(2), "2 n³ per matrix [n, n]", source=GOLUB)
