"""A placement instance as the flat arrays that compiled code works on, and the arrays that one simulation fills."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: Above every entry of a heap.
LAST = 2**62
#: Positions in 32 bits: half the memory to go through.
Short = NDArray[np.int32]


class Tables(NamedTuple):
    """N operations, S storages, D devices, C channels, K classes; routes a -> b are numbered a * D + b.

    ``time`` [N, D]; ``pace`` [N, K]: the same by class, ``column`` [D]: the class of each device; ``gap`` [D];
    ``reads`` [N]: how many storages an operation reads. The storages that operation v makes are
    ``made[made_at[v]:made_at[v + 1]]``; the operations that read storage s, and the storages that v reads, likewise.
    ``send`` [S, K]: c by kind of route; ``kind``, ``rest`` [D * D]: a route's kind (-1: no route) and gap. ``apart``:
    each channel belongs to one route only, and each route has one. ``calm``: so it is, and every transfer takes time.
    """

    time: IntArray
    pace: IntArray
    column: Short
    gap: IntArray
    reads: Short
    made_at: Short
    made: Short
    reader_at: Short
    readers: Short
    read_at: Short
    read: Short
    producer: Short
    send: IntArray
    kind: Short
    rest: IntArray
    channel_at: Short
    channels: Short
    apart: bool
    calm: bool


class Kept(NamedTuple):
    """What a simulation looks like at each of M moments, before anything that happens then.

    ``rows`` [1]: so many moments are kept; moment k is in row ``slot[k]`` of the arrays. ``time`` [M]. ``mark``
    [M, 5]: how many times were before, events that are to come, the last end so far, operations that have started,
    entries of ``log``. ``left`` [M, N] as in :class:`Work`; the events ``when`` and ``what`` [M, ..]; heaps: their
    sizes ``size`` [M, H], their entries one after the other in ``entry`` [M, ..]. ``device`` [M, 3, D], ``channel``
    [M, 2, C]: the arrays of these names in :class:`Work`.

    ``opener`` [D]: the entry of the first operation with a time that starts at 0, :data:`LAST` where none does.

    Scratch of the move that is tried, each of which gets a new ``stamp`` [1]: ``mover`` [N] has it for operations that
    move, one more for silent ones; ``net`` [S] for storages whose targets change, one more where they don't.
    """

    rows: IntArray
    slot: IntArray
    time: IntArray
    mark: IntArray
    left: Short
    when: IntArray
    what: IntArray
    size: IntArray
    entry: IntArray
    device: IntArray
    channel: IntArray
    opener: IntArray
    stamp: IntArray
    mover: IntArray
    net: IntArray


class Work(NamedTuple):
    """What one simulation fills.

    Of each operation [N]: ``start``; ``ready``: when its last input was there; ``before``: the operation that kept its
    device busy (-1: none). Of each transfer [S * D] that takes place (storage s to device d is s * D + d; the others
    hold anything): ``sent``: its start; ``behind``: the transfer that held a channel before it (-1: none).

    ``log``, of which ``logged`` [1] entries are filled: what started, in this order, an operation v as v and a transfer
    s * D + d as N + s * D + d.

    The rest is scratch. ``left`` [N]: 64 · the inputs that aren't there yet + the device. ``device`` [3, D]: when each
    is free, its last operation, its work that is still to come. ``channel`` [2, C]: when each is free, its last
    transfer. Heaps, ``routes`` to look at, and the moments that are ``kept``.
    """

    start: IntArray
    ready: IntArray
    before: IntArray
    sent: IntArray
    behind: IntArray
    log: IntArray
    logged: IntArray
    left: Short
    event_time: IntArray
    event_code: IntArray
    pool: IntArray
    heap: IntArray
    device: IntArray
    channel: IntArray
    routes: IntArray
    kept: Kept


def tables(problem: PlacementProblem) -> Tables:
    """The flat arrays of ``problem``."""
    storages, network = problem.storages, problem.network
    devices = problem.devices
    lengths = np.diff(network.channel_at)
    uses = np.bincount(network.channels, minlength=max(1, network.count))
    apart = bool((lengths <= 1).all() and (uses <= 1).all())
    kinds = [one.kind for one in problem.instance.system.devices]
    classes = list(dict.fromkeys(kinds))
    made_at, made = _inverse(storages.producer, np.arange(len(storages)), problem.operations)
    read_at, read = _inverse(storages.readers, storages.read, problem.operations)
    return Tables(
        time=np.ascontiguousarray(problem.time),
        pace=np.ascontiguousarray(problem.time[:, [kinds.index(one) for one in classes]]),
        column=_short([classes.index(one) for one in kinds]),
        gap=problem.gap,
        reads=np.diff(read_at),
        made_at=made_at,
        made=made,
        reader_at=_short(storages.reader_at),
        readers=_short(storages.readers),
        read_at=read_at,
        read=read,
        producer=_short(storages.producer),
        send=np.ascontiguousarray(storages.time),
        kind=_short(network.kind.reshape(devices * devices)),
        rest=network.gap.reshape(devices * devices).copy(),
        channel_at=_short(network.channel_at),
        channels=_short(network.channels),
        apart=apart,
        calm=apart and bool((storages.time > 0).all()),
    )


def workspace(problem: PlacementProblem, moments: int = 0) -> Work:
    """Arrays for simulations of ``problem``, one after the other, that keep so many moments at most."""
    count, devices, storages = problem.operations, problem.devices, len(problem.storages)
    routes, channels = devices * devices, max(1, problem.network.count)
    moves = int(np.minimum(np.diff(problem.storages.reader_at), max(0, devices - 1)).sum())
    events, entries = 2 * (count + moves) + devices + 1, count + moves

    def ints(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    return Work(
        start=ints(count),
        ready=ints(count),
        before=ints(count),
        sent=ints(storages * devices),
        behind=ints(storages * devices),
        log=ints(count + moves),
        logged=ints(1),
        left=np.zeros(count, dtype=np.int32),
        event_time=ints(events),
        event_code=ints(events),
        pool=ints(4 * entries + 16 * (devices + routes)),
        heap=ints(devices + routes + 1, 3),
        device=ints(3, devices),
        channel=ints(2, channels),
        routes=ints(2 * moves + routes),
        kept=Kept(
            rows=ints(1),
            slot=np.arange(moments, dtype=np.int64),
            time=ints(moments),
            mark=ints(moments, 5),
            left=np.zeros((moments, count), dtype=np.int32),
            when=ints(moments, events),
            what=ints(moments, events),
            size=ints(moments, devices + routes),
            entry=ints(moments, entries),
            device=ints(moments, 3, devices),
            channel=ints(moments, 2, channels),
            opener=ints(devices),
            stamp=ints(1),
            mover=ints(count if moments else 0),
            net=ints(storages if moments else 0),
        ),
    )


def workspaces(problem: PlacementProblem, moments: int) -> tuple[Work, Work]:
    """Two workspaces that keep so many moments each, and can hand them over to each other."""
    one, other = workspace(problem, 2 * moments), workspace(problem)
    slot, kept = np.arange(2 * moments, dtype=np.int64), one.kept
    mine = kept._replace(slot=slot[:moments].copy())
    scratch = {name: getattr(kept, name).copy() for name in ("rows", "opener", "stamp", "mover", "net")}
    return one._replace(kept=mine), other._replace(kept=kept._replace(slot=slot[moments:].copy(), **scratch))


def _short(values: Any) -> Short:
    return np.ascontiguousarray(values, dtype=np.int32)


def _inverse(where: IntArray, what: IntArray, count: int) -> tuple[Short, Short]:
    """(where the list of each of ``count`` places begins, and the last one ends; the ``what`` at each, in order)."""
    order = np.argsort(where, kind="stable")
    return _short(np.searchsorted(where[order], np.arange(count + 1))), _short(what[order])
