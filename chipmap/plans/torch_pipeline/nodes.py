"""Which mappings are pipelines of an exported program, and how operations lead back to its nodes."""

from __future__ import annotations

from typing import Any

from chipmap.plans.stages import stages_of
from chipmap.records import InputError, Record

#: What the name of an operation ends in after its node's, where a transform made it.
COPY, RELAY = "@", "/relay"


def node_of(name: str) -> str:
    """The node of the program that an operation is, or is a copy of; "" for a relay."""
    return "" if RELAY in name else name.partition(COPY)[0]


def from_torch(instance: Any) -> bool:
    """Whether the instance's graph was read from a program of torch.export."""
    return bool(instance.graph.source.startswith("torch.export"))


def unsuited(instance: Record, solution: Record | None) -> str | None:
    """Why a mapping is no pipeline of an exported program; None: it is one."""
    graph = getattr(instance, "graph", None)
    if graph is None or not from_torch(instance):
        return "the instance isn't converted from a program of torch.export (.pt2)"
    if getattr(instance, "backward", ()):
        why = "it is a training step, whose backward pass PyTorch makes itself"
        return f"{why}; convert the program without --training, and solve that"
    split = next((o.name for o in graph.operations if o.role == "compute" and "/" in node_of(o.name)), "")
    if split:
        return f"operation {split!r} is a part of an operator, and operators run whole"
    if solution is None:
        return None
    try:
        stages_of(instance, solution)
    except InputError as error:
        return error.what
    return None
