"""A placement as a device map: module -> device, as the automatic device maps of common libraries take it.

``{"embed": 0, "blocks.0": 0, "blocks.1.attn": 1, "lm_head": "cpu"}``: a key stands for all whose names begin with
it, unless a longer key does as well, and ``""`` for all. Where the file says the modules, keys are modules:

=========================================  ==============================================================
a module                                   its keys
=========================================  ==============================================================
whose operations and data share a device   one, with this device
that holds other modules                   theirs, and each parameter and buffer of its own by name
that holds none                            one, with the device of its parameters (without any: of most of its
                                           operations), as it can only run as a whole; each parameter by name
                                           where these are on several devices
=========================================  ==============================================================

So every name in the module's state dict has a device. A parameter is where it is placed, or where the first operation
that reads it is, one of its module before others (of a table that two modules share); one that nothing reads goes with
most operations of its module. Operations that stand in a module
between those that it holds (a residual sum) have no key: they run where their operands are.

Without modules the names of operations are taken apart at ``/`` and ``.``, down to single operations.

Accelerators are numbered in their order; a device of a class called ``cpu``, or one that pays no transfers, is ``cpu``.
Gradients and updates of a training step have no keys: frameworks compute them where the forward operation is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.placement.splits import CPU, accelerators_and_hosts, name_parts


@dataclass
class _Scope:
    """A module, or a part of operations' names: the ``devices`` of all that is in it, and of its own operations (device
    -> how many); those of its own parameters and buffers by name (None: nothing reads it); what it holds."""

    devices: set[int] = field(default_factory=set)
    operations: Counter[int] = field(default_factory=Counter)
    states: dict[str, int | None] = field(default_factory=dict)
    inner: dict[str, _Scope] = field(default_factory=dict)

    def at(self, parts: list[str], device: int | None) -> _Scope:
        """What has this name inside it, where something of this device is."""
        found, seen = self, set() if device is None else {device}
        found.devices |= seen
        for part in parts:
            found = found.inner.setdefault(part, _Scope())
            found.devices |= seen
        return found

    def most(self, otherwise: int) -> int:
        """The device of most of its own operations, the first one of several."""
        return min(self.operations, key=lambda d: (-self.operations[d], d), default=otherwise)


def parts_of(problem: PlacementProblem, v: int) -> list[str]:
    """The scope of operation v and its name, in parts: ``blocks.0.attn/matmul`` -> blocks, 0, attn, matmul."""
    name, scopes = problem.names[v], problem.instance.scopes
    if scopes:
        return [*name_parts(scopes[int(problem.position[v])]), name]
    return [*name_parts(name)] or [name]


def scope_of(problem: PlacementProblem, v: int) -> str:
    """The scope of operation v: ``blocks.0.attn``, or "" where its name has none."""
    return ".".join(parts_of(problem, v)[:-1])


def device_map(problem: PlacementProblem, solution: PlacementSolution) -> bytes:
    """The file ``device_map.json``.

    Raises :class:`InputError` where the solution leaves an operation without a device of the instance.
    """
    numbers = _numbers(problem)
    devices = dict(zip(problem.names, problem.devices_of(solution).tolist(), strict=True))
    modules, root = bool(problem.instance.scopes), _Scope()
    for v, d in enumerate(devices.values()):
        if v not in problem.backward:
            inside = parts_of(problem, v)
            root.at(inside[:-1] if modules else inside, d).operations[d] += 1
    for state, d in _states(problem, devices).items():
        *scope, own = state.split(".")
        root.at(scope, d).states[own] = d
    found = {name: numbers[problem.device_names[d]] for name, d in _keys(root, modules)}
    return (json.dumps(found, indent=1) + "\n").encode()


def _states(problem: PlacementProblem, devices: dict[str, int]) -> dict[str, int | None]:
    """The device of each parameter and buffer; None where nothing reads it."""
    instance = problem.instance
    operations, scopes = instance.graph.operations, instance.scopes
    position = {one.name: v for v, one in enumerate(operations)}
    readers = instance.graph.computing_readers({position[name] for name in instance.states.values() if name})
    found: dict[str, int | None] = {}
    for state, name in instance.states.items():
        module, reading = state.rpartition(".")[0], readers[position[name]] if name else []
        own = [v for v in reading if scopes and scopes[v] == module]
        first = next((operations[v].name for v in (*own, *reading)), "")
        found[state] = devices.get(name, devices.get(first))
    return found


def _keys(root: _Scope, modules: bool) -> Iterator[tuple[str, int]]:
    """(key, device), a scope before what it holds."""
    left = [("", root, min(root.devices, default=0))]
    while left:
        name, scope, otherwise = left.pop()  # otherwise: the device of what nothing tells one of
        most, dot = scope.most(otherwise), f"{name}." if name else ""
        states = {own: most if d is None else d for own, d in scope.states.items()}
        if len(scope.devices) < 2:
            yield name, min(scope.devices, default=otherwise)
        elif modules and not scope.inner and len(set(states.values())) < 2:
            yield name, min(states.values(), default=most)
        else:
            if scope.operations and not modules:
                yield name, most
            yield from ((f"{dot}{own}", d) for own, d in states.items())
            left += [(f"{dot}{part}", inner, most) for part, inner in reversed(scope.inner.items())]


def _numbers(problem: PlacementProblem) -> dict[str, int | str]:
    """What each device is called in a device map."""
    accelerators, hosts = accelerators_and_hosts(problem)
    return {**dict.fromkeys(hosts, CPU), **{name: i for i, name in enumerate(accelerators)}}
