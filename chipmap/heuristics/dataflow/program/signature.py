"""What the bits of a signature stand for: all that is known of an ideal's kernels beside what they take.

A signature has a field for each thing that counts later on: the option of a kernel until its tensors are read; which
part of its parameters rests, until the backward kernels that use them have joined; the layouts of a tensor that are
present, for the partition under way alone. Fields that are never known at the same time may have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.problem import IntArray

#: Bits of a signature.
BITS = 62


class Field(NamedTuple):
    """Something that is known once one of the kernels ``of`` has joined, until all of ``until`` have: ``width`` bits,
    within a partition only where it is ``passing``."""

    of: tuple[int, ...]
    until: tuple[int, ...]
    width: int
    passing: bool = False


class Fields(NamedTuple):
    """The fields of a signature.

    The number of kernel v's option, so long as its tensors are read, is that in the bits of ``mask[v]`` from
    ``slot[v]`` on (no bits: one option, or no readers). ``code`` [options] is what a kernel writes when it joins.
    Kernel v may be the last that needs the fields ``entering[enter[v]]`` …; each has ``bits`` and needs to be known
    until all kernels ``leaving[leave[field]]`` … have joined. Kernel v may make the layouts of fields
    ``beginning[begin[v]]`` … present. ``lasting`` are the bits that count beyond a partition.
    """

    slot: IntArray
    mask: IntArray
    code: IntArray
    enter: IntArray
    entering: IntArray
    leave: IntArray
    leaving: IntArray
    begin: IntArray
    beginning: IntArray
    bits: IntArray
    lasting: int


def placed(fields: Sequence[Field], known: NDArray[np.bool_], asked: NDArray[np.bool_]) -> list[int]:
    """The first bit of each field: those that are ``known`` [ideals, fields] together have none in common, nor those of
    which one is known where the other is ``asked`` for; and passing ones have none in common with others.

    Raises :class:`TooWideError` where there are too few bits.
    """
    counted = known.astype(np.float32)
    together = counted.T @ (known | asked).astype(np.float32) > 0
    together |= together.T
    first, low = [0] * len(fields), 0
    for passing in (False, True):
        some = [f for f, field in enumerate(fields) if field.passing == passing]
        for i, f in enumerate(some):
            own, at, taken = (1 << fields[f].width) - 1, low, 0
            for g in some[:i]:
                if together[f, g]:
                    taken |= ((1 << fields[g].width) - 1) << first[g]
            while taken >> at & own:
                at += 1
            first[f] = at
        low = max((first[f] + fields[f].width for f in some), default=low)
    if low > BITS:
        raise TooWideError("too many kernels with a choice of sharding schemes are open at once")
    return first


def rows(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Lists of numbers, one after the other: where each begins, and all of them."""
    first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return first, np.array([x for one in lists for x in one], dtype=np.int64)
