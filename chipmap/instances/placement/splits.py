"""Placements in files of others, for objective ``throughput``: who is on which device, and no more.

- **A split by hand** of the dnn-partitioning inputs: ``{"fpgas": [{"nodes": [1, 2]}], "cpus": [{"nodes": []}]}`` with
  the nodes' ids; the first list is on the first accelerator.
- **A device map**: ``{"embed": 0, "blocks.0": 0, "blocks.1.attn": 1, "lm_head": "cpu"}``. The longest key that the
  scope and name of an operation begin with counts, ``""`` for all. A number is the n-th accelerator, ``cpu`` the first
  host (a class that pays no transfers, or is called ``cpu``), any other text the name of a device.

Operations that a file leaves out go with those that they share a device with (C1).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.records import InputError

_CPU = "cpu"
_REMEDY = "Give a device map, a split with fpgas and cpus, or a placement-solution/1."


def read_split(data: bytes, where: str, instance: PlacementInstance | None) -> PlacementSolution:
    """The placement in ``data`` for ``instance``; :class:`InputError` says what doesn't fit."""
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", where, _REMEDY) from None
    if not isinstance(given, dict) or isinstance(given.get("devices"), dict):
        return PlacementSolution.from_json(data, where)
    if instance is None:
        raise InputError("names no instance", where, "Give the instance as well.")
    if instance.task.objective != "throughput":
        what = "says devices only, and objective 'step_time' needs starts as well"
        raise InputError(what, where, "Take an instance with task.objective=throughput.")
    problem = placement_problem(instance)
    named = _by_hand(given, where, problem) if "fpgas" in given else _mapped(given, where, problem)
    for group in problem.groups:
        known = [named[problem.names[v]] for v in group if problem.names[v] in named]
        for v in group if known else ():
            named.setdefault(problem.names[v], known[0])
    for name in problem.names:
        if name not in named:
            raise InputError(f"operation {name!r} is on no device", where, "Name each operation, or one of its group.")
    return PlacementSolution(instance=instance.name, devices=named)


def _kinds(problem: PlacementProblem) -> tuple[list[str], list[str]]:
    """The names of the accelerators, and those of the hosts."""
    machines = problem.instance.system.devices
    hosts = [one.kind == _CPU or not pays for one, pays in zip(machines, problem.paying, strict=True)]
    names = problem.device_names
    return [n for n, host in zip(names, hosts, strict=True) if not host], [
        n for n, host in zip(names, hosts, strict=True) if host
    ]


def _by_hand(given: dict[str, Any], where: str, problem: PlacementProblem) -> dict[str, str]:
    """Devices by operation of a split with lists of node ids."""
    found: dict[str, str] = {}
    known = set(problem.names)
    for key, devices in zip(("fpgas", "cpus"), _kinds(problem), strict=True):
        parts = given.get(key, [])
        if not isinstance(parts, list):
            raise InputError("is no list", f"{where}: {key}", _REMEDY)
        for i, part in enumerate(parts):
            here = f"{where}: {key}[{i}]"
            nodes = part.get("nodes") if isinstance(part, dict) else None
            if not isinstance(nodes, list):
                raise InputError("has no list of nodes", here, "Give the ids of its nodes.")
            if nodes and i >= len(devices):
                what = f"is part {i + 1}, the instance has {len(devices)} such devices"
                raise InputError(what, here, "Take the instance that the split was made for.")
            for node in nodes:
                name = f"node{node}"
                if name not in known:
                    raise InputError(
                        f"no operation is called {name!r}", f"{here}.nodes", "Use ids of the graph's nodes."
                    )
                if name in found:
                    raise InputError(f"node {node} is on {found[name]!r} already", f"{here}.nodes", "Name it once.")
                found[name] = devices[i]
    return found


def _mapped(given: dict[str, Any], where: str, problem: PlacementProblem) -> dict[str, str]:
    """Devices by operation of a device map."""
    accelerators, hosts = _kinds(problem)
    devices: dict[tuple[str, ...], str] = {}
    for key, value in given.items():
        here = f"{where}: {key!r}"
        number = isinstance(value, int) and not isinstance(value, bool)
        if number and 0 <= value < len(accelerators):
            device = accelerators[value]
        elif value == _CPU and hosts:
            device = hosts[0]
        elif value in problem.device_names:
            device = value
        else:
            what = f"{value!r} is no device"
            remedy = (
                f"Give 0 to {len(accelerators) - 1}, {_CPU} for a host, or one of {', '.join(problem.device_names)}."
            )
            raise InputError(what, here, remedy)
        devices[_parts(key)] = device
    found: dict[str, str] = {}
    scopes = problem.instance.scopes
    for v, name in enumerate(problem.names):
        parts = (*_parts(scopes[int(problem.position[v])]), name) if scopes else _parts(name)
        for length in range(len(parts), -1, -1):
            if parts[:length] in devices:
                found[name] = devices[parts[:length]]
                break
    return found


def _parts(scope: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[./]", scope) if part)
