"""The family's shipped instances."""

from __future__ import annotations

from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance


def shipped(name: str) -> WaferInstance:
    """The instance of this name (without the family's)."""
    instance = read(f"wafer/{name}")
    assert isinstance(instance, WaferInstance)
    return instance
