"""Who makes and reads what, as the compiled programs and searches take it: arrays over some operations of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.networks.graph import neighbours


class Rows(NamedTuple):
    """Lists in a row: list i is ``items[first[i] : first[i + 1]]``."""

    first: IntArray
    items: IntArray


def in_rows(lists: Iterable[Sequence[int]]) -> Rows:
    """The lists, one after the other."""
    lists = list(lists)
    items = np.array([item for one in lists for item in one], dtype=np.int64)
    return Rows(np.cumsum([0, *map(len, lists)]).astype(np.int64), items)


class Incidence(NamedTuple):
    """The storages and shared constants of a problem whose operations have other numbers, 0 … n - 1.

    Per storage its ``producer``, ``ticks`` on a link, ``bytes`` and ``readers``; per shared constant its
    ``shared_bytes`` and ``shared_readers``. Per operation the storages that it ``made`` and ``reads``, and the
    ``shared`` constants that it reads.
    """

    producer: IntArray
    ticks: IntArray
    bytes: IntArray
    readers: Rows
    shared_bytes: IntArray
    shared_readers: Rows
    made: Rows
    reads: Rows
    shared: Rows


def incidence(problem: RingProblem, operations: Sequence[int]) -> Incidence:
    """The arrays for these ``operations``, numbered in their order; all that compute are among them."""
    number, n = {v: i for i, v in enumerate(operations)}, len(operations)
    readers = [[number[v] for v in storage.readers] for storage in problem.storages]
    shared_readers = [[number[v] for v in constant.readers] for constant in problem.shared]
    rows = [(number[s.producer], s.ticks, s.bytes) for s in problem.storages]
    producer, ticks, bytes_ = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    reads, shared = (
        neighbours(n, ((v, s) for s, by in enumerate(all_) for v in by)) for all_ in (readers, shared_readers)
    )
    return Incidence(
        producer,
        ticks,
        bytes_,
        in_rows(readers),
        np.array([constant.bytes for constant in problem.shared], dtype=np.int64),
        in_rows(shared_readers),
        in_rows(neighbours(n, zip(producer.tolist(), range(len(rows)), strict=True))),
        in_rows(reads),
        in_rows(shared),
    )
