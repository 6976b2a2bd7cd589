"""A placement instance as the flat arrays that compiled code works on, and the arrays that one simulation fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.instances.placement.problem import IntArray, PlacementProblem


class Tables(NamedTuple):
    """N operations, S storages, D devices, C channels; routes a -> b are numbered a * D + b.

    ``time`` [N, D]; ``gap`` [D]; ``reads`` [N]: how many storages an operation reads. The storages that operation v
    makes are ``made[made_at[v]:made_at[v + 1]]``; the operations that read storage s, and the storages that v reads,
    likewise. ``send`` [S, K]: c by kind of route; ``kind``, ``rest`` [D * D]: a route's kind (-1: no route) and gap.
    ``apart``: each channel belongs to one route only, and each route has one.
    """

    time: IntArray
    gap: IntArray
    reads: IntArray
    made_at: IntArray
    made: IntArray
    reader_at: IntArray
    readers: IntArray
    read_at: IntArray
    read: IntArray
    producer: IntArray
    send: IntArray
    kind: IntArray
    rest: IntArray
    channel_at: IntArray
    channels: IntArray
    apart: bool


class Work(NamedTuple):
    """What one simulation fills.

    Of each operation [N]: ``start``; ``ready``: when its last input was there; ``before``: the operation that kept its
    device busy (-1: none). Of each transfer [S * D] (storage s to device d is s * D + d): ``sent``: its start (-1:
    none); ``behind``: the transfer that held a channel before it (-1: none). The rest is scratch: heaps
    (``place[:, 0]``: where each begins, ``place[:, 1]``: its size), counts, times and ``routes`` to look at.
    """

    start: IntArray
    ready: IntArray
    before: IntArray
    sent: IntArray
    behind: IntArray
    missing: IntArray
    event_time: IntArray
    event_code: IntArray
    pool: IntArray
    heap: IntArray
    device_free: IntArray
    device_last: IntArray
    device_left: IntArray
    channel_free: IntArray
    channel_last: IntArray
    routes: IntArray


def tables(problem: PlacementProblem) -> Tables:
    """The flat arrays of ``problem``."""
    storages, network = problem.storages, problem.network
    count, devices = problem.operations, problem.devices
    made: list[list[int]] = [[] for _ in range(count)]
    for s, u in enumerate(storages.producer.tolist()):
        made[u].append(s)
    lengths = np.diff(network.channel_at)
    uses = np.bincount(network.channels, minlength=max(1, network.count))
    apart = bool((lengths <= 1).all() and (uses <= 1).all())
    made_at, flat = _flat(made)
    read_at, read = _flat(problem.producers)
    return Tables(
        time=np.ascontiguousarray(problem.time),
        gap=problem.gap,
        reads=np.diff(read_at),
        made_at=made_at,
        made=flat,
        reader_at=storages.reader_at,
        readers=storages.readers,
        read_at=read_at,
        read=read,
        producer=storages.producer,
        send=np.ascontiguousarray(storages.time),
        kind=network.kind.reshape(devices * devices).copy(),
        rest=network.gap.reshape(devices * devices).copy(),
        channel_at=network.channel_at,
        channels=network.channels,
        apart=apart,
    )


def workspace(problem: PlacementProblem) -> Work:
    """Arrays for simulations of ``problem``, one after the other."""
    count, devices, storages = problem.operations, problem.devices, len(problem.storages)
    routes, channels = devices * devices, max(1, problem.network.count)
    moves = int(np.minimum(np.diff(problem.storages.reader_at), max(0, devices - 1)).sum())

    def ints(size: int) -> IntArray:
        return np.zeros(max(1, size), dtype=np.int64)

    events = 2 * (count + moves) + devices + 1
    return Work(
        start=ints(count),
        ready=ints(count),
        before=ints(count),
        sent=ints(storages * devices),
        behind=ints(storages * devices),
        missing=ints(count),
        event_time=ints(events),
        event_code=ints(events),
        pool=ints(4 * (count + moves) + 16 * (devices + routes)),
        heap=np.zeros((devices + routes + 1, 3), dtype=np.int64),
        device_free=ints(devices),
        device_last=ints(devices),
        device_left=ints(devices),
        channel_free=ints(channels),
        channel_last=ints(channels),
        routes=ints(2 * moves + routes),
    )


def _flat(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    starts = np.cumsum([0, *(len(one) for one in lists)], dtype=np.int64)
    return starts, np.array([x for one in lists for x in one], dtype=np.int64)
