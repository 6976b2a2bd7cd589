"""How many ticks rounding up to 1 ns and 1 pJ may add to the objective of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from chipmap.instances.multimodel.instance import Model, MultiInstance
from chipmap.instances.multimodel.problem import multi_problem, watts
from chipmap.records.decimals import exact, negligible


def rounding(instance: MultiInstance, objective: int, terms: Mapping[str, int]) -> Fraction:
    """At most so many ticks: those of every layer's reading, sending, writing and weights, and of the product."""
    task = instance.task
    if task.objective == "frames":
        return Fraction(0)
    count = sum((3 * model.batch + 1) * len(model.layers) for model in instance.models)
    if task.objective == "edp":
        tick = multi_problem(instance).edp_tick
        if negligible(count * (terms["T1"] + terms["T2"]) // tick + 1, objective):
            return Fraction(0)
        time, energy = _lost(instance)
        whole = -(terms["T1"] * terms["T2"]) % tick
        return (time * terms["T2"] + energy * terms["T1"] + whole) / tick
    if negligible(count * (1 + int(1000 * task.watts)), objective):
        return Fraction(0)
    time, energy = _lost(instance)
    if task.objective == "weighted":
        return Fraction(watts(instance), 1000) * time + energy + Fraction(-watts(instance) * terms["T1"] % 1000, 1000)
    return time if task.objective == "latency" else energy


def _lost(instance: MultiInstance) -> tuple[Fraction, Fraction]:
    """(ns, pJ) that all roundings of all layers add up to, each on the chiplet where it is most."""
    found = [_of_model(instance, model) for model in instance.models]
    module, problem = instance.module, multi_problem(instance)
    time, energy = sum((one[0] for one in found), Fraction(0)), sum((one[1] for one in found), Fraction(0))
    time += problem.windows if problem.sharing is not None else 0
    return time, energy + (exact(module.static_watts) * 1000 * time + 1 if module.static_watts else 0)


def _of_model(instance: MultiInstance, model: Model) -> tuple[Fraction, Fraction]:
    module, b = instance.module, model.mini_batch
    link, dram = exact(module.nop_bytes_per_ns), exact(module.dram_bytes_per_ns)
    hop, access = (Fraction(round(100 * exact(one)), 100) for one in (module.hop_pj_per_byte, module.dram_pj_per_byte))
    rates = {access + chiplet.hops * hop for chiplet in module.chiplets}
    paid = 2 if instance.task.charge == "both" else 1
    time, energy = Fraction(0), Fraction(0)
    for layer in model.layers:
        cut = bool(module.links) and layer is not model.layers[-1]
        sent = paid * (-(b * layer.out_bytes / link) % 1) if cut else Fraction(0)
        each = -(b * layer.in_bytes / dram) % 1 + max(-(b * layer.out_bytes / dram) % 1, sent)
        time += model.batch // b * each + -(layer.weight_bytes / dram) % 1
        sent = -(layer.out_bytes * hop) % 1 if cut else Fraction(0)
        sample = max(-(layer.in_bytes * rate) % 1 + max(-(layer.out_bytes * rate) % 1, sent) for rate in rates)
        energy += model.batch * sample + max(-(layer.weight_bytes * rate) % 1 for rate in rates)
    return time, energy
