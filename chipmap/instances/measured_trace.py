"""Measured times from a Chrome trace that ``torch.profiler`` wrote (``export_chrome_trace``), of one or several steps.

A trace names operators, not operations. So the calls of an operator that no other operator made are taken in their
order: with n operations of that kind, and k · n calls of it, the trace holds k steps, and operation i has the median of
calls i, n + i, 2n + i … Kinds whose calls are no multiple of n stay without times. Calls on a processor are meant: a
trace with kernels of a GPU is refused, as there a call ends before its kernel does.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

import msgspec

from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, Source

_OWN = "aten::"
_REMEDY = "Write one with torch.profiler on the processor: profile(activities=[ProfilerActivity.CPU])."


def is_trace(source: Source) -> bool:
    """Whether a file is JSON, which no table is."""
    return source.head.lstrip()[:1] in (b"{", b"[")


def times_of(source: Source, graph: OperationGraph) -> dict[int, float]:
    """Operation -> its time in ns. Raises :class:`InputError` for JSON that is no such trace."""
    calls = _outermost(_events(source), source.where)
    places: dict[str, list[int]] = defaultdict(list)
    for v, operation in enumerate(graph.operations):
        if operation.role == "compute":
            places[operation.kind.rstrip("_")].append(v)
    found: dict[int, float] = {}
    for kind, of_kind in places.items():
        lasted, count = calls.get(kind, []), len(of_kind)
        if lasted and len(lasted) % count == 0:
            found |= {v: 1000.0 * median(lasted[i::count]) for i, v in enumerate(of_kind)}
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


def _outermost(events: list[Any], where: str) -> dict[str, list[float]]:
    """Operator -> microseconds of its calls that no other operator made, in their order."""
    threads: dict[Any, list[tuple[float, float, str]]] = defaultdict(list)
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        if event.get("cat") == "kernel":
            raise InputError("has kernels of a GPU", where, "Give a table with the columns operation and ns.")
        name, began, lasted = (event.get(key) for key in ("name", "ts", "dur"))
        if isinstance(name, str) and name.startswith(_OWN) and event.get("cat") == "cpu_op":
            if not isinstance(began, int | float) or not isinstance(lasted, int | float):
                raise InputError(f"a call of {name} has no ts or dur", where, _REMEDY)
            threads[event.get("tid")].append((began, -lasted, name.removeprefix(_OWN).rstrip("_")))
    found: list[tuple[float, float, str]] = []
    for calls in threads.values():
        ends = float("-inf")
        for began, less, name in sorted(calls):
            if began >= ends:
                found.append((began, -less, name))
                ends = began - less
    if not found:
        raise InputError("has no calls of PyTorch's operators", where, _REMEDY)
    kinds: dict[str, list[float]] = defaultdict(list)
    for _, lasted, name in sorted(found):
        kinds[name].append(lasted)
    return kinds
