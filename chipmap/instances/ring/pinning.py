"""Pins of family ``ring`` from a file: operations on chips."""

from __future__ import annotations

from typing import Any

from chipmap.instances.pinning import PinFields, PinRecords, with_pins
from chipmap.instances.ring.instance import Forbidden, Pin, RingInstance
from chipmap.records import InputError


def merge_pins(instance: RingInstance, given: PinFields) -> RingInstance:
    """``instance`` with the pins ``given``; raises :class:`InputError` as
    :func:`chipmap.instances.pinning.with_pins` does."""
    last = instance.package.chips - 1

    def chip(place: Any) -> int:
        number = int(place) if isinstance(place, str) and place.strip().isdecimal() else place
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= last:
            raise InputError(f"there is no chip {place!r}", "", f"Chips run from 0 to {last} here.")
        return number

    records = PinRecords(
        "operation",
        [one.name for one in instance.graph.operations],
        lambda name, place: Pin(operation=name, chip=chip(place)),
        lambda name, places: Forbidden(operation=name, chips=tuple(map(chip, places))),
    )
    made: RingInstance = with_pins(instance, given, records)
    return made
