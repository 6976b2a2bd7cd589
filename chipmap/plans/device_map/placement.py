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

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.placement.splits import CPU, accelerators_and_hosts, name_parts
from chipmap.plans.device_map.keys import Scope, written
from chipmap.plans.device_map.split import states_placed


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
    modules, root = bool(problem.instance.scopes), Scope()
    for v, d in enumerate(devices.values()):
        if v not in problem.backward:
            inside = parts_of(problem, v)
            root.at(inside[:-1] if modules else inside, d).operations[d] += 1
    held = problem.instance
    for state, d in states_placed(held.graph, held.scopes, held.states, devices).items():
        *scope, own = state.split(".")
        root.at(scope, d).states[own] = d
    return written(root, modules, {d: numbers[name] for d, name in enumerate(problem.device_names)})


def _numbers(problem: PlacementProblem) -> dict[str, int | str]:
    """What each device is called in a device map."""
    accelerators, hosts = accelerators_and_hosts(problem)
    return {**dict.fromkeys(hosts, CPU), **{name: i for i, name in enumerate(accelerators)}}
