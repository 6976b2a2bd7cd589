"""What formats of plans get and give: the options of emitting, what is said of a run, and a plan that was read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import msgspec

from chipmap.family import Family
from chipmap.provenance import __version__
from chipmap.records import Record, natural
from chipmap.result import Result


class PlanData(Record, frozen=True, kw_only=True):
    """What is said of a run in each plan that it emits. ``objective`` and ``bound`` are in ``unit``.

    ``graph`` is the hash of the instance's graph (empty: it has none), so that other costs of the same network are told
    from another network.
    """

    schema: Literal["plan/1"] = "plan/1"
    format: str = ""
    family: str = ""
    instance: str = ""
    instance_hash: str = ""
    graph: str = ""
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    unit: str = ""
    status: str = ""
    chipmap: str = ""

    @classmethod
    def of(cls, result: Result, instance: Record, family: Family, name: str) -> Self:
        """What is said of a result in format ``name``."""
        unit = family.units_of(instance).objective
        return cls(
            format=name,
            family=family.name,
            instance=result.instance,
            instance_hash=instance.content_hash,
            graph=graph_hash(instance),
            objective=natural(result.objective, unit.per_tick),
            bound=natural(result.bound, unit.per_tick),
            gap=result.gap,
            unit=unit.name,
            status=result.status,
            chipmap=__version__,
        )

    @classmethod
    def within(cls, data: bytes) -> Self | None:
        """What a file says of the run that it is from, wherever in it (a comment, a field of JSON); None: nothing."""
        text = data.decode(errors="replace")
        found = re.search(r'\{\s*"schema"\s*:\s*"plan/1"', text)
        if found is None:
            return None
        try:
            plain, _ = json.JSONDecoder().raw_decode(text, found.start())
            return msgspec.convert(plain, cls)
        except (ValueError, RecursionError, msgspec.ValidationError):
            return None

    @property
    def line(self) -> str:
        """It as one line of JSON, for a comment."""
        return self.to_json().decode()


def graph_hash(instance: Record) -> str:
    """The hash of the graph of an instance; empty where it has none."""
    for name in ("graph", "workload"):
        if isinstance(graph := getattr(instance, name, None), Record):
            return graph.content_hash
    return ""


@dataclass(frozen=True)
class EmitOptions:
    """What a format is given beside instance and solution: the ``model``'s file (empty: none), and what is said of the
    run."""

    model: str = ""
    told: PlanData = field(default_factory=PlanData)


@dataclass(frozen=True)
class Plan:
    """A plan that was read, for one instance.

    ``solution``: a mapping that keeps to the plan, where it says so much. ``pinned``: where it leaves something open,
    the instance whose mappings are those of the instance that keep to it (one of the two is there, or both).
    ``covered``: how much it says, in words (``"12 of 40 operations"``); ``left``: the first thing that it leaves open
    (``"operation 'a' is on no chip"``). ``notes``: what was assumed, as sentences. ``finish``: (a mapping of
    ``pinned``) -> that of the instance, where they differ in what they say. ``places``: thing -> place, where that is
    all that the plan says.
    """

    solution: Any = None
    pinned: Any = None
    covered: str = ""
    left: str = ""
    notes: tuple[str, ...] = ()
    finish: Callable[[Any], Any] | None = None
    places: Mapping[str, Any] | None = None
