"""A placement as a device map: module scope -> device, as the automatic device maps of common libraries take it.

``{"embed": 0, "blocks.0": 0, "blocks.1.attn": 1, "lm_head": "cpu"}``: a key stands for all modules and operations whose
names begin with it, unless a longer key does as well, and ``""`` for all. A scope whose operations share a device is
one key. Where they don't, its inner scopes are keys, down to single operations (which no library moves by itself).
Accelerators are numbered in their order; a device of a class called ``cpu``, or one that pays no transfers, is ``cpu``.

Gradients and updates of a training step have no keys: frameworks compute them where the forward operation is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.records import InputError

CPU = "cpu"


@dataclass
class _Scope:
    """A scope: the devices of what is below it, by device the number of operations; its inner scopes."""

    devices: set[int] = field(default_factory=set)
    own: int | None = None
    inner: dict[str, _Scope] = field(default_factory=dict)


def parts_of(problem: PlacementProblem, v: int) -> list[str]:
    """The scope of operation v and its name, in parts: ``blocks.0.attn/matmul`` -> blocks, 0, attn, matmul."""
    name, scopes = problem.names[v], problem.instance.scopes
    scope = scopes[int(problem.position[v])] if scopes else ""
    found = [part for part in re.split(r"[./]", scope) if part]
    return [*found, name] if scopes else [part for part in re.split(r"[./]", name) if part] or [name]


def scope_of(problem: PlacementProblem, v: int) -> str:
    """The scope of operation v: ``blocks.0.attn``, or "" where its name has none."""
    return ".".join(parts_of(problem, v)[:-1])


def device_map(problem: PlacementProblem, solution: PlacementSolution) -> bytes:
    """The file ``device_map.json``.

    Raises :class:`InputError` where the solution leaves an operation without a device of the instance.
    """
    numbers, backward = _numbers(problem), problem.backward
    root = _Scope()
    for v, name in enumerate(problem.names):
        if v in backward:
            continue
        device = solution.devices.get(name, "")
        if device not in numbers:
            what = f"operation {name!r} has no device of the instance"
            raise InputError(what, "solution.devices", "Take a solution of this very instance.")
        d, at = problem.device_names.index(device), root
        at.devices.add(d)
        for part in parts_of(problem, v):
            at = at.inner.setdefault(part, _Scope())
            at.devices.add(d)
        at.own = d
    found: dict[str, int | str] = {}
    left = [("", root)]
    while left:
        name, at = left.pop()
        if len(at.devices) == 1:
            found[name] = numbers[problem.device_names[min(at.devices)]]
            continue
        if at.own is not None:
            found[name] = numbers[problem.device_names[at.own]]
        left += [(f"{name}.{part}" if name else part, one) for part, one in reversed(at.inner.items())]
    return (json.dumps(found, indent=1) + "\n").encode()


def _numbers(problem: PlacementProblem) -> dict[str, int | str]:
    """What each device is called in a device map."""
    system = problem.instance.system
    hosts = {one.name for one in system.classes if one.name == CPU or not one.pays_transfers}
    found: dict[str, int | str] = {one.name: CPU for one in system.devices if one.kind in hosts}
    found |= {name: i for i, name in enumerate(one.name for one in system.devices if one.kind not in hosts)}
    return found
