"""What limits the programs over order ideals of a kernel graph.

Partitions that run one after the other, each closed under what earlier ones made, are the differences of a chain of
ideals: DFModel's partitions without its assignment matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from chipmap.deadline import look
from chipmap.heuristics.engines.ideals import LOOK

Item = TypeVar("Item")


class TooWideError(Exception):
    """The graph has more order ideals, or more labels of them, than the program takes."""


def with_deadline_checks(items: Iterable[Item]) -> Iterator[Item]:
    """The items one by one, with a look at the clock now and then."""
    for number, item in enumerate(items):
        if number % LOOK == 0:
            look()
        yield item
