"""What a partition shares out over the devices, and what devices hold of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import mean_sends
from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.starts.phases import Phases
from chipmap.instances.placement.problem import IntArray, PlacementProblem


class StorageNets(NamedTuple):
    """What devices hold: storages, then weights that are copied (K together).

    Operation v makes or reads ``touched[at[v]:at[v + 1]]``. ``cost`` [K]: ns of sending; ``bytes`` [K]; ``weights``
    [N].
    """

    at: IntArray
    touched: IntArray
    cost: IntArray
    bytes: IntArray
    weights: IntArray


class Items(NamedTuple):
    """What is shared out: operations, or clusters of them [N]. ``allowed`` [N, D], ``time`` [N, D] in ns."""

    nets: StorageNets
    units: Units
    allowed: NDArray[np.bool_]
    time: IntArray
    phases: Phases


def nets(problem: PlacementProblem) -> StorageNets:
    """The nets of ``problem``."""
    storages, copies = problem.storages, problem.copies
    number = np.concatenate([np.arange(len(storages)), storages.read])
    who = np.concatenate([storages.producer, storages.readers])
    for k, (_, readers) in enumerate(copies):
        number = np.concatenate([number, np.full(len(readers), len(storages) + k)])
        who = np.concatenate([who, np.array(readers, dtype=np.int64)])
    order = np.argsort(who, kind="stable")
    rule = problem.instance.task.memory
    held = storages.bytes if rule == "static" else np.where(storages.resident, storages.bytes, 0)
    return StorageNets(
        at=np.searchsorted(who[order], np.arange(problem.operations + 1)).astype(np.int64),
        touched=number[order].astype(np.int64),
        cost=np.concatenate([mean_sends(problem), np.zeros(len(copies), dtype=np.int64)]),
        bytes=np.concatenate([held, np.array([size for size, _ in copies], dtype=np.int64)]),
        weights=problem.weights,
    )
