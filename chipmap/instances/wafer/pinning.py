"""Pins of family ``wafer`` from a file: kernels in places, given as x, y and perhaps width, height."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chipmap.instances.pinning import PinFields, PinRecords, with_pins
from chipmap.instances.wafer.fabric import Rectangle
from chipmap.instances.wafer.instance import Forbidden, Pin, WaferInstance
from chipmap.records import InputError

_PIN = "Give x and y, and perhaps width and height, in whole tiles."
_RECTANGLE = "Give x, y, width and height of each rectangle, in whole tiles."


def merge_pins(instance: WaferInstance, given: PinFields) -> WaferInstance:
    """``instance`` with the pins ``given``; raises :class:`InputError` as
    :func:`chipmap.instances.pinning.with_pins` does."""
    records = PinRecords(
        "kernel",
        [one.name for one in instance.kernels if one.placed],
        lambda name, place: _made(Pin, {"kernel": name, **_sides(place, _PIN)}, _PIN),
        lambda name, places: Forbidden(
            kernel=name,
            rectangles=tuple(_made(Rectangle, _sides(one, _RECTANGLE), _RECTANGLE) for one in places),
        ),
    )
    made: WaferInstance = with_pins(instance, given, records)
    return made


def _sides(place: Any, remedy: str) -> dict[str, Any]:
    """Coordinates by name: as they are, from ``3 4`` or ``3 4 6 5``, or from a list of these."""
    if isinstance(place, Mapping):
        return dict(place)
    numbers = place.replace(",", " ").split() if isinstance(place, str) else place
    if not isinstance(numbers, list | tuple) or len(numbers) not in (2, 4):
        raise InputError(f"{place!r} is no place", "", remedy)
    return dict(zip(("x", "y", "width", "height"), numbers, strict=False))


def _made(kind: Any, fields: dict[str, Any], remedy: str) -> Any:
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{error}", "", remedy) from None
