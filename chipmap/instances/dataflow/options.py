"""What each kernel costs on one chip under each of its sharding schemes: picoseconds and bytes.

The formulas are those of ``docs/families/dataflow.md``; every one of these numbers is rounded up once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import msgspec

from chipmap.instances.dataflow.batch import (
    cache_bytes,
    gradient_ns,
    hop_ns,
    in_flight,
    kept_bytes,
    layer_sums_ns,
    layers_per_stage,
    link_ns,
    parameter_bytes,
    roles,
    waits_in_dram,
)
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.parts import padded, parts
from chipmap.instances.dataflow.rates import efficiency, peak
from chipmap.instances.dataflow.replicas import scattered_ns, step_ns
from chipmap.instances.dataflow.routed import routed
from chipmap.instances.dataflow.sharding import (
    Collective,
    collective_ns,
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
from chipmap.instances.dataflow.tiles import least_area, shares
from chipmap.instances.dataflow.workload import Kernel, Scheme

#: Picoseconds per nanosecond.
TICKS_PER_NS = 1000


class Option(NamedTuple):
    """A kernel under one scheme, on one chip: picoseconds and bytes.

    ``compute`` adds up within a partition; where tiles are shared (no utilisation is given) it is a lower bound that
    does: tiles · time at best, over all tiles. ``stream`` reads its weights and what it fetches from DRAM, ``fetch`` (a
    part of it) the latter alone; ``dram`` moves its output once. ``kept`` bytes stay in DRAM, ``waits`` are those of
    the output while it waits there (both 0 without a capacity); ``hop`` is sent to the next stage per micro-batch,
    ``gradient`` summed over replicas per batch, or ``summed`` per layer where that runs behind the backward pass,
    ``step`` spent on the optimiser's step; ``link`` sends the output from
    a stage to the next where stages share out kernels. ``weights``: bytes of them in SRAM. ``cache``: bytes of its KV
    cache, which may stay in SRAM.
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


def all_options(instance: DataflowInstance, degrees: Degrees) -> tuple[tuple[Option, ...], ...]:
    """The options of every kernel; those that differ in nothing but their names have the same."""
    known: dict[tuple[Kernel, Scheme | None, bool, bool, bool, int], tuple[Option, ...]] = {}
    found, role, pinned = [], roles(instance), instance.task.schemes
    for kernel in instance.workload.kernels:
        name = kernel.name
        own = name in role.kept, name in role.again, name in role.updated_by, role.carried.get(name, 0)
        key = msgspec.structs.replace(kernel, name=""), pinned.get(name), *own
        if key not in known:
            known[key] = _options(instance, degrees, kernel)
        found.append(known[key])
    return tuple(found)


def _options(instance: DataflowInstance, degrees: Degrees, kernel: Kernel) -> tuple[Option, ...]:
    pinned = instance.task.schemes.get(kernel.name)
    if pinned is not None:
        refuse_scheme(kernel, pinned, instance.mode)
    choice = (pinned,) if pinned else schemes(kernel, instance.mode)
    return tuple(_option(instance, degrees, kernel, scheme) for scheme in choice)


def _option(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme) -> Option:
    chip, memory, task = instance.system.chip, instance.system.memory, instance.task
    streamed = instance.mode == "physical" or task.purpose == "decode"
    here = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees))
    whole = output_bytes(kernel, instance)
    output = whole * here.output
    weights = chip_weights(kernel, instance, here.weights)
    parameters = parameter_bytes(kernel, instance, weights, here)
    rate = Fraction(memory.reached)
    fetch = ticks_of(fetch_bytes(kernel, instance) * task.samples * here.fetch / rate)
    alike, limited = degrees.alike(scheme), memory.capacity_bytes is not None
    sharing = degrees.expert if scheme == "E" else 1
    return Option(
        scheme=scheme,
        compute=_compute(instance, degrees, kernel, scheme),
        collective=ticks_of(_sums(instance, degrees, scheme, whole * padded(here.output)))
        + ticks_of(_exchange(instance, degrees, kernel))
        + ticks_of(scattered_ns(instance, alike, kernel, parameters, output)),
        stream=fetch + (ticks_of(read_weights(kernel, instance, here.weights, sharing) / rate) if streamed else 0),
        weights=0 if chip.streams else math.ceil(weights),
        output=math.ceil(output),
        dram=ticks_of(output / rate),
        buffer=math.ceil(output * task.tile_tokens / (instance.workload.tokens * task.samples)),
        kept=math.ceil(kept_bytes(instance, degrees, kernel, scheme, parameters, output, here)) if limited else 0,
        waits=math.ceil(output) if limited and waits_in_dram(instance, kernel) else 0,
        hop=ticks_of(hop_ns(instance, degrees, kernel, output)),
        gradient=ticks_of(gradient_ns(instance, degrees, kernel, scheme, parameters, output)),
        fetch=fetch,
        cache=math.ceil(cache_bytes(instance, degrees, kernel, here)),
        link=ticks_of(link_ns(instance, degrees, output)),
        step=ticks_of(step_ns(instance, alike, kernel, parameters, layers_per_stage(instance, degrees))),
        summed=ticks_of(layer_sums_ns(instance, degrees, kernel, scheme, output)),
    )


def _compute(instance: DataflowInstance, degrees: Degrees, kernel: Kernel, scheme: Scheme) -> int:
    """Picoseconds of the kernel's FLOP on a chip; without a utilisation a lower bound that adds up."""
    chip, task = instance.system.chip, instance.task
    if task.utilisation is None:
        return least_area(shares(kernel, scheme, instance, degrees), chip.tiles)
    share = parts(kernel, scheme, instance.mode, degrees.tensor, routed(instance, degrees)).work
    work = flop(kernel) * task.samples * share
    rate = peak(kernel, instance.workload, chip) * efficiency(kernel, chip, work)
    return ticks_of(work / (Fraction(task.utilisation) * rate))


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
    if instance.task.schedule != "zb-h1" or degrees.pipeline == 1:
        return 0
    kernels = instance.workload.kernels
    kinds = (
        [one for one in kernels if one.phase == "forward"],
        [one for one in kernels if one.phase == "backward" and not one.update],
        [one for one in kernels if one.phase == "backward" and one.update],
    )
    width = min(_least(instance, degrees, kind) for kind in kinds)
    often = degrees.pipeline + in_flight(instance, degrees) - 2
    return int(layers_per_stage(instance, degrees) * often) * width


def _exchange(instance: DataflowInstance, degrees: Degrees, kernel: Kernel) -> Fraction:
    """Nanoseconds of the kernel's own exchange, over all dimensions but the pipeline's side by side."""
    each = exchange_bytes(kernel, instance) * instance.task.samples / degrees.tensor
    dimensions = degrees.carrying(instance.system, "tensor", "data", "expert")
    if instance.mode == "dfmodel" and kernel.exchange == "all_to_all":
        return published_exchange_ns(each, dimensions)
    return max((exchange_ns(kernel.exchange, each, dimension) for dimension in dimensions), default=Fraction(0))


def _sums(instance: DataflowInstance, degrees: Degrees, scheme: Scheme, whole: Fraction) -> Fraction:
    """Nanoseconds of the collective that ends a K-split: an all-reduce, or a reduce-scatter, of the ``whole`` output
    with its padding."""
    ends: dict[Scheme, Collective] = {"K": "all_reduce", "K_RS": "reduce_scatter", "K_N": "reduce_scatter"}
    collective = ends.get(scheme, "none")
    factor = 2 if instance.mode == "physical" else instance.task.all_reduce_factor
    dimensions = degrees.carrying(instance.system, "tensor")
    return sum((collective_ns(collective, whole, d, factor) for d in dimensions), Fraction(0))
