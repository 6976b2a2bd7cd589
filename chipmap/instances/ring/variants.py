"""Changed ring instances: what ``explain`` tries. Each function returns a new instance and leaves the old one alone."""

from __future__ import annotations

from typing import Literal

import msgspec

from chipmap.instances.ring.instance import Label, RingInstance


def changed(instance: RingInstance, **changes: object) -> RingInstance:
    """``instance`` with these fields (records as they are), checked."""
    made = msgspec.structs.replace(instance, **changes)
    made.check()
    return made


def without(instance: RingInstance, *labels: Label) -> RingInstance:
    """The instance with constraints ``labels`` not in force."""
    return changed(instance, constraints=tuple(c for c in instance.constraints if c not in labels))


def packaged(instance: RingInstance, **changes: object) -> RingInstance:
    """The instance on a changed package. Raises :class:`InputError` where a pin names a chip that is no more."""
    return changed(instance, package=msgspec.structs.replace(instance.package, **changes))


def without_entry(
    instance: RingInstance, field: Literal["pins", "together", "forbidden", "apart"], i: int
) -> RingInstance:
    """The instance without entry number ``i`` of its pins, groups (together, apart) or forbidden chips."""
    entries = getattr(instance, field)
    return changed(instance, **{field: entries[:i] + entries[i + 1 :]})
