"""Pins of family ``dataflow`` from a file: kernels in partitions."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.pins import Forbidden, Pin
from chipmap.instances.pinning import PinFields, PinRecords, with_pins
from chipmap.records import InputError


def merge_pins(instance: DataflowInstance, given: PinFields) -> DataflowInstance:
    """``instance`` with the pins ``given`` in its task; raises :class:`InputError` as
    :func:`chipmap.instances.pinning.with_pins` does."""

    def partition(place: Any) -> int:
        number = int(place) if isinstance(place, str) and place.strip().isdecimal() else place
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise InputError(f"there is no partition {place!r}", "", "Partitions of a phase are counted from 0.")
        return number

    records = PinRecords(
        "kernel",
        [one.name for one in instance.workload.kernels],
        lambda name, place: Pin(kernel=name, partition=partition(place)),
        lambda name, places: Forbidden(kernel=name, partitions=tuple(map(partition, places))),
    )
    return instance.replace(task=with_pins(instance.task, given, records))
