"""The records of family ``dataflow``: what is mapped on what, what is asked, and a mapping.

The problem is stated in ``docs/families/dataflow.md``.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import ClassVar, Literal, Self

import msgspec

from chipmap.instances.dataflow.batch_checks import (
    check_divided,
    check_keep,
    check_optimizer,
    check_peaks,
    check_recompute,
    check_rounds,
    check_schedule,
    check_shard,
    check_stages,
    check_tensor,
    check_uneven,
    divides_experts,
    stages_of_kernels,
)
from chipmap.instances.dataflow.degrees import PARALLELISMS as PARALLELISMS
from chipmap.instances.dataflow.degrees import Degrees as Degrees
from chipmap.instances.dataflow.degrees import Parallelism as Parallelism
from chipmap.instances.dataflow.migrated import migrated
from chipmap.instances.dataflow.pins import Forbidden as Forbidden
from chipmap.instances.dataflow.pins import Pin as Pin
from chipmap.instances.dataflow.pins import check_pins
from chipmap.instances.dataflow.plan import KEEPS as KEEPS
from chipmap.instances.dataflow.plan import SHARDS as SHARDS
from chipmap.instances.dataflow.plan import BatchPlan as BatchPlan
from chipmap.instances.dataflow.plan import Keep as Keep
from chipmap.instances.dataflow.plan import Recompute as Recompute
from chipmap.instances.dataflow.plan import Shard as Shard
from chipmap.instances.dataflow.stage_groups import AskedStage as AskedStage
from chipmap.instances.dataflow.stage_groups import GroupStage as GroupStage
from chipmap.instances.dataflow.system import System
from chipmap.instances.dataflow.unequal_checks import check_unequal
from chipmap.instances.dataflow.workload import Scheme, Workload
from chipmap.instances.optimizer import Optimizer, per_parameter
from chipmap.instances.spread import check_spread
from chipmap.records import InputError, Record, counted

CostMode = Literal["physical", "dfmodel"]
Purpose = Literal["training", "prefill", "decode"]
Stages = Literal["layers", "kernels"]
Schedule = Literal["1f1b", "interleaved", "interleaved-lean", "zb-h1", "dualpipe-v"]
#: Schedules in which a stage is several chunks of the network.
INTERLEAVED: tuple[Schedule, ...] = ("interleaved", "interleaved-lean")
#: Weight updates may run later than the rest of a backward pass.
LATE: tuple[Schedule, ...] = ("zb-h1", "dualpipe-v")
#: Micro-batches that a solve chooses from at most: the divisors of a batch.
MOST_MICRO_BATCHES = 100


class Task(Record, frozen=True, kw_only=True):
    """What is asked of the mapping.

    A ``batch`` is run in micro-batches of ``micro_batch`` samples per replica (null: as many as is best, page,
    "Micro-batches"). ``purpose`` says whether DRAM holds
    gradients and optimiser state (``training``), and ``decode`` reads weights from DRAM in mode ``dfmodel`` too;
    ``optimizer_bytes`` of state per parameter (null: 12 in mode ``physical``, Adam's in mixed precision, none in mode
    ``dfmodel``), or those of an ``optimizer``: numbers of ``state_bytes`` each, with ``master_weights`` four more.
    ``recompute`` runs forward kernels once more in the backward phase instead of keeping what they made: all (``full``,
    true), those that ``selective`` names, or none (false), or what is best of these (null) (page, "Recomputation").
    ``overlap``: a partition takes the most of compute, memory and network, else their sum.
    ``utilisation`` is the share of the peak that compute reaches (null: kernels share tiles, by cycles).
    ``all_reduce_factor`` multiplies an all-reduce in mode ``dfmodel`` (published runs use 2; mode ``physical`` always
    does). ``partitions`` is the most partitions per phase (null: any number), all of which must be used where
    ``exactly`` says so. ``across_layers`` lets a partition reach over the end of a layer. ``tile_tokens`` tokens stream
    through a chip at a time. Each group of ``together`` lies in one partition that holds no kernel of another group, no
    two kernels of a group of ``apart`` in one. ``pins`` and ``forbidden`` name partitions, by their place among those
    of a phase (page, C5). ``schemes`` pins the sharding of the kernels that it names. ``stages`` says what the stages
    of a pipeline share out: equal numbers of whole layers, or the kernels of all layers, as the mapping likes (page,
    "Stages of kernels"). ``schedule`` is the order in which a stage of layers runs micro-batches: one forward, one
    backward; interleaved, where a stage is ``chunks`` parts of the network (null: as many as is best), or the same with
    fewer passes ahead (``interleaved-lean``); or with weight updates late, where a stage would wait (``zb-h1``), or two
    passes at once (``dualpipe-v``; page, "Schedules of a pipeline"). ``shard`` is what replicas share out: the
    optimiser's state (ZeRO-1), its gradients too (ZeRO-2), or weights as well (ZeRO-3, FSDP; true), or none of these
    (false); null: what is best. ``optimizer_step`` counts what the step moves through DRAM (page, "Training").
    ``expert_load``: where chips have experts of their own, the tokens of the fullest one over the mean (page,
    "Parallelism"). ``overlap_gradients``: sums over replicas run behind the last micro-batch's backward pass (page,
    "Training"). ``keep`` says until when a layout that a reader paid for is there for later readers: the end of its
    partition, of its phase, or of the step; null: what is best (page, "Exchanges"). ``stage_layers`` are the layers of
    each chunk of the pipeline, in the order of the network; null: as is best; empty: equally many (page, "Uneven
    stages"). ``tensor_dimensions`` is the most network dimensions of tensor parallelism (page, "Tensor parallelism over
    several dimensions"). ``stage_groups`` say of each stage which group of unequal chips runs it, in their
    order (empty: as is best; page, "Unequal chips"). ``in_flight`` says that all layers are one stage of such a
    pipeline in training, which holds the saved tensors of so many micro-batches (same page, "A stage by itself").
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "overlap",
        "recompute",
        "optimizer_bytes",
        "stages",
        "schedule",
        "chunks",
        "selective",
        "shard",
        "optimizer_step",
        "expert_load",
        "overlap_gradients",
        "optimizer",
        "state_bytes",
        "master_weights",
        "keep",
        "pins",
        "forbidden",
        "apart",
        "stage_layers",
        "tensor_dimensions",
        "stage_groups",
        "in_flight",
    )

    purpose: Purpose = "training"
    batch: int = 1
    micro_batch: int | None = None
    utilisation: float | None = 0.9
    all_reduce_factor: int = 1
    degrees: Degrees | None = None
    partitions: int | None = None
    exactly: bool = False
    across_layers: bool = False
    tile_tokens: int = 1
    fused: bool = True
    together: tuple[tuple[str, ...], ...] = ()
    schemes: dict[str, Scheme] = {}
    overlap: bool = True
    recompute: bool | Recompute | None = False
    optimizer_bytes: int | None = None
    stages: Stages = "layers"
    schedule: Schedule = "1f1b"
    chunks: int | None = None
    selective: tuple[str, ...] = ()
    shard: bool | Shard | None = False
    optimizer_step: bool = False
    expert_load: float = 1.0
    overlap_gradients: bool = False
    optimizer: Optimizer | None = None
    state_bytes: int = 4
    master_weights: bool = True
    keep: Keep | None = None
    pins: tuple[Pin, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    stage_layers: tuple[int, ...] | None = ()
    tensor_dimensions: int = 1
    stage_groups: tuple[AskedStage, ...] = ()
    in_flight: int | None = None

    @property
    def state_per_parameter(self) -> int | None:
        """Bytes of the optimiser's state per parameter; None where nothing is said of it."""
        if self.optimizer is None:
            return self.optimizer_bytes
        return per_parameter(self.optimizer, self.state_bytes, self.master_weights)

    @property
    def samples(self) -> int:
        """Samples of a micro-batch. Raises :class:`InputError` where they are still to be chosen."""
        if self.micro_batch is None:
            raise InputError("isn't chosen yet", "task.micro_batch", "Give it, or take the instance `settled` on one.")
        return self.micro_batch

    @property
    def recomputed(self) -> Recompute:
        """Which forward kernels run again. Raises :class:`InputError` where that is still to be chosen."""
        if self.recompute is None:
            raise InputError("isn't chosen yet", "task.recompute", "Give it, or take the instance `settled` on one.")
        return self.recompute if isinstance(self.recompute, str) else ("full" if self.recompute else "none")

    @property
    def sharded(self) -> Shard:
        """What replicas share out. Raises :class:`InputError` where that is still to be chosen."""
        if self.shard is None:
            raise InputError("isn't chosen yet", "task.shard", "Give it, or take the instance `settled` on one.")
        return self.shard if isinstance(self.shard, str) else ("weights" if self.shard else "none")

    @property
    def parts(self) -> int:
        """Chunks of a stage. Raises :class:`InputError` where they are still to be chosen."""
        if self.schedule not in INTERLEAVED:
            return 1
        if self.chunks is None:
            raise InputError("isn't chosen yet", "task.chunks", "Give it, or take the instance `settled` on one.")
        return self.chunks

    @property
    def plan(self) -> BatchPlan:
        """How the batch is run, all of it chosen."""
        return BatchPlan(self.samples, self.parts, self.recomputed, self.sharded, self.keep, self.stage_layers or None)

    @property
    def uneven(self) -> bool:
        """Whether stages may have unequal numbers of layers."""
        return self.stage_layers != ()


class DataflowInstance(Record, frozen=True, kw_only=True):
    """One problem: a workload, a system, what is asked, and how costs are counted (page, "Cost modes").

    ``time_spread``: nine of ten measured steps lie between these two factors of one by learned times (empty: not
    learned).
    """

    schema: Literal["dataflow/2"] = "dataflow/2"
    name: str
    workload: Workload
    system: System
    task: Task = Task()
    mode: CostMode = "physical"
    notes: str = ""
    time_spread: tuple[float, ...] = ()

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("time_spread",)

    @classmethod
    def from_json(cls, data: bytes | str, where: str = "") -> Self:
        """The instance that ``data`` holds; a file of ``dataflow/1`` is read as what it meant (:func:`migrated`)."""
        return super().from_json(migrated(data), where)

    def hashed_as(self) -> Self:
        """``dataflow/1`` could state all instances but those without a micro-batch, which keep their hashes; names of
        axes and of what is counted decide nothing, nor in mode ``dfmodel`` what exchanges of mode ``physical`` follow
        from."""
        schema = "dataflow/2" if self.task.micro_batch is None else "dataflow/1"
        kernels = self.workload.kernels
        if self.mode == "dfmodel":
            kernels = tuple(one.published() for one in kernels)
        workload = msgspec.structs.replace(self.workload, counted="tokens", kernels=kernels, axes={})
        return msgspec.structs.replace(self, schema=schema, workload=workload)

    @property
    def mapped_layers(self) -> int:
        """Layers that a mapping is of: all in a row where partitions reach across, else one that stands for all."""
        return self.workload.layers if self.task.across_layers else 1

    @property
    def asked(self) -> tuple[int | None, bool, bool]:
        """The most partitions per phase or stage (None: any number), whether exactly so many, and whether kernels are
        fused (else each is a partition, and no number is asked for)."""
        fused = self.task.fused and self.system.chip.fused
        return self.task.partitions if fused else None, self.task.exactly and fused, fused

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude."""
        self.workload.check()
        self.system.check()
        check_spread(self.time_spread)
        task = self.task
        for field in ("batch", "micro_batch", "all_reduce_factor", "tile_tokens"):
            value = getattr(task, field)
            if value is not None and not 1 <= value <= 10**9:
                raise InputError(f"is {value:,}", f"task.{field}", f"Give 1 to {10**9:,}.")
        if task.micro_batch is None and (count := len(divisors(task.batch))) > MOST_MICRO_BATCHES:
            what = f"isn't given, and a batch of {task.batch:,} has {count} divisors to choose from"
            raise InputError(what, "task.micro_batch", f"Give one, or a batch with at most {MOST_MICRO_BATCHES}.")
        if task.utilisation is not None and not 1e-9 <= task.utilisation <= 1:
            raise InputError(f"is {task.utilisation}", "task.utilisation", "Give 1e-9 to 1.")
        check_peaks(self)
        if task.utilisation is None and not task.overlap:
            what = "is null, so that kernels share tiles, but compute doesn't overlap"
            raise InputError(what, "task.utilisation", "Give a share, or set task.overlap.")
        if task.partitions is not None and task.partitions < 1:
            raise InputError(f"is {task.partitions}", "task.partitions", "Give 1 or more, or null.")
        if task.exactly and task.partitions is None:
            raise InputError("exactly, but no number of partitions is given", "task.exactly", "Set task.partitions.")
        if task.optimizer_bytes is not None and not 0 <= task.optimizer_bytes <= 10**6:
            remedy = f"Give 0 to {10**6:,} bytes, or null."
            raise InputError(f"is {task.optimizer_bytes}", "task.optimizer_bytes", remedy)
        check_optimizer(self)
        if not 1 <= task.expert_load <= 10_000:
            raise InputError(f"is {task.expert_load}", "task.expert_load", "Give 1 (all chips alike) to 10,000.")
        check_tensor(self)
        check_recompute(self)
        check_pins(self)
        if task.stages == "kernels":
            check_stages(self)
        check_schedule(self)
        check_uneven(self)
        check_shard(self)
        check_keep(self)
        check_unequal(self)
        if task.degrees is not None:
            check_degrees(self, task.degrees)


def check_degrees(instance: DataflowInstance, degrees: Degrees, where: str = "task.degrees") -> None:
    """Raise :class:`InputError` unless ``degrees`` fit the network's dimensions and the layers and batch."""
    network, task = instance.system.network, instance.task
    if len(degrees.dimensions) != len(network):
        what = f"names {counted(len(degrees.dimensions), 'dimension')}, the network has {len(network)}"
        remedy = "Say for each dimension whether it is tensor, pipeline or data."
        raise InputError(what, f"{where}.dimensions", remedy)
    if degrees.dimensions.count("pipeline") > 1:
        what = "gives the pipeline two dimensions"
        raise InputError(what, f"{where}.dimensions", "Only tensor, data and expert may have more than one.")
    if (several := degrees.dimensions.count("tensor")) > task.tensor_dimensions:
        what = f"gives tensor {several} dimensions; task.tensor_dimensions is {task.tensor_dimensions}"
        raise InputError(what, f"{where}.dimensions", f"Give fewer, or set task.tensor_dimensions to {several}.")
    if "expert" in degrees.dimensions and not divides_experts(instance):
        what = "gives experts a dimension, but no kernel names scheme E"
        raise InputError(what, f"{where}.dimensions", "Say data instead, or name E in the schemes of expert kernels.")
    for field, held in Degrees.held([one.size for one in network], degrees.dimensions).items():
        if held != getattr(degrees, field):
            what = f"is {getattr(degrees, field)}, but its dimensions hold {held} chip{'s' * (held > 1)}"
            shape = " x ".join(str(dimension.size) for dimension in network)
            remedy = f"Give {held}, or other dimensions: the network is {shape}."
            raise InputError(what, f"{where}.{field}", remedy)
    check_divided(instance, degrees, where)
    chunks = task.chunks or 1
    if task.stages == "layers" and task.across_layers and degrees.pipeline > 1:
        what = f"is {degrees.pipeline}, but partitions reach across layers"
        kernels = f"{staged}, or " if (staged := stages_of_kernels(instance)) else ""
        remedy = f"Set {kernels}task.across_layers to false, or use no pipeline."
        raise InputError(what, f"{where}.pipeline", remedy)
    each = task.micro_batch or 1
    samples = degrees.data * each
    if task.batch % samples:
        replicas = f"{degrees.data} replicas of " if degrees.data > 1 else ""
        what = f"{replicas}micro-batches of {each} don't divide a batch of {task.batch}"
        more = -(-task.batch // samples) * samples
        remedy = f"Give a batch that is a multiple of {samples:,}, such as {more:,}."
        raise InputError(what, f"{where}.data", remedy)
    check_rounds(task, degrees, where)
    if chunks > 1 and task.batch // samples % degrees.pipeline and task.micro_batch is not None:
        what = f"has {counted(task.batch // samples, 'micro-batch', 'micro-batches')} of a replica, interleaved"
        remedy = f"Their number must be a multiple of {degrees.pipeline} stages; or set task.chunks to null or 1."
        raise InputError(what, f"{where}.data", remedy)
    if chunks > 1 and task.batch % (samples * degrees.pipeline):
        what = f"no micro-batches of {degrees.data} replicas are a multiple of {degrees.pipeline} stages, interleaved"
        raise InputError(what, f"{where}.data", "Set task.chunks to null or 1, or give a multiple of both as batch.")


@lru_cache(maxsize=256)
def divisors(number: int) -> tuple[int, ...]:
    """The divisors of ``number``, the least first."""
    low = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return (*low, *(number // one for one in reversed(low) if one * one != number))


class DataflowSolution(Record, frozen=True, kw_only=True):
    """A mapping: degrees, a sharding scheme and a partition per kernel, and how a batch is run.

    ``micro_batch``, ``chunks``, ``recompute`` or ``shard`` null: that of the task, which must give one then (one chunk
    where nothing is interleaved). ``keep`` null: the task's, or ``none``.
    ``schemes`` and ``partitions`` have an entry per kernel of the layer (the same in every layer), or, where partitions
    reach across layers, one per layer and kernel (layer by layer). Partitions are numbered in the order in which they
    run. Where stages share out kernels, ``stages`` has the stage of each partition number, from 0 on (empty: all 0).
    ``stage_layers`` are the layers of each chunk, where they aren't equally many. On groups of unequal chips
    ``stage_groups`` says all of each stage, and there are no other schemes and partitions.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "stages",
        "micro_batch",
        "chunks",
        "recompute",
        "shard",
        "keep",
        "stage_layers",
        "stage_groups",
    )

    schema: Literal["dataflow-solution/1"] = "dataflow-solution/1"
    instance: str = ""
    degrees: Degrees
    schemes: tuple[Scheme, ...]
    partitions: tuple[int, ...]
    stages: tuple[int, ...] = ()
    micro_batch: int | None = None
    chunks: int | None = None
    recompute: Recompute | None = None
    shard: Shard | None = None
    keep: Keep | None = None
    stage_layers: tuple[int, ...] = ()
    stage_groups: tuple[GroupStage, ...] = ()

    @property
    def plan(self) -> BatchPlan:
        """How its batch is run, as far as it says."""
        several = self.stage_layers or None
        return BatchPlan(self.micro_batch, self.chunks, self.recompute, self.shard, self.keep, several)


def small(instance: DataflowInstance) -> bool:
    """Whether its kernels run as plain Python: all of the work is less than compiling or loading them."""
    return len(instance.workload.kernels) * instance.workload.layers <= 12 and instance.system.chips <= 16
