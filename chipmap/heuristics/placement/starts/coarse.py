"""Clusters of operations, which partitions of large graphs move before single operations.

On a graph of 50,000 operations a few hundred thousand moves are some ten for each operation. That is too few for an
annealing that begins with everything on one device. A **cluster** is a set of operations of one phase that exchange
large tensors. There are several times fewer of them, and what they send to each other within a cluster need not be
looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.shared import joined
from chipmap.heuristics.placement.starts.items import Items, StorageNets
from chipmap.heuristics.placement.starts.phases import Phases
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: The most work of a cluster, as a share of all items.
SHARE = 1 / 4096


class Clusters(NamedTuple):
    """Operation v is in cluster ``of[v]`` [N]; the ``first`` operation of each cluster [C]; the clusters' ``items``."""

    of: IntArray
    first: IntArray
    items: Items


def clusters(problem: PlacementProblem, items: Items) -> Clusters:
    """Clusters of ``problem``: groups of C1, and the ends of the largest tensors within a phase.

    Only what may run on the same devices is together: where its first operation may be, all of a cluster may be.
    """
    storages, least, phase = problem.storages, problem.time.min(axis=1), items.phases.phase
    same = (items.allowed[storages.sources] == items.allowed[storages.readers]).all(axis=1)
    inside = np.flatnonzero(same & (phase[storages.sources] == phase[storages.readers]))
    order = inside[np.argsort(-storages.bytes[storages.read[inside]], kind="stable")]
    most = int(SHARE * int(least.sum()))
    made = joined(problem.group, storages.sources[order], storages.readers[order], least, most)
    first, of = np.unique(made, return_inverse=True)
    return Clusters(of, first, contracted(items, of, first))


def contracted(items: Items, of: IntArray, first: IntArray) -> Items:
    """The work of clusters. What one cluster alone touches is never sent: its bytes count as the cluster's weights.

    A cluster is in the phase of most of its least times, and in the units of its first operation.
    """
    nets, count = items.nets, len(first)
    who = np.repeat(of, np.diff(nets.at))
    pair = np.unique(who * len(nets.cost) + nets.touched)
    cluster, net = pair // len(nets.cost), pair % len(nets.cost)
    shared = np.bincount(net, minlength=len(nets.cost)) > 1
    weights, apart = np.zeros(count, dtype=np.int64), ~shared[net]
    np.add.at(weights, of, nets.weights)
    np.add.at(weights, cluster[apart], nets.bytes[net[apart]])
    cluster, net = cluster[~apart], (np.cumsum(shared) - 1)[net[~apart]]
    time, allowed = np.zeros((count, items.time.shape[1]), dtype=np.int64), np.ones((count, items.time.shape[1]), bool)
    np.add.at(time, of, items.time)
    np.logical_and.at(allowed, of, items.allowed)
    at = np.searchsorted(cluster, np.arange(count + 1)).astype(np.int64)
    left = StorageNets(at, net, nets.cost[shared], nets.bytes[shared], weights)
    phases = Phases(_phase(items, of, count), items.phases.share)
    return Items(left, _units(items.units, first), allowed, time, phases)


def _phase(items: Items, of: IntArray, count: int) -> IntArray:
    """The phase of each cluster [C]."""
    phases = len(items.phases.share)
    least = np.bincount(of * phases + items.phases.phase, items.time.min(axis=1), count * phases)
    found: IntArray = least.reshape(count, phases).argmax(axis=1)
    return found


def _units(units: Units, first: IntArray) -> Units:
    """The units of clusters: on the finest level each by itself, on the others those of their first operations."""
    levels, count = len(units.at), len(first)
    unit, at = np.zeros((levels, count), np.int64), np.zeros((levels, count + 1), np.int64)
    members = np.zeros((levels, count), np.int64)
    for k in range(levels):
        _, unit[k] = np.unique(units.unit[k][first] if k else np.arange(count), return_inverse=True)
        members[k] = np.argsort(unit[k], kind="stable")
        at[k] = np.searchsorted(unit[k][members[k]], np.arange(count + 1))
    return Units(unit, at, members)
