"""From rows of nodes and edges to a graph: what every way to write one's own graph ends in.

A node has a name, unique in the graph, and

====================  ========================================================================================
``flop``, ``time_ns``  its work or its measured time; a node that computes gives one of them, 0 if it does nothing
``bytes``              what it writes; edges that give no bytes of their own carry these
``weights``            bytes of its parameters, 0 unless given
``kind``               the operator's type, ``op`` unless given
``role``               ``compute`` unless given, or ``view``, ``constant``, ``input``, or ``look-up``: it computes,
                      and of the constants that it reads it moves the bytes that it writes, not the whole table
``inputs``             names of the nodes that it reads: edges from these
====================  ========================================================================================

An edge has a ``source``, a ``target`` and perhaps ``bytes``. Edges of one source that carry as many bytes carry one
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, get_args

from chipmap.networks.graph import Operation, Role
from chipmap.networks.importers.common import ImportedGraph, graph_of_edges
from chipmap.networks.importers.own.amounts import BYTES, FLOP, TIME
from chipmap.networks.importers.own.fields import EDGE, MAX_UNKNOWN, NODE, columns, too_many
from chipmap.records import InputError, counted, shortened, shown

ROLES: tuple[Role, ...] = get_args(Role)
#: What a node that picks rows of a table says as its role.
LOOK_UP = "look-up"
_KIND = "op"


@dataclass(frozen=True)
class Node:
    """A node with its amounts (None: not given), and where it stands."""

    name: str
    where: str
    role: Role
    kind: str
    flop: Fraction | None
    bytes: Fraction | None
    weights: Fraction
    time_ns: Fraction | None
    looks_up: bool = False


@dataclass(frozen=True)
class Edge:
    """An edge between nodes by name."""

    source: str
    target: str
    bytes: Fraction | None
    where: str


@dataclass
class Rows:
    """The nodes and edges read so far, and the names of fields that were not used."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    ignored: dict[str, None] = field(default_factory=dict)

    def node(self, values: Mapping[Any, Any], where: str) -> None:
        """Add a node, and edges from its ``inputs``."""
        given = self._fields(values, NODE, where)
        name = named(given.get("name"), "name", where)
        if name in self.nodes:
            what = f"the name {name!r} is used twice (also in {self.nodes[name].where})"
            raise InputError(what, where, "Names identify nodes: make them unique.")
        role = shown(given.get("role") or "compute", str).strip().lower()
        looks_up = role in (LOOK_UP, "lookup")
        if looks_up:
            role = "compute"
        if role not in ROLES:
            remedy = f"Choose from: {', '.join(ROLES)}, {LOOK_UP}; or leave it out."
            raise InputError(f"role is {role!r}", where, remedy)
        kind = given.get("kind")
        amounts = {key: measure.read(given.get(key), key, where) for key, measure in _MEASURES.items()}
        if role == "compute" and not looks_up and amounts["flop"] is None and amounts["time_ns"] is None:
            remedy = "Give flop or time_ns, 0 for a node that does nothing; what computes nothing has a role."
            raise InputError(f"{name!r} has no flop", where, f"{remedy} Roles: {', '.join(ROLES)}.")
        self.nodes[name] = Node(
            name=name,
            where=where,
            role=role,  # type: ignore[arg-type]  # one of ROLES
            kind=_KIND if absent(kind) else named(kind, "kind", where),
            flop=amounts["flop"],
            bytes=amounts["bytes"],
            weights=amounts["weights"] or Fraction(0),
            time_ns=amounts["time_ns"],
            looks_up=looks_up,
        )
        for source in _inputs(given.get("inputs"), where):
            self.edge({"source": source, "target": name}, where)

    def edge(self, values: Mapping[Any, Any], where: str) -> None:
        """Add an edge; whether there are such nodes is asked at the end."""
        given = self._fields(values, EDGE, where)
        ends = (named(given.get("source"), "source", where), named(given.get("target"), "target", where))
        if ends in self.edges:
            what = f"the edge {ends[0]} -> {ends[1]} is given twice (also in {self.edges[ends].where})"
            raise InputError(what, where, "Give it once, with the bytes of all that it carries.")
        self.edges[ends] = Edge(*ends, BYTES.read(given.get("bytes"), "bytes", where), where)

    def _fields(self, values: Mapping[Any, Any], known: tuple[str, ...], where: str) -> dict[str, Any]:
        found = columns(values, known, where)
        self.ignored |= dict.fromkeys(found.ignored)
        if len(self.ignored) > MAX_UNKNOWN:
            raise too_many(where)
        return {name: values[key] for key, name in found.fields.items()}

    def graph(self, name: str, form: str, source: str, where: str, notes: Sequence[str] = ()) -> ImportedGraph:
        """The graph of all rows; :class:`InputError` for an edge of no node or without bytes, and for a cycle."""
        if not self.nodes:
            only = f", only edges such as {' -> '.join(next(iter(self.edges)))}" if self.edges else ""
            remedy = "Give each node an entry of its own, with its flop and bytes." if only else "Give at least one."
            raise InputError(f"there are no nodes{only}", where, remedy)
        at = {node: v for v, node in enumerate(self.nodes)}
        edges = [(*self._ends(edge, at), _whole(self._carried(edge))) for edge in self.edges.values()]
        self._no_cycle()
        nodes = list(self.nodes.values())
        moved = self._moved(nodes, edges)
        operations = [
            Operation(
                name=n.name,
                kind=n.kind,
                role=n.role,
                flop=_whole(n.flop or 0),
                weight_bytes=_whole(n.weights),
                moved_bytes=moved.get(v),
            )
            for v, n in enumerate(nodes)
        ]
        read = {u for u, _, _ in edges}
        results = [(v, _whole(node.bytes)) for v, node in enumerate(nodes) if v not in read and node.bytes]
        times = tuple(None if node.time_ns is None else float(node.time_ns) for node in nodes)
        graph = graph_of_edges(name, operations, edges, source, where, results)
        notes = (*notes, *self._rounded())
        if self.ignored:
            notes = (*notes, f"fields not used: {shortened(', '.join(self.ignored))}")
        return ImportedGraph(graph, times if any(time is not None for time in times) else None, form, tuple(notes))

    def _rounded(self) -> list[str]:
        """A note on bytes that are no whole numbers: a unit may be forgotten."""
        rows: list[Node | Edge] = [*self.nodes.values(), *self.edges.values()]
        found = [
            (one.where, key, float(amount))
            for one in rows
            for key in ("bytes", "weights")
            if (amount := getattr(one, key, None)) is not None and amount.denominator > 1
        ]
        if not found:
            return []
        where, key, amount = found[0]
        others = f" and {counted(len(found) - 1, 'other amount')}" if len(found) > 1 else ""
        return [f"{key} {amount:.15g} ({where}){others} rounded up to whole bytes (a unit may be missing)"]

    @staticmethod
    def _moved(nodes: Sequence[Node], edges: Sequence[tuple[int, int, int]]) -> dict[int, int]:
        """The bytes that each look-up moves: what it reads of all but constants, the rows that it picks, and these
        again as it writes them."""
        moved = {v: 2 * _whole(node.bytes or 0) for v, node in enumerate(nodes) if node.looks_up}
        for source, target, size in edges:
            if target in moved and nodes[source].role != "constant":
                moved[target] += size
        return moved

    def _ends(self, edge: Edge, at: Mapping[str, int]) -> tuple[int, int]:
        for end in (edge.source, edge.target):
            if end not in at:
                what = f"the edge {edge.source} -> {edge.target} names no node: there is no {end!r}"
                raise InputError(what, edge.where, _alike(end, at))
        return at[edge.source], at[edge.target]

    def _carried(self, edge: Edge) -> Fraction:
        found = self.nodes[edge.source].bytes if edge.bytes is None else edge.bytes
        if found is None:
            what = f"neither the edge {edge.source} -> {edge.target} nor node {edge.source!r} has bytes"
            raise InputError(what, edge.where, f"Give the bytes that {edge.source!r} writes, 0 if they don't matter.")
        return found

    def _no_cycle(self) -> None:
        before: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in self.edges:
            before[target].append(source)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            names: list[str] = error.args[1]
            steps = [self.edges[pair].where for pair in pairwise(names)]
            what = f"the graph has a cycle: {' -> '.join(names)}"
            raise InputError(what, steps[-1], "Remove one of these edges, such as the last.") from None


_MEASURES = {"flop": FLOP, "bytes": BYTES, "weights": BYTES, "time_ns": TIME}


def named(value: Hashable, what: str, where: str) -> str:
    """A name as text without spaces around it; :class:`InputError` if it is empty or can't be printed."""
    if absent(value):
        raise InputError(f"{what} is missing", where, f"Give the {what}, a word or a number.")
    if isinstance(value, bool | list | dict):
        raise InputError(f"{what} is {shown(value)}", where, f"Give the {what}, a word or a number.")
    text = (value if isinstance(value, str) else shown(value, str)).strip()
    if not text.isprintable():
        raise InputError(f"{what} {text!r} holds a control character", where, "Leave that character out.")
    return text


def absent(value: Any) -> bool:
    """Whether a field or cell holds nothing: None, nothing but spaces, NaN."""
    return (
        value is None or (isinstance(value, str) and not value.strip()) or (isinstance(value, float) and value != value)
    )


def _inputs(value: Any, where: str) -> list[str]:
    """The names in a list, or in a text that separates them by semicolons."""
    if absent(value):
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    if not isinstance(value, list | tuple):
        raise InputError(f"inputs is {shown(value)}", where, "Give names, separated by semicolons (in JSON: a list).")
    return [named(part, "an input's name", where) for part in value]


def _alike(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name[:100], list(known)[:5000], n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "Give that node, or remove the edge."


def _whole(amount: Fraction | int) -> int:
    return math.ceil(amount)
