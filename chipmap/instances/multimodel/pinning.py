"""Pins of family ``multimodel`` from a file: layers (``model/layer``) on chiplets."""

from __future__ import annotations

from typing import Any

from chipmap.instances.multimodel.instance import Forbidden, MultiInstance, Pin
from chipmap.instances.pinning import PinFields, PinRecords, with_pins
from chipmap.records import InputError, choices


def merge_pins(instance: MultiInstance, given: PinFields) -> MultiInstance:
    """``instance`` with the pins ``given``; raises :class:`InputError` as
    :func:`chipmap.instances.pinning.with_pins` does."""
    chiplets = [one.name for one in instance.module.chiplets]
    few = chiplets[:20]

    def chiplet(place: Any) -> str:
        if str(place) not in chiplets:
            raise InputError(f"no chiplet is called {str(place)!r}", "", choices(str(place), few, "There are"))
        return str(place)

    records = PinRecords(
        "layer",
        [f"{model.name}/{layer.name}" for model in instance.models for layer in model.layers],
        lambda name, place: Pin(layer=name, chiplet=chiplet(place)),
        lambda name, places: Forbidden(layer=name, chiplets=tuple(map(chiplet, places))),
    )
    made: MultiInstance = with_pins(instance, given, records)
    return made
