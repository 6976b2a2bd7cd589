"""What a library does inside a module whose parts are on several devices; the same for every family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chipmap.instances.placement.splits import name_parts
from chipmap.networks.graph import OperationGraph

REMEDY = "`chipmap solve --cut blocks` keeps blocks whole, `--cut modules` their children"


class Placed(NamedTuple):
    """A computing operation: its ``name`` and module, its device, and those on which its ``operands`` are made."""

    name: str
    scope: str
    device: str
    operands: tuple[str, ...]


def mixed(operations: Sequence[Placed]) -> str | None:
    """An operation between the modules of a split one whose operands are on several devices, in words."""
    on: dict[tuple[str, ...], set[str]] = {}
    for one in operations:
        parts = name_parts(one.scope)
        for length in range(len(parts) + 1):
            on.setdefault(parts[:length], set()).add(one.device)
    for one in operations:
        if len(on[name_parts(one.scope)]) > 1 and len(made := sorted(set(one.operands))) > 1:
            inside = f"module {one.scope!r}" if one.scope else "the network itself"
            return f"{inside} is split, and its {one.name!r} reads what is made on {' and '.join(made)}; {REMEDY}"
    return None


def states_placed(
    graph: OperationGraph, scopes: Sequence[str], states: Mapping[str, str], places: Mapping[str, int]
) -> dict[str, int | None]:
    """The device of each parameter and buffer: where it is placed, or where the first operation that reads it is.

    Readers of its own module come before others. None: nothing reads it.
    """
    operations = graph.operations
    position = {one.name: v for v, one in enumerate(operations)}
    readers = graph.computing_readers({position[name] for name in states.values() if name})
    found: dict[str, int | None] = {}
    for state, name in states.items():
        module, reading = state.rpartition(".")[0], readers[position[name]] if name else []
        own = [v for v in reading if scopes and scopes[v] == module]
        first = next((operations[v].name for v in (*own, *reading)), "")
        found[state] = places.get(name, places.get(first))
    return found
