"""What strings of runtimes say of a mapping: where the layers run, in how many parts, and how a batch is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipmap.instances.dataflow.instance import Recompute, Shard
from chipmap.records import counted


@dataclass(frozen=True)
class LayerPlan:
    """A plan of layers.

    ``chunks``: the parts of the network in its order, each as symbols of a layout (:mod:`.strings`); chunk i runs on
    stage i mod ``stages``. Empty: every stage has equally many layers. ``tensor``: chips that share a layer by rows or
    heads; ``context``: those that share it by tokens; ``data`` replicas, of which ``expert`` share experts (None of
    each: not said). ``parts``: chunks of a stage. ``names``: the stages' devices, where they have names.
    """

    stages: int = 1
    chunks: tuple[str, ...] = ()
    parts: int = 1
    tensor: int = 1
    context: int = 1
    data: int | None = None
    expert: int | None = None
    micro_batch: int | None = None
    batch: int | None = None
    recompute: Recompute | None = None
    shard: Shard | None = None
    names: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Transformer layers in all."""
        return sum(chunk.count("t") for chunk in self.chunks)

    @property
    def text(self) -> str:
        """The plan in words."""
        counts = [chunk.count("t") for chunk in self.chunks]
        each = ", ".join(map(str, counts[:16])) + (", ..." if len(counts) > 16 else "")
        each = f"{counts[0]}" if len(set(counts)) == 1 else each
        stages = counted(self.stages, "stage") + (f" of {each} layers" if counts else "")
        return f"{stages}, tensor {self.tensor}" + (f", context {self.context}" if self.context > 1 else "")


def even(layers: int, stages: int, parts: int = 1) -> tuple[str, ...]:
    """The chunks of a network whose stages, and their parts, have equally many layers."""
    return chunks_of([layers // (stages * parts)] * (stages * parts))


def chunks_of(counts: Sequence[int]) -> tuple[str, ...]:
    """The chunks with so many layers each, the embedding in the first, the loss in the last."""
    chunks = ["t" * count for count in counts]
    chunks[0] = f"E{chunks[0]}"
    chunks[-1] += "L"
    return tuple(chunks)


def rounds(places: Sequence[str | int]) -> tuple[str | int, ...] | None:
    """The stages, in order, where chunks on these places take turns: each place once per round; None: they don't."""
    stages = tuple(dict.fromkeys(places))
    whole = len(places) % len(stages) == 0
    return stages if whole and list(places) == list(stages) * (len(places) // len(stages)) else None
