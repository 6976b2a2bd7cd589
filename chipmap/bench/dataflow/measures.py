"""What a row of a sweep says of a dataflow mapping beside the checker's figures: price, power, latencies, intensity."""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.plans import settled
from chipmap.instances.dataflow.prices import bills
from chipmap.instances.dataflow.sizes import flop
from chipmap.validation.dataflow.checker import breakdown, check

#: Picoseconds per second.
_PS = 1e12
#: FLOP per nanosecond in a TFLOP/s.
_TERA = 1e3


def measures(instance: DataflowInstance, solution: DataflowSolution | None) -> dict[str, float]:
    """The figures of a system, and of a mapping on it (page ``docs/sweeps.md``, "Columns")."""
    price, power = bills(instance.system)
    system = instance.system
    peak = system.chip.flop_per_ns * system.chips
    figures = {
        "chips": float(system.chips),
        "peak_pflops": peak / _TERA**2,
        "price_usd": price.total,
        "network_usd": price.links + price.ports,
        "watts": power.total,
        "network_watts": power.links + power.ports,
        "dram_gb_per_s": system.memory.bytes_per_ns,
        "link_gb_per_s": min(one.bytes_per_ns for one in system.network),
    }
    if solution is not None and not system.others:
        known = system.chip.price_usd, system.chip.watts
        usd, watts = (bill.total if one else 0.0 for bill, one in zip((price, power), known, strict=True))
        figures |= _mapping(instance, solution, usd, watts)
    return figures


def _mapping(instance: DataflowInstance, solution: DataflowSolution, usd: float, watts: float) -> dict[str, float]:
    certificate = check(instance, solution)
    assert certificate.objective is not None
    terms, degrees = certificate.terms, solution.degrees
    whole = sum(map(flop, instance.workload.kernels)) * instance.workload.layers * instance.task.batch
    rate = whole / (certificate.objective / _PS)
    figures = {
        "pflops": rate / 1e15,
        "gflops_per_usd": rate / 1e9 / usd if usd else 0.0,
        "gflops_per_watt": rate / 1e9 / watts if watts else 0.0,
        "tensor": float(degrees.tensor),
        "pipeline": float(degrees.pipeline),
        "data": float(degrees.data),
    }
    # a layer's times, for the whole batch with its bubble
    scale = certificate.objective / max(1, terms["T4"]) / _PS
    figures |= {f"{name}_s": terms[t] * scale for name, t in (("compute", "T1"), ("memory", "T2"), ("network", "T3"))}
    figures |= {f"{name}_bound_s": ticks * scale for name, ticks in _held_up(instance, solution).items()}
    return figures | _intensities(instance, solution, terms)


def _held_up(instance: DataflowInstance, solution: DataflowSolution) -> dict[str, int]:
    """Picoseconds of T4 by what partitions wait for: the longest of the three (each, where nothing overlaps)."""
    held, often = {"compute": 0, "memory": 0, "network": 0}, runs(settled(instance, *solution.plan))
    again = {p: often[i % len(often)] for i, p in enumerate(solution.partitions)}
    for p, times in breakdown(instance, solution).items():
        parts = dict(zip(held, times, strict=True))
        waits = [max(parts, key=parts.__getitem__)] if instance.task.overlap else list(parts)
        for name in waits:
            held[name] += again[p] * parts[name]
    return held


def _intensities(instance: DataflowInstance, solution: DataflowSolution, terms: dict[str, int]) -> dict[str, float]:
    """FLOP of a chip per byte of DRAM and of a link, as the terms of a layer count them (0: no bytes); that link's
    rate."""
    tensor = Fraction(solution.micro_batch or instance.task.samples, solution.degrees.tensor)
    chip = float(sum(map(flop, instance.workload.kernels)) * tensor * instance.mapped_layers)
    network = instance.system.network
    uses = zip(network, solution.degrees.dimensions, strict=True)
    links = [dimension.bytes_per_ns for dimension, use in uses if use == "tensor"]
    fetched = terms["T2"] / 1000 * instance.system.memory.reached
    link = links[0] if links else min(dimension.bytes_per_ns for dimension in network)
    sent = terms["T3"] / 1000 * link
    return {
        "tensor_link_gb_per_s": link,
        "flop_per_dram_byte": chip / fetched if fetched else 0.0,
        "flop_per_link_byte": chip / sent if sent else 0.0,
    }
