"""The MIP of a pipeline on groups of unequal chips, whose stages' times are known (page, "Unequal chips").

``x[s, k, L]`` = [the stage in place s, counted from the last one, is of kind k and has L layers]; ``z[s, k, l]`` =
[that in place s + 1 is of kind k, that in place s of kind l].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyomo.environ as pyo

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, unit
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.offers import Offer, Placed

#: What holds within each stage, and is known of it.
BY_DOMAIN: tuple[str, ...] = ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "T1", "T2", "T3", "T6")


def build(instance: DataflowInstance, offer: Offer, upper: int | None = None) -> Built:
    """The MIP for one micro-batch, minimising the batch in ticks; only pipelines below ``upper``, where it is given."""
    block = pyo.ConcreteModel(name=instance.name)
    stages = range(offer.most_stages)
    keys = [(s, *one) for s in stages for one in offer.choices(s)]
    block.x = pyo.Var(keys, within=pyo.Binary)
    pairs = [(s, k, to) for s in stages[:-1] for k in offer.kinds for to in offer.kinds]
    block.z = pyo.Var(pairs, bounds=(0, 1))
    scale = unit(max(int(offer.at(s)[k, count]) for s, k, count in keys) if keys else 1)
    block.longest = pyo.Var(bounds=(0, None))
    state = Statement(*BY_DOMAIN)
    state(c0_domain_layers, block, offer)
    state(c0_domain_chips, block, offer)
    state(c8_stages, block, offer)
    state(t4_layer, block, offer, scale)
    state(t7_stage, block, offer, scale)
    state(t5_transfers, block, offer, scale)
    state(t8_step, block, offer, scale)
    cost = block.t4 + block.t5 + block.t8 + (offer.rounds - 1) * block.longest
    block.objective = pyo.Objective(expr=scale * cost)
    if upper is not None:
        block.cut_upper = pyo.Constraint(expr=cost <= (upper - 1) / scale)
    return Built("mip", instance, block, state, Scope.SUBSET, lambda _: None, lambda value: decode(block, offer, value))


def decode(block: Any, offer: Offer, value: Callable[[Any], float]) -> tuple[Placed, ...]:
    """The stages that the binaries stand for."""
    chosen = sorted((key for key in block.x if value(block.x[key]) > 0.5), reverse=True)
    return tuple(Placed(kind, layers) for _, kind, layers in chosen)


def _of(block: Any, stage: int, kind: int | None = None) -> list[tuple[int, int, int]]:
    return [key for key in block.x if key[0] == stage and kind in (None, key[1])]


def c0_domain_layers(block: Any, offer: Offer) -> None:
    """C0: the stages have all layers."""
    block.c0_domain_layers = pyo.Constraint(expr=sum(key[2] * block.x[key] for key in block.x) == offer.layers)


def c0_domain_chips(block: Any, offer: Offer) -> None:
    """C0: no more chips of a group than it has."""
    block.c0_domain_chips = pyo.Constraint(
        range(len(offer.chips)),
        rule=lambda b, g: (
            pyo.quicksum(offer.takes[key[1]] * b.x[key] for key in b.x if offer.group[key[1]] == g) <= offer.chips[g]
            if any(offer.group[key[1]] == g for key in b.x)
            else pyo.Constraint.Skip
        ),
    )


def c8_stages(block: Any, offer: Offer) -> None:
    """C8: a place in the pipeline has one stage at most, none before an empty one; each asked one is there."""
    stages = range(offer.most_stages)
    used = {s: pyo.quicksum(block.x[key] for key in _of(block, s)) for s in stages}
    block.c8_stages_once = pyo.Constraint(
        stages, rule=lambda _, s: used[s] == 1 if offer.asked or s == 0 else used[s] <= 1
    )
    block.c8_stages_gap = pyo.Constraint(stages[1:], rule=lambda _, s: used[s] <= used[s - 1])


def t4_layer(block: Any, offer: Offer, scale: int) -> None:
    """T4: all layers of all stages, for a micro-batch, in units."""
    block.t4 = pyo.Expression(expr=pyo.quicksum(_time(block, offer, s, scale) for s in range(offer.most_stages)))


def _time(block: Any, offer: Offer, stage: int, scale: int) -> Any:
    """The time of a stage, in units."""
    at = offer.at(stage)
    return pyo.quicksum(int(at[key[1], key[2]]) / scale * block.x[key] for key in _of(block, stage))


def t7_stage(block: Any, offer: Offer, scale: int) -> None:
    """T7: ``longest`` is at least the time of each stage, in units."""
    block.t7_stage = pyo.Constraint(range(offer.most_stages), rule=lambda b, s: b.longest >= _time(b, offer, s, scale))


def t5_transfers(block: Any, offer: Offer, scale: int) -> None:
    """T5: all transfers, and ``longest`` at least each of them, in units; where the earlier stage takes part in it, at
    least both together.

    A stage in place s + 1 has one after it, of one kind.
    """
    last = offer.most_stages - 1

    def of(s: int, kind: int) -> Any:
        return pyo.quicksum(block.x[key] for key in _of(block, s, kind))

    cells = [(s, k) for s in range(last) for k in offer.kinds]
    before: dict[tuple[int, int], list[Any]] = {cell: [] for cell in cells}
    after: dict[tuple[int, int], list[Any]] = {cell: [] for cell in cells}
    for s, k, to in block.z:
        before[s, k].append(block.z[s, k, to])
        after[s, to].append(block.z[s, k, to])
    rows = pyo.Constraint(cells, rule=lambda _, s, k: pyo.quicksum(before[s, k]) - of(s + 1, k) == 0)
    block.t5_transfers_from = rows
    block.t5_transfers_to = pyo.Constraint(cells, rule=lambda _, s, k: pyo.quicksum(after[s, k]) - of(s, k) <= 0)
    hops = {key: int(offer.hops[key[1], key[2]]) / scale for key in block.z}
    block.t5_transfers = pyo.Constraint(
        range(last),
        rule=lambda b, s: (
            b.longest
            >= pyo.quicksum(hops[key] * b.z[key] for key in b.z if key[0] == s)
            + (_time(b, offer, s + 1, scale) if offer.joined else 0)
        ),
    )
    block.t5 = pyo.Expression(expr=pyo.quicksum(hops[key] * block.z[key] for key in block.z))


def t8_step(block: Any, offer: Offer, scale: int) -> None:
    """T8: what each micro-batch takes besides, in units."""
    block.t8 = pyo.Expression(expr=offer.rounds * offer.fixed / scale)
