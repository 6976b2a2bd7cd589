"""Plans of devices in files of others: who is on which device, and no more.

- **A split by hand** of the dnn-partitioning inputs: ``{"fpgas": [{"nodes": [1, 2]}], "cpus": [{"nodes": []}]}`` with
  the nodes' ids; the first list is on the first accelerator.
- **A device map**: ``{"embed": 0, "blocks.0": 0, "blocks.1.attn": 1, "lm_head": "cpu"}``. The longest key that the
  scope and name of an operation begin with counts, ``""`` for all. A number (or ``cuda:1``) is the n-th accelerator,
  ``cpu`` the first host (a class that pays no transfers, or is called ``cpu``), any other text the name of a device.
  Keys may be the names of parameters and buffers; these are of no operation, but of a weight that is placed.
- **A mapping**: the device of each operation by its name, as JSON or as a table with the columns ``operation`` and
  ``device`` (or ``name`` and ``place``, as ``schedule.csv`` has them).

Operations that a file leaves out go with those that they share a device with (C1). Where a device map names the modules
inside a module, operations that stand between these (a residual sum) go where the first of their operands is, as
frameworks compute them there; gradients go where the forward operation is.

With objective ``step_time`` starts are still to be made (:mod:`chipmap.plans.devices`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.records import InputError, choices, csv_text

CPU = "cpu"
#: An accelerator as torch names it, or its number as a table has it.
_INDEXED = re.compile(r"(?:(?:cuda|xpu|npu|hpu|mlu):)?([0-9]{1,9})")
_REMEDY = "Give a device map, a split with fpgas and cpus, or a placement-solution/1."
#: Columns of a table with the operation, and with its device; the first ones are written.
_NAMES, _PLACES = ("operation", "name"), ("device", "place")


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
    problem = placement_problem(instance)
    return completed(problem, named_in(given, where, problem), where)


def named_in(given: dict[str, Any], where: str, problem: PlacementProblem) -> dict[str, str]:
    """The devices of the operations that a plan in JSON says something of, and of those that they decide."""
    if "fpgas" in given:
        return _grouped(problem, _by_hand(given, where, problem))
    if given and given.keys() <= set(problem.names):
        by_name = _grouped(problem, {name: _device(value, where, problem) for name, value in given.items()})
        if len(by_name) == problem.operations:
            return by_name
    return _grouped(problem, _between(problem, _grouped(problem, _mapped(given, where, problem)), given))


def read_table(data: bytes, where: str, instance: PlacementInstance) -> PlacementSolution:
    """The placement in a table with a line per operation; other columns, and lines of transfers, say nothing."""
    problem = placement_problem(instance)
    return completed(problem, named_in_table(data, where, problem), where)


def named_in_table(data: bytes, where: str, problem: PlacementProblem) -> dict[str, str]:
    """The devices of the operations that a table names, and of those that share one with them (C1)."""
    found = dict[str, str]()
    remedy = f"Give a table with the columns {_NAMES[0]} and {_PLACES[0]}."
    try:
        text = data.decode("utf-8-sig")
        rows = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count))
        columns = [one.strip() for one in next(rows, [])]
        what = columns.index("what") if "what" in columns else None
        name_at, place_at = [next(columns.index(n) for n in names if n in columns) for names in (_NAMES, _PLACES)]
        lines = [(rows.line_num, row) for row in rows if row]
    except StopIteration:
        raise InputError("has no column for operations, or none for devices", where, remedy) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"is no table: {error}", where, remedy) from None
    known = set(problem.names)
    for line, row in lines:
        here = f"{where}: line {line}"
        if len(row) <= max(name_at, place_at):
            raise InputError(f"has {len(row)} cells", here, remedy)
        if what is not None and row[what] != "operation":
            continue
        name, place = row[name_at], row[place_at].strip()
        name = name if name in known else name.strip().removeprefix("'")  # before what looks a formula
        if name not in known:
            raise InputError(f"no operation is called {name!r}", here, choices(name, problem.names, "There are"))
        if found.setdefault(name, place) != place:
            raise InputError(f"operation {name!r} is on {found[name]!r} already", here, "Name it once.")
    return _grouped(problem, {name: _device(device, f"{where}: {name!r}", problem) for name, device in found.items()})


def write_table(instance: PlacementInstance, solution: PlacementSolution) -> bytes:
    """A line per operation with its device."""
    return csv_text((_NAMES[0], _PLACES[0]), solution.devices.items()).encode()


def completed(problem: PlacementProblem, named: dict[str, str], where: str) -> PlacementSolution:
    """The plan of all operations; :class:`InputError` where one has no device."""
    for name in problem.names:
        if name not in named:
            raise InputError(f"operation {name!r} is on no device", where, "Name each operation, or one of its group.")
    return PlacementSolution(instance=problem.instance.name, devices=named)


def _grouped(problem: PlacementProblem, named: dict[str, str]) -> dict[str, str]:
    """The devices, and those of groups (C1) of which one is known."""
    found = dict(named)
    for group in problem.groups:
        known = [found[problem.names[v]] for v in group if problem.names[v] in found]
        for v in group if known else ():
            found.setdefault(problem.names[v], known[0])
    return found


def _between(problem: PlacementProblem, named: dict[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """The devices, and those of operations between the modules that a device map names."""
    instance, names = problem.instance, problem.names
    if not instance.scopes or not named:
        return named
    split = {name_parts(key)[:length] for key in given for length in range(len(name_parts(key)))}
    found, position = dict(named), {name: v for v, name in enumerate(names)}
    of = {one: _device(given[key], key, problem) for key, one in instance.states.items() if one and key in given}
    reads, operations, left = instance.graph.reads(), instance.graph.operations, list[int]()
    for v in problem.order.tolist():
        if names[v] in found or name_parts(instance.scopes[int(problem.position[v])]) not in split:
            continue
        forward = names[v]
        while "/" in forward and (forward == names[v] or forward not in position):
            forward = forward.rpartition("/")[0]
        producers = [names[int(problem.storages.producer[s])] for s in problem.producers[v]]
        known = [found[name] for name in (forward, *producers) if name in found]
        held = (operations[u].name for u in reads[int(problem.position[v])])
        known += [of[name] for name in held if name in of]
        found |= {names[v]: known[0]} if known else {}
        left += [] if known else [v]
    for v in reversed(left):  # nothing before it computes
        read = [names[w] for s in problem.made[v] for w in problem.storages.read_by(s)]
        found[names[v]] = next((found[name] for name in read if name in found), next(iter(named.values())))
    return found


def _device(value: Any, where: str, problem: PlacementProblem) -> str:
    """The name of the device that a file means."""
    accelerators, hosts = accelerators_and_hosts(problem)
    if isinstance(value, str) and value not in problem.device_names and (found := _INDEXED.fullmatch(value)):
        value = int(found[1])
    number = isinstance(value, int) and not isinstance(value, bool)
    if number and 0 <= value < len(accelerators):
        return accelerators[value]
    if value == CPU and hosts:
        return hosts[0]
    if isinstance(value, str) and value in problem.device_names:
        return value
    remedy = f"Give 0 to {len(accelerators) - 1}, {CPU} for a host, or one of {', '.join(problem.device_names)}."
    raise InputError(f"{value!r} is no device", where, remedy)


def accelerators_and_hosts(problem: PlacementProblem) -> tuple[list[str], list[str]]:
    """The names of the accelerators, and those of the hosts."""
    machines = problem.instance.system.devices
    hosts = [one.kind == CPU or not pays for one, pays in zip(machines, problem.paying, strict=True)]
    names = problem.device_names
    return [n for n, host in zip(names, hosts, strict=True) if not host], [
        n for n, host in zip(names, hosts, strict=True) if host
    ]


def _by_hand(given: dict[str, Any], where: str, problem: PlacementProblem) -> dict[str, str]:
    """Devices by operation of a split with lists of node ids."""
    found: dict[str, str] = {}
    known = set(problem.names)
    for key, devices in zip(("fpgas", "cpus"), accelerators_and_hosts(problem), strict=True):
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
    devices = {name_parts(key): _device(value, f"{where}: {key!r}", problem) for key, value in given.items()}
    states: dict[str, tuple[str, ...]] = {}  # the first parameter of each operation that holds one
    for state, name in problem.instance.states.items():
        states.setdefault(name, name_parts(state))
    of_states = {name_parts(state) for state in problem.instance.states}
    found: dict[str, str] = {}
    scopes, operations = problem.instance.scopes, problem.instance.graph.operations
    for v, name in enumerate(problem.names):
        parts, skipped = name_parts(name), of_states
        if scopes:
            parts = (*name_parts(scopes[int(problem.position[v])]), name)
        if name in states and operations[int(problem.position[v])].role == "constant":
            parts, skipped = states[name], set()
        for length in range(len(parts), -1, -1):
            if parts[:length] in devices and parts[:length] not in skipped:
                found[name] = devices[parts[:length]]
                break
    return found


def name_parts(scope: str) -> tuple[str, ...]:
    """``blocks.0/attn`` -> blocks, 0, attn."""
    return tuple(part for part in re.split(r"[./]", scope) if part)
