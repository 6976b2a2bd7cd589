"""FLOP of ``einsum``: a sum of products of any number of operands, two at a time where there are more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from chipmap.networks.importers.operators.calls import Call, Count, Value

#: Of an operand its indices, those that dots stand for as well.
Names = tuple[str, ...]


def einsum(
    equation: str, operands: Sequence[Value], path: Sequence[int] | None = None, front: bool = False
) -> int | None:
    """FLOP of a sum of products; None if it can't be told.

    One operand: 1 · the product of all index ranges. Two: 2 · that. More are multiplied in pairs. A ``path`` names the
    two of each step by their places among those that are left, as PyTorch does; the product then stands behind the
    others. Without one it is always the first two, and with ``front`` their product stands first. A pair takes 2 · the
    product of its index ranges, or 1 · that if no index ends with it: one that neither another operand nor the result
    has.
    """
    found = pairs(equation, operands, path, front)
    return None if found is None else sum(flop for flop, _ in found)


def pairs(
    equation: str, operands: Sequence[Value], path: Sequence[int] | None = None, front: bool = False
) -> list[tuple[int, int]] | None:
    """FLOP of each pair of :func:`einsum`, and the numbers that it makes; None if they can't be told."""
    terms, arrow, made = equation.replace(" ", "").partition("->")
    names = [index_names(term, len(one.shape)) for term, one in zip(terms.split(","), operands, strict=False)]
    if len(terms.split(",")) != len(operands) or None in names:
        return None
    left = [name for name in names if name is not None]
    ranges: dict[str, int] = {}
    for name, operand in zip(left, operands, strict=True):
        for letter, extent in zip(name, operand.shape, strict=True):
            ranges[letter] = max(extent, ranges.get(letter, 0))
    every = [letter for name in left for letter in name]
    kept = set(made) if arrow else {letter for letter in every if every.count(letter) == 1}
    kept |= {letter for letter in every if len(letter) > 1}  # those of dots
    if len(left) < 3:
        return [(len(left) * prod(ranges.values()), prod(ranges[one] for one in ranges if one in kept))]
    return _in_pairs(left, ranges, kept, list(path) if path else [0, 1] * (len(left) - 1), front)


def index_names(term: str, rank: int) -> Names | None:
    """The indices of an operand; the dots stand for the last dimensions before the tail, counted from the right (they
    broadcast)."""
    head, dots, tail = term.partition("...")
    spread = rank - len(head) - len(tail)
    if spread < 0 or (not dots and spread):
        return None
    return (*head, *(f".{spread - i}" for i in range(spread)), *tail)


def _in_pairs(
    left: list[Names], ranges: dict[str, int], kept: set[str], path: list[int], front: bool
) -> list[tuple[int, int]] | None:
    found = []
    for first, second in zip(path[::2], path[1::2], strict=False):
        if len(left) < 2 or first == second or not all(0 <= place < len(left) for place in (first, second)):
            return None
        pair = {*left[first], *left[second]}
        left = [name for i, name in enumerate(left) if i not in (first, second)]
        rest = tuple(sorted(pair & kept.union(*left)))
        flop = (1 if len(rest) == len(pair) else 2) * prod(ranges[letter] for letter in pair)
        found.append((flop, prod(ranges[letter] for letter in rest)))
        left = [rest, *left] if front else [*left, rest]
    return found if len(left) == 1 else None


def said(
    arguments: Mapping[str, object], operands: Sequence[Value]
) -> tuple[str, Sequence[Value], Sequence[int] | None]:
    """What :func:`pairs` takes, of the arguments ``equation`` and ``path``."""
    path = arguments.get("path")
    known = isinstance(path, list | tuple) and all(isinstance(one, int) for one in path)
    return str(arguments.get("equation", "")), operands, path if known else None  # type: ignore[return-value]


def einsum_call(front: bool) -> Count:
    """:func:`einsum` of the arguments ``equation`` and ``path``."""

    def count(call: Call) -> int:
        counted = einsum(*said(call.arguments, call.operands), front)
        if counted is None:
            raise LookupError
        return counted

    return count
