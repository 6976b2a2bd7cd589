"""Measured times from a Chrome trace that ``torch.profiler`` wrote (``export_chrome_trace``), of one or several steps.

A trace names operators, not operations. So the calls of an operator are taken in their order. With n operations of a
kind, and k · n calls of it, the trace holds k steps, and operation i has the median of calls i, n + i, 2n + i … All
kinds have the same k: that of most operations. Kinds with another number of calls stay without times, as something
else than the network called them.

No call counts that another operator made, or a backward pass, or an optimiser. Where a trace has the shapes of operands
(``record_shapes``), an operation only takes calls with an operand of the size that it reads, weights apart.

Calls on a processor are meant: a trace with kernels of a GPU is refused, as there a call ends before its kernel does.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any

import msgspec

from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, Source, listed

#: Bytes to which a packed trace may unpack.
LARGEST = 2**30
_OWN = "aten::"
#: Beginnings of what isn't the network's forward pass, by category.
_OTHERS = {"cpu_op": ("autograd::engine::", "torch::autograd::"), "user_annotation": ("Optimizer.",)}
_PACKED = b"\x1f\x8b"
_REMEDY = "Write one with torch.profiler on the processor: profile(activities=[ProfilerActivity.CPU])."
_SAME = "Trace the program with the inputs that it was exported with."
#: Bytes of a number by the type that a trace calls it.
_WIDTH = {"c10::complex<double>": 16, "c10::complex<float>": 8, "double": 8, "long int": 8, "long": 8, "float": 4,
          "int": 4, "short int": 2, "short": 2, "c10::Half": 2, "c10::BFloat16": 2, "bool": 1, "unsigned char": 1,
          "signed char": 1}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of an operator that took ``lasted`` µs; ``operands``: their bytes, () where the trace doesn't say."""

    lasted: float
    operands: tuple[int, ...]


def is_trace(source: Source) -> bool:
    """Whether a file is JSON, which no table is."""
    return source.head.lstrip()[:1] in (b"{", b"[")


def unpacked(source: Source) -> Source:
    """What a file of ``gzip`` holds, such as ``torch.profiler`` writes; any other file as it is."""
    if not source.head.startswith(_PACKED):
        return source
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(source.content(), LARGEST)
    except zlib.error as error:
        raise InputError(f"can't be unpacked: {error}", source.where, "Write it anew.") from None
    if not reader.eof:
        what = "is larger than 1 GiB when unpacked" if len(found) == LARGEST else "is cut off"
        raise InputError(what, source.where, "Trace fewer steps." if len(found) == LARGEST else "Copy it anew.")
    return Source(source.where, found)


def times_of(source: Source, graph: OperationGraph) -> tuple[dict[int, float], int]:
    """Operation -> its time in ns, and the number of steps. Raises :class:`InputError` for JSON that is no such trace,
    and for one whose operands have other sizes than most of the graph's operations."""
    places: dict[str, list[int]] = defaultdict(list)
    for v, operation in enumerate(graph.operations):
        if operation.role == "compute":
            places[operation.kind.rstrip("_")].append(v)
    calls = _outermost(_events(source), places, source.where)
    steps = Counter[int]()
    for kind, of_kind in places.items():
        if calls[kind] and len(calls[kind]) % len(of_kind) == 0:
            steps[len(calls[kind]) // len(of_kind)] += len(of_kind)
    if not steps:
        return {}, 0
    often = max(steps, key=lambda one: (steps[one], -one))
    taken = {
        v: calls[kind][i :: len(of_kind)]
        for kind, of_kind in places.items()
        for i, v in enumerate(of_kind)
        if len(calls[kind]) == often * len(of_kind)
    }
    other = _of_other_sizes(graph, taken, source.where)
    return {v: 1000.0 * median(call.lasted for call in of_v) for v, of_v in taken.items() if v not in other}, often


def _of_other_sizes(graph: OperationGraph, taken: Mapping[int, Sequence[Call]], where: str) -> set[int]:
    """The operations with a call none of whose operands has the bytes of a tensor, not a weight, that they read."""
    read = _read_bytes(graph)
    compared = [v for v, calls in taken.items() if read[v] and all(call.operands for call in calls)]
    found = [v for v in compared if any(read[v].isdisjoint(call.operands) for call in taken[v])]
    if 2 * len(found) > len(compared):
        v = found[0]
        there = next(call.operands for call in taken[v] if read[v].isdisjoint(call.operands))
        here = f"{graph.operations[v].name} reads {listed(map('{:,}'.format, sorted(read[v])))} bytes"
        what = f"was measured with other shapes: {here} here, its call there {listed(map('{:,}'.format, there))}"
        raise InputError(what, where, _SAME)
    return set(found)


def _read_bytes(graph: OperationGraph) -> list[set[int]]:
    """For each operation the sizes of the tensors that it reads, without constants and views of these."""
    fixed, reads = [operation.role == "constant" for operation in graph.operations], graph.reads()
    for v in graph.topological_order():
        if graph.operations[v].role == "view":
            fixed[v] = all(fixed[u] for u in reads[v])
    found: list[set[int]] = [set() for _ in fixed]
    for tensor in graph.tensors:
        for v in tensor.readers:
            if tensor.bytes and not fixed[tensor.producer]:
                found[v].add(tensor.bytes)
    return found


def _events(source: Source) -> list[Any]:
    try:
        plain = msgspec.json.decode(source.content())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", source.where, _REMEDY) from None
    events = plain.get("traceEvents") if isinstance(plain, dict) else plain
    if not isinstance(events, list):
        raise InputError("is no Chrome trace: it has no traceEvents", source.where, _REMEDY)
    return events


def _outermost(events: list[Any], kinds: Mapping[str, Any], where: str) -> dict[str, list[Call]]:
    """Kind -> its calls that neither another operator made nor a backward pass or an optimiser, in their order."""
    threads: dict[Any, list[tuple[float, float, str, Call]]] = defaultdict(list)
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        if event.get("cat") == "kernel":
            raise InputError("has kernels of a GPU", where, "Give a table with the columns operation and ns.")
        kind = _kind(event, kinds)
        if kind is None:
            continue
        began, lasted = event.get("ts"), event.get("dur")
        if not isinstance(began, int | float) or not isinstance(lasted, int | float):
            raise InputError(f"a call of {event['name']} has no ts or dur", where, _REMEDY)
        call = Call(lasted, _operands(event.get("args")))
        threads[event.get("pid"), event.get("tid")].append((began, -lasted, kind, call))
    outer: list[tuple[float, str, Call]] = []
    for calls in threads.values():
        ends = float("-inf")
        for began, less, kind, call in sorted(calls, key=lambda one: one[:2]):
            if began >= ends:
                outer.append((began, kind, call))
                ends = began - less
    found: dict[str, list[Call]] = defaultdict(list)
    for _, kind, call in sorted(outer, key=lambda one: one[0]):
        found[kind].append(call)
    if not any(found):
        raise InputError("has no calls of PyTorch's operators", where, _REMEDY)
    return found


def _kind(event: Mapping[str, Any], kinds: Mapping[str, Any]) -> str | None:
    """The kind that an event is a call of, "" for what isn't of the forward pass; None for events that hold calls."""
    name, category = event.get("name"), event.get("cat")
    if not isinstance(name, str):
        return None
    if name.startswith(_OTHERS.get(str(category), ())):
        return ""
    if category != "cpu_op":
        return None
    kind = name.removeprefix(_OWN).replace("::", ".").rstrip("_")
    return kind if name.startswith(_OWN) or kind in kinds else None


def _operands(told: Any) -> tuple[int, ...]:
    """The bytes of a call's operands; () where its shapes weren't recorded, or where a list of tensors is one."""
    if not isinstance(told, dict):
        return ()
    shapes, types = told.get("Input Dims"), told.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or "TensorList" in types:
        return ()
    return tuple(
        _WIDTH[kind] * prod(shape)
        for shape, kind in zip(shapes, types, strict=False)
        if kind in _WIDTH and isinstance(shape, list) and shape and all(isinstance(one, int) for one in shape)
    )
