"""What the page says about a kernel of family ``dataflow`` on its chips, in whole numbers and fractions.

Sections "Sharding" and "How a mapping is costed" of ``docs/families/dataflow.md``. Written from the page alone; it
shares nothing with the arrays that models and programs work on.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from chipmap.instances.dataflow.instance import CostMode, DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.validation.dataflow import grids, grouped, rates
from chipmap.validation.dataflow.once import once
from chipmap.validation.decimals import written

#: Picoseconds, the family's tick, per nanosecond; layouts that schemes leave, but for rows split.
PS = 1000
LEFT = {"N": "RS", "K_N": "RS", "K": "RR", "NONE": "RR", "E": "EE", "B": "BS"}
LEFT |= {"OUTER_M": "HR", "M_K": "TR", "M_T": "TR"}


def up(nanoseconds: Fraction) -> int:
    """Picoseconds, rounded up."""
    return -(-nanoseconds.numerator * PS // nanoseconds.denominator)


def allowed(kernel: Kernel, mode: CostMode) -> set[Scheme]:
    """The schemes of a kernel: what it names itself, or OUTER with an outer dimension, or those of its kind."""
    if kernel.schemes:
        return set(kernel.schemes)
    if kernel.outer > 1:
        return {"OUTER"}
    if kernel.kind == "gemm":
        physical = mode == "physical"
        if kernel.update:
            return {"M", "N"} if physical else {"M"}
        if not kernel.weights:
            return {"M"}
        return {"M", "K", "K_RS"} if physical else {"M", "K"}
    return {"NONE"} if kernel.kind == "opaque" else {"M", "NONE"}


def whole_flop(kernel: Kernel) -> int:
    """FLOP before sharding."""
    if kernel.flop is not None:
        return kernel.flop
    elements = kernel.outer * kernel.M * kernel.N
    return 2 * elements * kernel.K if kernel.kind == "gemm" else elements * kernel.flop_per_element


def whole_output(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of the output before sharding; a weight update's is a gradient, in the format of the weights."""
    words = kernel.outer * kernel.M * kernel.N * instance.workload.word_bytes
    stated = words if kernel.output_bytes is None else kernel.output_bytes
    return rates.of_weights(instance, stated) if kernel.update else rates.of_activations(instance, stated)


def whole_weights(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of the parameters that a scheme divides, before it does."""
    stated = kernel.outer * kernel.M * kernel.K * instance.workload.word_bytes if kernel.weights else 0
    return rates.of_weights(instance, stated if kernel.weight_bytes is None else kernel.weight_bytes)


def own_experts(kernel: Kernel, degrees: Degrees) -> Fraction:
    """The part of all experts that is on one chip, of those of each replica that shares them."""
    return Fraction(-(-kernel.experts // (degrees.tensor * degrees.expert)), kernel.experts)


def share(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """A chip's share of the work. Heads, rows, columns and products to be summed are no fractions in mode ``physical``:
    who has the most of them has ⌈size / chips⌉. Opaque kernels have none of these. Where experts are divided, it is the
    share of all replicas' tokens that go to the fullest chip's experts, in units of one replica's."""
    if scheme == "NONE":
        return Fraction(1)
    if scheme == "E":
        fullest = own_experts(kernel, degrees) * written(instance.task.expert_load)
        return degrees.expert * min(fullest, Fraction(1))
    if scheme in grouped.GROUPED:
        return grouped.share(kernel, scheme, degrees)
    if scheme in grids.PRODUCTS:
        return grids.rows(kernel, scheme, instance, degrees) * grids.terms(kernel, scheme, instance, degrees)
    rows = kernel.outer * kernel.M
    counted = {"OUTER": kernel.outer, "M": rows, "M_T": rows, "N": kernel.N}.get(scheme, kernel.K)
    if scheme == "B":
        counted = instance.task.samples
    elif instance.mode == "dfmodel" or kernel.kind == "opaque" or not counted:
        return Fraction(1, degrees.tensor)
    return Fraction(-(-counted // degrees.tensor), counted)


def output_share(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """A chip's share of the output: its rows, after a reduce-scatter; else what it has computed, or all of it."""
    shared = heads_in_common(kernel, scheme, instance, degrees)
    if made(scheme) == "RR" or shared == 0:
        return Fraction(1)
    if shared > 1:  # each of the chips with terms of a head keeps some of its rows
        return share(kernel.replace(outer=kernel.heads), "M", instance, degrees)
    if scheme == "E" and kernel.update:
        return own_experts(kernel, degrees)
    scattered: dict[Scheme, Scheme] = {"K_RS": "M", "K_N": "N", "OUTER_K": "M", "M_K": "M", "K_M": "M"}
    return share(kernel, scattered.get(scheme, scheme), instance, degrees)


def padding(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """The size of the split output, were its last part as large as the others, over its own."""
    part = output_share(kernel, scheme, instance, degrees)
    count = -(-part.denominator // part.numerator)
    return part * count


def by_tokens(kernel: Kernel, scheme: Scheme, instance: DataflowInstance) -> bool:
    """Whether the chips have different tokens: scheme N of all but weight updates, as mode ``physical`` sees it."""
    return instance.mode == "physical" and scheme == "N" and not kernel.update


def weights_share(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """A chip's share of parameters and tables: different tokens need the same ones, experts have their own."""
    if scheme == "E":
        return own_experts(kernel, degrees)
    return Fraction(1) if by_tokens(kernel, scheme, instance) else share(kernel, scheme, instance, degrees)


@once
def fetched(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Bytes per sample that a chip fetches: a gemm's are an operand that all tokens need, others' rows of tokens.
    Heads that share a head of the cache need it wherever they are: h of them in a row reach over h / g of its heads if
    groups of g begin where chips do, or lie on one chip or in one group; else over one more than h - 1 have begun.
    """
    whole = rates.fetched(kernel, instance)
    if kernel.kind == "gemm" and by_tokens(kernel, scheme, instance):
        return whole
    sized = instance.mode == "physical" and kernel.kind != "opaque"
    if scheme == "OUTER" and kernel.fetch_outer and sized:
        here, caches = (kernel.outer + degrees.tensor - 1) // degrees.tensor, kernel.fetch_outer
        if here * caches % kernel.outer == 0:
            reached = here * caches // kernel.outer
        elif kernel.outer % (here * caches) == 0:
            reached = 1
        else:
            reached = 1 - (1 - here) * caches // kernel.outer
        return whole * min(reached, caches) / caches
    return whole * share(kernel, scheme, instance, degrees)


@once
def local_weights(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Bytes of the parameters on one chip: its share, and those that every chip needs whole."""
    divided = whole_weights(kernel, instance) * weights_share(kernel, scheme, instance, degrees)
    return divided + rates.of_weights(instance, kernel.whole_bytes)


@once
def weights_read(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Bytes of the parameters on one chip that a micro-batch needs.

    Of experts these are 1 - q, rounded up to 10⁻⁹, where q is the chance that none of its tokens, or of those of all
    replicas that share them, goes to a given one. Squarings in 80 digits give q, far below the rounding.
    """
    held = local_weights(kernel, scheme, instance, degrees)
    if not kernel.experts:
        return held
    with localcontext() as digits:
        digits.prec = 80
        tokens = instance.workload.tokens * instance.task.samples * (degrees.expert if scheme == "E" else 1)
        missed = (1 - Decimal(kernel.active) / kernel.experts) ** tokens
        used = (1 - missed).quantize(Decimal("1e-9"), rounding=ROUND_CEILING)
    return held - (1 - Fraction(used)) * (held - rates.of_weights(instance, kernel.whole_bytes))


def made(scheme: Scheme) -> str:
    """Layout of the output: rows or columns split (SR, RS), all (RR), by experts (EE), samples (BS), in groups (HR)."""
    return LEFT.get(scheme, "SR")


def heads_in_common(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """How many chips have terms of the same head of a gradient of fewer heads than the product has; 1 where its heads
    lie on one chip each, 0 where heads and chips don't fit, so that any may have some."""
    product = (kernel.kind, kernel.phase, kernel.weights, kernel.update) == ("gemm", "backward", False, False)
    few = product and 1 <= kernel.heads < kernel.outer
    if not few or scheme != "OUTER" or instance.mode == "dfmodel":
        return 1
    each, rest = divmod(degrees.tensor, kernel.heads)
    if rest == 0:
        return each
    return 1 if kernel.heads % degrees.tensor == 0 else 0


def taken(kernel: Kernel, scheme: Scheme, mode: CostMode, maker: Kernel) -> str:
    """Layout in which what ``maker`` makes is read, an activation. Where a product of two has different tokens on each
    chip, all of them are multiplied by the operand that is no column of tokens; either may be it if none is named.
    Rows of a weight update are products of as many rows of the gradient with all of the operand, columns of all of the
    gradient with as many rows of the operand."""
    if kernel.kind == "gemm" and kernel.update and kernel.operand and mode == "physical":
        parts = {"M": maker.name != kernel.operand, "N": maker.name == kernel.operand}
        if scheme in parts:
            return "SR" if parts[scheme] else "RR"
    if scheme in grids.PRODUCTS:
        return "SR" if scheme == "M_K" else "TR"
    if scheme in grouped.GROUPED:
        return grouped.reads(kernel, scheme, maker)
    if kernel.kind == "gemm" and kernel.weights:
        outer = "SR" if mode == "dfmodel" else "RR"
        by_sums = {"K": "SR", "K_RS": "SR", "K_N": "SR"}
        return {"OUTER": outer, "M": "RR", "N": "RS", "NONE": "RR", "E": "EE", **by_sums}[scheme]
    needs_all = kernel.kind == "gemm" and scheme == "N" and mode == "physical" and not kernel.update
    if needs_all and kernel.operand in ("", maker.name):
        return "RR"
    return made(scheme)


@once
def batched_output(kernel: Kernel, instance: DataflowInstance) -> Fraction:
    """Bytes of a micro-batch's output before sharding (a weight update has one for all of it)."""
    samples = 1 if kernel.update else instance.task.samples
    return whole_output(kernel, instance) * samples


@once
def local_output(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Bytes of a micro-batch's output on one chip, after the collective that the scheme needs."""
    return batched_output(kernel, instance) * output_share(kernel, scheme, instance, degrees)


def covers(held: Fraction, needed: Fraction, chips: int) -> bool:
    """Whether every chip's part of one share holds its part of another: the same parts, or those of n / m chips that
    have one in common, m a divisor of n."""
    if held == needed:
        return True
    groups = [1 / held, 1 / needed]
    whole = all(one.denominator == 1 and chips % one == 0 for one in groups)
    return whole and groups[1] % groups[0] == 0


def steps(dimension: Dimension) -> int:
    """Steps of a collective: n-1, or one among fully connected chips."""
    return min(dimension.size - 1, 1) if dimension.topology == "full" else dimension.size - 1


def latency(dimension: Dimension, times: int = 1) -> Fraction:
    """Nanoseconds of a collective whatever it carries: its start, and its steps, ``times`` over."""
    begun = written(dimension.start_ns) if steps(dimension) else Fraction(0)
    return begun + times * steps(dimension) * written(dimension.latency_ns)


def all_reduce(size: Fraction, dimension: Dimension, factor: int) -> Fraction:
    """Nanoseconds: ``factor`` times S(n-1)/(nB), or S/(nB) fully connected, and the latency of 2(n-1) (or 2) steps; S/B
    and that of two through a switch that adds up. Without bytes it doesn't take place."""
    if size == 0:
        return Fraction(0)
    rate = rates.link(dimension)
    if dimension.reduces:
        return size / rate + 2 * written(dimension.latency_ns) + written(dimension.start_ns)
    return factor * size * steps(dimension) / (dimension.size * rate) + latency(dimension, 2)


def reduce_scatter(size: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds: S(n-1)/(nB), or S/(nB) fully connected, and the latency of n-1 (or 1) steps; none without bytes."""
    if size == 0:
        return Fraction(0)
    return size * steps(dimension) / (dimension.size * rates.link(dimension)) + latency(dimension)


def exchange(kind: str, held: Fraction, dimension: Dimension) -> Fraction:
    """Nanoseconds until each of n chips has sent the ``held`` bytes to all others: a part to each (all_to_all) or all
    of it to each (broadcast); none where they have nothing."""
    n = dimension.size
    if kind == "none" or n == 1 or held == 0:
        return Fraction(0)
    parts = {"ring": Fraction(n, 8), "switch": Fraction(1, 4), "full": Fraction(1, n)}[dimension.topology]
    each = held if kind == "broadcast" else held * parts
    return each / rates.link(dimension) + latency(dimension)


def published_exchange(held: Fraction, dimensions: list[Dimension]) -> Fraction:
    """Mode ``dfmodel``: nanoseconds until each chip has sent a part of ``held`` bytes to all, by the fullest cut.

    In a torus half of all messages, a chip's own part among them, cross every cut; else those from one half of the
    chips that a dimension and those before it hold to the other half, over one link per box.
    """
    chips = math.prod(one.size for one in dimensions)
    message = held / max(1, chips)
    times = [Fraction(0)]
    for i, one in enumerate(dimensions if held else []):
        inside = math.prod(other.size for other in dimensions[: i + 1])
        links = Fraction(2) if one.topology == "ring" else Fraction(one.size)
        if one.topology == "full":
            links *= Fraction(one.size, 4)
        messages = Fraction(inside, 2) * inside
        if {other.topology for other in dimensions} == {"ring"}:
            messages, links = Fraction(chips**2), links * chips / one.size
        times.append(message * messages / (2 * links * rates.link(one)) + latency(one))
    return max(times)


def uses(instance: DataflowInstance, degrees: Degrees, parallelism: str) -> list[Dimension]:
    """The network dimensions that a parallelism uses."""
    pairs = zip(instance.system.network, degrees.dimensions, strict=True)
    return [dimension for dimension, use in pairs if use == parallelism and dimension.size > 1]


def stage_layers(instance: DataflowInstance, degrees: Degrees) -> int:
    """Layers that a chip runs, of the fullest stage; one where ``across_layers`` or stages of kernels look at each."""
    if given := instance.task.stage_layers:
        return max(sum(given[s :: degrees.pipeline]) for s in range(degrees.pipeline))
    alone = instance.task.across_layers or instance.task.stages == "kernels"
    return 1 if alone else instance.workload.layers // degrees.pipeline


def saved(instance: DataflowInstance) -> set[str]:
    """C6: the forward kernels whose output is saved for the backward phase, in mode ``physical``.

    What backward kernels and those that are recomputed read, unless it is made anew itself; and what a layer hands to
    one that is recomputed in the next.
    """
    phases = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    if instance.mode == "dfmodel" or set(phases.values()) == {"forward"}:
        return set()
    again = recomputed(instance)
    if instance.task.recompute in (True, "full"):
        return {u for u, _ in instance.workload.carries if phases[u] == "forward"}
    found = {u for u, v in instance.workload.carries if phases[u] == "forward" and v in again}
    for u, v in instance.workload.edges:
        if phases[u] == "forward" and u not in again and (phases[v] == "backward" or v in again):
            found.add(u)
    return found


def read_by_updates(kernel: Kernel, instance: DataflowInstance) -> bool:
    """Whether a weight update reads what the kernel makes."""
    updates = {one.name for one in instance.workload.kernels if one.update}
    return any(u == kernel.name and v in updates for u, v in instance.workload.edges)


def recomputed(instance: DataflowInstance) -> set[str]:
    """The forward kernels that run once more in the backward phase."""
    task = instance.task
    if task.recompute == "selective":
        return set(task.selective)
    forward = {kernel.name for kernel in instance.workload.kernels if kernel.phase == "forward"}
    return forward if task.recompute in (True, "full") else set()


def in_pairs(instance: DataflowInstance, degrees: Degrees) -> bool:
    """Whether stages of two chunks run two passes side by side."""
    return instance.task.schedule == "dualpipe-v" and degrees.pipeline > 1


def in_flight(instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Micro-batches of which the first stage holds what is saved: as many as there are stages, or all. Interleaved, it
    has begun (v - 1) · PP + 2 (PP - 1) + 1 of the batch's m · v passes through a chunk, a v-th of the stage, when the
    first comes back; PP - 1 fewer where backward passes begin early. A stage by itself as its task says."""
    stages, chunks = instance.task.in_flight or degrees.pipeline, instance.task.chunks or 1
    rounds = Fraction(instance.task.batch, degrees.data * instance.task.samples)
    if chunks == 1 or instance.task.schedule == "interleaved-lean":
        return min(rounds, Fraction(stages))
    return min(rounds * chunks, Fraction((chunks - 1) * stages + 2 * (stages - 1) + 1)) / chunks


def cache(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """Bytes of a kernel's KV cache on a chip, of one layer and all samples that its replica serves."""
    each = fetched(kernel, scheme, instance, degrees)
    return math.ceil(each * instance.task.batch / degrees.data)


def sent(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> int:
    """T5: picoseconds per micro-batch of what a kernel sends to the next stage, and of what comes back."""
    carried = [edge for edge in instance.workload.carries if edge[0] == kernel.name]
    if not carried or degrees.pipeline == 1 or instance.task.stages == "kernels":
        return 0
    backward = {one.name for one in instance.workload.kernels if one.phase == "backward"}
    times = len(carried) if instance.mode == "dfmodel" else 1
    if backward and not any(u in backward for u, _ in instance.workload.carries):
        times *= 2
    return up(times * sending(local_output(kernel, scheme, instance, degrees), instance, degrees))


def sending(size: Fraction, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds that ``size`` bytes take on a link to the next stage, with the latency of a step; none where there
    are no bytes."""
    (link,) = uses(instance, degrees, "pipeline")
    if size == 0:
        return Fraction(0)
    return size / rates.link(link) + written(link.latency_ns) + written(link.start_ns)


@once
def own_exchange(kernel: Kernel, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds of a kernel's exchange with all chips of its stage: the slowest dimension but the pipeline's."""
    held = rates.of_activations(instance, kernel.exchange_bytes) * instance.task.samples / degrees.tensor
    pairs = zip(instance.system.network, degrees.dimensions, strict=True)
    dimensions = [one for one, use in pairs if use != "pipeline" and one.size > 1]
    if instance.mode == "dfmodel" and kernel.exchange == "all_to_all":
        return published_exchange(held, dimensions)
    return max((exchange(kernel.exchange, held, one) for one in dimensions), default=Fraction(0))
