"""Look-ups and updates: operators that read or write a few rows of a large tensor.

Their FLOP are one per element that they make or write; the bytes that they move are indices and rows, not the tensor.
An update that makes a new tensor copies the old one: it moves all of it and has no formula here.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from math import prod

from chipmap.networks.importers.operators.calls import Call, Count, ranked
from chipmap.networks.importers.steps import Value

#: Tensors of more dimensions aren't asked which of these an update leaves whole.
_MOST_DIMENSIONS = 8


def made(call: Call) -> int:
    """One per element made."""
    return sum(value.elements for value in call.made)


def found_moved(call: Call) -> int:
    """A look-up: bytes of the indices (all operands but the first) + 2 · bytes made."""
    return sum(value.bytes for value in call.operands[1:]) + 2 * sum(value.bytes for value in call.made)


def bag_flop(call: Call) -> int:
    """A row is added per index: indices · columns."""
    return call.operand(1).elements * ranked(call.operand(0), 2).shape[-1]


def bag_moved(call: Call) -> int:
    """Indices, a row per index, and what is made."""
    table = ranked(call.operand(0), 2)
    rows = -(-bag_flop(call) * table.bits // 8)
    return sum(value.bytes for value in call.operands[1:]) + rows + sum(value.bytes for value in call.made)


def rows_written(source: int | None = None) -> Count:
    """Elements of the operand ``source`` (None: the last) that an update in place writes; else all that it makes."""

    def count(call: Call) -> int:
        with suppress(LookupError):
            return _rows(call, source).elements
        return made(call)

    return count


def rows_moved(source: int | None = None, adds: bool = False) -> Count:
    """An update in place: bytes of the indices + 2 · bytes written (3 · where it adds to old numbers)."""

    def count(call: Call) -> int:
        value = _rows(call, source)
        old = adds or call.arguments.get("accumulate") is True
        return sum(each.bytes for each in call.operands[1:]) + (2 if old else 1) * value.bytes

    return count


def _rows(call: Call, source: int | None) -> Value:
    """The numbers that an update writes; :class:`LookupError` where they are repeated (how often isn't told).

    Indices stand for some of the dimensions, the other dimensions are written whole.
    """
    if source is not None:
        return call.operand(source)
    changed, *indices, value = call.operands
    places = max((index.elements for index in indices), default=0)
    kept = combinations(ranked(changed, len(indices)).shape[:_MOST_DIMENSIONS], len(changed.shape) - len(indices))
    if not indices or all(places * prod(sizes) != value.elements for sizes in kept):
        raise LookupError
    return value


def entries_written(call: Call) -> int:
    """One per index of an update in place."""
    return call.operand(1).elements


def entries_moved(adds: bool = False) -> Count:
    """An update in place, entry by entry: bytes of the indices + 2 · bytes of these entries (3 · where it adds)."""

    def count(call: Call) -> int:
        index = call.operand(1)
        entries = -(-index.elements * call.operand(0).bits // 8)
        return index.bytes + (3 if adds else 2 if len(call.operands) > 2 else 1) * entries

    return count


def overwritten_moved(call: Call) -> int:
    """A copy into a tensor: what is read of the other operands, and what is written; the old numbers aren't read."""
    return sum(value.bytes for value in call.operands[1:]) + sum(value.bytes for value in call.made)
