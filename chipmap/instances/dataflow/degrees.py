"""How many chips a mapping of family ``dataflow`` gives to each kind of parallelism, and along which dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, Literal

from chipmap.instances.dataflow.system import Dimension, System
from chipmap.records import Record

Parallelism = Literal["tensor", "pipeline", "data", "expert"]
PARALLELISMS: tuple[Parallelism, ...] = ("tensor", "pipeline", "data", "expert")


class Degrees(Record, frozen=True, kw_only=True):
    """How many chips share a layer's tensors, how many stages a pipeline has, how many replicas there are.

    ``dimensions`` says which parallelism each network dimension carries: the pipeline one at most, tensor as many as
    the task allows, data and expert any number. A parallelism of degree 1 may have none. ``data`` counts all replicas;
    ``expert`` of them, those along the dimensions of that name, share the experts of kernels with scheme E (page,
    "Parallelism").
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("expert",)

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    dimensions: tuple[Parallelism, ...] = ()
    expert: int = 1

    @property
    def text(self) -> str:
        """The degrees in words."""
        shared = f" ({self.expert} share experts)" if self.expert > 1 else ""
        return f"tensor {self.tensor}, pipeline {self.pipeline}, data {self.data}{shared}"

    def carrying(self, system: System, *uses: Parallelism) -> list[Dimension]:
        """The network dimensions of ``system`` that carry one of these parallelisms."""
        return [one for one, use in zip(system.network, self.dimensions, strict=True) if use in uses]

    def alike(self, scheme: str) -> Degrees:
        """These degrees with only those replicas counted that hold the same parameters of a kernel: where experts are
        divided (E), those that don't share them, else all."""
        if self.expert == 1:
            return self
        if scheme == "E":
            return self.replace(data=self.data // self.expert, expert=1)
        return self.replace(dimensions=["data" if use == "expert" else use for use in self.dimensions], expert=1)

    @staticmethod
    def held(sizes: Sequence[int], uses: Sequence[Parallelism]) -> dict[str, int]:
        """The degrees that dimensions of these sizes hold: replicas along those of data and of expert."""
        by: dict[str, int] = {
            kind: prod(s for s, use in zip(sizes, uses, strict=True) if use == kind) for kind in PARALLELISMS
        }
        return {**by, "data": by["data"] * by["expert"]}
