"""A ring mapping as a device map: chips are devices, and what doesn't compute goes with what reads it.

Where the instance knows its modules, keys are modules and parameters as in :mod:`chipmap.plans.device_map.placement`.
Else they are the names of operations, taken apart at ``/`` and ``.``.
"""

from __future__ import annotations

from typing import Any

from chipmap.instances.placement.splits import name_parts
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.plans.device_map.keys import Scope, written
from chipmap.plans.device_map.split import Placed, makers, mixed, remedy, states_placed
from chipmap.records import InputError


def device_map(instance: RingInstance, solution: RingSolution) -> bytes:
    """The file ``device_map.json``: a key for all below that shares a chip."""
    modules, root = bool(instance.scopes), Scope()
    places: dict[str, int] = {}
    for v, (operation, chip) in enumerate(zip(instance.graph.operations, solution.chips, strict=True)):
        if operation.role == "compute":
            inside, places[operation.name] = parts_of(instance, v), chip
            root.at(inside[:-1] if modules else inside, chip).operations[chip] += 1
    if modules:
        for state, at in states_placed(instance.graph, instance.scopes, instance.states, places).items():
            *scope, own = state.split(".")
            root.at(scope, at).states[own] = at
    return written(root, modules, {chip: chip for chip in range(instance.package.chips)})


def suits(instance: RingInstance, solution: RingSolution, given: dict[str, Any], where: str) -> str | None:
    """Why ``given``, the map of this mapping, says something else; where modules are split."""
    if not instance.scopes:
        return None
    read = chips_of(instance, given, where)
    chips = solution.chips
    operations = instance.graph.operations
    for v, operation in enumerate(operations):
        if operation.role == "compute" and read.get(operation.name) != chips[v]:
            what, scope = f"operation {operation.name!r} is on chip {chips[v]}", instance.scopes[v]
            if scope:
                return f"{what}, and module {scope!r}, of which it is, can't be split so. {remedy(instance)}"
            return f"{what}, which a map of modules can't say. {remedy(instance)}"
    made = makers(instance.graph)
    placed = [
        Placed(one.name, instance.scopes[v], f"chip {chips[v]}", tuple(f"chip {chips[u]}" for u in made[v]))
        for v, one in enumerate(operations)
        if one.role == "compute"
    ]
    return mixed(placed, instance)


def parts_of(instance: RingInstance, v: int) -> list[str]:
    """The module of operation v and its name, in parts; without modules its name in parts."""
    name = instance.graph.operations[v].name
    if instance.scopes:
        return [*name_parts(instance.scopes[v]), name]
    return [*name_parts(name)] or [name]


def chips_of(instance: RingInstance, given: dict[str, Any], where: str) -> dict[str, int]:
    """Operation -> chip, for the computing operations that a map says something of: the longest key that its name
    begins with counts. Those between the modules of a split one run where their operands are, or
    the first parameter that they read."""
    keys: dict[tuple[str, ...], int] = {}
    last, of_states = instance.package.chips - 1, {name_parts(state) for state in instance.states}
    for key, chip in given.items():
        if isinstance(chip, bool) or not isinstance(chip, int) or not 0 <= chip <= last:
            raise InputError(f"{chip!r} is no chip", f"{where}: {key!r}", f"Give 0 to {last}.")
        keys[name_parts(key)] = chip
    found: dict[str, int] = {}
    for v, operation in enumerate(instance.graph.operations):
        parts = tuple(parts_of(instance, v))
        for length in range(len(parts), -1, -1) if operation.role == "compute" else ():
            if parts[:length] in keys and parts[:length] not in of_states:
                found[operation.name] = keys[parts[:length]]
                break
    return _between(instance, found, given) if instance.scopes and found else found


def _between(instance: RingInstance, named: dict[str, int], given: dict[str, Any]) -> dict[str, int]:
    """The chips, and those of operations between the modules that a map names."""
    split = {name_parts(key)[:length] for key in given for length in range(len(name_parts(key)))}
    found, of = dict(named), {name: given[state] for state, name in instance.states.items() if state in given}
    operations, reads = instance.graph.operations, instance.graph.reads()
    made = makers(instance.graph)
    read_by: list[list[int]] = [[] for _ in operations]
    order = [v for v in instance.graph.topological_order() if operations[v].role == "compute"]
    for v in order:
        for u in made[v]:
            read_by[u].append(v)
    left = list[int]()
    for v in order:
        name = operations[v].name
        if name not in found and name_parts(instance.scopes[v]) in split:
            known = [found[operations[u].name] for u in sorted(made[v]) if operations[u].name in found]
            known += [of[operations[u].name] for u in reads[v] if operations[u].name in of]
            found |= {name: known[0]} if known else {}
            left += [] if known else [v]
    for v in reversed(left):  # nothing before it computes
        after = (operations[w].name for w in read_by[v])
        found[operations[v].name] = next((found[one] for one in after if one in found), next(iter(named.values())))
    return found
