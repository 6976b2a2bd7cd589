"""A mapping's time with the exchanges that it needs in place of those that it is charged.

Everything but T3 and T6 is the checker's: a partition takes the longest of its compute, memory and network. A sum that
several products are added up before counts with the kernel that adds them, or with the last of the products, behind
whose compute it can run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping as Table
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Keep
from chipmap.instances.dataflow.workload import Scheme
from chipmap.plans.jax.planning import Plan, Policy, plan
from chipmap.plans.jax.steps import Layer
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.mapping import Mapping, mapping_of
from chipmap.validation.dataflow.times import times_of
from chipmap.validation.decimals import written

Bytes = Table[tuple[str, str, str], Fraction]


class Timed(NamedTuple):
    """Microseconds of one layer: as charged; with its own exchanges, sums with the last product or with the kernel that
    adds, layouts kept for the backward phase or made again."""

    charged: float
    kept: float
    kept_by_adder: float
    again: float
    again_by_adder: float


def timed(
    instance: DataflowInstance,
    solution: DataflowSolution,
    layer: Layer,
    schemes: dict[str, Scheme],
    compiled: Bytes | None = None,
) -> Timed:
    """The times of a mapping of unfused chips on one switch or ring; where layouts are kept, those of the bytes over a
    chip's link that ``compiled`` has for each payer, term and tensor, if it is given."""
    mapping = mapping_of(instance, solution)
    charged = Fraction(check(instance, solution).objective or 0, instance.workload.layers)
    cases: tuple[tuple[Keep, Bytes | None], ...] = (("step", compiled), ("phase", None))
    found = [
        _layer(mapping, plan(layer, schemes, mapping.degrees.tensor, Policy(keep=keep)), last, found)
        for keep, found in cases
        for last in (True, False)
    ]
    return Timed(*(float(one) / 10**6 for one in (charged, *found)))


def _layer(mapping: Mapping, one: Plan, last: bool, compiled: Bytes | None = None) -> Fraction:
    """Picoseconds of a layer, with T6 of its own."""
    times = times_of(mapping)
    kernels = mapping.instance.workload.kernels
    partition = {kernels[copy.kernel].name: copy.partition for copy in mapping.copies}
    order = {step.name: i for i, step in enumerate(one.layer.steps)}
    rate = written(mapping.instance.system.network[0].bytes_per_ns)
    network, after = dict.fromkeys(times.network, Fraction(0)), Fraction(0)
    planned: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for move, link in one.moves():
        planned[move.payer, move.term, move.tensor] += link
    for move, link in one.moves():
        key = move.payer, move.term, move.tensor
        share = 1 if compiled is None else compiled.get(key, Fraction(0)) / planned[key]
        time = link * share / rate * 1000
        if move.term == "T6":
            after += time
            continue
        payer = move.payer
        if last and move.change.before.kind == "sum" and move.tensor != payer:
            payer = max((u for u in one.layer.step(payer).sources), key=order.__getitem__)
        network[partition[payer]] += time
    longest = (max(Fraction(times.compute[p]), Fraction(times.memory[p]), network[p]) for p in network)
    return after + sum(longest, Fraction(0))
