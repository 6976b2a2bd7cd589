"""The arrays of the station search, in named groups: what its compiled parts pass to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.triangle_kernel import MAX_GROUPS


class Flows(NamedTuple):
    """The flow graph: work [n] in ticks, and per operation bit sets [n, w]; the storages that links are charged for.

    ``storage_producer`` [s], ``storage_readers`` [s, w], ``storage_ticks`` [s] on a link.
    """

    ticks: Any
    producers: Any
    readers: Any
    ancestors: Any
    descendants: Any
    storage_producer: Any
    storage_readers: Any
    storage_ticks: Any


class Demands(NamedTuple):
    """What a block must keep to: work <= ``limit`` ticks, with all before it >= ``least``, windows.

    Its operations are among ``early`` [n]; all of ``must`` [w] lie in it or before.
    """

    limit: Any
    least: Any
    early: Any
    must: Any


class Store(NamedTuple):
    """The states of one level: rows ``pool[at[s]:at[s + 1]]`` found by ``table``; ``sizes`` = (states, words used).

    ``parent`` and ``done`` (work in the ideal) by state; ``flags``: see the kernel.
    """

    table: Any
    at: Any
    pool: Any
    sizes: Any
    parent: Any
    done: Any
    flags: Any


class Past(NamedTuple):
    """The state that gets a block: its ideal ``inside`` [w], its pattern, and what C3 makes of them.

    Per group g: ``sent[g]`` [w] its readers to come, ``reach[g]`` the groups that it reaches.
    Per operation: ``sends`` the groups that it reads from, ``against`` those that may not send to its chip as well.
    """

    inside: Any
    pattern: Any
    groups: Any
    sent: Any
    reach: Any
    sends: Any
    against: Any


class Stack(NamedTuple):
    """The block in the making: what was chosen at each depth, and the choices left there.

    ``end`` [w]: the ideal so far. By depth: ``block`` [w] what must be in the block, ``below`` [w] all after it,
    ``total`` the work of ``block``, ``sending`` the groups that send to it; ``work`` done, ``chosen`` operation,
    ``waiting`` [n] operations in order, ``count`` of them, ``position`` of the next. ``missing`` [n]: producers to
    come. The rest is room: ``pending`` [w], ``still_open`` [w], ``sets`` [n + 1, w], ``raw`` pattern, ``row``.
    """

    end: Any
    block: Any
    below: Any
    total: Any
    sending: Any
    work: Any
    chosen: Any
    waiting: Any
    count: Any
    position: Any
    missing: Any
    pending: Any
    still_open: Any
    sets: Any
    raw: Any
    row: Any


def stack(n: int, width: int) -> Stack:
    """Room for blocks of ``n`` operations, as bit sets of ``width`` words."""

    def words(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.uint64)

    def numbers(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    return Stack(
        end=words(width),
        block=words(n + 1, width),
        below=words(n + 1, width),
        total=numbers(n + 1),
        sending=words(n + 1),
        work=numbers(n + 1),
        chosen=numbers(n + 1),
        waiting=np.zeros((n + 1, n), dtype=np.int32),
        count=numbers(n + 1),
        position=numbers(n + 1),
        missing=numbers(n),
        pending=words(width),
        still_open=words(width),
        sets=words(n + 1, width),
        raw=words(2 + (MAX_GROUPS + 1) * (width + 1)),
        row=words(2 + width + (MAX_GROUPS + 1) * (width + 1)),
    )
