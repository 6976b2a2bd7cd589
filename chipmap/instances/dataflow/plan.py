"""How a batch is run: what a task may leave open, and a mapping states."""

from __future__ import annotations

from typing import Literal, NamedTuple

from chipmap.records import counted

Recompute = Literal["none", "selective", "full"]
Shard = Literal["none", "optimizer", "gradients", "weights"]
Keep = Literal["none", "phase", "step"]
SHARDS: tuple[Shard, ...] = ("none", "optimizer", "gradients", "weights")
KEEPS: tuple[Keep, ...] = ("none", "phase", "step")


class BatchPlan(NamedTuple):
    """How a batch is run at given degrees: samples of a micro-batch, chunks of a stage, what is recomputed, what
    replicas share out, how long layouts are kept, and the layers of each chunk (None: as the task has it)."""

    micro_batch: int | None = None
    chunks: int | None = None
    recompute: Recompute | None = None
    shard: Shard | None = None
    keep: Keep | None = None
    stage_layers: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """This in words."""
        chunks = f", {counted(self.chunks, 'chunk')} per stage" if self.chunks is not None else ""
        again = f", {'no' if self.recompute == 'none' else self.recompute} recomputation" if self.recompute else ""
        shared = f", {'nothing' if self.shard == 'none' else self.shard} shared out" if self.shard else ""
        kept = f", layouts kept for {'no other partition' if self.keep == 'none' else f'the {self.keep}'}"
        layers = f", layers {', '.join(map(str, self.stage_layers))}" if self.stage_layers else ""
        return f"micro-batch {self.micro_batch}{chunks}{again}{shared}{kept if self.keep else ''}{layers}"
