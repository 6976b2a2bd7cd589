"""Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing draw: what families with schedules share.

The format counts in µs, as decimal numbers. Viewers turn them back into whole ns: some round, some cut off. So each
number is written such that both give the very ns. Else a part may seem to end behind the whole, which isn't drawn then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Event = dict[str, Any]


def microseconds(ns: int) -> float:
    """``ns`` in µs: the binary number next to ns / 1000 of which 1000 times is at least ``ns``."""
    found = ns / 1000
    return found if found * 1000 >= ns else math.nextafter(found, math.inf)


def tracks(process: int, name: str, threads: Iterable[tuple[int, str]]) -> Iterator[Event]:
    """A process called ``name`` with threads (number, name), shown in the order of their numbers."""
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    for thread, title in threads:
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": title}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}


def span(name: str, kind: str, at: tuple[int, int], start: int, time: int, **facts: Any) -> Event:
    """A complete event on track ``at`` (process, thread); ``args`` have the exact ns and ``facts``."""
    args = {"start_ns": start, "ns": time, **facts}
    return {"ph": "X", "name": name, "cat": kind, "pid": at[0], "tid": at[1], "ts": microseconds(start),
            "dur": microseconds(time), "args": args}  # fmt: skip


def arrow(name: str, key: str, begins: tuple[int, int, int], ends: tuple[int, int, int]) -> Iterator[Event]:
    """An arrow between events: (process, thread, ns) within the one and where the other begins."""
    common = {"name": name, "cat": name, "id": key}
    yield {**common, "ph": "s", "pid": begins[0], "tid": begins[1], "ts": microseconds(begins[2])}
    yield {**common, "ph": "f", "bp": "e", "pid": ends[0], "tid": ends[1], "ts": microseconds(ends[2])}


def counter(name: str, process: int, at: int, **values: float) -> Event:
    """The values of a curve from ``at`` ns on."""
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": microseconds(at), "args": values}


def trace(events: Iterable[Event], told: dict[str, Any] | None = None) -> bytes:
    """The file; ``told``: what is said of the run that it is from."""
    more = {"otherData": told} if told else {}
    return msgspec.json.encode({"traceEvents": list(events), "displayTimeUnit": "ns", **more}) + b"\n"
