"""What a library does inside a module whose parts are on several devices; the same for every family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chipmap.instances import grain
from chipmap.instances.placement.splits import name_parts
from chipmap.networks.graph import OperationGraph
from chipmap.plans.layers.graphs import cut_command
from chipmap.records import InputError

#: Keeps the children of the network whole, where no list of modules says what a block is.
_CHILDREN = "--no-split '*'"


class Placed(NamedTuple):
    """A computing operation: its ``name`` and module, its device, and those on which its ``operands`` are made."""

    name: str
    scope: str
    device: str
    operands: tuple[str, ...]


def mixed(operations: Sequence[Placed], instance: Any) -> str | None:
    """An operation between the modules of a split one whose operands are on several devices, in words."""
    on: dict[tuple[str, ...], set[str]] = {}
    for one in operations:
        parts = name_parts(one.scope)
        for length in range(len(parts) + 1):
            on.setdefault(parts[:length], set()).add(one.device)
    for one in operations:
        if len(on[name_parts(one.scope)]) > 1 and len(made := sorted(set(one.operands))) > 1:
            inside = f"module {one.scope!r}" if one.scope else "the network itself"
            what = f"{inside} is split, and its {one.name!r} reads what is made on {' and '.join(made)}"
            return f"{what}. {remedy(instance)}"
    return None


def remedy(instance: Any) -> str:
    """The command that finds a mapping of which a map can say all: blocks whole, and operations between modules with
    what makes their operands."""
    graph, scopes = instance.graph, instance.scopes
    try:
        groups, keep = grain.groups(graph, "blocks", scopes), "--cut blocks"
    except InputError:  # no module is in a list
        groups, keep = (), _CHILDREN
    paths, held = grain.modules(graph, scopes).path, {name for group in groups for name in group}
    outer = {path[:length] for path in paths for length in range(len(path))}
    backward = set(getattr(instance, "backward", ()))
    between = [
        v
        for v, one in enumerate(graph.operations)
        if one.role == "compute"
        and one.name not in held | backward
        and (not paths[v] or (groups and paths[v] in outer))
    ]
    made, joined = makers(graph), list[set[int]]()
    for group in ({v, *made[v]} for v in between):
        group = group.union(*(one for one in joined if one & group))
        joined = [*(one for one in joined if not one & group), group]
    return cut_command(instance, *(sorted(group) for group in joined if len(group) > 1), keep=keep)


def makers(graph: OperationGraph) -> list[set[int]]:
    """For each operation the computing operations whose outputs it reads, directly or through views."""
    found: list[set[int]] = [set() for _ in graph.operations]
    reads = graph.reads()
    for v in graph.topological_order():
        for u in reads[v]:
            if graph.operations[u].role == "compute":
                found[v].add(u)
            elif graph.operations[u].role == "view":
                found[v] |= found[u]
    return found


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
