"""The family's shipped instances."""

from __future__ import annotations

from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance


def shipped(name: str) -> RingInstance:
    """The instance of this name (without the family's)."""
    instance = read(f"ring/{name}")
    assert isinstance(instance, RingInstance)
    return instance
