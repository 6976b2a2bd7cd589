"""Reader of PipeDream's profiles (``graph.txt``): a line per layer, then a line per edge.

The format (Narayanan et al., *PipeDream: Generalized Pipeline Parallelism for DNN Training*, 2019)::

    node4 -- Conv2d(64, 192) -- forward_compute_time=2.1, backward_compute_time=4.0, activation_size=…, parameter_size=…
        node4 -- node5

Times are milliseconds of one training batch, sizes bytes; a fourth part ``stage_id=…`` of a line is PipeDream's own
result and is ignored. ``activation_size`` may be a list ``[a; b]``: its sum counts, as in PipeDream. Only the forward
pass is read. A layer ``Input`` (its time is that of the data loader) is an input.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from chipmap.networks.graph import Operation, Role
from chipmap.networks.importers.common import ImportedGraph, endpoint, graph_of_edges, nanoseconds, positions, size
from chipmap.records import InputError

FORMAT = "pipedream"
_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_NS_PER_MS = 1e6


def accepts(data: bytes) -> bool:
    """Whether the content looks like a profile."""
    return b"forward_compute_time=" in data


def read(data: bytes, where: str) -> ImportedGraph:
    """The forward pass of the profile; :class:`InputError` with the line of what is wrong."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason}", where, "PipeDream profiles are plain text.") from None
    nodes: list[tuple[str, str, dict[str, float]]] = []
    links: list[tuple[str, str, str]] = []
    for number, line in enumerate(lines, start=1):
        here = f"{where}: line {number}"
        parts = [part.strip() for part in line.split(" -- ")]
        if line[:1].isspace() and line.strip():
            if len(parts) != 2 or not all(parts):
                raise InputError("this isn't an edge", here, "Edges read: a tab, then node1 -- node2.")
            links.append((parts[0], parts[1], here))
        elif line.strip():
            nodes.append(_node(parts, here))
    return _graph(nodes, links, where)


def _node(parts: list[str], where: str) -> tuple[str, str, dict[str, float]]:
    if len(parts) not in (3, 4) or not parts[0]:
        raise InputError("this isn't a layer", where, "Layers read: id -- type -- forward_compute_time=…, …")
    given = dict(item.strip().partition("=")[::2] for item in parts[2].split(", "))
    values = {}
    for field in _FIELDS:
        text = given.get(field)
        if text is None:
            raise InputError(f"{field} is missing", where, f"A layer gives {', '.join(_FIELDS)}.")
        try:
            values[field] = sum(float(item) for item in text.strip("[]").split(";"))
        except ValueError:
            raise InputError(f"{field} is {text!r}", where, "Give a number.") from None
    return parts[0], parts[1], values


def _graph(
    nodes: list[tuple[str, str, dict[str, float]]], links: list[tuple[str, str, str]], where: str
) -> ImportedGraph:
    at = positions([key for key, _, _ in nodes], f"{where}: layers")
    operations, times, made = [], [], []
    for key, kind, values in nodes:
        word = re.match(r"\w+", kind)
        short = word.group() if word else kind
        is_input = re.fullmatch(r"Input\d*", short) is not None
        role: Role = "input" if is_input else "compute"
        weights = size(values["parameter_size"], f"{where}: {key}: parameter_size")
        operations.append(Operation(name=key, kind=short, role=role, weight_bytes=weights))
        time = nanoseconds(values["forward_compute_time"], _NS_PER_MS, f"{where}: {key}: forward_compute_time")
        times.append(None if is_input else time)
        made.append(size(values["activation_size"], f"{where}: {key}: activation_size"))
    edges = []
    for source, target, here in links:
        u, v = endpoint(source, at, here), endpoint(target, at, here)
        edges.append((u, v, made[u]))
    name = PurePath(where).name.split(".")[0]
    graph = graph_of_edges(name, operations, edges, "PipeDream profile", where, enumerate(made))
    notes = ("times and tensors are those of a whole training batch, forward pass only",)
    return ImportedGraph(graph, tuple(times), FORMAT, notes)
