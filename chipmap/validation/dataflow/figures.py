"""What a certificate of family ``dataflow`` says besides its objective: latencies, rates, shares of the peak.

Sections "Shares of the peak" of ``docs/families/dataflow-training.md`` and "Measures" of ``dataflow-serving.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.validation.dataflow import ends, facts, rates, tiles
from chipmap.validation.dataflow.dram import in_dram
from chipmap.validation.dataflow.mapping import Mapping
from chipmap.validation.dataflow.once import once
from chipmap.validation.dataflow.times import inside, steps

#: Kernels whose FLOP are those of a model: products, and what states its FLOP itself.
PRODUCTS = ("gemm", "opaque")
#: The share of the peak of instances that name none.
USUAL = 0.9


def hop(mapping: Mapping) -> int:
    """Picoseconds that a micro-batch takes from one stage of layers to the next, on each chip's own link."""
    instance, kernels = mapping.instance, mapping.instance.workload.kernels
    degrees = mapping.solution.degrees
    return sum(facts.sent(kernels[copy.kernel], copy.scheme, instance, degrees) for copy in mapping.copies)


def figures_of(mapping: Mapping, objective: int, terms: dict[str, int]) -> dict[str, float]:
    """All figures, by name, in the units that their names say."""
    instance = mapping.instance
    figures = {
        "dram_bytes": float(max(map(sum, in_dram(mapping, ends.most(mapping)).values()))),
        "partitions": float(len({copy.partition for copy in mapping.copies})),
        "utilisation": _share(instance, objective),
        "samples_per_s": instance.task.batch / (objective / (facts.PS * 1e9)) if objective else 0.0,
    }
    if objective and instance.task.purpose == "training":
        again = frozenset(facts.recomputed(instance))
        figures["mfu"] = _share(instance, objective, PRODUCTS)
        figures["hfu"] = _share(instance, objective, PRODUCTS, again)
    elif objective:
        prefill = "ttft_us" if instance.workload.counted == "tokens" else "latency_us"
        figures[prefill if instance.task.purpose == "prefill" else "tpot_us"] = (
            _latency(mapping, objective, terms) / 1e6
        )
        if instance.workload.counted == "tokens":
            tokens = instance.task.batch * instance.workload.tokens
            figures["tokens_per_s"] = tokens / (objective / (facts.PS * 1e9))
    if instance.task.utilisation is None:
        pairs = [pair for kernels in inside(mapping).values() for pair in kernels]
        figures["compute_utilisation"] = tiles.utilisation(instance, pairs, mapping.degrees, terms["T1"])
    return figures


def headline(instance: DataflowInstance, figures: dict[str, float]) -> str:
    """The figures that the purpose is about, in a line; of a machine with measured costs the data sheet's limit too.

    Of any other machine they are such a limit, but in mode ``dfmodel``, whose costs are those of a paper, and with a
    utilisation below :data:`USUAL`, which was measured somewhere.
    """
    said, share = _headline(instance, figures), instance.task.utilisation
    if said and "limit_us" in figures:
        return f"{said} predicted (limit by the data sheet: {_said(figures['limit_us'] / 1000)} ms for the batch)"
    sheet = instance.mode == "physical" and (share is None or share >= USUAL)
    return f"{said} by the data sheet, an upper limit of speed" if said and sheet else said


def _headline(instance: DataflowInstance, figures: dict[str, float]) -> str:
    rate = f"{_said(figures['samples_per_s'])} {instance.workload.counted}/s"
    if "mfu" in figures:
        if not any(one.phase == "backward" for one in instance.workload.kernels):
            return rate
        return f"MFU {100 * figures['mfu']:.1f}%, HFU {100 * figures['hfu']:.1f}%"
    for name, words in (("ttft_us", "TTFT"), ("tpot_us", "TPOT"), ("latency_us", "latency")):
        if name in figures:
            if "tokens_per_s" in figures:
                rate = f"{_said(figures['tokens_per_s'])} tokens/s"
            return f"{words} {_said(figures[name] / 1000)} ms, {rate}"
    return ""


def _said(number: float) -> str:
    """Four digits, and all before the point: ``0.1235``, ``12.35``, ``1,234,568``."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _share(
    instance: DataflowInstance, objective: int, kinds: Sequence[str] = (), again: frozenset[str] = frozenset()
) -> float:
    """The part of the batch's time in which all chips would compute the kernels of ``kinds`` (none: all) at their
    peaks, once each, and those named in ``again`` once more."""
    return _at_peak(instance, tuple(kinds), again) * facts.PS / objective if objective else 0.0


@once
def _at_peak(instance: DataflowInstance, kinds: Sequence[str], again: frozenset[str]) -> float:
    """Nanoseconds of the batch at the peaks."""
    workload = instance.workload
    kernels = [one for one in workload.kernels if not kinds or one.kind in kinds]
    at_peak: Fraction | int = sum(
        facts.whole_flop(one) / rates.peak(one, instance) * (1 + (one.name in again)) for one in kernels
    )
    ends = [one for one in (*workload.first, *workload.last) if not kinds or one.kind in kinds]
    at_peak = at_peak * workload.layers + sum(facts.whole_flop(one) / rates.peak(one, instance) for one in ends)
    return float(at_peak * instance.task.batch / instance.system.chips)


def _latency(mapping: Mapping, objective: int, terms: dict[str, int]) -> int:
    """Picoseconds that a micro-batch takes through all layers and from stage to stage; T4 is that of all layers where
    partitions reach across them. Where stages share out kernels, it takes a step in each stage."""
    workload, task, pipeline = mapping.instance.workload, mapping.instance.task, mapping.solution.degrees.pipeline
    if task.stages == "kernels":
        return objective // steps(mapping) * pipeline
    layers = terms["T4"] * (1 if task.across_layers else workload.layers)
    if task.stage_layers:
        layers += sum(ends.ended(mapping, last).ticks for last in (False, True))
    return layers + (pipeline * (task.chunks or 1) - 1) * hop(mapping)
