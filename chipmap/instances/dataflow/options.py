"""What each kernel costs on one chip under each of its sharding schemes: picoseconds and bytes.

The formulas are those of ``docs/families/dataflow.md``; every one of these numbers is rounded up once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import msgspec

from chipmap.deadline import look
from chipmap.instances.dataflow.batch import (
    cache_bytes,
    gradient_ns,
    hop_ns,
    in_flight,
    kept_bytes,
    layer_sums_ns,
    layers_per_stage,
    link_ns,
    micro_batches,
    parameter_bytes,
    roles,
    waits_in_dram,
)
from chipmap.instances.dataflow.blocks import block_flop, in_blocks, product_sizes
from chipmap.instances.dataflow.instance import LATE, DataflowInstance, Degrees
from chipmap.instances.dataflow.parts import Parts, parts
from chipmap.instances.dataflow.plans import shared_by_plans
from chipmap.instances.dataflow.rates import dram_rate, efficiency, fetch_rate, peak
from chipmap.instances.dataflow.replicas import scattered_ns, shared, step_ns
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import (
    SUMMED,
    exchange_ns,
    published_exchange_ns,
    refuse_scheme,
    schemes,
)
from chipmap.instances.dataflow.sizes import (
    chip_weights,
    exchange_bytes,
    fetch_bytes,
    flop,
    output_bytes,
    read_weights,
)
from chipmap.instances.dataflow.summed import sums_ns
from chipmap.instances.dataflow.tiles import least_area, shares
from chipmap.instances.dataflow.uneven import Held, with_more
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records.decimals import exact

#: Picoseconds per nanosecond.
TICKS_PER_NS = 1000
Value = TypeVar("Value")


class Option(NamedTuple):
    """A kernel under one scheme, on one chip: picoseconds and bytes.

    ``compute`` adds up within a partition; where tiles are shared (no utilisation is given) it is a lower bound that
    does: tiles · time at best, over all tiles. ``stream`` reads its weights and what it fetches from DRAM, ``fetch`` (a
    part of it) the latter alone; ``dram`` moves its output once. ``kept`` bytes stay in DRAM, ``waits`` are those of
    the output while it waits there (both 0 without a capacity); ``hop`` is sent to the next stage per micro-batch,
    ``gradient`` summed over replicas per batch, or ``summed`` per layer where that runs behind the backward pass,
    ``step`` spent on the optimiser's step; ``link`` sends the output from a stage to the next where stages share out
    kernels. ``weights``, ``cache``: bytes of these in SRAM. ``kept_by``: those kept in other stages of unequal ones, or
    at other moments where updates run late.
    """

    scheme: Scheme
    compute: int
    collective: int
    stream: int
    weights: int
    output: int
    dram: int
    buffer: int
    kept: int
    waits: int
    hop: int
    gradient: int
    fetch: int = 0
    cache: int = 0
    link: int = 0
    step: int = 0
    summed: int = 0
    kept_by: tuple[int, ...] = ()

    @property
    def spared(self) -> int:
        """What weights that stay in SRAM save."""
        return self.stream - self.fetch

    @property
    def after(self) -> int:
        """Picoseconds per batch after its last micro-batch."""
        return self.gradient + self.step


def ticks_of(nanoseconds: Fraction) -> int:
    """Whole picoseconds, rounded up."""
    return math.ceil(nanoseconds * TICKS_PER_NS)


class _Alone(NamedTuple):
    """What a kernel comes to under a scheme in a group of chips, whatever other chips there are: its shares, bytes of
    its whole output and of that, its weights and parameters on a chip; and the fields of its option."""

    here: Parts
    whole: Fraction
    output: Fraction
    parameters: Fraction
    compute: int
    stream: int
    fetch: int
    weights: int
    dram: int
    buffer: int


class _Sent(NamedTuple):
    """Fields of an option that the network decides, before replicas share out anything."""

    collective: int
    hop: int
    link: int


class _Shared(NamedTuple):
    """Fields of an option that depend on what replicas share out; ``scattered`` is a part of its collectives."""

    scattered: int
    gradient: int
    step: int
    summed: int


def all_options(
    instance: DataflowInstance, degrees: Degrees, held: tuple[Held, ...] = ()
) -> tuple[tuple[Option, ...], ...]:
    """The options of every kernel, alike where only names differ, and for plans that differ in ``keep``."""
    task, made = instance.task, shared_by_plans(instance).setdefault("all options", {})
    at = degrees, task.samples, task.chunks, task.recompute, task.shard, task.stage_layers
    if at not in made:
        made[at] = with_more(_all_options(instance, degrees, held), held)
    found: tuple[tuple[Option, ...], ...] = made[at]
    return found


def _all_options(
    instance: DataflowInstance, degrees: Degrees, held: tuple[Held, ...]
) -> tuple[tuple[Option, ...], ...]:
    known: dict[tuple[object, ...], tuple[Option, ...]] = {}
    found, role, pinned = [], roles(instance), instance.task.schemes
    ahead = in_flight(instance, degrees).as_integer_ratio()
    for kind, kernel in zip(kinds(instance), instance.workload.kernels, strict=True):
        name = kernel.name
        own = name in role.kept, name in role.again, name in role.updated_by, role.carried.get(name, 0)
        apart = name in role.added, bool(kernel.parameters_of), name in role.handed
        key = kind, pinned.get(name), *own, *apart
        if key not in known:
            known[key] = _Options(instance, degrees, kernel, (kind, *apart), ahead, held).listed()
        found.append(known[key])
    return tuple(found)


def kinds(instance: DataflowInstance) -> list[int]:
    """For each kernel a number; kernels that differ in nothing but their names have the same."""
    kept = shared_by_plans(instance)
    if "kinds" not in kept:
        numbers = dict[Kernel, int]()
        # of the kernels that one names, no number of its own depends on which they are
        nameless = (
            msgspec.structs.replace(one, name="", operand="named" if one.operand else "", adds=(), parameters_of="")
            for one in instance.workload.kernels
        )
        kept["kinds"] = [numbers.setdefault(one, len(numbers)) for one in nameless]
    found: list[int] = kept["kinds"]
    return found


class _Options:
    """The options of a kernel at degrees and by a plan.

    Choices of degrees and plans share most of their numbers. So parts of an option are kept by what decides them, for
    all settled copies of the instance.
    """

    def __init__(
        self,
        instance: DataflowInstance,
        degrees: Degrees,
        kernel: Kernel,
        kind: tuple[int, bool, bool, bool],
        ahead: tuple[int, int],
        stages: tuple[Held, ...],
    ) -> None:
        self.instance, self.degrees, self.kernel, self.stages = instance, degrees, kernel, stages
        self.known: dict[tuple[object, ...], Any] = shared_by_plans(instance).setdefault("options", {})
        self.role, self.layers = roles(instance), layers_per_stage(instance, degrees)
        self.of = *kind, instance.task.samples, instance.task.stage_layers
        self.replicas, self.limited = shared(instance, degrees), False
        self.added, self.chips = kind[1], (degrees.tensor, degrees.expert, routed(instance, degrees).last)
        if instance.system.memory.capacity_bytes is not None:
            late = instance.task.schedule in LATE and kernel.name in self.role.updated_by
            self.limited, self.held = True, (kernel.name in self.role.kept, late, *ahead, stages)

    def listed(self) -> tuple[Option, ...]:
        """One for each scheme."""
        instance, kernel = self.instance, self.kernel
        pinned = instance.task.schemes.get(kernel.name)
        if pinned is not None:
            refuse_scheme(kernel, pinned, instance.mode)
        return tuple(self._option(scheme) for scheme in ((pinned,) if pinned else schemes(kernel, instance.mode)))

    def _option(self, scheme: Scheme) -> Option:
        look()
        degrees, kernel, limited = self.degrees, self.kernel, self.limited
        alone = self._once(self._alone, scheme, *self.chips)
        sent = self._once(self._sent, scheme, degrees, self.role.carried.get(kernel.name, 0))
        replicas = self._once(self._over_replicas, scheme, degrees, self.replicas)
        by = self._once(self._kept, scheme, degrees, self.replicas, *self.held) if limited else (0,)
        return Option(
            scheme=scheme,
            compute=alone.compute,
            collective=sent.collective + replicas.scattered,
            stream=alone.stream,
            weights=alone.weights,
            output=math.ceil(alone.output),
            dram=alone.dram,
            buffer=alone.buffer,
            kept=by[0],
            waits=math.ceil(alone.output) if limited and waits_in_dram(self.instance, kernel) else 0,
            hop=sent.hop,
            gradient=replicas.gradient,
            fetch=alone.fetch,
            cache=self._once(self._cache, scheme, *self.chips, degrees.data),
            link=sent.link,
            step=replicas.step,
            summed=replicas.summed,
            kept_by=by[1:],
        )

    def _once(self, of: Callable[[Scheme], Value], scheme: Scheme, *by: object) -> Value:
        """What ``of`` says, which nothing but these decides beside the kernel and the micro-batch."""
        key = of.__name__, *self.of, scheme, *by
        if key not in self.known:
            self.known[key] = of(scheme)
        found: Value = self.known[key]
        return found

    def _alone(self, scheme: Scheme) -> _Alone:
        instance, degrees, kernel = self.instance, self.degrees, self.kernel
        chip, memory, task = instance.system.chip, instance.system.memory, instance.task
        streamed = instance.mode == "physical" or task.purpose == "decode"
        here = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees))
        whole, weights = output_bytes(kernel, instance), chip_weights(kernel, instance, here.weights)
        if self.added and scheme in SUMMED:  # every chip has its own part of each sum
            here = here._replace(output=Fraction(1))
        output, rate = whole * here.output, dram_rate(memory)
        fetched = fetch_bytes(kernel, instance) * task.samples * here.fetch
        fetch = ticks_of(fetched / fetch_rate(kernel, instance.workload, memory, fetched))
        sharing = degrees.expert if scheme == "E" else 1
        return _Alone(
            here,
            whole,
            output,
            parameter_bytes(kernel, instance, weights, here),
            compute=_compute(instance, degrees, kernel, scheme),
            stream=fetch + (ticks_of(read_weights(kernel, instance, here.weights, sharing) / rate) if streamed else 0),
            fetch=fetch,
            weights=0 if chip.streams else math.ceil(weights),
            dram=ticks_of(output / rate),
            buffer=math.ceil(output * task.tile_tokens / (instance.workload.tokens * task.samples)),
        )

    def _sent(self, scheme: Scheme) -> _Sent:
        instance, degrees = self.instance, self.degrees
        alone = self._once(self._alone, scheme, *self.chips)
        shared = self.added and scheme in SUMMED
        sums = 0 if shared else ticks_of(sums_ns(instance, degrees, self.kernel, scheme))
        return _Sent(
            collective=sums + ticks_of(_exchange(instance, degrees, self.kernel)),
            hop=ticks_of(hop_ns(instance, degrees, self.kernel, alone.output)),
            link=ticks_of(link_ns(instance, degrees, alone.output)),
        )

    def _over_replicas(self, scheme: Scheme) -> _Shared:
        instance, degrees, kernel = self.instance, self.degrees, self.kernel
        alone, alike = self._once(self._alone, scheme, *self.chips), degrees.alike(scheme)
        parameters, output = alone.parameters, alone.output
        return _Shared(
            # a backward kernel gathers what rests of the forward kernel's parameters (resting)
            scattered=ticks_of(scattered_ns(instance, alike, kernel, parameters, output))
            if kernel.update or not kernel.parameters_of
            else 0,
            gradient=ticks_of(gradient_ns(instance, degrees, kernel, scheme, parameters, output)),
            step=ticks_of(step_ns(instance, alike, kernel, parameters, self.layers)),
            summed=ticks_of(layer_sums_ns(instance, degrees, kernel, scheme, output)),
        )

    def _kept(self, scheme: Scheme) -> tuple[int, ...]:
        instance, degrees, kernel = self.instance, self.degrees, self.kernel
        alone = self._once(self._alone, scheme, *self.chips)
        own = alone.parameters, alone.output, alone.here
        stages: list[tuple[int, Fraction, Fraction] | None]
        stages = [(one.layers, one.passes, one.late) for one in self.stages] or [None]
        return tuple(math.ceil(kept_bytes(instance, degrees, kernel, scheme, *own, held)) for held in stages)

    def _cache(self, scheme: Scheme) -> int:
        instance, degrees = self.instance, self.degrees
        alone = self._once(self._alone, scheme, *self.chips)
        return math.ceil(cache_bytes(instance, degrees, self.kernel, alone.here))


def _compute(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme) -> int:
    """Picoseconds of the kernel's FLOP on a chip; without a utilisation a lower bound that adds up."""
    chip, task = instance.system.chip, instance.task
    if task.utilisation is None:
        return least_area(shares(kernel, scheme, instance, degrees), chip.tiles)
    own = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees))
    if in_blocks(kernel, chip):
        last = routed(instance, degrees).last
        work = block_flop(chip, product_sizes(kernel, scheme, own, task.samples, degrees.tensor, last))
    else:
        work = flop(kernel) * task.samples * own.work
        work /= efficiency(kernel, chip, work)
    return ticks_of(work / (exact(task.utilisation) * peak(kernel, instance.workload, chip)))


def behind_ticks(instance: DataflowInstance, degrees: Degrees) -> int:
    """Picoseconds of a layer's backward pass in which sums of gradients may run, at least (page, "Training").

    Each backward kernel's least compute under any of its schemes; nothing where the links between replicas may be busy.
    """
    kernels = instance.workload.kernels
    busy = degrees.expert > 1 or any(kernel.exchange != "none" for kernel in kernels)
    if busy or not instance.task.overlap_gradients:
        return 0
    late = instance.task.schedule == "zb-h1"
    return _least(instance, degrees, [k for k in kernels if k.phase == "backward" and (k.update or not late)])


def _least(instance: DataflowInstance, degrees: Degrees, kernels: list[Kernel]) -> int:
    """Picoseconds that these kernels compute at least, each under any of its schemes."""
    return sum(
        min(_compute(instance, degrees, kernel, scheme) for scheme in schemes(kernel, instance.mode))
        for kernel in kernels
    )


def filled_ticks(instance: DataflowInstance, degrees: Degrees) -> int:
    """Picoseconds of a batch's bubble that weight updates fill where they run late (page, "Zero bubbles"): layers per
    stage · (PP + min(m, PP) - 2) · the least compute of forward, of other backward kernels, or of updates."""
    if instance.task.schedule not in LATE or degrees.pipeline == 1:
        return 0
    kernels = instance.workload.kernels
    kinds = (
        [one for one in kernels if one.phase == "forward"],
        [one for one in kernels if one.phase == "backward" and not one.update],
        [one for one in kernels if one.phase == "backward" and one.update],
    )
    width = min(_least(instance, degrees, kind) for kind in kinds)
    often = degrees.pipeline + min(int(micro_batches(instance, degrees)), degrees.pipeline) - 2
    return int(layers_per_stage(instance, degrees) * often) * width


def _exchange(instance: DataflowInstance, degrees: Degrees, kernel: Kernel) -> Fraction:
    """Nanoseconds of the kernel's own exchange, over all dimensions but the pipeline's side by side."""
    each = exchange_bytes(kernel, instance) * instance.task.samples / degrees.tensor
    dimensions = degrees.carrying(instance.system, "tensor", "data", "expert")
    if instance.mode == "dfmodel" and kernel.exchange == "all_to_all":
        return published_exchange_ns(each, dimensions)
    return max((exchange_ns(kernel.exchange, each, dimension) for dimension in dimensions), default=Fraction(0))
