"""Placements that a person would write down: layers of the network one after the other on the devices, or in turn.

A **layer** is what reads the weights of one scope. A weight's scope is its name without the last part
(``encoder.layer1.kernel`` is in ``encoder.layer1``); so all steps of a recurrent layer are one layer. Layers are in the
order in which the network first reads their weights. Operations without weights are in the latest layer that they read
from. A gradient is in the layer of the operation that it is of, and an update in that of its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.placement.shared import common_devices
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.networks.graph import OperationGraph

#: The kinds of human splits.
SPLITS = ("time", "bytes", "round robin")


class Layers(NamedTuple):
    """``names`` [L] of the scopes; ``of`` [N]: the layer of each operation (groups of C1 are in one)."""

    names: list[str]
    of: IntArray


def layers(problem: PlacementProblem) -> Layers:
    """The layers of ``problem``; where there are fewer than devices, each forward operation is a layer of its own."""
    graph, backward = problem.instance.graph, set(problem.instance.backward)
    order, reads = graph.topological_order(), graph.reads()
    names, at = _scopes(graph, order, reads, backward)
    if len(names) < problem.devices:
        forward = [v for v in order if graph.operations[v].name not in backward]
        names, at = [graph.operations[v].name for v in forward], {v: i for i, v in enumerate(forward)}
    else:
        for v in order:
            if v not in at and graph.operations[v].name not in backward:
                at[v] = max((at[u] for u in reads[v]), default=0)
    by_name = {graph.operations[v].name: layer for v, layer in at.items()}
    for v in order:
        if v not in at:
            origin = _origin(graph.operations[v].name, by_name)
            at[v] = by_name[origin] if origin else min((at[u] for u in reads[v]), default=0)
    of = np.array([at[v] for v in problem.position.tolist()], dtype=np.int64)
    return Layers(names, of[problem.group])


def _scopes(
    graph: OperationGraph, order: Sequence[int], reads: Sequence[Sequence[int]], backward: set[str]
) -> tuple[list[str], dict[int, int]]:
    """The scopes of weights in the order of their first readers, and the scope of each weight and its readers."""
    numbers: dict[str, int] = {}
    owned: dict[int, str] = {}
    for v in order:
        one = graph.operations[v]
        if one.role == "constant" or (one.weight_bytes and one.name not in backward):
            owned[v] = _parent(one.name)
    found: dict[int, int] = {}
    for v in order:
        one = graph.operations[v]
        if one.role != "compute" or one.name in backward:
            continue
        mine = [owned[u] for u in (*reads[v], v) if u in owned]
        for scope in mine:
            numbers.setdefault(scope, len(numbers))
    # a second look, as the order of all scopes must be known
    for v in order:
        if v in owned and owned[v] in numbers:
            found[v] = numbers[owned[v]]
    return list(numbers), found


def _parent(name: str) -> str:
    """A name without its last part; the name itself if it has one part only."""
    cut = max(name.rfind("."), name.rfind("/"))
    return name[:cut] if cut > 0 else name


def _origin(name: str, known: dict[str, int]) -> str:
    """The longest known name that ``name`` goes on from behind a ``/``; empty if there is none."""
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in known:
            return name
    return ""


def split(problem: PlacementProblem, kind: str, made: Layers | None = None) -> IntArray:
    """The devices [N] of a human split: blocks of layers of equal ``time`` or ``bytes``, or layers ``round robin``.

    Blocks are those whose largest load is least. What may not run on its device goes to the next one that allows it.
    """
    made = layers(problem) if made is None else made
    if kind == "round robin":
        device = made.of % problem.devices
    else:
        load = np.zeros((len(made.names), problem.devices), dtype=np.int64)
        np.add.at(load, made.of, problem.time if kind == "time" else _fill(problem))
        device = _blocks(load)[made.of]
    return allow(problem, device)


def _fill(problem: PlacementProblem) -> IntArray:
    """Static bytes of each operation, on each device in shares of the memories where all have one [N, D]."""
    size = problem.weights.copy()
    np.add.at(size, problem.storages.producer, problem.storages.bytes)
    memory = problem.memory if (problem.memory > 0).all() else np.ones_like(problem.memory)
    found: IntArray = size[:, None] * (int(memory.max()) // memory)[None, :]
    return found


def _blocks(load: IntArray) -> IntArray:
    """Contiguous blocks of L layers on D devices in their order, whose largest sum of ``load`` [L, D] is least [L]."""
    low, high = 0, int(load.max(axis=1).sum())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _filled(load, middle) is not None else (middle + 1, high)
    found = _filled(load, low)
    assert found is not None
    return found


def _filled(load: IntArray, limit: int) -> IntArray | None:
    """Each device takes what ``limit`` lets it, and leaves a layer for each later one; None if some are left."""
    count, devices = load.shape
    found, first = np.empty(count, dtype=np.int64), 0
    for d in range(devices):
        last = first + int(np.searchsorted(np.cumsum(load[first:, d]), limit, side="right"))
        last = min(last, max(first + 1, count - (devices - d - 1)))
        found[first:last] = d
        first = last
    return found if first == count else None


def allow(problem: PlacementProblem, device: IntArray) -> IntArray:
    """Each group of C1 on the device of its first operation, or on the next one that all of the group may run on."""
    allowed = common_devices(problem)
    shift = (device[:, None] + np.arange(problem.devices)[None, :]) % problem.devices
    ahead = np.take_along_axis(allowed, shift, axis=1).argmax(axis=1)
    found: IntArray = ((device + ahead) % problem.devices)[problem.group]
    return found
