"""The keys of a device map: modules, or parts of operations' names, each with its device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class Scope:
    """A module, or a part of operations' names: the ``devices`` of all that is in it, and of its own operations (device
    -> how many); those of its own parameters and buffers by name (None: nothing reads it); what it holds."""

    devices: set[int] = field(default_factory=set)
    operations: Counter[int] = field(default_factory=Counter)
    states: dict[str, int | None] = field(default_factory=dict)
    inner: dict[str, Scope] = field(default_factory=dict)

    def at(self, parts: list[str], device: int | None) -> Scope:
        """What has this name inside it, where something of this device is."""
        found, seen = self, set() if device is None else {device}
        found.devices |= seen
        for part in parts:
            found = found.inner.setdefault(part, Scope())
            found.devices |= seen
        return found

    def most(self, otherwise: int) -> int:
        """The device of most of its own operations, the first one of several."""
        return min(self.operations, key=lambda d: (-self.operations[d], d), default=otherwise)


def keys_of(root: Scope, modules: bool) -> Iterator[tuple[str, int]]:
    """(key, device), a scope before what it holds. ``modules``: keys are modules, and none is a single operation."""
    left = [("", root, min(root.devices, default=0))]
    while left:
        name, scope, otherwise = left.pop()  # otherwise: the device of what nothing tells one of
        most, dot = scope.most(otherwise), f"{name}." if name else ""
        states = {own: most if d is None else d for own, d in scope.states.items()}
        if len(scope.devices) < 2:
            yield name, min(scope.devices, default=otherwise)
        elif modules and not scope.inner and len(set(states.values())) < 2:
            yield name, min(states.values(), default=most)
        else:
            if scope.operations and not modules:
                yield name, most
            yield from ((f"{dot}{own}", d) for own, d in states.items())
            left += [(f"{dot}{part}", inner, most) for part, inner in reversed(scope.inner.items())]


def written(root: Scope, modules: bool, numbers: Mapping[int, int | str]) -> bytes:
    """The file, with the ``numbers`` of devices as it calls them."""
    found = {name: numbers[device] for name, device in keys_of(root, modules)}
    return (json.dumps(found, indent=1) + "\n").encode()
