"""What the shipped sweeps are made of: choices, networks with their degrees, whole sweeps as JSON has them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from chipmap.instances.dataflow.systems import LINKS
from chipmap.instances.dataflow.workloads.gpt import GPT

Json = dict[str, Any]
#: No tensor or weight is too large for chips that run kernel by kernel: they read operands tile by tile as they go.
TILED = 10**15
TOPOLOGIES = {
    "2D torus": ("ring", "ring"),
    "3D torus": ("ring", "ring", "ring"),
    "dragonfly": ("full", "full"),
    "DGX-1": ("ring", "switch"),
    "DGX-2": ("switch", "switch"),
}


def sweep(notes: str, axes: dict[str, list[Json]], generator: str | None = None, **parameters: Any) -> Json:
    """A sweep over ``axes`` (name -> choices); one sample at a time where neither these nor ``parameters`` say
    otherwise."""
    named = [{"name": name, "choices": choices} for name, choices in axes.items()]
    own = {"micro_batch": 1, **parameters} if parameters else {}
    return {"schema": "sweep/1", "notes": notes, "generator": generator, "parameters": own, "axes": named}


def choice(label: str, changes: Json | None = None, generator: str | None = None, **parameters: Any) -> Json:
    """A choice of an axis; ``changes`` are those of the finished instance."""
    return {"label": label, "generator": generator, "parameters": parameters, "set": changes or {}}


def gpt(name: str, **parameters: Any) -> Json:
    """Parameters of a GPT of ``GPT``, and others."""
    return {**dict(zip(("hidden", "heads", "layers"), GPT[name], strict=True)), **parameters}


def networks(*sizes: list[int], uses: Sequence[str] = (), uplinks: dict[str, float] | None = None) -> list[Json]:
    """The networks of ``TOPOLOGIES`` with these sizes.

    ``uses`` gives the dimensions their parallelism, the first one first. ``uplinks`` (by label) are the GB/s of the
    links of the second dimension, where they aren't those of the first.
    """
    found = []
    for (label, topology), own in zip(TOPOLOGIES.items(), sizes, strict=True):
        parameters: Json = {"sizes": own, "topology": list(topology)}
        if uses:
            names = list(uses[: len(own)])
            held = {name: prod(n for n, its in zip(own, names, strict=True) if its == name) for name in names}
            parameters["degrees"] = {**held, "dimensions": names}
        rate = (uplinks or {}).get(label)
        link = {"bytes_per_ns": rate, "watts_per_gbps": LINKS["pcie"][2]} if rate else {}
        found.append(choice(label, {f"system.network.1.{name}": value for name, value in link.items()}, **parameters))
    return found
