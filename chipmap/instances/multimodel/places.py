"""Where layers may run (C6): names and contradictions checked, then chiplets by layer, merged groups, layers apart.

A layer is called ``model/layer``. Nothing here knows the instance's records, which are checked by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from chipmap.instances.pinning import check_apart
from chipmap.records import InputError, choices
from chipmap.records.text import nearest

#: Names of layers.
Names = tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What an instance asks for: (layer, chiplet) of ``pins``, (layer, chiplets) of ``forbidden``, and groups."""

    pins: tuple[tuple[str, str], ...]
    forbidden: tuple[tuple[str, Names], ...]
    together: tuple[Names, ...]
    apart: tuple[Names, ...]

    @property
    def any(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.pins or self.forbidden or self.together or self.apart)


@dataclass(frozen=True)
class Places:
    """``allowed``: the chiplets of each layer that is named anywhere, those of its group. ``groups``: layers that share
    a chiplet, groups with a layer in common joined; ``apart``: layers of which no two do."""

    allowed: dict[str, frozenset[str]]
    groups: tuple[Names, ...]
    apart: tuple[Names, ...]


def checked_places(asked: Asked, layers: Sequence[str], chiplets: Sequence[str]) -> Places:
    """The places that are left. Raises :class:`InputError` for unknown names, and for what contradicts itself."""
    _check_names(asked, layers, chiplets)
    pinned: dict[str, str] = {}
    for i, (layer, chiplet) in enumerate(asked.pins):
        if pinned.setdefault(layer, chiplet) != chiplet:
            what = f"{layer!r} is pinned to {pinned[layer]!r} already"
            raise InputError(what, f"pins[{i}]", "Leave out one of the two pins.")
    allowed: dict[str, frozenset[str]] = {layer: frozenset({chiplet}) for layer, chiplet in pinned.items()}
    for i, (layer, not_there) in enumerate(asked.forbidden):
        left = allowed.get(layer, frozenset(chiplets)).difference(not_there)
        if not left:
            why = f"it is pinned to {pinned[layer]!r}" if layer in pinned else "all chiplets are forbidden to it"
            raise InputError(f"no chiplet is left for {layer!r}: {why}", f"forbidden[{i}]", "Allow one of them.")
        allowed[layer] = left
    groups = _joined(asked.together)
    for group in groups:
        common = frozenset(chiplets).intersection(*(allowed[name] for name in group if name in allowed))
        if not common:
            pins = [f"{name!r} to {pinned[name]!r}" for name in group if name in pinned]
            what = f"{_quoted(group)} have no chiplet in common" + (f" (pins: {', '.join(pins)})" if pins else "")
            where = next(i for i, one in enumerate(asked.together) if one[0] in group)
            raise InputError(what, f"together[{where}]", "Split the group, or allow one chiplet to all of it.")
        allowed |= dict.fromkeys(group, common)
    for name in (name for group in asked.apart for name in group):
        allowed.setdefault(name, frozenset(chiplets))
    _check_apart(asked.apart, groups, allowed)
    return Places(allowed, groups, asked.apart)


def _check_names(asked: Asked, layers: Sequence[str], chiplets: Sequence[str]) -> None:
    named = [(f"pins[{i}].layer", layer) for i, (layer, _) in enumerate(asked.pins)]
    named += [(f"forbidden[{i}].layer", layer) for i, (layer, _) in enumerate(asked.forbidden)]
    for field, groups in (("together", asked.together), ("apart", asked.apart)):
        for i, group in enumerate(groups):
            named += [(f"{field}[{i}][{j}]", name) for j, name in enumerate(group)]
            if not group:
                raise InputError("the group is empty", f"{field}[{i}]", "Name its layers, or leave it out.")
    check_apart(asked.apart)
    known = {name: layers.count(name) for name in {name for _, name in named}}
    for where, name in named:
        if known[name] == 0:
            near = nearest(name, layers)
            meant = f"Did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"no layer is called {name!r}", where, f"{meant}Write model/layer, as in {layers[0]!r}.")
        if known[name] > 1:
            raise InputError(f"two layers are called {name!r}", where, "Give models names without a slash.")
    places = [(f"pins[{i}].chiplet", chiplet) for i, (_, chiplet) in enumerate(asked.pins)]
    places += [(f"forbidden[{i}].chiplets", name) for i, (_, names) in enumerate(asked.forbidden) for name in names]
    for where, name in places:
        if name not in chiplets:
            raise InputError(f"no chiplet is called {name!r}", where, choices(name, chiplets, "Chiplets"))


def _joined(together: Sequence[Names]) -> tuple[Names, ...]:
    """The groups, those with a layer in common as one."""
    found: list[dict[str, None]] = []
    for group in together:
        one = dict.fromkeys(group)
        for met in [other for other in found if other.keys() & one.keys()]:
            found.remove(met)
            one = met | one
        found.append(one)
    return tuple(tuple(group) for group in found)


def _check_apart(apart: Sequence[Names], groups: Sequence[Names], allowed: dict[str, frozenset[str]]) -> None:
    """No two of a group are one layer, share a group of ``together``, or are left the same single chiplet."""
    share = {name: g for g, group in enumerate(groups) for name in group}
    for i, group in enumerate(apart):
        for one, other in combinations(group, 2):
            where, both = f"apart[{i}]", f"{one!r} and {other!r}"
            if one == other:
                raise InputError(f"names {one!r} twice", where, "Name each layer once.")
            if one in share and share[one] == share.get(other):
                raise InputError(f"{both} are to share a chiplet (together)", where, "Leave one of them out.")
            if len(allowed[one]) == 1 and allowed[one] == allowed[other]:
                (only,) = allowed[one]
                raise InputError(f"{both} have no chiplet but {only!r}", where, "Free one of them.")


def _quoted(names: Names) -> str:
    shown = ", ".join(map(repr, names[:4]))
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
