"""Format ``device-map``: module -> device as JSON, as accelerate and transformers take it.

A map says of each key that all below it is on one device, unless a longer key says more. So it can't say every mapping:

- A module without others inside runs whole. One that holds others is split only where these are, and what it computes
  itself in between (a residual sum) runs where its operands are.
- Nothing moves these operands. So where a module adds up what was made on two devices, the library fails.

Such a mapping is refused: solve with more kept together (``--cut modules``, ``--cut blocks``). The library calls these
modules ``no_split``.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.instances.placement.splits import name_parts, named_in
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.plans import chips, devices
from chipmap.plans.device_map import placement, ring
from chipmap.plans.device_map.split import Placed, mixed, remedy
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record, counted, nearest

FILE = "device_map.json"


def suits(instance: Record, solution: Record | None) -> str | None:
    """Whether the map, read again, is this mapping, and nothing is added up across devices."""
    if isinstance(instance, RingInstance) and isinstance(solution, RingSolution):
        return ring.suits(instance, solution, json.loads(ring.device_map(instance, solution)), FILE)
    if not isinstance(instance, PlacementInstance) or not isinstance(solution, PlacementSolution):
        return None
    problem = placement_problem(instance)
    given = json.loads(placement.device_map(problem, solution))
    read = named_in(given, FILE, problem)
    for v, name in enumerate(problem.names):
        if read.get(name) != solution.devices[name]:
            scope = placement.scope_of(problem, v)
            what = f"operation {name!r} is on {solution.devices[name]!r}"
            if v in problem.backward:
                return f"{what}, but frameworks compute gradients where the forward operation is; keep the two together"
            if scope:
                return f"{what}, and module {scope!r}, of which it is, can't be split so. {remedy(instance)}"
            return f"{what}, which a map of modules can't say. {remedy(instance)}"
    return _mixed(problem, solution) if instance.scopes else None


def _mixed(problem: PlacementProblem, solution: PlacementSolution) -> str | None:
    """An operation of the forward pass that adds up what is made on several devices, in words."""
    at, scopes, made = solution.devices, problem.instance.scopes, problem.storages.producer
    return mixed(
        [
            Placed(
                name,
                scopes[int(problem.position[v])],
                at[name],
                () if v in problem.backward else tuple(at[problem.names[int(made[s])]] for s in problem.producers[v]),
            )
            for v, name in enumerate(problem.names)
        ],
        problem.instance,
    )


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The map."""
    if isinstance(instance, PlacementInstance):
        return {FILE: placement.device_map(placement_problem(instance), solution)}
    return {FILE: ring.device_map(instance, solution)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it is one JSON object of names with numbers or texts."""
    if data.lstrip()[:1] != b"{":
        return False
    try:
        given = msgspec.json.decode(data, type=dict[str, int | str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bool(given) and "schema" not in given


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that the map says."""
    given = _pairs(data, where)
    if isinstance(instance, PlacementInstance):
        problem = placement_problem(instance)
        known = [placement.parts_of(problem, v) for v in range(problem.operations)]
        known += [[*name_parts(state)] for state in instance.states]
        plan = devices.plan_of(instance, named_in(given, where, problem), where)
    else:
        known = [ring.parts_of(instance, v) for v in range(len(instance.graph.operations))]
        known += [[*name_parts(state)] for state in instance.states]
        plan = chips.plan_of(instance, ring.chips_of(instance, given, where), where)
    _no_other_modules(given, known, plan, where)
    return plan


def _pairs(data: bytes, where: str) -> dict[str, Any]:
    """The map; a key that is there twice with two devices is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if found.setdefault(key, value) != value:
                raise InputError(f"puts {key!r} on {found[key]!r} and on {value!r}", where, "Name it once.")
        return found

    try:
        given = json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no device map: {error}", where, 'Give {"module": 0, ...}.') from None
    if not isinstance(given, dict) or not all(isinstance(value, int | str) for value in given.values()):
        raise InputError("is no device map", where, 'Give {"module": 0, ...}.')
    return given


def _no_other_modules(given: dict[str, Any], known: list[list[str]], plan: Plan, where: str) -> None:
    """Refuse keys of modules that the network hasn't: of a partial plan, and those that are numbered beyond others.

    A key of which nothing is left in the graph (a dropout) is no other module, where the rest says all.
    """
    prefixes = {tuple(parts[:length]) for parts in known for length in range(len(parts) + 1)}
    unknown = [key for key in given if name_parts(key) not in prefixes]
    numbered = {parts[:-1] for parts in prefixes if parts and parts[-1].isdecimal()}
    wrong = [key for key in unknown if plan.solution is None or any(
        parts[:n] in numbered and parts[n].isdecimal() and parts[: n + 1] not in prefixes
        for parts in [name_parts(key)] for n in range(len(parts)))]  # fmt: skip
    if not wrong:
        return
    near = nearest(wrong[0], {".".join(parts) for parts in prefixes if parts})
    more = f" (nor {counted(len(wrong) - 1, 'other')} of its keys)" if len(wrong) > 1 else ""
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    remedy = f"{meant}Take the map of this network, or name the instance that it was made for."
    raise InputError(f"no module or operation is called {wrong[0]!r}{more}", where, remedy)
