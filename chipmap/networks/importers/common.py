"""What all readers of published formats share: the result, checked numbers, and the way from edges to tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.counting import Totals
from chipmap.records import InputError, unfit
from chipmap.records.decimals import exact

#: Larger sizes and times are taken for mistakes (a petabyte; eleven days).
MAX_BYTES = 10**15
MAX_NS = 10**15

T = TypeVar("T")


#: A note on a program of whose training less would be counted than is kept.
UNSEEN_COPIES = "autocast copies weights and operands, which this export doesn't show"


@dataclass(frozen=True)
class ImportedGraph:
    """A published graph: the operations, their measured times in ns (None: not measured), and where it comes from.

    ``format`` is the name of the reader, ``notes`` says what a user should know about units and about what was left
    out. ``together`` names groups of computing operations that the format wants on one device. ``totals`` are those of
    a program. ``scopes``: the module of each operation (``blocks.0.attn``), if the file says any; ``states``: the
    operation of each parameter and buffer by the module's name of it (``blocks.0.attn.bias``); ``classes``: the class
    of each module, by its path.
    """

    graph: OperationGraph
    time_ns: tuple[float | None, ...] | None
    format: str
    notes: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    totals: Totals | None = None
    scopes: tuple[str, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node in JSON: an id, unique in the file, and perhaps a name, which several nodes may share."""

    id: int
    name: str | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge in JSON, from one node's id to another's."""

    sourceId: int  # noqa: N815 (the formats' own names)
    destId: int  # noqa: N815


def decode(data: bytes, kind: type[T], where: str, remedy: str) -> T:
    """``data`` as ``kind``; :class:`InputError` with the JSON path of what is wrong otherwise."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise unfit(error, kind, where, remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid JSON: {error}", where, "Mend the file at that position.") from None
    except RecursionError:
        raise InputError("nested too deeply", where, "A graph is a flat list of nodes and one of edges.") from None


def size(value: float, where: str) -> int:
    """``value`` bytes as a whole number, rounded up; :class:`InputError` if it is no size."""
    if not 0 <= value <= MAX_BYTES:
        raise InputError(f"{value} is no size in bytes", where, f"Sizes run from 0 to {MAX_BYTES:.0e} bytes.")
    return math.ceil(value)


def nanoseconds(value: float, unit_ns: float, where: str) -> float:
    """``value`` times ``unit_ns`` as a time in ns; :class:`InputError` if it is no time."""
    if not 0 <= value * unit_ns <= MAX_NS:
        raise InputError(f"{value} is no time", where, f"Times run from 0 to {MAX_NS / unit_ns:.0e} in this unit.")
    return float(exact(value) * exact(unit_ns))


def positions(ids: Sequence[int | str], where: str) -> dict[int | str, int]:
    """The position of each id; :class:`InputError` for an id used twice."""
    at: dict[int | str, int] = {}
    for v, key in enumerate(ids):
        if key in at:
            raise InputError(f"the id {key!r} is used twice", f"{where}[{v}]", "Ids identify nodes: make them unique.")
        at[key] = v
    return at


def unique_names(names: Iterable[str], ids: Iterable[int | str]) -> list[str]:
    """The names, a repeated one with its node's id (and, if that is taken as well, its position) behind it."""
    seen: set[str] = set()
    fresh = []
    for v, (name, key) in enumerate(zip(names, ids, strict=True)):
        for candidate in (name, f"{name}#{key}", f"{name}#{key}#{v}"):
            if candidate not in seen:
                break
        else:
            raise InputError(f"the name {name!r} is used several times", "nodes", "Make the names unique.")
        seen.add(candidate)
        fresh.append(candidate)
    return fresh


def node_names(nodes: Sequence[Node]) -> list[str]:
    """Unique names of nodes: their own, ``node7`` where they have none."""
    return unique_names((node.name or f"node{node.id}" for node in nodes), (node.id for node in nodes))


def endpoint(key: int | str, at: dict[int | str, int], where: str) -> int:
    """The position of node ``key``; :class:`InputError` if there is none."""
    if key not in at:
        raise InputError(f"no node has the id {key!r}", where, "Give the node, or remove the edge.")
    return at[key]


def ends(nodes: Sequence[Node], edges: Iterable[Edge], where: str) -> list[tuple[int, int]]:
    """The positions of each edge's two nodes; :class:`InputError` for an id used twice and for one that no node has."""
    at, keys = positions([node.id for node in nodes], f"{where}: nodes"), ("sourceId", "destId")
    found = []
    for i, edge in enumerate(edges):
        u, v = (endpoint(getattr(edge, key), at, f"{where}: edges[{i}].{key}") for key in keys)
        found.append((u, v))
    return found


def graph_of_edges(
    name: str,
    operations: Sequence[Operation],
    edges: Iterable[tuple[int, int, int]],
    source: str,
    where: str,
    unread: Iterable[tuple[int, int]] = (),
) -> OperationGraph:
    """The graph of edges (producer, reader, bytes): edges of one producer with equal bytes carry one tensor.

    ``unread`` gives (producer, bytes) of what an operation makes and no edge need carry.
    """
    readers: dict[tuple[int, int], set[int]] = {}
    for producer, reader, count in edges:
        readers.setdefault((producer, count), set()).add(reader)
    for key in unread:
        readers.setdefault(key, set())
    tensors = [
        Tensor(producer=producer, readers=tuple(sorted(to)), bytes=count)
        for (producer, count), to in sorted(readers.items())
    ]
    return OperationGraph.checked(name, operations, tensors, source, where)
