"""Stages of a pipeline on groups of unequal chips: what a task asks of them, and what a mapping states."""

from __future__ import annotations

from typing import ClassVar

from chipmap.instances.dataflow.plan import Keep, Recompute
from chipmap.instances.dataflow.workload import Scheme
from chipmap.records import Record


class AskedStage(Record, frozen=True, kw_only=True):
    """A stage that runs on chips of ``group``: so many of them, with so many layers (null: as is best)."""

    group: str
    tensor: int | None = None
    layers: int | None = None


class GroupStage(Record, frozen=True, kw_only=True):
    """A stage: ``tensor`` chips of ``group`` run ``layers`` layers, all by the same schemes and partitions.

    ``keep`` and ``recompute`` null: those of the task.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("recompute",)

    group: str
    tensor: int
    layers: int
    schemes: tuple[Scheme, ...]
    partitions: tuple[int, ...]
    keep: Keep | None = None
    recompute: Recompute | None = None
