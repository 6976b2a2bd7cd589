"""Format ``device-map``: module -> device as JSON, as accelerate and transformers take it."""

from __future__ import annotations

from typing import Any

import msgspec

from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.splits import named_in
from chipmap.plans import chips, devices
from chipmap.plans.device_map.placement import device_map
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record

FILE = "device_map.json"


def suits(instance: Record, solution: Record | None) -> str | None:
    """Every mapping of operations to devices is a map, down to single operations."""
    return None


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The map."""
    return {FILE: device_map(placement_problem(instance), solution)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it is one JSON object of names with numbers or texts."""
    if data.lstrip()[:1] != b"{":
        return False
    try:
        given = msgspec.json.decode(data, type=dict[str, int | str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bool(given) and not str(given.get("schema", "")).count("/")


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that the map says."""
    try:
        given: dict[str, Any] = msgspec.json.decode(data, type=dict[str, int | str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no device map: {error}", where, 'Give {"module": 0, ...}.') from None
    if isinstance(instance, PlacementInstance):
        return devices.plan_of(instance, named_in(given, where, placement_problem(instance)), where)
    return chips.plan_of(instance, given, where)
