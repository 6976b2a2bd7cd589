"""Pins of family ``placement`` from a file: operations on devices."""

from __future__ import annotations

from typing import Any

from chipmap.instances.pinning import PinFields, PinRecords, with_pins
from chipmap.instances.placement.instance import Forbidden, Pin, PlacementInstance
from chipmap.records import InputError, choices


def merge_pins(instance: PlacementInstance, given: PinFields) -> PlacementInstance:
    """``instance`` with the pins ``given``; raises :class:`InputError` as
    :func:`chipmap.instances.pinning.with_pins` does."""
    devices = [one.name for one in instance.system.devices]

    def device(place: Any) -> str:
        if str(place) not in devices:
            raise InputError(f"no device is called {str(place)!r}", "", choices(str(place), devices[:20], "There are"))
        return str(place)

    records = PinRecords(
        "operation",
        [one.name for one in instance.graph.operations],
        lambda name, place: Pin(operation=name, device=device(place)),
        lambda name, places: Forbidden(operation=name, devices=tuple(map(device, places))),
    )
    made: PlacementInstance = with_pins(instance, given, records)
    return made
