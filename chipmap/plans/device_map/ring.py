"""A ring mapping as a device map: chips are devices, and what doesn't compute goes with what reads it."""

from __future__ import annotations

from typing import Any

from chipmap.instances.placement.splits import name_parts
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.plans.device_map.keys import Scope, written
from chipmap.records import InputError


def device_map(instance: RingInstance, solution: RingSolution) -> bytes:
    """The file ``device_map.json``: keys are names of operations, taken apart at ``/`` and ``.``, as far as all below
    shares a chip."""
    root = Scope()
    for operation, chip in zip(instance.graph.operations, solution.chips, strict=True):
        if operation.role == "compute":
            root.at(parts_of(operation.name), chip).operations[chip] += 1
    return written(root, False, {chip: chip for chip in range(instance.package.chips)})


def parts_of(name: str) -> list[str]:
    """The name of an operation in parts."""
    return [*name_parts(name)] or [name]


def chips_of(instance: RingInstance, given: dict[str, Any], where: str) -> dict[str, int]:
    """Operation -> chip, for the computing operations that a map says something of: the longest key that its name
    begins with counts."""
    keys: dict[tuple[str, ...], int] = {}
    last = instance.package.chips - 1
    for key, chip in given.items():
        if isinstance(chip, bool) or not isinstance(chip, int) or not 0 <= chip <= last:
            raise InputError(f"{chip!r} is no chip", f"{where}: {key!r}", f"Give 0 to {last}.")
        keys[tuple(parts_of(key)) if key else ()] = chip
    found: dict[str, int] = {}
    for operation in instance.graph.operations:
        parts = tuple(parts_of(operation.name))
        for length in range(len(parts), -1, -1) if operation.role == "compute" else ():
            if parts[:length] in keys:
                found[operation.name] = keys[parts[:length]]
                break
    return found
